"""
Rank pictures by ripeness
=========================

Learn a distance from 300 drawn fruits with a ripeness from 0 to 4, then rank the training pictures
for new ones. The Euclidean distance between pixels follows shape and background; the learned
distance follows ripeness.
"""

# %%
# Draw the fruit, reduce the pixels to 60 principal components and hold out every third picture.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from ordrank import OrdinalRanker
from ordrank.datasets import make_fruit

fruit = make_fruit(450, size=48, random_state=1)
X = PCA(60, random_state=0).fit_transform(fruit.images.reshape(450, -1) / 255.0)
test = np.arange(450) % 3 == 0
train_images, test_images = fruit.images[~test], fruit.images[test]
y_train, y_test = fruit.grade[~test], fruit.grade[test]

# %%
# Two rankers: one with the Euclidean distance of the features, one with the default
# :class:`~ordrank.OrdinalMetric`, whose hyperparameters are chosen from the training samples.
rankers = {
    "Euclidean": OrdinalRanker("passthrough").fit(X[~test], y_train),
    "OrdinalMetric": OrdinalRanker().fit(X[~test], y_train),
}
for name, ranker in rankers.items():
    print(f"{name:>14}: MAE {np.abs(ranker.predict(X[test]) - y_test).mean():.3f}")

# %%
# The eight nearest training pictures of the first test picture of every grade. The number is the
# ripeness; a dashed frame marks a ripeness that differs from the query's.


def show(axes, image, grade, differs=False):
    axes.imshow(image)
    axes.set(xticks=[], yticks=[])
    axes.set_xlabel(int(grade), labelpad=2)
    for spine in axes.spines.values():
        spine.set(visible=differs, color="#c2410c", linestyle="--", linewidth=2)


queries = [int(np.flatnonzero(y_test == grade)[0]) for grade in range(5)]
figure, grid = plt.subplots(10, 9, figsize=(9.5, 11.5), layout="constrained")
for i, query in enumerate(queries):
    for j, (name, ranker) in enumerate(rankers.items()):
        row = grid[2 * i + j]
        ranking = ranker.rank(X[test][[query]], k=8)
        show(row[0], test_images[query], y_test[query])
        row[0].set_ylabel(name)
        for axes, index in zip(row[1:], ranking.indices[0], strict=True):
            show(axes, train_images[index], y_train[index], differs=y_train[index] != y_test[query])
grid[0, 0].set_title("query")
grid[0, 4].set_title("nearest training pictures, in order")
plt.show()
