"""Draw the pictures of model.md, from drawn fruit alone.

python docs/draw_model.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

from ordrank import OrdinalMetric, OrdinalRanker
from ordrank.datasets import make_fruit
from ordrank.experiments.figures import as_bytes, grade_colours, new_figure
from ordrank.metrics import inside_grade, mean_absolute_error, same_subject_precision

IMAGES = Path(__file__).with_name("images")


def main() -> None:
    """Write every picture."""
    fruit = make_fruit(600, size=48, random_state=1)
    X = PCA(80, random_state=0).fit_transform(fruit.images.reshape(600, -1).astype(float))
    halves = np.arange(600) % 2 == 0
    pictures = {
        "model-beta.png": draw_beta(),
        "model-alpha.png": draw_alpha(X, fruit.grade, halves),
        "model-lens.png": draw_lens(X[halves], fruit.grade[halves]),
        "model-locality.png": draw_trade(
            X,
            fruit,
            halves,
            "locality",
            [0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5],
            "λ (locality), with all else chosen automatically",
        ),
        "model-mu.png": draw_trade(
            X, fruit, halves, "mu", [0.0, 0.01, 0.1, 1.0, 10.0], "μ, linear map, λ = 0", kernel="linear", locality=0.0
        ),
    }
    for name, figure in pictures.items():
        (IMAGES / name).write_bytes(as_bytes(figure))


def draw_beta():
    """Positions of five grades for a line, the default and nearly a simplex."""
    figure = new_figure(10, 3.2)
    y = np.repeat(np.arange(5), 4)
    X = np.random.default_rng(0).normal(size=(20, 3))
    for panel, (beta, title) in enumerate(((0.0, "a line"), (1.0, "the default"), (20.0, "nearly equally far")), 1):
        positions = OrdinalMetric(2, beta=beta, kernel="linear", alpha=1.0, locality=0.0).fit(X, y).label_positions_
        axes = figure.add_subplot(1, 3, panel)
        axes.plot(*positions.T, color="0.7", zorder=1)
        axes.scatter(*positions.T, s=140, c=grade_colours(5), zorder=2)
        for grade, place in enumerate(positions):
            axes.annotate(str(grade), place, ha="center", va="center", color="white" if grade < 4 else "black")
        axes.set(title=f"β = {beta:g}: {title}", xlim=(-2, 2), ylim=(-2, 2), aspect="equal", xticks=[], yticks=[])
    return figure


def draw_alpha(X, grade, train):
    """Order map of training pictures (dots) and queries (rings) for too little, the chosen and too much ridge."""
    chosen = OrdinalMetric().fit(X[train], grade[train])
    figure = new_figure(11, 3.9)
    colours = grade_colours(5)
    for panel, (alpha, title) in enumerate(((1e-6, "too little"), (chosen.alpha_, "chosen"), (0.3, "too much")), 1):
        metric = OrdinalMetric(kernel=chosen.kernel_, sharpness=chosen.sharpness_, alpha=alpha)
        ranker = OrdinalRanker(metric).fit(X[train], grade[train])
        Z = ranker.metric_.transform(X)[:, :2]
        error = mean_absolute_error(grade[~train], ranker.predict(X[~train]))
        axes = figure.add_subplot(1, 3, panel)
        axes.scatter(*Z[~train].T, s=26, facecolors="none", edgecolors=colours[grade[~train]], linewidths=0.9)
        axes.scatter(*Z[train].T, s=9, c=colours[grade[train]])
        axes.set(title=f"α = {alpha:.2g}, {title}: MAE {error:.2f}", xticks=[], yticks=[])
    return figure


def draw_lens(X, grade):
    """Pictures in the directions in which the lens adds and takes away most variance, without and with it."""
    metric = OrdinalMetric(kernel="rbf").fit(X, grade)
    stretches = metric.lens_stretches_ / metric.lens_size_
    along = (X - metric.mean_) / metric.size_ @ metric.lens_directions_.T
    added = along.var(axis=0) * (stretches**2 - 1)
    most = [added.argmax(), added.argmin()]
    along = along[:, most]
    figure = new_figure(10, 4.2)
    views = {"as they are": np.ones(2), "through the lens": stretches[most]}
    reach = 1.05 * max(np.abs(along * factors).max() for factors in views.values())
    for panel, (title, factors) in enumerate(views.items(), 1):
        axes = figure.add_subplot(1, 2, panel)
        axes.scatter(*(along * factors).T, s=12, c=grade_colours(5)[grade])
        axes.set(title=title, xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[])
        axes.set(xlabel="most is added here", ylabel="most is taken away here")
    return figure


def draw_trade(X, fruit, train, name, values, xlabel, **given):
    """Both aims against one parameter."""
    errors, together = [], []
    for value in values:
        ranker = OrdinalRanker(OrdinalMetric(**given, **{name: value}), n_neighbors=51, weights="distance")
        ranker.fit(X[train], fruit.grade[train])
        everything = ranker.rank(X[~train], k=int(train.sum()))
        inside = inside_grade(everything, fruit.grade[~train], 3)
        errors.append(mean_absolute_error(fruit.grade[~train], ranker.predict(X[~train])))
        together.append(same_subject_precision(inside, fruit.plant[train], fruit.plant[~train]))
    figure = new_figure(7, 3.4)
    left = figure.add_subplot()
    right = left.twinx()
    places = np.arange(len(values))
    (first,) = left.plot(places, errors, "o-", color="#31688e", label="MAE of the grade (left, lower is better)")
    (second,) = right.plot(
        places, together, "s--", color="#b5651d", label="same plant among 3 in grade (right, higher)"
    )
    left.set(xlabel=xlabel, xticks=places, xticklabels=[f"{value:g}" for value in values], ylabel="MAE")
    left.set_ylim(0, 1.15 * max(errors))
    right.set(ylabel="share", ylim=(0, 1.3 * max(together)))
    left.legend(handles=[first, second], loc="upper center", fontsize=8)
    return figure


if __name__ == "__main__":
    main()
