"""A pretrained network, fine-tuned on ordered labels."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ordrank._format import format_duration, pluralize
from ordrank._protocols import FloatArray, GradedPictures, IntArray, Progress, no_progress
from ordrank.deep.backbones import Backbone, load_backbone
from ordrank.deep.checkpoints import Checkpoints
from ordrank.deep.embedding import NetworkEmbedding, held_out_outputs, relative_weight
from ordrank.deep.images import AUGMENTATIONS, Images
from ordrank.deep.initialization import neighbor_table, read_pictures, second_stage, unfitted_model, with_ridge_layer
from ordrank.deep.losses import LOSSES, make_loss
from ordrank.deep.samples import check_labels, split_folds
from ordrank.deep.selection import minutes_each, score_candidates
from ordrank.deep.training import (
    TIMED_STEPS,
    Model,
    Schedule,
    TrainingSet,
    digest_of,
    memory_errors,
    seconds_per_step,
    train,
)
from ordrank.errors import InputError
from ordrank.estimators._labels import OrdinalLabels
from ordrank.estimators._validation import check_choice, check_flag, check_integer, check_number
from ordrank.estimators.ranker import OrdinalRanker
from ordrank.features._runtimes import check_torch_device
from ordrank.features.onnx_graph import write_graph
from ordrank.features.preprocessing import Preprocessing

# With 27 passes instead of 13 held-out errors were 7 % (FG-NET), 3 % (UTKFace) and 2 % (coffee-leaf) lower, on one
# development split of each; a run takes twice as long.
_EPOCHS = 20
_MIN_STEPS, _MAX_STEPS = 100, 1250


@dataclass(frozen=True)
class _Trained:
    embedding: NetworkEmbedding
    losses: list[list[float]]
    outputs: NDArray[np.float32]
    features: NDArray[np.float32]


class OrdinalNetwork(TransformerMixin, BaseEstimator):
    """cMDS-DML with a network in place of the linear map.

    A picture x is mapped to [z(x), λ c f₀(x)]. The outputs z = L f(x) of a fine-tuned network f order the labels; the
    features f₀ of the network before training keep together what looks alike within a label, and c is the ratio of
    the root mean square distances of both. All weights of f and L are trained on

        mean ‖z(x_i) - p(y_i)‖² + μ · mean over target neighbours (‖f(x_i) - f(x_j)‖² - δ_ij²)² / mean(δ²)²,

    where p are the positions of the labels by classical MDS, target neighbours are the nearest pictures with the same
    label before training, and δ are their distances then. L starts from a ridge regression on the pretrained features.

    The network that maps new pictures is trained on all pictures. ``n_folds`` others are trained before it, each
    without one fold: :class:`ordrank.OrdinalRanker`, which predicts from the mapped pictures, is fitted to the outputs
    that each training picture has in the network that has not seen it, so that its intervals and leave-one-out
    estimates are as wide and as wrong as those of new pictures.

    Parameters
    ----------
    backbone : str, default="efficientnet-lite0"
        Or ``efficientnet-lite2``, ``timm:NAME``, ``timm:NAME@FILE``.
    loss : {"cmds", "regression", "coral", "cross-entropy", "rank-n-contrast"}, default="cmds"
        In place of the first term.
    mu : float, default=0.1
        μ, the weight of the second term.
    locality : float, default=4
        λ, the appearance weight.
    n_neighbors : int, default=5
        Target neighbours of each picture.
    n_folds : int, default=3
        With one, the ranker is fitted to outputs for pictures that the network has seen: far too sure of itself.
    epochs : float, default=20
        Passes of each network over its pictures, but at least 100 and at most 1250 batches.
    steps : int, optional
        Batches of each network, in place of ``epochs``.
    minutes : float, optional
        Limit of the time that the training takes, about: with a smaller number of steps if need be.
    batch_size : int, default=32
    backbone_rate, head_rate : float, default=3e-4 and 1e-3
        Highest learning rates of the pretrained network and of the linear map.
    image_size : int, optional
        Side of the pictures for the network; by default that of its pretraining.
    augmentation : {"none", "light", "strong"}, default="strong"
        How far pictures are varied at random in training: zoomed, turned, shifted, mirrored and changed in brightness.
    flip : bool, default=True
        Whether a mirrored picture has the same label.
    select : dict or list of dict, optional
        Values of ``loss``, ``augmentation``, ``epochs`` and others to choose from, as for scikit-learn's
        ParameterGrid. Each candidate is trained on three quarters of the pictures (whole groups); the one with the
        lowest mean absolute error of its outputs on the others is used, in doubt the parameters of the network.
    device : {"cpu", "cuda"}, default="cpu"
    random_state : int, default=0
        The same number gives the same network on the same machine.
    checkpoints : path, optional
        Folder from whose files an interrupted fit continues. They are deleted when the fit is complete.
    progress : callable, optional
        Called with a stage, the number of items done and their total.

    Attributes
    ----------
    ranker_ : OrdinalRanker
        Fitted to ``features_``.
    outputs_ : ndarray of shape (n, s)
        z of the training pictures, each by the network that has not seen it.
    features_ : ndarray of shape (n, s + dim)
        The training pictures, mapped with these outputs.
    embedding_ : NetworkEmbedding
        The map; frozen.
    losses_ : list of list of float
        Of each batch of each network; the last is the one that is used.
    selection_ : list of dict
        ``parameters`` and ``error`` of each candidate of ``select``, first those of the network.
    best_params_ : dict
        The parameters that were chosen; empty without ``select``.

    References
    ----------
    P. Yu and Q. Li, "Ordinal distance metric learning with MDS for image ranking". D. Wolpert, "Stacked
    generalization", Neural Networks 5(2), 1992, for the outputs of held-out samples.

    Examples
    --------
    >>> from ordrank.deep import OrdinalNetwork
    >>> network = OrdinalNetwork("efficientnet-lite2", device="cuda")
    >>> network.fit(files, ages).predict(other_files)  # doctest: +SKIP
    """

    def __init__(
        self,
        backbone: str = "efficientnet-lite0",
        *,
        loss: str = "cmds",
        mu: float = 0.1,
        locality: float = 4.0,
        n_neighbors: int = 5,
        n_folds: int = 3,
        epochs: float = _EPOCHS,
        steps: int | None = None,
        minutes: float | None = None,
        batch_size: int = 32,
        backbone_rate: float = 3e-4,
        head_rate: float = 1e-3,
        image_size: int | None = None,
        augmentation: str = "strong",
        flip: bool = True,
        select: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]] | None = None,
        device: str = "cpu",
        random_state: int = 0,
        checkpoints: str | Path | None = None,
        progress: Progress = no_progress,
    ) -> None:
        self.backbone = backbone
        self.loss = loss
        self.mu = mu
        self.locality = locality
        self.n_neighbors = n_neighbors
        self.n_folds = n_folds
        self.epochs = epochs
        self.steps = steps
        self.minutes = minutes
        self.batch_size = batch_size
        self.backbone_rate = backbone_rate
        self.head_rate = head_rate
        self.image_size = image_size
        self.augmentation = augmentation
        self.flip = flip
        self.select = select
        self.device = device
        self.random_state = random_state
        self.checkpoints = checkpoints
        self.progress = progress

    def fit(
        self,
        images: Images | GradedPictures,
        y: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        unlabeled: Images | None = None,
    ) -> Self:
        """Train the networks, and fit the ranker to their features.

        Parameters
        ----------
        images : sequence of paths, of uint8 arrays of shape (height, width, 3), or a Collection
            A collection also has labels and groups.
        y : array-like of shape (n,)
            Numbers, or an ordered pandas categorical.
        groups : array-like of shape (n,), optional
            What a picture shows, such as the person: pictures of one group are held out together.
        unlabeled : sequence, optional
            Images without labels, for the ranker.
        """
        if isinstance(images, GradedPictures):
            found = images.training_files()
            images, y, groups = found.graded, found.grades, found.groups
            unlabeled = found.ungraded if unlabeled is None else unlabeled
        checkpoints = self.fit_networks(images, y, groups)
        extra = None if unlabeled is None or len(unlabeled) == 0 else self.transform(unlabeled)
        with memory_errors(self.device):
            self.ranker_ = OrdinalRanker().fit(self.features_, y, extra, groups)
        checkpoints.delete()
        return self

    def fit_networks(self, images: Images, y: ArrayLike | None, groups: ArrayLike | None = None) -> Checkpoints:
        """Train the networks alone, for features; see :meth:`fit`.

        Returns
        -------
        Checkpoints
            Of the complete networks, until they are deleted: another call with the same arguments trains nothing.
        """
        self.check_parameters()
        labels = check_labels(images, y)
        parts = split_folds(labels, groups, self.n_folds, self.random_state)
        network, self.selection_, self.best_params_ = self, [], {}
        if self.select is not None:
            self.selection_ = score_candidates(self, images, labels, groups)
            best = min(self.selection_, key=itemgetter("error"))  # the first of equal ones
            self.best_params_ = best["parameters"]
            each = minutes_each(self, len(self.selection_))
            minutes = None if each is None else each * self.n_networks
            network = self.variant(**self.best_params_, select=None, minutes=minutes)
        trained = network._train_all(images, labels, parts)
        self.embedding_, self.losses_ = trained.embedding, trained.losses
        self.outputs_, self.features_, self._labels = trained.outputs, trained.features, labels
        return self.checkpoint_files

    def _train_all(self, images: Images, labels: OrdinalLabels, parts: Sequence[tuple[IntArray, IntArray]]) -> _Trained:
        """Train a network on each part, and map the pictures."""
        with memory_errors(self.device):
            backbone = load_backbone(self.backbone, self.image_size)
            backbone.module.eval().to(self.device, memory_format=torch.channels_last)
            preprocessing = backbone.preprocessing
            side, index = preprocessing.side, torch.from_numpy(labels.index).to(self.device)
            pictures = torch.zeros((len(images), 3, side, side), dtype=torch.uint8, device=self.device)
            # Before the pictures are read, which may take long: here it turns out whether time and memory suffice.
            seconds = self._seconds_per_step(backbone, pictures, index, labels)
            steps = self._choose_steps([len(rows) for rows, _ in parts], seconds)
            frozen = read_pictures(images, backbone, pictures, self.progress)
            starts = self._starts(backbone, pictures, index, frozen, labels, parts)
            losses = self._train(starts, preprocessing, steps, seconds)
            models: Sequence[Model] = [model for model, _ in starts]
            if self.loss == "rank-n-contrast":
                models = second_stage(models, images, labels.index, preprocessing, parts)
            outputs = held_out_outputs(models, images, preprocessing, parts)
            weight = self.locality * relative_weight(outputs, frozen)
            tuned = models[-1].requires_grad_(False)
            embedding = NetworkEmbedding(tuned, backbone.module, preprocessing, weight)
            return _Trained(embedding, losses, outputs, embedding.combine(outputs, frozen))

    def variant(self, **parameters: Any) -> Self:
        """Return an unfitted network with other parameters."""
        return type(self)(**{**self.get_params(deep=False), **parameters})

    @property
    def checkpoint_files(self) -> Checkpoints:
        """Files from which an interrupted fit continues."""
        return Checkpoints(self.checkpoints, self.n_networks)

    @property
    def n_networks(self) -> int:
        """Number of networks that are trained."""
        return self.n_folds + (self.n_folds > 1)

    def check_export(self) -> None:
        """Raise InputError if the backbone cannot be written in the ONNX format, before it is trained for long."""
        from ordrank.deep.onnx_export import export_backbone

        self.check_parameters()
        backbone = load_backbone(self.backbone, self.image_size)
        export_backbone(self.backbone, backbone.module, backbone.preprocessing)

    def transform(self, images: Images) -> NDArray[np.float32]:
        """Return mapped pictures, float32 (n, s + dim): outputs of the network, then pretrained features."""
        check_is_fitted(self, "embedding_")
        with memory_errors(self.device):
            return self.embedding_.transform(images)

    def predict(self, images: Images) -> NDArray[Any]:
        """Return the estimated label of each picture, (n,): the median of its distribution."""
        return self._fitted_ranker().predict(self.transform(images))

    def predict_proba(self, images: Images) -> FloatArray:
        """Return the probabilities (n, m) of the labels, ``ranker_.classes_``."""
        return self._fitted_ranker().predict_proba(self.transform(images))

    def predict_interval(self, images: Images, coverage: float = 0.9) -> NDArray[Any]:
        """Return the lowest and the highest label (n, 2) of prediction intervals."""
        return self._fitted_ranker().predict_interval(self.transform(images), coverage)

    def predict_from_outputs(self, images: Images) -> NDArray[Any]:
        """Return the estimates of the network's own outputs, (n,)."""
        check_is_fitted(self, "embedding_")
        with memory_errors(self.device):
            values = self.embedding_.decode(self.embedding_.outputs(images))
        return self._labels.decode(values.astype(np.float64))

    def outputs_to_onnx(self, metadata: dict[str, str] | None = None) -> bytes:
        """Return the fine-tuned network in the ONNX format, for ``onnx:FILE``: pictures in, outputs z out.

        Its preprocessing is in the metadata; so are the given texts, by name.
        """
        from ordrank.deep.onnx_export import export_outputs

        check_is_fitted(self, "embedding_")
        return export_outputs(self.backbone, self.embedding_, metadata or {})

    def to_onnx(self, file: str | os.PathLike[str], *, coverage: float = 0.9) -> None:
        """Write preprocessing, networks and ranker as one file in the ONNX format: a picture in, its grade out.

        The input is ``picture``, uint8 (height, width, 3): one upright RGB picture of any size. The outputs are
        float32: ``features`` (1, s + dim) of :meth:`transform`, and ``embedding``, ``probabilities``, ``grade`` and
        ``interval`` as of :meth:`OrdinalRanker.to_onnx`, which also describes the metadata. There are
        ``ordrank.preprocessing`` and ``ordrank.backbone`` too. ``onnx:FILE`` takes the features. Needs the package
        onnx, and for networks of timm onnxscript.

        Parameters
        ----------
        file : path
            Written as a whole, or not at all; an existing file is replaced.
        coverage : float, default=0.9
            Of the intervals, between 0 and 1.
        """
        from ordrank.deep.onnx_export import export_network

        ranker = self._fitted_ranker()
        write_graph(file, lambda: export_network(self.backbone, self.embedding_, ranker, coverage))

    def _fitted_ranker(self) -> OrdinalRanker:
        check_is_fitted(self, "ranker_")
        return self.ranker_

    def check_parameters(self) -> None:
        """Raise InputError if a parameter is wrong."""
        check_choice("loss", self.loss, LOSSES)
        check_choice("augmentation", self.augmentation, AUGMENTATIONS)
        check_choice("device", self.device, ("cpu", "cuda"))
        check_number("mu", self.mu, at_least=0)
        check_number("locality", self.locality, at_least=0)
        check_number("backbone_rate", self.backbone_rate, at_least=0)
        check_number("head_rate", self.head_rate, above=0)
        check_number("epochs", self.epochs, above=0)
        if self.minutes is not None:
            check_number("minutes", self.minutes, above=0)
        for name, minimum in {"n_neighbors": 1, "n_folds": 1, "batch_size": 2, "random_state": 0}.items():
            check_integer(name, getattr(self, name), minimum=minimum)
        for name, minimum in {"steps": 1, "image_size": 32}.items():
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), minimum=minimum)
        check_flag("flip", self.flip)
        check_torch_device(self.device)

    def _seconds_per_step(self, backbone: Backbone, pictures: Tensor, index: Tensor, labels: OrdinalLabels) -> float:
        self.progress("measuring the time of a batch", 0, 0)
        loss = make_loss(self.loss, labels.distinct, labels.index)
        model = unfitted_model(backbone, loss, np.zeros((1, backbone.dim)))
        schedule = self._schedule(TIMED_STEPS)
        return seconds_per_step(model, pictures, index, backbone.preprocessing, schedule, device=self.device)

    def _starts(
        self,
        backbone: Backbone,
        pictures: Tensor,
        index: Tensor,
        frozen: FloatArray,
        labels: OrdinalLabels,
        parts: Sequence[tuple[IntArray, IntArray]],
    ) -> list[tuple[Model, TrainingSet]]:
        """Return the model before training and the training set of each network."""
        digest = "" if self.checkpoints is None else digest_of(pictures)
        starts = []
        for rows, _ in parts:
            neighbors, distances = neighbor_table(frozen[rows], labels.index[rows], self.n_neighbors)
            unit = float(distances.mean()) or 1.0
            data = TrainingSet(pictures, index, rows, neighbors, distances, unit, digest)
            model = unfitted_model(backbone, make_loss(self.loss, labels.distinct, labels.index, rows), frozen)
            starts.append((with_ridge_layer(model, frozen[rows], labels.index[rows]), data))
        return starts

    def _schedule(self, steps: int) -> Schedule:
        rates, strength = (self.backbone_rate, self.head_rate), AUGMENTATIONS[self.augmentation]
        return Schedule(steps, self.batch_size, *rates, self.mu, self.random_state, self.flip, strength)

    def _choose_steps(self, sizes: Sequence[int], seconds: float) -> list[int]:
        """Return the number of steps of each network, by its number of images; fewer if they would take too long."""
        steps = [self.steps or int(np.clip(self.epochs * n // self.batch_size, _MIN_STEPS, _MAX_STEPS)) for n in sizes]
        if self.minutes is not None:
            checkpoints = self.checkpoint_files  # a continued fit keeps its own number
            affordable = checkpoints.read_steps(self.minutes) or int(60 * self.minutes / seconds)
            steps = [min(number, number * affordable // sum(steps)) for number in steps]
            if min(steps) < 1:
                raise InputError(f"a batch takes {seconds:.1f} s: {self.minutes:g} minutes are too short for a network")
            checkpoints.write_steps(self.minutes, affordable)
        return steps

    def _train(
        self,
        starts: Sequence[tuple[Model, TrainingSet]],
        preprocessing: Preprocessing,
        steps: Sequence[int],
        seconds: float,
    ) -> list[list[float]]:
        """Train the networks in place, one after the other, and return the losses of each."""
        total, losses = sum(steps), list[list[float]]()
        duration = format_duration(total * seconds)
        networks, batches = pluralize(len(starts), "network"), pluralize(total, "batch", "batches")
        stage = f"training {networks} with {batches} in all, about {duration}"
        self.progress(stage, 0, 0)
        for number, (model, data) in enumerate(starts):
            trained = train(
                model,
                data,
                preprocessing,
                self._schedule(steps[number]),
                device=self.device,
                checkpoint=self.checkpoint_files.file(number),
                progress=partial(self._report_step, stage, sum(steps[:number]), total),
            )
            losses.append(trained)
        return losses

    def _report_step(self, stage: str, before: int, total: int, done: int) -> None:
        self.progress(stage, before + done, total)
