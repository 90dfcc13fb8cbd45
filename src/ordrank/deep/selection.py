"""Choice of the parameters of a network by its error on held-out pictures of the training set."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import GroupShuffleSplit, ParameterGrid

from ordrank._format import format_duration
from ordrank._protocols import IntArray
from ordrank.deep.images import Images
from ordrank.deep.samples import MIN_IMAGES, units_of
from ordrank.errors import InputError
from ordrank.estimators._labels import OrdinalLabels

if TYPE_CHECKING:
    from ordrank.deep.network import OrdinalNetwork

# Of `ordrank finetune --select`: one change at a time, since the time grows with their number.
CANDIDATES: tuple[dict[str, list[Any]], ...] = (
    {"loss": ["regression", "coral"]},
    {"augmentation": ["none", "light"]},
    {"epochs": [10, 40]},
)
_PARAMETERS = ("loss", "augmentation", "epochs", "steps", "mu", "backbone_rate", "head_rate", "flip")
_HELD_OUT = 0.25


def score_candidates(
    network: OrdinalNetwork, images: Images, labels: OrdinalLabels, groups: ArrayLike | None
) -> list[dict[str, Any]]:
    """Return the parameters of each candidate and its mean absolute error, first those of the network itself.

    Each is trained on the same pictures, and predicts the labels of the same others from its outputs.
    """
    candidates = list_candidates(network)
    train, held_out = _split(labels, groups, network.random_state)
    grades = labels.distinct[labels.index]
    scored, begin = list[dict[str, Any]](), time.perf_counter()
    for number, parameters in enumerate(candidates):
        described = ", ".join(f"{name} {value}" for name, value in parameters.items())
        left = (len(candidates) - number) * (time.perf_counter() - begin) / max(number, 1)
        about = f", about {format_duration(left)} left for all" if number else ""
        stage = f"candidate {number + 1} of {len(candidates)} ({described}{about})"
        candidate = network.variant(
            **parameters,
            select=None,
            n_folds=1,
            minutes=minutes_each(network, len(candidates)),
            checkpoints=network.checkpoint_files.candidate(number),
            progress=_prefixed(network.progress, stage),
        )
        candidate.fit_networks([images[i] for i in train], grades[train])
        estimates = candidate.predict_from_outputs([images[i] for i in held_out])
        error = float(np.abs(estimates - grades[held_out]).mean())
        scored.append({"parameters": parameters, "error": error})
    return scored


def minutes_each(network: OrdinalNetwork, n_candidates: int) -> float | None:
    """Return the limit of the time of each network, those of candidates among them."""
    return None if network.minutes is None else network.minutes / (n_candidates + network.n_networks)


def list_candidates(network: OrdinalNetwork) -> list[dict[str, Any]]:
    """Return the parameters of all candidates, first those of the network itself; raise InputError if one is wrong."""
    select = network.select
    try:
        grid = list(ParameterGrid([select] if isinstance(select, Mapping) else list(select or ())))
    except (TypeError, ValueError) as error:
        raise InputError(f"select must be a dict of lists, or a list of these: {error}") from None
    names = [name for name in _PARAMETERS if any(name in candidate for candidate in grid)]
    unknown = [name for candidate in grid for name in candidate if name not in _PARAMETERS]
    if unknown or not names:
        found = f"not {unknown[0]}" if unknown else "and names none of them"
        raise InputError(f"select chooses among values of {', '.join(_PARAMETERS)}, {found}")
    own = {name: getattr(network, name) for name in names}
    candidates = [own]
    for changes in grid:
        candidate = own | changes
        if candidate not in candidates:
            network.variant(**candidate, select=None).check_parameters()
            candidates.append(candidate)
    return candidates


def _split(labels: OrdinalLabels, groups: ArrayLike | None, random_state: int) -> tuple[IntArray, IntArray]:
    """Return the images that candidates are trained on, and those that they are scored on, by whole groups."""
    units = units_of(labels, groups)
    splitter = GroupShuffleSplit(1, test_size=_HELD_OUT, random_state=random_state)
    train, held_out = next(splitter.split(units, groups=units))
    if len(train) < MIN_IMAGES or len(np.unique(labels.index[train])) < 2:
        raise InputError(
            "select holds out a quarter of the images, by whole groups: give more graded images, or leave select out"
        )
    return train, held_out


def _prefixed(progress: Callable[[str, int, int], object], prefix: str) -> Callable[[str, int, int], None]:
    def report(stage: str, done: int, total: int) -> None:
        progress(f"{prefix}: {stage}", done, total)

    return report
