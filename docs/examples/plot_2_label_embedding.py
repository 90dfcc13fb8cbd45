r"""
The embedding of grades, and what β does
========================================

Before anything is learned, every grade gets a target position: classical multidimensional scaling
(MDS) finds points whose distances are :math:`|a - b| + \beta` for any two different grades a and b.
``OrdinalMetric`` then learns a map that sends each sample to the position of its grade.

* β = 0: the grades lie on a line, and the map is a regression.
* large β: all grades are nearly equally far apart, and the map is a classification.
* β = 1, the default, lies between. β is in units of the standard deviation of the labels.
"""

# %%
# Target positions of five grades in the plane, for three values of β.
import matplotlib.pyplot as plt
import numpy as np

from ordrank import OrdinalMetric

y = np.repeat(np.arange(5), 4)
X = np.random.default_rng(0).normal(size=(20, 3))
colours = plt.get_cmap("viridis")(np.linspace(0, 1, 5))

figure, panels = plt.subplots(1, 3, figsize=(9.5, 3.4), layout="constrained")
cases = {0.0: "a line", 1.0: "the default", 20.0: "nearly equidistant"}
for axes, (beta, title) in zip(panels, cases.items(), strict=True):
    metric = OrdinalMetric(2, beta=beta, kernel="linear", alpha=1.0, locality=0.0).fit(X, y)
    positions = metric.label_positions_
    axes.plot(*positions.T, color="0.7", zorder=1)
    axes.scatter(*positions.T, s=180, c=colours, zorder=2)
    for grade, position in enumerate(positions):
        axes.annotate(
            str(grade), position, ha="center", va="center", color="white" if grade < 4 else "black"
        )
    axes.set(
        title=f"β = {beta:g}: {title}",
        xlim=(-2, 2),
        ylim=(-2, 2),
        aspect="equal",
        xticks=[],
        yticks=[],
    )
plt.show()

# %%
# Gaps between labels count: with grades 1, 2, 3, 8 and 20 the last one is far away.
from ordrank.geometry import classical_mds, label_distances

labels = np.array([1.0, 2.0, 3.0, 8.0, 20.0])
distances = label_distances(labels, beta=labels.std())
points = classical_mds(distances**2, 2).points

figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
axes.plot(*points.T, color="0.7", zorder=1)
axes.scatter(*points.T, s=260, c=colours, zorder=2)
for label, point, colour in zip(labels, points, ["white"] * 4 + ["black"], strict=True):
    axes.annotate(f"{label:g}", point, ha="center", va="center", color=colour)
axes.set(aspect="equal", xticks=[], yticks=[])
axes.margins(0.15)
plt.show()
