"""The public class: graded pictures on disk, and the model learned from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias, Unpack

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import Progress, TrainingFiles, no_progress
from ordrank.collection import html_report, reports
from ordrank.collection.access import read_store
from ordrank.collection.browsing import list_pictures
from ordrank.collection.check_report import CheckReport
from ordrank.collection.database import check_exists, is_collection
from ordrank.collection.doctor import Doctor
from ordrank.collection.info import describe_collection
from ordrank.collection.labeling import Labeling
from ordrank.collection.live import LiveSnapshot
from ordrank.collection.per_snapshot import PerSnapshot
from ordrank.collection.picture_files import PictureFiles
from ordrank.collection.quality import QualityReport, assess
from ordrank.collection.queries import Query, QueryReader
from ordrank.collection.snapshot import Snapshot
from ordrank.collection.types import (
    AcquireLock,
    ListOptions,
    ListRequest,
    Picture,
    PicturePage,
    Points,
    QueryPicture,
    RankRequest,
    RankResult,
    frame_of,
)
from ordrank.errors import CollectionError
from ordrank.features.pictures import Decode, decode_picture

if TYPE_CHECKING:
    import pandas as pd

    from ordrank.collection.finetune import FinetuneOptions
    from ordrank.collection.fit import AddOptions, FitOptions, ReadOptions
    from ordrank.collection.ingest.labels import LabelsLike
    from ordrank.collection.ungraded import UngradedOptions

PathLike: TypeAlias = str | os.PathLike[str]


class Collection:
    """A collection of graded pictures on disk; use :meth:`create` or :meth:`open`.

    Queries read a snapshot in memory, in several threads at once. When another process or a grade has changed the
    collection, the next query refreshes the snapshot; queries under way finish with the old one.

    Attributes
    ----------
    directory : Path
    fit_report : FitReport or None
        Outcome of the last :meth:`create` or :meth:`fit` of this object.
    import_report : ImportReport or None
        Outcome of :meth:`create_ungraded`.
    labeling : Labeling
        Grades, confirmations and comparisons by people, and what they should look at next.
    files : PictureFiles
        Thumbnails and larger versions of pictures, copies of their files, and single new pictures.

    Examples
    --------
    >>> collection = Collection.create("fruit", "pictures", "grades.csv")        # doctest: +SKIP
    >>> with Collection.open("fruit") as collection:                             # doctest: +SKIP
    ...     result = collection.rank("new.jpg", k=5)
    ...     print(result.grade, result.to_frame())
    """

    def __init__(
        self,
        directory: PathLike,
        *,
        snapshot: Snapshot | None = None,
        on_new_model: Callable[[str | None], object] | None = None,
        write_lock: AcquireLock = nullcontext,
    ) -> None:
        self.directory = Path(directory)
        check_exists(self.directory)
        self.fit_report: reports.FitReport | None = None
        self.import_report: reports.ImportReport | None = None
        self._live = LiveSnapshot(self.directory, snapshot, on_new_model)
        self._queries = QueryReader(self.directory, self._live)
        self._doctor = Doctor(self.directory, self._live)
        self._quality = PerSnapshot(self._live, partial(assess, self.directory))
        self.labeling = Labeling(self.directory, self._live, write_lock)
        self.files = PictureFiles(self.directory, self._live, self._queries)

    @classmethod
    def open(cls, directory: PathLike) -> Self:
        """Open a collection. Raise CollectionError if there is none, or if it cannot be read."""
        with read_store(Path(directory)) as store:
            store.check_rows()
            return cls(directory)

    @staticmethod
    def exists(directory: PathLike) -> bool:
        """Return whether a directory holds a collection, complete or not."""
        return is_collection(Path(directory))

    @classmethod
    def create(
        cls, directory: PathLike, images: PathLike, labels: LabelsLike | None = None, **options: Unpack[FitOptions]
    ) -> Self:
        """Create a collection from a folder of pictures and their grades, and train it.

        Parameters and options are those of :meth:`fit`; ``features`` is ``"auto"`` by default. Without labels the
        folders that the pictures are in must be named after their grades. If it is interrupted, open the collection and
        call ``fit`` with the same arguments to continue.
        """
        if is_collection(Path(directory)):
            raise CollectionError(f"{directory} is a collection already; open it, and call fit or add")
        from ordrank.collection.fit import fit_collection

        report = fit_collection(Path(directory), images, labels, **options)
        collection = cls(directory)
        collection.fit_report = report
        return collection

    @classmethod
    def create_ungraded(cls, directory: PathLike, images: PathLike, **options: Unpack[UngradedOptions]) -> Self:
        """Create a collection of pictures that nobody has graded yet; :meth:`fit` trains it once two grades are given.

        ``features``, ``device``, ``order``, ``strict``, ``n_jobs`` and ``progress`` are those of :meth:`fit`; without
        grades ``"auto"`` takes the largest installed network, or pixels. Another call continues one that was
        interrupted.
        """
        from ordrank.collection.ungraded import create_ungraded

        report = create_ungraded(Path(directory), images, **options)
        collection = cls(directory)
        collection.import_report = report
        return collection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        with read_store(self.directory) as store:
            return len(store)

    def __repr__(self) -> str:
        return f"Collection({str(self.directory)!r})"

    def close(self) -> None:
        """Close all files; the next use opens them again."""
        self._live.close()
        self.labeling.close()

    def refresh(self) -> None:
        """Bring the snapshot up to date with everything that is committed now."""
        self._live.refresh()

    def warm_up(self) -> str | None:
        """Refresh, compute what the first queries need, and return the name of the model."""
        self.refresh()
        return self._live.current().warm_up()

    def reopened(self, on_new_model: Callable[[str | None], object], write_lock: AcquireLock) -> Self:
        """Return a collection that shares the snapshot in memory and no open files, for a forked process.

        ``on_new_model`` is called with the name of a model once it is in use; ``write_lock`` is held to change a grade.
        """
        snapshot = self._live.snapshot
        return type(self)(self.directory, snapshot=snapshot, on_new_model=on_new_model, write_lock=write_lock)

    @property
    def model_name(self) -> str | None:
        """Name of the current model on disk; None before the first fit."""
        with read_store(self.directory) as store:
            return store.header.model

    # Changing ----------------------------------------------------------------------------------------------------

    def fit(
        self, images: PathLike | None = None, labels: LabelsLike | None = None, **options: Unpack[FitOptions]
    ) -> reports.FitReport:
        """Train the collection again, with new and changed pictures; what an interrupted call has read is kept.

        Parameters
        ----------
        images : path, optional
            Folder of pictures, or one picture; None trains with what is there.
        labels : path or mapping, optional
            CSV file with the columns ``file_column`` and ``grade_column``, or grades by name. Other pictures, and those
            with an empty grade, keep their grades. None keeps all grades; in a collection that was created without
            labels, new pictures and those that were moved get the grades that their folders are named after.
        features : str, optional
            Name of the extractor, see :func:`ordrank.features.find_extractor`; ``"auto"``, the default of a new
            collection, compares those that are installed on its graded pictures. If an existing collection has other
            features, all its pictures are read again; it keeps its grades, and its model until the new one is trained.
        device : {"cpu", "cuda"}
            Where a network computes the features.
        order : str or sequence of str, optional
            Names of the grades, lowest first, where they are words.
        file_column, grade_column, group_column : str, optional
            Columns. Groups are for pictures of the same person or thing, if new ones will show others: grades are then
            estimated, and everything is selected, without the other pictures of a group.
        balanced : bool, optional
            Give every grade the same weight, however many pictures it has; by default as in the last fit.
        strict : bool, optional
            By default a file that cannot be used is reported, and labels of missing pictures are an error. True raises
            BadPicturesError for the first too, False skips and reports both.
        n_jobs : int
            Processes that read pictures; -1 (default) for all cores.
        scheduler, workers : str and int, optional
            Address of a Dask cluster whose workers read the pictures and train, or the size of one to start on this
            machine. The workers must see the pictures and the collection under the same paths; the result is the same
            as without a cluster, up to rounding.
        progress : callable
            Called with a stage, the number of items done and their total.
        """
        from ordrank.collection.fit import fit_collection

        self.fit_report = fit_collection(self.directory, images, labels, **options)
        return self.fit_report

    def add(
        self, images: PathLike, labels: LabelsLike | None = None, **options: Unpack[AddOptions]
    ) -> reports.ImportReport:
        """Add pictures; in a trained collection they can be ranked, and vote if they have grades, at once.

        The model stays as it is until the next :meth:`fit`. Parameters and options are those of :meth:`fit`:
        ``file_column``, ``grade_column``, ``group_column``, ``device``, ``strict``, ``n_jobs``, ``progress``. Folders
        are not read as grades.
        """
        from ordrank.collection.fit import add_pictures

        return add_pictures(self.directory, Path(images), labels, **options)

    def remove(self, pictures: Sequence[str | int]) -> reports.RemovalReport:
        """Remove pictures by id, name or pattern (``x/*.jpg``), all or none.

        Files stay where they are, except those of :meth:`PictureFiles.add`.
        """
        from ordrank.collection.removal import remove_pictures

        return remove_pictures(self.directory, pictures)

    def grade(self, picture: str | int, grade: str | float | None, *, grader: str | None = None) -> Picture:
        """Set the grade of a picture, by name or id, or withdraw it (None); see :meth:`Labeling.grade`."""
        return self.labeling.grade([picture], grade, grader=grader)[0]

    def undo(self, *, grader: str | None = None) -> list[Picture]:
        """Undo the last change of grades by a grader; see :meth:`Labeling.undo`."""
        return self.labeling.undo(grader=grader)

    def finetune(self, **options: Unpack[FinetuneOptions]) -> reports.FinetuneReport:
        """Train a pretrained network on the graded pictures, and add its outputs to the features if that is better.

        Needs the extra ``deep``. Pictures that are trained on keep outputs of a network that has not seen them, so
        that estimates and errors are those of new pictures. Another call with the same options continues one that was
        interrupted. ``backbone``, ``device``, ``minutes``, ``image_size`` and ``flip`` are those of
        :class:`ordrank.OrdinalNetwork`; ``n_jobs`` and ``progress`` those of :meth:`fit`. With ``select``, loss,
        augmentation and length are chosen by the error on graded pictures that are held out.
        """
        from ordrank.collection.finetune import finetune_collection

        return finetune_collection(self.directory, **options)

    def undo_finetuning(self, *, n_jobs: int = -1, progress: Progress = no_progress) -> reports.FitReport:
        """Return to the features before fine-tuning, which are stored beside those of the network.

        If the network is damaged all pictures are read again, with ``n_jobs`` as in :meth:`fit`.
        """
        from ordrank.collection.finetune import undo_finetuning

        return undo_finetuning(self.directory, n_jobs=n_jobs, progress=progress)

    # Queries -----------------------------------------------------------------------------------------------------

    def check_trained(self) -> None:
        """Raise CollectionError if there can be no results: before the first fit, or without any grade."""
        _ = self._live.current().searcher

    def read_query(self, data: bytes, name: str, *, decode: Decode = decode_picture) -> int | QueryPicture:
        """Decode a picture from bytes and compute its features, or return its id if it is in the collection.

        ``decode`` is for pictures of others: it may set limits.
        """
        return self._queries.read(data, name, decode)

    def rank(
        self,
        query: Query,
        k: int = 10,
        *,
        offset: int = 0,
        within_grade: bool = False,
        lowest: str | None = None,
        highest: str | None = None,
    ) -> RankResult:
        """Estimate the grade of a picture and rank the collection for it.

        Parameters
        ----------
        query : str, path, int or QueryPicture
            A picture file, the name or id of a picture in the collection, or the result of :meth:`read_query`.
        k, offset, within_grade, lowest, highest
            See :class:`RankRequest`.
        """
        return self.rank_all([query], RankRequest(k, offset, within_grade, lowest, highest))[0]

    def rank_all(
        self,
        queries: Sequence[Query],
        request: RankRequest | None = None,
        *,
        n_jobs: int = -1,
        scheduler: str | None = None,
        workers: int | None = None,
        progress: Progress = no_progress,
    ) -> list[RankResult]:
        """Rank the collection for several queries, in memory or on a Dask cluster.

        Parameters
        ----------
        queries : sequence
            See :meth:`rank`.
        request : RankRequest, optional
        n_jobs, progress
            See :meth:`fit`; many picture files are read in processes.
        scheduler, workers : str and int, optional
            Address of a Dask cluster that searches, or the size of one to start on this machine. The workers must see
            the collection under the same path.
        """
        return self._queries.rank(queries, request or RankRequest(), scheduler, workers, n_jobs, progress)

    def embed(self, queries: Sequence[Query]) -> NDArray[np.float32]:
        """Return the embeddings (q, s + d) of pictures, as :meth:`export` writes them."""
        return self._queries.embeddings(queries)

    # Reading -----------------------------------------------------------------------------------------------------

    def info(self) -> reports.Info:
        """Return a summary of the collection."""
        return describe_collection(self.directory, self._live.snapshot and self._live.current())

    def pictures(self, **request: Unpack[ListOptions]) -> PicturePage:
        """Return a page of the pictures, by grade and then by name if not requested otherwise.

        ``grade``, ``given``, ``search``, ``sort``, ``descending``, ``offset``, ``limit`` and ``step`` are those of
        :class:`ListRequest`.
        """
        return list_pictures(self._live.current(), ListRequest(**request))

    def picture(self, picture: str | int) -> Picture:
        """Return a picture by name or id."""
        snapshot = self._live.current(picture)
        return snapshot.picture(snapshot.row_of(picture))

    def points(self, limit: int = 100_000) -> Points:
        """Return the embedded pictures as points to display, or a fixed random sample of them."""
        return self._live.current().points(limit)

    def training_files(self) -> TrainingFiles:
        """Return the picture files with their grades, and those without, for :class:`ordrank.OrdinalNetwork`."""
        from ordrank.collection.finetune import training_files

        return training_files(self.directory)

    def to_frame(self) -> pd.DataFrame:
        """Return all pictures as a pandas DataFrame with the columns of :meth:`export`, without embeddings."""
        from ordrank.collection.export import COLUMNS, cells

        with read_store(self.directory) as store:
            return frame_of([cells(store.header, row) for row in store.rows()], COLUMNS)

    def export(self, out: PathLike) -> int:
        """Write all embedded pictures with grades, estimates and embeddings to a file, and return their number.

        Parameters
        ----------
        out : path
            ``.parquet`` (the embedding is a column of lists) or ``.csv`` (columns ``e0, e1, ...``); ordinal
            coordinates come first, then appearance. Only an earlier export is replaced.
        """
        from ordrank.collection.export import export_collection

        return export_collection(self.directory, Path(out))

    def evaluate(
        self, folds: int = 5, *, balanced: bool | None = None, progress: Progress = no_progress
    ) -> reports.Evaluation:
        """Cross-validate over the graded pictures; the collection is not changed."""
        from ordrank.collection.evaluate import evaluate_collection

        return evaluate_collection(self.directory, folds=folds, balanced=balanced, progress=progress)

    def evaluate_on(
        self, images: PathLike, labels: LabelsLike | None = None, **options: Unpack[ReadOptions]
    ) -> reports.Evaluation:
        """Score the current model on pictures from outside the collection, which is not changed.

        Pictures that are in the collection, by content, are not scored. Parameters and options are those of
        :meth:`fit`: ``file_column``, ``grade_column``, ``strict``, ``n_jobs`` and ``progress``. Without labels the
        folders are the grades.
        """
        from ordrank.collection.evaluate import evaluate_pictures

        return evaluate_pictures(self.directory, self._live.current(), Path(images), labels, **options)

    def quality(self) -> QualityReport:
        """Return errors, confusions and calibration of the estimates of graded pictures, and past trainings."""
        return self._quality.current()

    def doctor(self, *, progress: Progress = no_progress) -> reports.DoctorReport:
        """Look for grades that are probably wrong, near copies, and pictures unlike the others; nothing is changed."""
        return self._doctor.report(progress)

    def check(self, *, repair: bool = False, progress: Progress = no_progress) -> CheckReport:
        """Verify the database, each row of it, the model and network, and the files of pictures.

        Nothing is changed, but that ``repair`` first rebuilds the indexes of the database from its rows. Raise
        CollectionError if the database is damaged so that it cannot be opened, or that it has other damage as well.
        """
        from ordrank.collection.check import check_collection

        return check_collection(self.directory, progress, repair=repair)

    @staticmethod
    def check_report_file(out: PathLike) -> None:
        """Raise InputError if :meth:`write_report` cannot write there, or would replace anything but a report."""
        html_report.check_report_file(Path(out))

    def write_report(self, results: Sequence[RankResult], out: PathLike) -> None:
        """Write results as one self-contained HTML page; only an earlier report is replaced."""
        html_report.write_report(self.directory, results, Path(out))
