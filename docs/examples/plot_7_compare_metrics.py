"""
LDMLR, cMDS-DML and OrdinalMetric
=================================

Four distances on the same drawn fruits: the Euclidean one, LDMLR (Li et al. 2015), cMDS-DML (Yu &
Li) with the fast solver and a fixed scale, and the default model of ordrank. The embeddings below
are the two leading principal components of the training samples in each learned space.
"""

# %%
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from ordrank import LDMLR, CMDSMetric, OrdinalMetric, OrdinalRanker
from ordrank.datasets import make_fruit
from ordrank.metrics import kendall_tau, mean_absolute_error

warnings.simplefilter(
    "ignore", ConvergenceWarning
)  # LDMLR is stopped early on purpose: T acts as the regulariser
fruit = make_fruit(450, size=48, random_state=2)
X = PCA(60, random_state=0).fit_transform(fruit.images.reshape(450, -1) / 255.0)
X /= np.sqrt(
    (X**2).sum(axis=1).mean()
)  # unit mean square: μ and α depend on the scale of the features
y, test = fruit.grade, np.arange(450) % 3 == 0

metrics = {
    "Euclidean": "passthrough",
    "LDMLR": LDMLR(step="exact", mu=1.0, max_iter=50),
    "cMDS-DML": CMDSMetric(2, solver="fast", scale="fixed", init="lstsq", alpha=1.0, mu=0.01),
    "OrdinalMetric": OrdinalMetric(),
}

# %%
# Fit each metric on two thirds of the pictures, grade the rest by weighted nearest neighbours.
figure, panels = plt.subplots(2, 2, figsize=(8.5, 7.5), layout="constrained")
for axes, (name, metric) in zip(panels.flat, metrics.items(), strict=True):
    ranker = OrdinalRanker(metric).fit(X[~test], y[~test])
    grades = ranker.predict(X[test])
    mae, tau = mean_absolute_error(y[test], grades), kendall_tau(y[test], grades)
    print(f"{name:>14}: MAE {mae:.3f}, Kendall's τ {tau:.3f}, k = {ranker.n_neighbors_}")
    Z = PCA(2).fit_transform(ranker.embedding_)
    points = axes.scatter(*Z.T, c=y[~test], cmap="viridis", s=14)
    axes.set(title=f"{name}: MAE {mae:.2f}", xticks=[], yticks=[])
figure.colorbar(points, ax=panels, label="ripeness", shrink=0.6, ticks=range(5))
plt.show()
