"""Frozen and fine-tuned features of photographs: all losses with the same network, schedule and splits."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ordrank._format import format_duration
from ordrank.errors import InputError
from ordrank_experiments.checkpoint import Checkpoint, Run, identify
from ordrank_experiments.datasets import PhotoFiles, extract_photos, find_photos
from ordrank_experiments.machine import describe_machine
from ordrank_experiments.photo_methods import FROZEN, PhotoFit, PhotoScore, Training, read_photo_scores, run_fit
from ordrank_experiments.photo_report import compose
from ordrank_experiments.photo_rows import PhotoRow, make_rows, paired_tests, summarise
from ordrank_experiments.photo_splits import SEED


@dataclass(frozen=True)
class PhotoBenchmark:
    """An archive, the rule that splits it, a description, and the number of splits that are affordable, if limited."""

    data: str
    rule: str
    text: str
    max_repeats: int | None = None


@dataclass(frozen=True)
class PhotoComparison:
    """Results, their rows, and the files they were written to."""

    document: dict[str, Any]
    rows: list[PhotoRow]
    files: list[Path]


BENCHMARKS = (
    PhotoBenchmark("coffee-leaf", "random", "a random 60 % for training", 3),
    PhotoBenchmark("fgnet-faces", "people", "ten folds of whole people, repeat r tested on fold r"),
    PhotoBenchmark("fgnet-faces", "random", "a random 60 % for training, people in both parts", 3),
    PhotoBenchmark(
        "utkface", "own parts", "its own training and test parts; repeats differ in the seed of the network", 3
    ),
)


def compare_photos(
    training: Training, run: Run, losses: Sequence[str] | None = None, seed: int | None = None
) -> PhotoComparison:
    """Run every method on every split and write the report.

    Parameters
    ----------
    training : Training
    run : Run
        With ``n_jobs`` fits at a time. One uses all cores of a CPU, but does not fill a large GPU.
    losses : sequence of str, optional
        Losses of OrdinalNetwork; all by default.
    seed : int, optional
        Of the splits; a network of repeat r has the seed plus r.
    """
    begin, seed = time.perf_counter(), SEED if seed is None else seed
    run.report("reading the data")
    archives = {name: find_photos(name, run.data) for name in dict.fromkeys(one.data for one in BENCHMARKS)}
    losses, machine = _check(training, losses), _describe(training)
    identity = identify(seed, [np.fromfile(file, dtype=np.uint8) for file in archives.values()])
    identity |= {"versions": machine["versions"], "options": asdict(training)}
    fits = list_fits(losses, run.repeats)
    with tempfile.TemporaryDirectory() as folder:
        photos = {name: extract_photos(name, Path(folder) / name, file) for name, file in archives.items()}
        checkpoint = run.open_checkpoint(identity, read_photo_scores)
        new = sum(fit not in checkpoint for fit in fits)
        _finish(fits, checkpoint, run, photos, training, seed)
        described = [_describe_benchmark(one, photos[one.data]) for one in BENCHMARKS]
    scores = list(checkpoint.outcomes(fits))
    rows, tests = make_rows(scores), paired_tests(scores, losses)
    document = {
        "dataset": "photos",
        "seed": seed,
        "repeats": run.repeats,
        "options": asdict(training) | {"losses": list(losses), "jobs": run.n_jobs},
        "benchmarks": described,
        "rows": [asdict(row) for row in rows],
        "tests": [asdict(test) for test in tests],
        "summary": {name: asdict(count) for name, count in summarise(rows, losses).items()},
        "seconds": {"this_run": round(time.perf_counter() - begin, 1), "fits_run": new, "fits": len(fits)},
        **machine,
    }
    run.report("writing the report")
    return PhotoComparison(document, rows, run.write(document, compose(rows, tests, document)))


def list_fits(losses: Sequence[str], repeats: int) -> list[PhotoFit]:
    """Return all fits, the first repeat of every condition first."""
    return [
        PhotoFit(one.data, one.rule, repeat, features)
        for repeat in range(repeats)
        for one in BENCHMARKS
        if one.max_repeats is None or repeat < one.max_repeats
        for features in (FROZEN, *losses)
    ]


def _check(training: Training, losses: Sequence[str] | None) -> tuple[str, ...]:
    """Return the losses in the order of the package; raise InputError if PyTorch, weights or device are missing."""
    try:
        from ordrank.deep import backbones
        from ordrank.deep.losses import LOSSES
    except ImportError as error:  # it says what to install
        raise InputError(f"compare photos trains networks: {error}") from None
    from ordrank.features._runtimes import check_torch_device

    wrong = [loss for loss in losses or () if loss not in LOSSES]
    if wrong or losses == ():
        raise InputError(f"losses must be some of {', '.join(LOSSES)}, got {', '.join(map(repr, wrong)) or 'none'}")
    check_torch_device(training.device)
    backbones.load_backbone(training.backbone, training.image_size)
    return tuple(loss for loss in LOSSES if losses is None or loss in losses)


def _finish(
    fits: Sequence[PhotoFit],
    checkpoint: Checkpoint[PhotoFit, PhotoScore],
    run: Run,
    photos: Mapping[str, PhotoFiles],
    training: Training,
    seed: int,
) -> None:
    """Run unfinished fits."""
    missing = [fit for fit in fits if fit not in checkpoint]
    if run.n_jobs != 1:
        from joblib import Parallel, delayed

        pool = Parallel(n_jobs=run.n_jobs, return_as="generator_unordered")
        work = (delayed(_run_one)(fit, photos[fit.data], training, seed) for fit in missing)
        for position, (fit, scores) in enumerate(pool(work)):
            checkpoint.add(fit, scores)
            run.progress("fits", len(fits) - len(missing) + position + 1, len(fits))
        return
    spent: dict[bool, list[float]] = {True: [], False: []}  # seconds of fits of frozen and of tuned features
    for position, fit in enumerate(missing):
        done = len(fits) - len(missing) + position
        left = _time_left(missing[position:], spent)
        run.report(f"{fit.data}, {fit.rule}, repeat {fit.repeat}, {fit.features}: {done} of {len(fits)} done{left}")
        run.progress("fits", done, len(fits))
        begin = time.perf_counter()
        checkpoint.add(fit, run_fit(fit, photos[fit.data], training, seed, _stages(run)))
        spent[fit.features == FROZEN].append(time.perf_counter() - begin)
    run.progress("fits", len(fits), len(fits))


def _run_one(fit: PhotoFit, photos: PhotoFiles, training: Training, seed: int) -> tuple[PhotoFit, list[PhotoScore]]:
    return fit, run_fit(fit, photos, training, seed)


def _time_left(fits: Sequence[PhotoFit], spent: Mapping[bool, Sequence[float]]) -> str:
    """Return the time that fits will take as text, empty if none like them was run."""
    kinds = [fit.features == FROZEN for fit in fits]
    if not all(spent[kind] for kind in set(kinds)):
        return ""
    return f", about {format_duration(sum(float(np.mean(spent[kind])) for kind in kinds))} left"


def _stages(run: Run) -> Callable[[str, int, int], None]:
    """Return a callback that reports the stages of a fit, which say how long it takes, but not its batches."""

    def progress(stage: str, done: int, total: int) -> None:
        if total == 0 and stage.startswith("training"):
            run.report(f"  {stage}")

    return progress


def _describe(training: Training) -> dict[str, Any]:
    """Describe the machine, with its GPU if that is used."""
    import torch

    machine = describe_machine("torch", *(["timm"] if training.backbone.startswith("timm:") else []))
    gpu = torch.cuda.get_device_name() if training.device == "cuda" else None
    return machine | {"machine": machine["machine"] | {"gpu": gpu, "threads": torch.get_num_threads()}}


def _describe_benchmark(benchmark: PhotoBenchmark, photos: PhotoFiles) -> dict[str, Any]:
    sizes = {"pictures": len(photos.grade), "grades": len(np.unique(photos.grade))}
    return asdict(benchmark) | sizes
