"""Draw the picture of finetuning.md: test pictures of coffee leaves in the learned space, before and after fine-tuning.

Needs coffee-leaf.zip in the folder ``photos`` of ``ORDRANK_DATA``, and takes some minutes on a CPU.

pip install -e '.[all,deep]' -e experiments
python docs/draw_finetuning.py
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from ordrank_experiments.datasets import extract_photos

from ordrank import OrdinalRanker
from ordrank.deep import OrdinalNetwork
from ordrank.metrics import mean_absolute_error

FILE = Path(__file__).with_name("images") / "finetuning.png"
SEED, N_TRAIN, N_TEST = 778, 500, 600


def main() -> None:
    """Train, and draw the two leading principal components of the embedding of test pictures."""
    warnings.simplefilter("ignore")  # grades of few samples
    with tempfile.TemporaryDirectory() as folder:
        photos = extract_photos("coffee-leaf", Path(folder))
        order = np.random.default_rng(SEED).permutation(len(photos.files))
        train, test = order[:N_TRAIN], order[N_TRAIN:][:N_TEST]
        files, new = ([photos.files[i] for i in rows] for rows in (train, test))
        network = OrdinalNetwork(image_size=128)
        network.fit_networks(files, photos.grade[train])
        s = network.outputs_.shape[1]
        figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained")
        for axis, columns, title in zip(axes, (slice(s, None), slice(None)), ("pretrained", "fine-tuned"), strict=True):
            ranker = OrdinalRanker().fit(network.features_[:, columns], photos.grade[train])
            queries = network.transform(new)[:, columns]
            points = ranker.metric_.transform(queries)
            points = points - points.mean(axis=0)
            _, _, directions = np.linalg.svd(points, full_matrices=False)
            first, second = (points @ directions[:2].T).T
            # The sign of a component is arbitrary: grades rise to the right.
            first *= np.sign(np.corrcoef(first, photos.grade[test])[0, 1])
            drawn = axis.scatter(first, second, c=photos.grade[test], s=9, cmap="viridis")
            error = mean_absolute_error(photos.grade[test], ranker.predict(queries))
            axis.set_title(f"{title}: mean absolute error {error:.2f}")
            axis.set_xticks([])
            axis.set_yticks([])
        figure.colorbar(drawn, ax=axes, label="severity", ticks=range(5))
        figure.savefig(FILE, dpi=110)


if __name__ == "__main__":
    main()
