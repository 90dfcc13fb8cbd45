"""Fine-tuning of a network on the grades of a collection, which then takes its features from it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from ordrank import __version__
from ordrank._format import pluralize
from ordrank._io import write_files
from ordrank._protocols import Extractor, IntArray, Progress, TrainingFiles, no_progress
from ordrank.collection import staged_features
from ordrank.collection.access import read_store, write_store
from ordrank.collection.database import content_sha256, stored_path
from ordrank.collection.fit import fit_report, train_store
from ordrank.collection.ingest.importing import BATCH, extractor_of, stage_features
from ordrank.collection.ingest.reading import read_pictures
from ordrank.collection.model_file import untrained
from ordrank.collection.network_file import (
    APPEARANCE,
    FinetunedNetwork,
    find_collection_extractor,
    is_network_name,
    remove_networks,
    write_network,
)
from ordrank.collection.originals import read_unchanged
from ordrank.collection.reports import FinetuneReport, FitReport, ImportReport
from ordrank.collection.search import Groups
from ordrank.collection.store import Store
from ordrank.collection.store_reader import FINETUNED
from ordrank.collection.train import fit_ranker, held_out_errors, project
from ordrank.collection.types import BadPicture, ImageRow
from ordrank.collection.writer_lock import LOCK_FILES, writer_lock
from ordrank.errors import BadPicturesError, CollectionError, InputError, UnreadablePictureError

if TYPE_CHECKING:
    from ordrank.deep import OrdinalNetwork
    from ordrank.deep.checkpoints import Checkpoints

_WORK = "finetuning"  # folder of what an interrupted run has trained
_RUN = "run.jsonl"
_CARD = "ordrank.card"  # key of the metadata of the network
_FEATURES_BEFORE = "features before"
# Seconds to wait for a grade that is being given on the page: the training before may have taken hours.
_PATIENCE = 60.0


class FinetuneOptions(TypedDict, total=False):
    """Options of :meth:`Collection.finetune`."""

    backbone: str
    device: str
    minutes: float | None
    image_size: int | None
    flip: bool
    select: bool
    n_jobs: int
    progress: Progress


@dataclass(frozen=True)
class _Settings:
    """What a run depends on, besides the pictures."""

    backbone: str
    device: str
    minutes: float | None
    image_size: int | None
    flip: bool
    select: bool


@dataclass(frozen=True)
class _Sample:
    """A graded picture that a run trains on."""

    sha256: str
    path: str
    grade: float
    group: str | None


def training_files(directory: Path) -> TrainingFiles:
    """Return the files of a collection, with their grades and groups."""
    with read_store(directory) as store:
        rows = store.rows()
    ungraded = tuple(stored_path(directory, row.path) for row in rows if row.grade is None)
    return _files(directory, _samples(rows), ungraded)


def finetune_collection(
    directory: Path,
    *,
    backbone: str = "efficientnet-lite0",
    device: str = "cpu",
    minutes: float | None = None,
    image_size: int | None = None,
    flip: bool = True,
    select: bool = False,
    n_jobs: int = -1,
    progress: Progress = no_progress,
) -> FinetuneReport:
    """Train a network on the graded pictures, and use its features if they are better; see :meth:`Collection.finetune`.

    The collection can be read meanwhile, and graded but for the end, when other pictures are read and it is trained.
    """
    try:
        from ordrank.deep import OrdinalNetwork
        from ordrank.deep.checkpoints import Checkpoints
        from ordrank.deep.selection import CANDIDATES
    except ImportError as error:
        raise InputError(str(error)) from None
    settings, begin = _Settings(backbone, device, minutes, image_size, flip, select), time.perf_counter()
    with read_store(directory) as store:
        if store.header.model is None:
            raise untrained(directory)
        header, rows = store.header, store.rows()
    extractor_of(directory, header)  # the features that stand beside the outputs of the network can be computed
    with _work_folder(directory) as work:
        options = asdict(settings) | {"select": CANDIDATES if select else None}
        network = OrdinalNetwork(**options, checkpoints=work, progress=progress)
        network.check_export()  # before hours of training, and before another run is forgotten
        _check_files(directory, rows, progress)
        checkpoints = Checkpoints(work, network.n_networks)
        samples = _continued(work, settings, rows) if checkpoints.exist() else None
        if samples is not None:
            counted = pluralize(len(samples), "picture")
            progress(f"continuing an interrupted run with {counted}, without those graded since", 0, 0)
        else:
            samples = _samples(rows)
            if checkpoints.exist():
                progress("beginning anew: an interrupted run had other options, pictures, grades or groups", 0, 0)
            checkpoints.delete()
        _remember(work, settings, samples)
        files = _files(directory, samples)
        try:
            network.fit_networks(files.graded, files.grades, files.groups)
        except InputError:
            if not checkpoints.exist():  # nothing that another call could continue with
                _forget(work, checkpoints)
            raise
        report = _adopt_if_better(directory, network, samples, begin, n_jobs, progress)
        _forget(work, checkpoints)
    return report


def undo_finetuning(directory: Path, *, n_jobs: int, progress: Progress) -> FitReport:
    """Return to the features before fine-tuning, and train the model on them.

    They are stored beside the outputs of the network. If it is damaged all pictures are read again.
    """
    with write_store(directory, timeout=_PATIENCE) as store:
        name, before = store.header.extractor, store.note(_FEATURES_BEFORE)
        if not is_network_name(name) or before is None:
            raise InputError(f"{directory} has no fine-tuned network; there is nothing to undo")
        reread = 0
        try:
            network = extractor_of(directory, store.header)
            assert isinstance(network, FinetunedNetwork)
            _stage_features_before(store, network)
        except CollectionError:
            read = partial(read_pictures, n_jobs=n_jobs)
            reread = stage_features(store, find_collection_extractor(directory, before), read, progress)
        model, error = train_store(store, None, progress)
        remove_networks(store, keep=set())
        return fit_report(store, ImportReport(reread=reread), model, error, None)


def _adopt_if_better(
    directory: Path,
    network: OrdinalNetwork,
    samples: Sequence[_Sample],
    begin: float,
    n_jobs: int,
    progress: Progress,
) -> FinetuneReport:
    """Add the outputs of a network to the features of the collection and train it, if its held-out error is lower."""
    card = _card(network, samples)
    with write_store(directory, timeout=_PATIENCE) as store:
        present, replaced = extractor_of(directory, store.header), {store.header.extractor}
        original = present.pretrained if isinstance(present, FinetunedNetwork) else present
        compared, error_before = _compared_error(store, present, progress)
        extractor = _add_network(store, network, samples, present, card)
        stage_features(store, extractor, partial(read_pictures, n_jobs=n_jobs), progress)
        error_after = _held_out_error(store, progress)
        is_better = error_after < error_before
        if is_better:
            train_store(store, None, progress, {_FEATURES_BEFORE: original.name, FINETUNED: json.dumps(card)})
        else:
            staged_features.discard(store)
        # A reader that has just opened the collection may be about to open the network before.
        remove_networks(store, keep={store.header.extractor, *replaced})
        return FinetuneReport(
            adopted=is_better,
            error_before=error_before,
            error_after=error_after,
            features_before=compared,
            undone_to=original.name,
            network=extractor.name if is_better else None,
            pictures=len(samples),
            networks=len(network.losses_),
            steps=sum(map(len, network.losses_)),
            seconds=time.perf_counter() - begin,
            selection=tuple(network.selection_),
        )


def _add_network(
    store: Store, network: OrdinalNetwork, samples: Sequence[_Sample], present: Extractor, card: dict[str, Any]
) -> FinetunedNetwork:
    """Write the network, and stage the features of the pictures that it was trained on.

    They are the outputs that a picture has in the network that has not seen it, and the features before.
    """
    from ordrank.deep.embedding import relative_weight

    ids = {content_sha256(row.sha256): row.id for row in store.rows()}
    kept = [i for i, sample in enumerate(samples) if sample.sha256 in ids]  # others were removed meanwhile
    numbers, outputs = [ids[samples[i].sha256] for i in kept], network.outputs_[kept]
    features, original = store.features_of(numbers), present.name
    if isinstance(present, FinetunedNetwork):
        features, original = present.features_before(features), present.pretrained.name
    appearance = {"features": original, "weight": network.locality * relative_weight(outputs, features)}
    metadata = {_CARD: json.dumps(card), APPEARANCE: json.dumps(appearance)}
    extractor = write_network(store, network.outputs_to_onnx(metadata))
    groups = _groups(samples)
    units = np.arange(len(samples)) if groups is None else groups
    store.record_network_samples(extractor.name, [sample.sha256 for sample in samples], units, network.outputs_)
    staged_features.begin(store, extractor)
    combined = extractor.combine(outputs, features)
    staged_features.put(store, dict(zip(numbers, combined, strict=True)))
    return extractor


def _compared_error(store: Store, present: Extractor, progress: Progress) -> tuple[str, float]:
    """Return the features that a new network is compared with, and their error.

    They are those of the collection, or those before its network if the error with this one flatters.
    """
    if not (isinstance(present, FinetunedNetwork) and store.has_seen_groups()):
        return present.name, _held_out_error(store, progress)
    _stage_features_before(store, present)
    error = _held_out_error(store, progress)
    staged_features.discard(store)
    return present.pretrained.name, error


def _stage_features_before(store: Store, network: FinetunedNetwork) -> None:
    """Stage the features that stand beside the outputs of the network of a collection."""
    staged_features.begin(store, network.pretrained)
    ids = store.ids()
    with read_store(store.directory) as present:  # reads the features in use, not the staged ones
        for start in range(0, len(ids), BATCH):
            part = ids[start : start + BATCH]
            features = network.features_before(present.features_of(part))
            staged_features.put(store, dict(zip(part, features, strict=True)))


def _held_out_error(store: Store, progress: Progress) -> float:
    """Return the leave-one-out mean absolute error of the default model on the features that the store reads."""
    progress(f"measuring the error with {store.header.extractor}", 0, 0)
    grades, (_, X) = store.grades(), project(store)
    groups = Groups.from_names(np.arange(len(X)), store.groups()).codes
    ranker = fit_ranker(X, grades, groups, balanced=store.is_balanced)
    return float(held_out_errors(ranker, grades[~np.isnan(grades)]).mean())


def _check_files(directory: Path, rows: Sequence[ImageRow], progress: Progress) -> None:
    """Raise BadPicturesError if a file is not what was read once: the network reads the graded now, the others later.

    A file with another picture would be trained on with the grade of this one.
    """
    stage, bad = f"checking {pluralize(len(rows), 'file')}", list[BadPicture]()
    progress(stage, 0, 0)
    for done, row in enumerate(rows, start=1):
        try:
            read_unchanged(directory, row)
        except UnreadablePictureError as error:
            bad.append(BadPicture(row.name, str(error)))
        progress(stage, done, len(rows))
    if bad:
        counted = pluralize(len(bad), "picture")
        raise BadPicturesError(
            f"{counted} cannot be read again; restore the files, read changed ones with `ordrank fit`, or remove the "
            "pictures with `ordrank remove`",
            tuple(bad),
        )


def _card(network: OrdinalNetwork, samples: Sequence[_Sample]) -> dict[str, Any]:
    """Return what a network was trained on, and how."""
    grades, counts = np.unique([sample.grade for sample in samples], return_counts=True)
    groups = {sample.group for sample in samples} - {None}
    return {
        "backbone": network.backbone,
        "loss": network.loss,
        "pictures": len(samples),
        "groups": len(groups),
        "grades": dict(zip(map(str, grades.tolist()), counts.tolist(), strict=True)),
        "networks": len(network.losses_),
        "steps": len(network.losses_[-1]),
        "batch_size": network.batch_size,
        "image_size": network.image_size,
        **network.best_params_,
        "ordrank": __version__,
    }


def _samples(rows: Sequence[ImageRow]) -> list[_Sample]:
    return [
        _Sample(content_sha256(row.sha256), row.path, row.grade, row.group) for row in rows if row.grade is not None
    ]


def _files(directory: Path, samples: Sequence[_Sample], ungraded: tuple[Path, ...] = ()) -> TrainingFiles:
    paths = tuple(stored_path(directory, sample.path) for sample in samples)
    return TrainingFiles(paths, np.array([sample.grade for sample in samples]), _groups(samples), ungraded)


def _groups(samples: Sequence[_Sample]) -> IntArray | None:
    """Return the groups (n,) of samples that are held out together; None if each is held out alone."""
    groups = Groups.from_names(np.arange(len(samples)), [sample.group for sample in samples]).codes
    return groups if groups is not None and len(np.unique(groups)) > 1 else None  # a single one cannot be held out


@contextmanager
def _work_folder(directory: Path) -> Iterator[Path]:
    """Yield the folder of interrupted runs, of which there is one at a time; it is deleted when it is empty."""
    work = directory / _WORK
    _check_leftovers(work)
    work.mkdir(exist_ok=True)
    with writer_lock(work):
        try:
            yield work
        finally:
            if not (work / _RUN).exists():
                for name in LOCK_FILES:
                    (work / name).unlink(missing_ok=True)
                with suppress(OSError):  # files of others
                    work.rmdir()


def _check_leftovers(work: Path) -> None:
    """Raise CollectionError if a link, a pipe or a device is among the files of interrupted runs.

    The collection may come from a stranger: a link leads to files elsewhere, which would be replaced or deleted.
    """
    for path in (work, *work.glob("*"), *work.glob("candidate-*/*")):
        if path.is_symlink() or (path.exists() and not path.is_file() and not path.is_dir()):
            raise CollectionError(f"{path} is a link, or no file; delete it")


def _forget(work: Path, checkpoints: Checkpoints) -> None:
    """Delete what another call would continue with: first the list of pictures, which alone would begin anew."""
    for file in (work / _RUN, *work.glob(f".{_RUN}.*")):
        file.unlink(missing_ok=True)
    checkpoints.delete()


def _remember(work: Path, settings: _Settings, samples: Sequence[_Sample]) -> None:
    write_files(work, {_RUN: b"\n".join(_lines(settings, samples))})


def _lines(settings: _Settings, samples: Sequence[_Sample]) -> list[bytes]:
    """Return the settings of a run and its samples, each as a line; without paths, since files may move."""
    minutes = None if settings.minutes is None else float(settings.minutes)  # 5 is written as 5.0
    parts = [
        asdict(settings) | {"minutes": minutes},
        *([sample.sha256, sample.grade, sample.group] for sample in samples),
    ]
    return [json.dumps(part).encode() for part in parts]


def _continued(work: Path, settings: _Settings, rows: Sequence[ImageRow]) -> list[_Sample] | None:
    """Return the samples of an interrupted run with these settings, if all are there with the same grades and groups.

    Pictures that have been graded since are left out: nobody waits hours again because of them.
    """
    samples = _samples(rows)
    first, *lines = _lines(settings, samples)
    present = dict(zip(lines, samples, strict=True))
    try:
        # A file of a stranger may be of any size: no run is longer than that of all pictures, and none is parsed.
        if (work / _RUN).stat().st_size > len(b"\n".join([first, *lines])):
            return None
        found, *continued = (work / _RUN).read_bytes().split(b"\n")
    except OSError:
        return None
    return [present[line] for line in continued] if found == first and present.keys() >= set(continued) else None
