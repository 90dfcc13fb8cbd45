"""The default model: an ordinal map plus a weighted original distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ordrank._protocols import Array, FloatArray, IntArray
from ordrank.backend import backend_of
from ordrank.errors import InputError
from ordrank.estimators._base import BaseMetric
from ordrank.estimators._defaults import DEFAULTS, Defaults
from ordrank.estimators._label_positions import LabelPositions, positions_from_distances, positions_from_values
from ordrank.estimators._linear import MahalanobisDistance
from ordrank.estimators._ordinal.embedding import OrdinalEmbedding
from ordrank.estimators._ordinal.fit import FitOptions, OrdinalFit, fit_embedding
from ordrank.estimators._ordinal.solve import LocalTermOptions
from ordrank.estimators._ordinal.training_data import InMemoryData, TrainingData
from ordrank.estimators._validation import (
    apply_weights,
    check_choice,
    check_components,
    check_device,
    check_flag,
    check_groups,
    check_integer,
    check_number,
    check_training_data,
    check_unlabeled,
    is_auto,
)


@dataclass(frozen=True)
class EmbeddedDistance:
    """Picklable distance function of two vectors by an ordinal embedding."""

    embedding: OrdinalEmbedding

    def __call__(self, u: ArrayLike, v: ArrayLike) -> float:
        """Return the distance between u (d,) and v (d,)."""
        A, B = (np.asarray(x, dtype=np.float64)[None] for x in (u, v))
        return float(self.embedding.distances(A, B)[0])


class OrdinalMetric(BaseMetric):
    r"""Metric that orders samples by their label and, inside a label, by similarity.

    .. math:: d^2(x, x') = \|f(x) - f(x')\|^2 + \lambda^2\|x - x'\|^2

    The ordinal map f sends samples to the ideal positions y of their labels, found by classical MDS [4]_ of the label
    distances \|a - b\| + β. It is linear, or linear in the features of a kernel, and minimises for samples and
    positions of unit mean square

    .. math:: \frac1{2n}\sum_i\|f(x_i) - y_i\|^2
              + \frac{\alpha t}2\left(\|f\|^2 + \nu\,\mathrm{tr}(Z^TGZ)\right)
              + \frac\mu P\sum_p\left(\|f(x_i) - f(x_j)\|^2 - \tau\|x_i - x_j\|^2\right)^2 .

    G is the Laplacian of the neighbour graph of labelled and unlabelled samples [2]_, Z the values of f at them before
    centring, and p runs over the P pairs of target neighbours. t is the mean square of the features in which the
    middle term is a ridge, so that α and ν are dimensionless. With μ = 0 the solution and its leave-one-out errors
    have a closed form [5]_, by which everything set to ``"auto"`` is selected inside the training set. Up to 300
    samples f is a mean over kernels, weighted by their posterior probability. Up to 1500 samples the inputs of kernels
    are rescaled by a local discriminant metric [1]_. Of more samples 1500 are drawn for model selection and all are
    fitted, one block at a time: X is never copied as a whole and may be a ``numpy.memmap``, except with μ > 0. Kernels
    are exact up to 1500 labelled samples, and 2000 with unlabelled ones; beyond they have landmarks [3]_, the drawn
    samples or, above 2000, 1000 of them. ``transform`` returns f in the first s columns and, if λ > 0, λ times the
    normalised samples in d more.

    Parameters
    ----------
    n_components : int, optional
        Dimension s of the ordinal map; by default 2, or 1 for two labels.
    beta : float, default=1.0
        β, added to the distance of different labels, in units of the standard deviation of the labels. 0 puts the
        labels on a line (regression), large values make them equidistant (classification).
    alpha : float or "auto", default="auto"
        α, the ridge relative to the mean square of the features.
    mu : float, default=0.0
        μ, the weight of the local term, which keeps distances of target neighbours in f as well. What is ``"auto"``
        is then selected as for 0.
    locality : float or "auto", default="auto"
        λ, the appearance weight: how much the original distance counts.
    n_neighbors : int, default=5
        Target neighbours of each sample, for the local term.
    discriminant : bool, default=True
        Whether to rescale the inputs of kernels, for at most 1500 samples, so that samples of different labels are
        further apart, see :func:`~ordrank.kernel_ridge.local_discriminant_metric`.
    kernel : {"auto", "linear", "rbf"}, default="auto"
        ``"rbf"`` is a Gaussian plus a linear part, see :class:`~ordrank.kernel_ridge.KernelMap`.
    sharpness : float or "auto", default="auto"
        Inverse squared bandwidth of the Gaussian; with 1 it falls to 1/e at the typical distance of two samples.
    nu : float or "auto", default="auto"
        ν, the weight of the graph relative to the ridge, for a fit with unlabelled samples. ``"auto"`` uses the graph
        only if it lowers the leave-one-out error.
    tau : float, default=1.0
        τ, the fraction of their squared distance that target neighbours should keep in f.
    class_weight : {"balanced"}, optional
        Give every label the same total weight.
    label_distances : array-like of shape (m, m), optional
        Distances between the m distinct labels in ascending order, instead of \|a - b\| + β.
    repair : {"error", "cailliez", "nearest"}, default="error"
        What to do if the given label distances are not Euclidean.
    max_iter, tol : int and float, default=200 and 1e-6
        Of the solver, used for μ > 0 only.
    random_state : int, RandomState or None, default=0
        Draws landmarks and validation samples where there are more than a few hundred.
    device : {None, "cpu", "cuda"}, default=None
        Where ``fit`` computes with all samples; None is the device of X. Model selection, on at most 1500 samples, and
        the graph run on the CPU.

    Attributes
    ----------
    ordinal_embedding_ : OrdinalEmbedding
        The learned map: frozen, without dependence on scikit-learn, with its arrays on the device of X.
    kernel_, sharpness_, alpha_, nu_, locality_, n_components_
        Selected or given values; for a mean over kernels, of the Gaussian with the largest weight. Above 1500
        samples ``alpha_`` is relative to the features of all samples.
    candidates_ : list of Candidate
        All hyperparameters that were scored, with score, leave-one-out distance, MAE and weight in the map.
    loo_neighbors_ : HeldOutNeighbors or None
        Leave-one-out neighbours, by rows of X: the nearest neighbours of training samples of positive weight, each
        held out of the fit, alone or with its group, among all of them or among 1500 that were drawn. None if μ > 0.
        Like all selection they are without discriminant rescaling, which depends on every label.
    loo_positions_ : ndarray of shape (n, s), or None
        The ordinal map at the training samples, each held out of the fit, alone or with its group: independent of its
        own label. Also without rescaling. None if μ > 0 or there are more than 1500 samples.
    mean_, scale_ : ndarray of shape (d,) and float
        Mean and root mean square of the training samples, by which samples are normalised.
    labels_, label_positions_ : ndarray of shape (m,) and (m, s)
        Distinct labels and their ideal positions.
    components_ : ndarray of shape (s + d, d), or (s, d) if λ = 0
        Of a linear map only: ``transform`` is the product with it, up to a constant.
    label_repair_, negative_mass_
        What was changed in ``label_distances``, and the part of them that no points can realise; None without.
    objective_, n_iter_, stop_reason_, history_
        Value of the objective, and the solver's run.
    n_features_in_ : int
        Number of features; ``feature_names_in_`` if X had names.

    References
    ----------
    .. [1] T. Hastie and R. Tibshirani, "Discriminant adaptive nearest neighbor classification", IEEE TPAMI 18(6), 1996.
    .. [2] M. Belkin, P. Niyogi and V. Sindhwani, "Manifold regularization", JMLR 7, 2006.
    .. [3] C. Williams and M. Seeger, "Using the Nyström method to speed up kernel machines", NIPS 2001.
    .. [4] W. Torgerson, "Multidimensional scaling: I. Theory and method", Psychometrika 17(4), 1952.
    .. [5] G. Golub, M. Heath and G. Wahba, "Generalized cross-validation as a method for choosing a good ridge
           parameter", Technometrics 21(2), 1979.

    Examples
    --------
    >>> import numpy as np
    >>> from ordrank import OrdinalMetric
    >>> rng = np.random.default_rng(0)
    >>> X, grade = rng.normal(size=(60, 8)), np.repeat([1, 2, 5], 20)
    >>> X[:, 0] += grade
    >>> metric = OrdinalMetric().fit(X, grade)
    >>> metric.n_components_, metric.transform(X).shape
    (2, (60, 10))
    """

    _defaults: ClassVar[Defaults] = DEFAULTS

    def __init__(
        self,
        n_components: int | None = None,
        *,
        beta: float = 1.0,
        alpha: float | Literal["auto"] = "auto",
        mu: float = 0.0,
        locality: float | Literal["auto"] = "auto",
        n_neighbors: int = 5,
        discriminant: bool = True,
        kernel: Literal["auto", "linear", "rbf"] = "auto",
        sharpness: float | Literal["auto"] = "auto",
        nu: float | Literal["auto"] = "auto",
        tau: float = 1.0,
        class_weight: Literal["balanced"] | None = None,
        label_distances: ArrayLike | None = None,
        repair: Literal["error", "cailliez", "nearest"] = "error",
        max_iter: int = 200,
        tol: float = 1e-6,
        random_state: Any = 0,
        device: str | None = None,
    ) -> None:
        self.n_components = n_components
        self.beta = beta
        self.alpha = alpha
        self.mu = mu
        self.locality = locality
        self.n_neighbors = n_neighbors
        self.discriminant = discriminant
        self.kernel = kernel
        self.sharpness = sharpness
        self.nu = nu
        self.tau = tau
        self.class_weight = class_weight
        self.label_distances = label_distances
        self.repair = repair
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.device = device

    def fit(
        self,
        X: ArrayLike | Array,
        y: ArrayLike | Array,
        unlabeled: ArrayLike | Array | None = None,
        sample_weight: ArrayLike | Array | None = None,
        groups: ArrayLike | Array | None = None,
    ) -> Self:
        """Learn the metric; if that fails, the estimator does not change.

        Parameters
        ----------
        X : array-like or tensor of shape (n, d)
            Samples. They are scaled as a whole, so only proportions between features matter.
        y : array-like or tensor of shape (n,)
            Ordered labels: numbers, whose gaps count, or an ordered pandas categorical.
        unlabeled : array-like or tensor of shape (n_unlabeled, d), optional
            Samples without labels, used if they lower the error; at most 4000, drawn at random. Fewer than a tenth of
            the labelled ones are ignored.
        sample_weight : array-like or tensor of shape (n,), optional
            Weights of the samples in the objective and in the scores of candidates. MAEs and the leave-one-out
            distances in ``candidates_`` are unweighted. Samples of weight 0 are ignored.
        groups : array-like or tensor of shape (n,), optional
            Group of each sample, numbers or words, if samples of a group are dependent and queries will be of other
            groups (patients, people): groups are then held out as a whole.

        Returns
        -------
        self
        """
        self._check_parameters()
        checked = type(self)(**self.get_params(deep=False))  # records the features; self stays as it was
        samples, labels = check_training_data(checked, X, y, self.device)
        n_samples = len(samples)
        groups = None if groups is None else check_groups(groups, samples)
        samples, labels, weights, rows = apply_weights(
            samples, labels.on_host(), sample_weight, balanced=self.class_weight == "balanced"
        )
        if groups is not None and len(rows) < len(groups):
            groups = check_groups(groups[rows], samples)
        others = check_unlabeled(checked, unlabeled, backend_of(samples).to_numpy(samples[:0]))
        label_weights = np.bincount(labels.index, weights).astype(np.float64)
        positions = self._label_positions(labels.distinct, label_weights, samples.shape[1])
        linear, few = self.kernel != "rbf", self._defaults.selection_samples
        data = InMemoryData.measure(samples, labels.index, positions.points, weights, linear=linear, few=few)
        fit = self._fit_embedding(data, labels.distinct, others, groups)
        return self._keep(fit.with_rows_of(rows, n_samples), labels.distinct, positions, X)

    def get_mahalanobis_matrix(self) -> Array:
        """Return A with d² = (x - x′)ᵀA(x - x′), of shape (d, d); raise InputError for a kernel map, which has none."""
        check_is_fitted(self)
        if self.kernel_ != "linear":
            raise InputError(
                "a kernel map has no Mahalanobis matrix; use transform or pair_distance, or fit with kernel='linear'"
            )
        return self.components_.T @ self.components_

    def get_metric(self) -> EmbeddedDistance | MahalanobisDistance:
        """Return the learned distance as a function of two vectors."""
        check_is_fitted(self)
        if self.kernel_ == "rbf":
            return EmbeddedDistance(self.ordinal_embedding_)
        L = self.components_
        return MahalanobisDistance(backend_of(L).to_numpy(L))

    @property
    def components_(self) -> Array:
        """Rows of the ordinal map, then, if λ > 0, λ / scale times the identity; only of a linear map."""
        return self.ordinal_embedding_.components

    def _check_parameters(self) -> None:
        check_device(self.device)
        if self.n_components is not None:
            check_integer("n_components", self.n_components, minimum=1)
        check_integer("n_neighbors", self.n_neighbors, minimum=1)
        check_integer("max_iter", self.max_iter, minimum=1)
        for name in ("beta", "mu", "tau", "tol"):
            check_number(name, getattr(self, name), at_least=0)
        for name in ("alpha", "sharpness", "nu", "locality"):
            bound = "above" if name in ("alpha", "sharpness") else "at_least"
            if not is_auto(getattr(self, name)):
                check_number(name, getattr(self, name), **{bound: 0.0})
        check_choice("kernel", self.kernel, ("auto", "linear", "rbf"))
        check_flag("discriminant", self.discriminant)
        if self.kernel == "linear" and not is_auto(self.sharpness):
            raise InputError("sharpness belongs to a kernel; use kernel='rbf', or leave it at 'auto'")
        check_choice("repair", self.repair, ("error", "cailliez", "nearest"))
        if self.class_weight is not None:
            check_choice("class_weight", self.class_weight, ("balanced",))

    def _label_positions(self, labels: FloatArray, weights: FloatArray, n_features: int) -> LabelPositions:
        """Return ideal positions of the labels, of weighted mean square 1; zero in dimensions they do not fill."""
        most = len(labels) - 1
        n_components = self.n_components or min(self._defaults.n_components, most)
        check_components(n_components, len(labels), n_features)
        filled = min(n_components, most)
        if self.label_distances is None:
            positions = positions_from_values(labels, filled, self.beta, weights)
        else:
            positions = positions_from_distances(self.label_distances, filled, weights, self.repair)
        return positions.normalized(weights, n_components)

    def _fit_embedding(
        self, data: TrainingData, labels: FloatArray, unlabeled: NDArray[np.floating], groups: IntArray | None = None
    ) -> OrdinalFit:
        local = LocalTermOptions(self.mu, self.tau, self.n_neighbors, self.max_iter, self.tol)
        options = FitOptions(self.kernel, self.sharpness, self.alpha, self.nu, self.locality, self.discriminant, local)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        fit = fit_embedding(data, labels, options, unlabeled, rng, self._defaults, groups)
        self._warn_unless_converged(fit.solution, "Raise max_iter, or lower mu.")
        return fit

    def _keep(self, fit: OrdinalFit, labels: FloatArray, positions: LabelPositions, X: Any) -> Self:
        """Set all fitted attributes, with the feature names and the device of X."""
        validate_data(self, X, skip_check_array=True)  # sets n_features_in_ and feature_names_in_
        self.ordinal_embedding_ = fit.embedding.to_device_of(X)
        self.labels_, self.label_positions_ = labels, positions.points
        self.label_repair_, self.negative_mass_ = positions.repair, positions.negative_mass
        self.mean_, self.scale_ = self.ordinal_embedding_.mean, fit.embedding.scale
        self.n_components_, self.locality_ = fit.embedding.n_components, fit.embedding.locality
        selected = fit.hyperparameters
        self.kernel_ = "linear" if selected.sharpness is None else "rbf"
        self.sharpness_, self.nu_, self.alpha_ = selected.sharpness, selected.nu, selected.alpha
        self.candidates_, self.loo_neighbors_ = fit.candidates, fit.loo_neighbors
        self.loo_positions_ = fit.loo_positions
        self._record(fit.solution)
        return self

    def _embed(self, X: Array) -> Array:
        return self.ordinal_embedding_.transform(X)

    def _distances(self, A: Array, B: Array) -> Array:
        return self.ordinal_embedding_.distances(A, B)

    @property
    def _n_features_out(self) -> int:
        return self.ordinal_embedding_.n_features_out
