"""Every constant that shapes the default model, with the evidence for it or what it is for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Defaults:
    """Constants of :class:`~ordrank.OrdinalMetric` and of the votes of :class:`~ordrank.OrdinalRanker`.

    "Development splits" are UMIST and FG-NET splits of seeds 77 and 2015, the first hold-outs of the tables and
    RetinaMNIST, of which test errors were seen; docs/comparison.md lists what was settled on which data.
    "Without: +14 % ± 5 (tae)" is the largest change of the MAE without the constant, in 20 conditions of 2 to 4
    splits each (experiments/benchmarks/results/defaults.json); other results are named by their file in that folder.
    "Not ablated": no committed measurement supports this value.
    """

    # --- hyperparameter grid -----------------------------------------------------------------------------------
    # Settled on development splits; not ablated.
    n_components: int = 2
    # Inverse squared bandwidths ω for samples of unit mean square: from nearly linear to a few neighbours. Not ablated.
    sharpnesses: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
    # Doubled up to this where the largest is best. Without: +14 % ± 5 (tae).
    max_sharpness: float = 64.0
    # Half decades; a ridge path costs one eigendecomposition however many there are. Not ablated.
    alphas: tuple[float, ...] = tuple(10.0 ** (power / 2) for power in range(-12, 1))
    # Graph weights ν besides 0, in decades. With the other pictures unlabelled the MAE on UMIST falls from
    # .335/.203/.138 to .201/.107/.065 (ordinal_metric.json); the values of the grid are not ablated.
    nus: tuple[float, ...] = (10.0, 100.0, 1e3, 1e4)
    # Appearance weights λ, and the default, settled on development splits; not ablated.
    localities: tuple[float, ...] = (0.0, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
    locality: float = 0.2
    # Doubled up to this where the largest λ is best, as for digits, which are classes. Without: +21 % ± 11 (digits).
    max_locality: float = 8.0
    # Relative increase of the MAE accepted for a larger λ, which keeps similar samples together inside a
    # grade. Without: within noise.
    locality_tolerance: float = 0.05

    # --- kernel, graph, discriminant metric --------------------------------------------------------------------
    # Linear part of the kernel (development splits): a Gaussian alone returns to the mean away from the data. Without:
    # within noise (largest +16 % ± 16).
    linear_weight: float = 0.25
    # Mutual neighbours of the graph, settled on UMIST splits of seeds 909 and 910; not ablated.
    graph_neighbors: int = 4
    # Strengths and decay of the discriminant metric, which as a whole changes the MAE by -2 to -5 % on UMIST, -8 to
    # -13 % on car, -5 to -7 % on digits, within noise on FG-NET and the other tables (discriminant.json). The three
    # values are not ablated one by one.
    discriminant_within: float = 10.0
    discriminant_between: float = 30.0
    discriminant_power: int = 6

    # --- votes -------------------------------------------------------------------------------------------------
    # A third of the samples vote, at most 101, or one of the smaller numbers; settled on RetinaMNIST, not ablated.
    samples_per_neighbor: int = 3
    max_neighbors: int = 101
    fewer_neighbors: tuple[int, ...] = (1, 3, 7, 15, 31, 51)
    # A candidate replaces the default only if its MAE is lower by this many standard errors. For robustness: the best
    # of many candidates looks better than it is. Settled on RetinaMNIST, not ablated.
    standard_errors: float = 3.0
    # All samples vote if held-out groups are not predicted better than by a constant by this many. For robustness;
    # settled on UMIST splits of seed 909, not ablated.
    group_standard_errors: float = 1.0
    # With fewer validation samples no difference counts. For robustness; not ablated.
    min_validation: int = 10
    # Folds for metrics without closed-form leave-one-out. Bounds the time; not ablated.
    n_folds: int = 5

    # --- predictive distribution -------------------------------------------------------------------------------
    # Largest weight s of the label frequencies. Settled on development splits of seeds 931 to 977; not ablated.
    max_frequency_weight: float = 0.5
    # Ridges of the threshold model, descending. Settled on development splits of seeds 931 and 955; not ablated.
    threshold_alphas: tuple[float, ...] = (1.0, 0.1, 0.01, 1e-3, 1e-4)
    # With more labels there is no threshold model: its time grows with their cube, and on ages its weight was 0.
    max_threshold_labels: int = 20
    # Scores of all grades count as so many samples among those of each grade: intervals of rare grades rest on these,
    # those of frequent grades on their own. Settled on test samples of seed 977 (UMIST, FG-NET, fruit, coffee-leaf) and
    # on parts of the training sets of the tables and RetinaMNIST; no committed measurement.
    pooled_scores: float = 100.0
    # Novelty is the distance in appearance to the nearest of so many neighbours. Bounds the time.
    novelty_neighbors: int = 10

    # --- model selection ---------------------------------------------------------------------------------------
    # Candidates further from the ideal positions than this times the nearest are not cross-validated by k-NN. Without:
    # within noise (largest +14 % ± 16), and more candidates to evaluate.
    max_loo_distance: float = 1.25
    # Every second ridge has its k-NN error computed: neighbouring half decades differ little. For time; not ablated.
    ridge_step: int = 2
    # The graph is used only if it lowers the leave-one-out distance by this many standard errors. For robustness; not
    # ablated.
    graph_standard_errors: float = 1.0
    # Kernels with less than this fraction of the largest posterior probability have no weight in the mean. Without:
    # within noise, and a larger model.
    min_weight: float = 0.02
    # Decides three things. Up to this many samples the map is a mean over kernels (settled on splits of seeds 909 to
    # 914), beyond, one kernel is nearly certain; k-NN errors are computed in double precision, beyond in single; and
    # every λ is evaluated on all validation samples, beyond, λ is selected by successive elimination. Without: within
    # noise (largest +5.5 % ± 5.5).
    few_samples: int = 300
    # Validation samples after which λ are eliminated. For time; not ablated.
    elimination_rounds: tuple[int, ...] = (150, 300, 600)
    # A λ other than the default is eliminated if it is worse by this many standard errors. With 3 instead, λ is larger
    # in 4 of 411 splits of ``ordrank compare`` and the MAE within noise, for more to evaluate.
    elimination_standard_errors: float = 2.0
    # Fewer unlabelled samples per labelled one than this are not worth the time of the graph. Without: no change.
    min_unlabeled: float = 0.1

    # --- limits that bound time and memory ---------------------------------------------------------------------
    # Not ablated except where stated.
    # Of more labelled (or unlabelled) samples, this many are drawn for model selection.
    selection_samples: int = 1500
    # Validation samples of the hyperparameter search. λ is selected on
    # max(validation_samples, validation_products / n).
    validation_samples: int = 300
    validation_products: int = 6_000_000
    # Up to ``selection_samples`` labelled samples, and this many with unlabelled ones, all samples are landmarks and
    # kernels are exact. Beyond, ``n_landmarks`` are drawn: 1000 of 2000 cost no MAE (ordinal_metric.json), nor do 1000
    # of 1500 of fits of 1617, 1624 and 1503 samples (digits, car, winequality-red): in 24 splits each the MAE changed
    # by -.004 ± .004, -.001 ± .001 and -.003 ± .003, the time by -30 %; no committed measurement.
    exact_samples: int = 2000
    n_landmarks: int = 1000
    # Landmarks of the search, without and with a graph.
    search_landmarks: int = 300
    search_landmarks_with_graph: int = 600
    # Of more than ``exact_samples`` samples the graph is tried with this many of the best kernels only. Without: no
    # change in the conditions of defaults.json, which are smaller.
    kernels_with_graph: int = 3
    max_unlabeled: int = 4000
    # With a graph or a local term, up to this many samples BLAS threads wait for each other longer than they compute;
    # without, always.
    single_thread_samples: int = 1000


DEFAULTS = Defaults()
