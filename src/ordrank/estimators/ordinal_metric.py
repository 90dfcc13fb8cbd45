"""The default model: an order map and as much of the original distance as the order can bear."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from ordrank._types import Array
from ordrank.backend import as_given, backend_of, is_tensor
from ordrank.errors import InputError
from ordrank.estimators.groups import number_groups
from ordrank.estimators.learned_metric import check_size, extremes
from ordrank.estimators.order_fit import OF_THE_MAP, OrderFit
from ordrank.estimators.order_map import Samples
from ordrank.estimators.parameters import (
    check_choice,
    check_device,
    check_flag,
    check_integer,
    check_number,
    is_auto,
)
from ordrank.estimators.weights import weigh_samples


class OrdinalMetric(OrderFit):
    r"""Distance that puts a sample at its grade and, inside the grade, similar samples first.

    .. math:: d^2(x, x') = \|f(x) - f(x')\|^2 + \lambda^2\|x - x'\|^2

    The order map f sends samples to the ideal positions y of their labels, found by classical MDS of the label
    distances \|a - b\| + β. It is linear or in the space of a kernel and minimises, for samples and positions of
    unit mean square,

    .. math:: \frac1{2n}\sum_i\|f(x_i) - y_i\|^2
              + \frac{\alpha t}2\left(\|f\|^2 + \nu\,\mathrm{tr}(Z^TGZ)\right)
              + \frac\mu P\sum_p\left(\|f(x_i) - f(x_j)\|^2 - \tau\|x_i - x_j\|^2\right)^2 .

    G is the Laplacian of the neighbour graph of labelled and unlabelled samples, Z the values of f at them before
    its mean is taken off, p runs over the P pairs of target neighbours. t is the mean square of the features in
    which f is linear and the middle term is a plain ridge: 1 for a linear map without graph, less with one, so that
    α and ν have a meaning of their own. With μ = 0 the solution is a closed form, and what would happen without any
    one sample is known exactly; that is how everything set to ``"auto"`` is chosen, inside the training set. Up to 300
    samples do not tell for certain which kernel is best: f is then a mean over kernels, each with the ridge that suits
    it, in proportion to how probable they are. Where there are at most 1500 samples, kernels see them through a lens,
    shaped by the differences between near samples of one grade and of different grades. Of more, 1500 are drawn to
    choose by, and all are learned from, a block at a time: X is never copied as a whole and may be a ``numpy.memmap``,
    except with μ > 0.
    ``transform`` gives f in the first s columns and λ times the samples of unit size in the other d.

    Parameters
    ----------
    n_components : int, optional
        Dimension s of the order map; by default 2, or 1 for two labels.
    beta : float, default=1.0
        Added between different labels, in units of the standard deviation of the labels. 0 makes the grades a
        line (regression), large values make them equally far from each other (classification).
    alpha : float or "auto", default="auto"
        Ridge, relative to the mean square of the features: how smooth f is.
    mu : float, default=0.0
        Weight of the local term, which asks target neighbours to keep their distances in f as well. What is
        ``"auto"`` is then chosen as for 0.
    locality : float or "auto", default="auto"
        λ: the share of the original distance.
    n_neighbors : int, default=5
        Target neighbours of each sample, for the local term.
    lens : bool, default=True
        Whether kernels see the samples, where there are at most 1500, through a lens that brings those of different
        grades further apart, see :func:`~ordrank.smoothing.lens_of`.
    kernel : {"auto", "linear", "rbf"}, default="auto"
        ``"rbf"`` is a Gaussian and a linear part, see :class:`~ordrank.smoothing.KernelMap`.
    sharpness : float or "auto", default="auto"
        Of the Gaussian: the larger, the more local. 1 means that it falls to 1/e at the typical distance of two
        samples.
    nu : float or "auto", default="auto"
        Weight of the graph relative to the ridge, for a fit with unlabelled samples. ``"auto"`` uses the graph
        only where it helps.
    tau : float, default=1.0
        Share of their squared distance that target neighbours should keep in f.
    class_weight : {"balanced"}, optional
        Let every label count the same, however many samples it has.
    label_distances : array-like of shape (m, m), optional
        Distances between the m distinct labels in rising order, instead of \|a - b\| + β.
    repair : {"error", "cailliez", "nearest"}, default="error"
        What to do with given label distances that are not Euclidean.
    max_iter, tol : int and float, default=200 and 1e-6
        Of the solver, which is needed for μ > 0 only.
    random_state : int, RandomState or None, default=0
        Draws landmarks and samples to validate on where there are more than a few hundred.
    device : {None, "cpu", "cuda"}, default=None
        Where ``fit`` goes over all samples; None is where X is. What is chosen automatically, on at most 1500 samples,
        and the graph of unlabelled ones are computed on the CPU wherever X is.

    Attributes
    ----------
    kernel_, sharpness_, alpha_, nu_, locality_, n_components_
        What was chosen, or given. Of a mean over kernels, the Gaussian with the largest share. Of more than 1500
        samples the ridge of those that were drawn serves all, and ``alpha_`` is its share of the features of all.
    candidates_ : list of Candidate
        Everything that was tried: recipe, score, leave-one-out displacement, mean error of the grades, and its share
        in the map; of more than 1500 samples on those that were drawn.
    mean_, size_ : ndarray of shape (d,) and float
        Mean and root mean square of the training samples, with which samples are brought to unit size. ``mean_`` and
        the arrays of f are tensors on the device of X if X was one.
    labels_, label_positions_ : ndarray of shape (m,) and (m, s)
        Distinct labels and their ideal positions.
    order_components_, offset_ : ndarray of shape (s, d) and (s,)
        Linear part of f: ``order_components_ @ (x - mean_) - offset_``.
    landmarks_, sharpnesses_, coefficients_ : ndarray of shape (m, d), J numbers, and ndarray of shape (J, m, s)
        Of a kernel map: for each sharpness ω the Gaussians ``exp(-ω/2 * squared_distance(x, landmarks_)) @
        coefficients_[j]`` are added, for x of unit size and, like the landmarks, through the lens.
    lens_directions_, lens_stretches_, lens_size_ : ndarray of shape (r, d) and (r,), and float
        Of a kernel map: along each of these directions the lens makes differences so many times as large, and leaves
        them as they are across; then all are divided by the size. No directions without a lens.
    neighborhoods_ : Neighborhoods
        Nearest neighbours of training samples (of those with a weight), each left out of the fit, alone or with its
        group, among all of them or among 1500 that were drawn; only if ``mu`` is 0. They, like all choices, are of a
        fit without lens: samples that have shaped it would look better than new ones.
    components_ : ndarray of shape (s + d, d)
        Of a linear map only: ``transform`` is the product with it, up to a constant.
    label_repair_, negative_mass_
        With ``label_distances``: what was changed in them, and the part of them that no points can realise.
    objective_, n_iter_, stop_reason_, history_
        Value of the objective, and what the solver did.
    n_features_in_ : int
        Number of features; ``feature_names_in_`` where X had names.

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

    def __init__(
        self,
        n_components: int | None = None,
        *,
        beta: float = 1.0,
        alpha: float | Literal["auto"] = "auto",
        mu: float = 0.0,
        locality: float | Literal["auto"] = "auto",
        n_neighbors: int = 5,
        lens: bool = True,
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
        self.lens = lens
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
        """Learn the distance.

        Parameters
        ----------
        X : array-like or tensor of shape (n, d)
            Samples; scaled here as a whole, so that only proportions between features matter.
        y : array-like or tensor of shape (n,)
            Ordered labels: numbers, whose gaps count, or an ordered pandas categorical.
        unlabeled : array-like or tensor of shape (n_unlabeled, d), optional
            More samples, without labels. Where they help, they shape the map; at most 4000, drawn at random. Fewer
            than a tenth of the labelled ones are left out.
        sample_weight : array-like or tensor of shape (n,), optional
            How much each sample counts in the map; samples of weight 0 are left out. Automatic choices weigh the
            distances from the positions, but count the mistaken grades of all samples alike.
        groups : array-like or tensor of shape (n,), optional
            To whom each sample belongs, for samples that are not independent, if queries will be of others: pictures
            of patients, where those of new patients are to be graded. Everything is then chosen as if all samples of
            a group were left out together. Numbers or words.

        Returns
        -------
        OrdinalMetric
            Itself.
        """
        self._check_parameters()
        samples, labels = self._validated(X, y, self.device)
        balanced = self.class_weight == "balanced"
        if groups is not None:
            groups = number_groups(groups, samples)
        samples, labels, weights, counted = weigh_samples(samples, labels.on_host(), sample_weight, balanced=balanced)
        others = self._validated_unlabeled(unlabeled, backend_of(samples).to_numpy(samples[:0]))
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        self.labels_ = labels.distinct
        self.label_positions_ = self._place(np.bincount(labels.index, weights).astype(np.float64))
        linear = self.kernel != "rbf"
        everything = Samples.measured(samples, labels.index, self.label_positions_, weights, linear=linear)
        self._fit_to(everything, others, rng, None if groups is None else groups[counted])
        for name in {"mean_", "offset_", *OF_THE_MAP} & vars(self).keys():
            setattr(self, name, as_given(getattr(self, name), X))
        return self

    def _check_parameters(self) -> None:
        check_device(self.device)
        if self.n_components is not None:
            check_integer("n_components", self.n_components, minimum=1)
        check_integer("n_neighbors", self.n_neighbors, minimum=1)
        check_integer("max_iter", self.max_iter, minimum=1)
        check_number("beta", self.beta, at_least=0)
        for name in ("mu", "tau", "tol"):
            check_number(name, getattr(self, name), at_least=0)
        for name, bounds in {
            "alpha": {"above": 0.0},
            "sharpness": {"above": 0.0},
            "nu": {"at_least": 0.0},
            "locality": {"at_least": 0.0},
        }.items():
            if not is_auto(getattr(self, name)):
                check_number(name, getattr(self, name), **bounds)
        check_choice("kernel", self.kernel, ("auto", "linear", "rbf"))
        check_flag("lens", self.lens)
        if self.kernel == "linear" and not is_auto(self.sharpness):
            raise InputError("sharpness is that of a kernel; use kernel='rbf', or leave it at 'auto'")
        check_choice("repair", self.repair, ("error", "cailliez", "nearest"))
        if self.class_weight is not None:
            check_choice("class_weight", self.class_weight, ("balanced",))

    def _validated_unlabeled(
        self, unlabeled: ArrayLike | Array | None, none: NDArray[np.floating]
    ) -> NDArray[np.floating]:
        """Unlabelled samples on the host, of the type of ``none`` (0, d), which is what they are by default."""
        if unlabeled is None:
            return none
        if is_tensor(unlabeled):
            unlabeled = backend_of(unlabeled).to_numpy(unlabeled)
        checks: dict[str, Any] = {"dtype": none.dtype, "ensure_min_samples": 0}
        others: NDArray[np.floating] = validate_data(self, unlabeled, reset=False, **checks)
        if len(others):
            check_size(others, extremes(others))
        return others
