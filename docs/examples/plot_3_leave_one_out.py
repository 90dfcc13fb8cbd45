r"""
Leave-one-out against in-sample error
=====================================

The ridge α decides how smooth the learned map is. The in-sample error always prefers the smallest α
and says nothing about new pictures. The fit is a linear smoother :math:`Z = SY`, so the prediction
for sample i from a fit *without* sample i has a closed form,

.. math:: y_i - \frac{y_i - z_i}{1 - S_{ii}},

exact and for every α from one decomposition. ``OrdinalMetric`` chooses its hyperparameters from it,
inside the training set.
"""

# %%
# 120 of 600 drawn fruits, chosen at random, are training samples; the others are held out to check
# the choice.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from ordrank import OrdinalMetric, OrdinalRanker
from ordrank.datasets import make_fruit

fruit = make_fruit(600, size=48, random_state=1)
X = PCA(80, random_state=0).fit_transform(fruit.images.reshape(600, -1) / 255.0)
y, train = fruit.grade, np.random.default_rng(0).permutation(600) < 120


# %%
# The root mean squared distance between embedded samples and the target positions of their grades
# for a range of α: in-sample, leave-one-out and on the held-out samples. To show that nothing is
# hidden in the closed form, leave-one-out is computed here by its definition, with 120 refits for
# every α.
def fit_map(alpha, samples):
    """Fit a kernel map without automatic choices."""
    metric = OrdinalMetric(
        kernel="rbf", sharpness=1.0, alpha=alpha, locality=0.0, discriminant=False
    )
    return metric.fit(X[samples], y[samples])


def squared_residuals(metric, samples):
    Z = metric.transform(X[samples])[:, : metric.n_components_]
    return ((Z - metric.label_positions_[y[samples]]) ** 2).sum(axis=1)


rows, alphas = np.flatnonzero(train), np.logspace(-6, 0, 7)
curves = {"in-sample": [], "leave-one-out": [], "held-out samples": []}
for alpha in alphas:
    metric = fit_map(alpha, rows)
    refits = ((fit_map(alpha, np.setdiff1d(rows, i)), [i]) for i in rows)
    curves["in-sample"].append(squared_residuals(metric, train).mean())
    curves["leave-one-out"].append(np.mean([squared_residuals(*refit) for refit in refits]))
    curves["held-out samples"].append(squared_residuals(metric, ~train).mean())

figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
for (name, values), style in zip(curves.items(), ("o--", "s-", "^:"), strict=True):
    axes.plot(alphas, np.sqrt(values), style, label=name)
axes.set(xscale="log", xlabel="α", ylabel="distance from target (RMS)", ylim=(0, None))
axes.legend()
plt.show()

# %%
# The map itself with too little ridge, the chosen one and too much. Dots are training samples,
# rings are held-out ones, colours are grades. With too little ridge every training sample lies
# exactly at its target position and new ones scatter; with too much the grades overlap.
chosen = OrdinalMetric().fit(X[train], y[train])
colours = plt.get_cmap("viridis")(np.linspace(0, 1, 5))
figure, panels = plt.subplots(1, 3, figsize=(9.5, 3.4), layout="constrained")
cases = {"too little": 1e-6, "chosen": chosen.alpha_, "too much": 0.3}
for axes, (title, alpha) in zip(panels, cases.items(), strict=True):
    metric = OrdinalMetric(kernel=chosen.kernel_, sharpness=chosen.sharpness_, alpha=alpha)
    ranker = OrdinalRanker(metric).fit(X[train], y[train])
    Z = ranker.metric_.transform(X)[:, :2]
    mae = np.abs(ranker.predict(X[~train]) - y[~train]).mean()
    axes.scatter(
        *Z[~train].T, s=26, facecolors="none", edgecolors=colours[y[~train]], linewidths=0.9
    )
    axes.scatter(*Z[train].T, s=9, c=colours[y[train]])
    axes.set(title=f"α = {alpha:.2g}, {title}: MAE {mae:.2f}", xticks=[], yticks=[])
plt.show()
# sphinx_gallery_thumbnail_number = 2
