r"""
Probabilities, intervals and wrong labels
=========================================

``OrdinalRanker`` gives every grade a probability: votes of the nearest samples, label frequencies
and, where held-out samples show that it helps, an ordinal threshold model. ``predict`` is the
median, ``predict_interval`` an interval that is calibrated on samples held out of the fit.
"""

# %%
# 250 of 700 drawn fruits, chosen at random, are training samples.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from ordrank import OrdinalRanker
from ordrank.datasets import make_fruit

fruit = make_fruit(700, size=32, random_state=3)
X = PCA(60, random_state=0).fit_transform(fruit.images.reshape(700, -1) / 255.0)
y, train = fruit.grade, np.random.default_rng(0).permutation(700) < 250

ranker = OrdinalRanker().fit(X[train], y[train])
proba = ranker.predict_proba(X[~train])
median = ranker.predict(X[~train])
interval = ranker.predict_interval(X[~train], coverage=0.9)

# %%
# Three queries: the surest, one in the middle and the least sure by the largest probability. Bars
# are probabilities, the dark bar is the median, the line below is the 90 % interval, and the cross
# is the true grade.
chosen = np.argsort(-proba.max(axis=1))[[0, len(proba) // 2, -1]]
figure, panels = plt.subplots(2, 3, figsize=(8, 4.2), layout="constrained", height_ratios=(1, 1.6))
for (picture, axes), query in zip(panels.T, chosen, strict=True):
    picture.imshow(fruit.images[~train][query])
    picture.axis("off")
    is_median = ranker.classes_ == median[query]
    axes.bar(ranker.classes_, proba[query], color=np.where(is_median, "#31688e", "#b9cfdd"))
    axes.plot(interval[query], [-0.08, -0.08], "-|", color="#31688e", lw=3, ms=10, mew=3)
    axes.plot(y[~train][query], -0.17, "kx")
    axes.set(xlabel="grade", ylim=(-0.25, 1), yticks=[0, 0.5, 1])
panels[1, 0].set_ylabel("probability")
plt.show()

# %%
# Calibration: how many held-out samples are in intervals of a given coverage, and how wide these
# are. There are only five grades, and the median is always inside: with a small coverage the
# intervals are single grades, and cover as many samples as ``predict`` gets right.
coverages = np.array([0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95])
covered, widths = [], []
for coverage in coverages:
    lowest, highest = ranker.predict_interval(X[~train], coverage).T
    covered.append(((lowest <= y[~train]) & (y[~train] <= highest)).mean())
    widths.append((highest - lowest).mean())

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
left.plot(coverages, coverages, "--", color="grey", label="as intended")
left.plot(coverages, covered, "o-", label="held-out samples")
left.axhline((median == y[~train]).mean(), color="grey", ls=":", label="exact grades of predict")
left.set(xlabel="intended coverage", ylabel="share inside the interval")
left.legend()
right.plot(coverages, widths, "o-")
right.set(xlabel="intended coverage", ylabel="mean width in grades", ylim=(0, None))
plt.show()

# %%
# Wrong labels: 15 training labels are replaced by others. ``loo_proba_`` is the distribution of
# each training sample without its own label, so it does not depend on that. Sorted by the
# probability of the given label, most wrong ones come first; those that are off by one grade are
# harder to find.
rng = np.random.default_rng(1)
given = y[train].copy()
wrong = rng.choice(len(given), 15, replace=False)
given[wrong] = (given[wrong] + rng.integers(1, 5, 15)) % 5

noisy = OrdinalRanker().fit(X[train], given)
own = noisy.loo_proba_[np.arange(len(given)), given]
is_wrong = np.isin(np.argsort(own), wrong)

figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
axes.plot(np.arange(1, len(given) + 1), is_wrong.cumsum(), label="by held-out probability")
axes.plot([0, len(given)], [0, 15], "--", color="grey", label="in random order")
axes.set(xlabel="training samples looked at", ylabel="wrong labels found", xlim=(0, 100))
axes.legend()
plt.show()
# sphinx_gallery_thumbnail_number = 1
