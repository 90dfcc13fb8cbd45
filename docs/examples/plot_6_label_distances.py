"""
Label distances of your own, repaired
=====================================

If the gaps between grades are not what their numbers say, give ``label_distances``. Not every
matrix of distances belongs to points in a Euclidean space: below, grade 0 is farther from grade 2
than the way through grade 1. Such a matrix raises :class:`~ordrank.errors.NotEuclideanError`,
unless ``repair`` names a method to change it:

* ``"cailliez"`` adds the smallest constant to all distances that makes them Euclidean (Cailliez
  1983),
* ``"nearest"`` takes the nearest Euclidean distance matrix in Frobenius norm (Qi 2013).
"""

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np

from ordrank import CMDSMetric
from ordrank.errors import NotEuclideanError, RepairedDistancesWarning

given = np.array(
    [[0.0, 1.0, 3.0, 3.5], [1.0, 0.0, 1.0, 3.0], [3.0, 1.0, 0.0, 1.0], [3.5, 3.0, 1.0, 0.0]]
)
rng = np.random.default_rng(0)
y = np.repeat(np.arange(4), 25)
X = rng.normal(size=(100, 6))
X[:, 0] += 2 * y

options = {"n_components": 2, "solver": "fast", "scale": "fixed", "init": "lstsq", "alpha": 0.1}
try:
    CMDSMetric(**options, label_distances=given).fit(X, y)
except NotEuclideanError as error:
    print(error)

# %%
# What each repair changes, and the target positions that follow. ``negative_mass_`` is the part of
# the spectrum that was negative before: the part that no points can realise.
warnings.simplefilter("ignore", RepairedDistancesWarning)
fitted = {
    repair: CMDSMetric(**options, label_distances=given, repair=repair).fit(X, y)
    for repair in ("cailliez", "nearest")
}
colours = plt.get_cmap("viridis")(np.linspace(0, 1, 4))
figure, panels = plt.subplots(1, 3, figsize=(9.5, 3.3), layout="constrained")
for axes, (repair, metric) in zip(panels, fitted.items(), strict=False):
    positions = metric.label_positions_
    print(f"{repair}: relative change of the distances {metric.label_repair_.relative_change:.2f}")
    axes.plot(*positions.T, color="0.7", zorder=1)
    axes.scatter(*positions.T, s=180, c=colours, zorder=2)
    for grade, position in enumerate(positions):
        axes.annotate(
            str(grade), position, ha="center", va="center", color="white" if grade < 3 else "black"
        )
    axes.set(title=f'repair="{repair}"', xticks=[], yticks=[])
    axes.margins(0.15)
    axes.set_aspect("equal", adjustable="datalim")

pairs = np.triu_indices(4, 1)
for (repair, metric), marker in zip(fitted.items(), "os", strict=True):
    positions = metric.label_positions_
    realised = np.linalg.norm(positions[:, None] - positions, axis=2)
    panels[2].plot(given[pairs], realised[pairs], marker, label=repair)
panels[2].plot([0, 4], [0, 4], color="0.7", zorder=0)
panels[2].set(title="distances", xlabel="given", ylabel="between positions")
panels[2].legend()
plt.show()
print(f"share of the spectrum that was negative: {fitted['nearest'].negative_mass_:.2f}")
