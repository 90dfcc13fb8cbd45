"""Error of grades of photographs by the features they are estimated from, and by other learners on the same features.

Three archives of ``ORDRANK_DATA``/photos, in four conditions: coffee leaves (severity of a disease, 0 to 4) with 25
training pictures of every grade, or a random 60 % for training; FG-NET (ages of 82 people) in ten folds of whole
people, where repeat r is tested on fold r; UTKFace (ages) with a random 1,600 of its 2,000 training faces, and its own
800 test faces.

As in a collection, features are projected onto 150 principal components, of the training part, on which
``OrdinalRanker()`` is fitted, with ``groups`` where people are held out. ``auto`` is the choice of a collection with
``--features auto``, made on at most 400 training pictures. The others are fitted to the same components, and select
their hyperparameters by cross-validation inside the training part, of whole people where these are held out; their
estimates are rounded to grades.

``auto_vs_single``: mean difference of ``auto`` and the features with the lowest mean error on the test parts, paired by
split; the standard error is that of independent splits. ``same_person``: share of the five nearest training pictures
that show the person of the query, on FG-NET with a random 60 % for training, by the learned and by the Euclidean
distance of the components; ``within_grade`` counts only pictures of the estimated age, which may be fewer than five.

Prints one JSON document. Features are extracted once and kept in ``--work``. mord: ``make baselines``.

    python experiments/benchmarks/photos.py [--data DIR] [--repeats 10] [--work DIR] [--out FILE]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from ordrank_experiments.datasets import extract_photos
from ordrank_experiments.machine import describe_machine, print_document
from ordrank_experiments.photo_splits import SEED, PhotoSplit, split_photos
from ordrank_experiments.scaling import UnitMeanSquare
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.neighbors import KNeighborsRegressor, NearestNeighbors
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR
from threadpoolctl import threadpool_limits

from ordrank import OrdinalRanker
from ordrank._protocols import FloatArray, IntArray
from ordrank.collection.feature_selection import AUTO, MAX_SAMPLE, compare_features, side_by_side
from ordrank.collection.ingest.reading import read_pictures
from ordrank.collection.projection import fit_projection
from ordrank.collection.types import BadPicture
from ordrank.errors import InputError
from ordrank.features import find_extractor
from ordrank.metrics import mean_absolute_error, nearest_label

FEATURES = ("pixels", "hog", "efficientnet-lite0", "efficientnet-lite2")
CONDITIONS = (
    ("coffee-leaf", "25 a grade"),
    ("coffee-leaf", "random"),
    ("fgnet-faces", "people"),
    ("utkface", "part"),
)
PEER_FEATURES = ("efficientnet-lite2", AUTO)
OURS = "OrdinalRanker"
FOLDS = 3  # in which the other learners select their hyperparameters
MAX_LABELS = 20  # mord
NEAREST, PERSON_REPEATS = 5, 5

Features = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class GradedPhotos:
    """Features (n, dim) by name, grades (n,), and the person and the part of each picture, empty where not known."""

    features: Features
    grade: FloatArray
    group: NDArray[np.str_]
    part: NDArray[np.str_]


@dataclass(frozen=True)
class Samples:
    """Principal components and grades of the pictures of a split."""

    X: NDArray[np.float32]
    y: FloatArray
    groups: IntArray | None
    X_test: NDArray[np.float32]
    y_test: FloatArray


def load_features(name: str, data: Path | None, work: Path) -> GradedPhotos:
    """Return the features of an archive, from ``work`` if they were extracted before."""
    cache = work / f"{name}.npz"
    if not cache.is_file():
        work.mkdir(parents=True, exist_ok=True)
        np.savez(cache, **_extract(name, data))
    with np.load(cache) as arrays:
        features = {feature: arrays[feature] for feature in FEATURES}
        return GradedPhotos(features, arrays["grade"], arrays["group"], arrays["part"])


def _extract(name: str, data: Path | None) -> dict[str, Any]:
    """Return features and columns of the rows of an archive with a table ``grades.csv``."""
    with tempfile.TemporaryDirectory() as folder:
        photos = extract_photos(name, Path(folder), data)
        files = [(file.name, file) for file in photos.files]
        arrays: dict[str, Any] = {feature: _read_features(files, feature) for feature in FEATURES}
    return arrays | {"grade": photos.grade, "group": photos.group, "part": photos.part}


def _read_features(files: Sequence[tuple[str, Path]], feature: str) -> NDArray[np.float32]:
    """Return the features (n, dim) of all files."""
    vectors = []
    for picture in read_pictures(files, find_extractor(feature)):
        if isinstance(picture, BadPicture):
            raise InputError(f"{picture.name} {picture.reason}")
        vectors.append(picture.features)
    return np.stack(vectors)


def choose_features(photos: GradedPhotos, drawn: PhotoSplit) -> tuple[str, ...]:
    """Return the features that a collection of the training pictures would choose."""
    sample = np.random.default_rng(0).permutation(len(drawn.train))[:MAX_SAMPLE]
    rows, groups = drawn.train[sample], None if drawn.groups is None else drawn.groups[sample]
    blocks = {name: block[rows] for name, block in photos.features.items()}
    chosen, _ = compare_features(blocks, photos.grade[rows], groups)
    return chosen


def project(photos: GradedPhotos, names: Sequence[str], drawn: PhotoSplit) -> Samples:
    """Return the principal components of features side by side."""
    features = side_by_side([photos.features[name] for name in names])
    train, y = features[drawn.train], photos.grade
    projection = fit_projection([train])
    X_test = projection(features[drawn.test])
    return Samples(projection(train), y[drawn.train], drawn.groups, X_test, y[drawn.test])


def our_error(samples: Samples) -> float:
    """Return the MAE of the default model on the test part."""
    ranker = OrdinalRanker().fit(samples.X, samples.y, groups=samples.groups)
    return mean_absolute_error(samples.y_test, np.asarray(ranker.predict(samples.X_test)))


def peers(samples: Samples) -> dict[str, tuple[Any, dict[str, Sequence[Any]]]]:
    """Return the other learners with their hyperparameters, by name."""
    svr = TransformedTargetRegressor(SVR(), transformer=StandardScaler())
    found: dict[str, tuple[Any, dict[str, Sequence[Any]]]] = {
        "ridge": (Ridge(), {"alpha": tuple(np.logspace(-3, 2, 11))}),
        "SVR": (svr, {"regressor__C": (1.0, 3.0, 10.0, 30.0, 100.0), "regressor__gamma": (0.03, 0.1, 0.3, 1.0)}),
        "k-NN": (KNeighborsRegressor(), {"n_neighbors": (1, 3, 5, 10, 20, 40), "weights": ("uniform", "distance")}),
    }
    if len(np.unique(samples.y)) <= MAX_LABELS:
        from mord import LogisticAT

        found["LogisticAT"] = (LogisticAT(), {"alpha": (1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0)})
    return found


def peer_errors(samples: Samples) -> dict[str, float]:
    """Return the MAE of every other learner on the test part, with estimates rounded to training grades."""
    labels = np.unique(samples.y)
    scale = UnitMeanSquare().fit(samples.X)
    X, X_test = scale.transform(samples.X), scale.transform(samples.X_test)
    folds = KFold(FOLDS, shuffle=True, random_state=SEED) if samples.groups is None else GroupKFold(FOLDS)

    def score(model: Any, X: FloatArray, y: FloatArray) -> float:
        return -mean_absolute_error(y, labels[nearest_label(labels, model.predict(X))])

    errors, y = {}, samples.y.astype(np.int64)  # mord accepts integers only; grades and ages are
    for name, (model, grid) in peers(samples).items():
        search = GridSearchCV(model, grid, cv=folds, scoring=score).fit(X, y, groups=samples.groups)
        errors[name] = -score(search, X_test, samples.y_test)
    return errors


def measure(photos: GradedPhotos, rule: str, repeat: int) -> tuple[dict[tuple[str, str], float], str]:
    """Return the MAE on one split by features and learner, and the features that ``auto`` chose."""
    errors = {}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # grades of few samples
        drawn = split_photos(photos, rule, repeat)
        chosen = choose_features(photos, drawn)
        for features in (*FEATURES, AUTO):
            samples = project(photos, chosen if features == AUTO else (features,), drawn)
            errors[features, OURS] = our_error(samples)
            if features in PEER_FEATURES:
                errors |= {(features, name): error for name, error in peer_errors(samples).items()}
    return errors, "+".join(chosen)


def same_person(photos: GradedPhotos, repeat: int) -> dict[str, dict[str, float]]:
    """Return the share of the nearest training pictures that show the person of the query, by features."""
    shares = {}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # grades of few samples
        drawn = split_photos(photos, "random", repeat)
        person, query = photos.group[drawn.train], photos.group[drawn.test]
        sets = {"pixels": ("pixels",), "efficientnet-lite2": ("efficientnet-lite2",)}
        for features, names in (sets | {AUTO: choose_features(photos, drawn)}).items():
            samples = project(photos, names, drawn)
            ranker = OrdinalRanker().fit(samples.X, samples.y)
            euclidean = NearestNeighbors(n_neighbors=NEAREST).fit(samples.X)
            nearest = {
                "learned": ranker.rank(samples.X_test, k=NEAREST).indices,
                "within_grade": ranker.rank(samples.X_test, k=NEAREST, within_grade=True).indices,
                "euclidean": euclidean.kneighbors(samples.X_test, return_distance=False),
            }
            shares[features] = {key: share_of(person, query, indices) for key, indices in nearest.items()}
    return shares


def share_of(person: NDArray[np.str_], query: NDArray[np.str_], indices: Any) -> float:
    """Return the share of the pictures at indices (q, k), -1 for none, that show the person of their query (q,)."""
    present = indices >= 0
    return float((person[indices] == query[:, None])[present].mean())


def mean_and_std(values: Sequence[float], name: str) -> dict[str, Any]:
    """Return mean, standard deviation and number of the values of the repeats."""
    std = round(float(np.std(values, ddof=1)), 4) if len(values) > 1 else None
    return {name: round(float(np.mean(values)), 4), "std": std, "repeats": len(values)}


def summarise(found: Sequence[Mapping[tuple[str, str], float]]) -> list[dict[str, Any]]:
    """Return the errors by features and learner, with those of every split."""
    rows = []
    for features, model in found[0]:
        errors = [one[features, model] for one in found]
        row = {"features": features, "model": model} | mean_and_std(errors, "mae")
        rows.append(row | {"errors": [round(error, 4) for error in errors]})
    return rows


def compare_with_single(found: Sequence[Mapping[tuple[str, str], float]]) -> dict[str, Any]:
    """Return the paired difference of ``auto`` and the features that alone have the lowest mean error."""
    errors = {name: np.array([one[name, OURS] for one in found]) for name in (*FEATURES, AUTO)}
    single = min(FEATURES, key=lambda name: errors[name].mean())
    differences = errors[AUTO] - errors[single]
    error = float(np.std(differences, ddof=1) / len(found) ** 0.5) if len(found) > 1 else None
    return {
        "single": single,
        "difference": round(float(differences.mean()), 4),
        "standard_error": None if error is None else round(error, 4),
        "repeats": len(found),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None, help="folder of the data sets; ORDRANK_DATA by default")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--work", type=Path, default=Path("photo-features"), help="folder of the extracted features")
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    rows, choices, comparisons = [], [], []
    for name, rule in CONDITIONS:
        photos = load_features(name, arguments.data, arguments.work)
        measured = Parallel(n_jobs=-1)(delayed(measure)(photos, rule, repeat) for repeat in range(arguments.repeats))
        found, drawn = [errors for errors, _ in measured], split_photos(photos, rule, 0)
        condition = {"data": name, "split": rule}
        sizes = {"train": len(drawn.train), "test": len(drawn.test), "labels": len(np.unique(photos.grade))}
        rows += [condition | sizes | row for row in summarise(found)]
        choices.append(condition | {"chosen": dict(Counter(chosen for _, chosen in measured).most_common())})
        comparisons.append(condition | compare_with_single(found))
        sys.stderr.writelines(f"{row}\n" for row in (*rows[-len(found[0]) :], choices[-1], comparisons[-1]))
    faces = load_features("fgnet-faces", arguments.data, arguments.work)
    shares = Parallel(n_jobs=-1)(delayed(same_person)(faces, repeat) for repeat in range(PERSON_REPEATS))
    people = [
        {"features": features, "pictures": pictures}
        | mean_and_std([one[features][pictures] for one in shares], "share")
        for features, by_distance in shares[0].items()
        for pictures in by_distance
    ]
    document = {
        "benchmark": "photos",
        "seed": SEED,
        "repeats": arguments.repeats,
        "rows": rows,
        "choices": choices,
        "auto_vs_single": comparisons,
        "same_person": people,
    }
    print_document(document | describe_machine("mord", "onnxruntime"), arguments.out)


if __name__ == "__main__":
    main()
