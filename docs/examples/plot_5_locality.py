"""
Grade or similarity: the appearance weight λ
============================================

The learned distance has two parts, d² = ‖f(x) − f(x′)‖² + λ²‖x − x′‖². The first orders pictures by
grade; the second is the Euclidean distance of the features and puts similar pictures first *inside*
a grade. ``locality`` is λ. Without it the grade is estimated well, but similar pictures are lost;
with too much of it the grade suffers.
"""

# %%
# Both aims on held-out fruits: the MAE of the grade, and how many of the three nearest pictures
# inside the grade show the same plant.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from ordrank import OrdinalMetric, OrdinalRanker
from ordrank.datasets import make_fruit
from ordrank.metrics import inside_grade, mean_absolute_error, same_subject_precision

fruit = make_fruit(600, size=48, random_state=1)
X = PCA(80, random_state=0).fit_transform(fruit.images.reshape(600, -1) / 255.0)
train = np.arange(600) % 2 == 0


def both_aims(metric):
    ranker = OrdinalRanker(metric, n_neighbors=51, weights="distance").fit(
        X[train], fruit.grade[train]
    )
    nearest = inside_grade(ranker.rank(X[~train], k=int(train.sum())), fruit.grade[~train], 3)
    mae = mean_absolute_error(fruit.grade[~train], ranker.predict(X[~train]))
    return mae, same_subject_precision(nearest, fruit.plant[train], fruit.plant[~train])


def draw(values, scores, xlabel):
    mae, same_plant = np.transpose(scores)
    _, left = plt.subplots(figsize=(7, 3.6), layout="constrained")
    right = left.twinx()
    x = np.arange(len(values))
    (first,) = left.plot(x, mae, "o-", color="#31688e", label="MAE (left axis, lower is better)")
    (second,) = right.plot(
        x, same_plant, "s--", color="#b5651d", label="same plant (right axis, higher is better)"
    )
    left.set(xlabel=xlabel, xticks=x, xticklabels=[f"{value:g}" for value in values], ylabel="MAE")
    left.set_ylim(0, 1.25 * mae.max())
    right.set(ylabel="share of 3 inside the grade", ylim=(0, 1.4 * same_plant.max()))
    left.legend(handles=[first, second], loc="upper center", fontsize=8)
    plt.show()


values = [0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5]
draw(values, [both_aims(OrdinalMetric(locality=value)) for value in values], "λ (locality)")

# %%
# The paper's local term, μ, penalises changes of the distances between target neighbours inside f
# instead. With two dimensions, which the order needs, it has little effect on similarity, and the
# fit has no closed form any more. The default is μ = 0.
values = [0.0, 0.01, 0.1, 1.0, 10.0]
linear = {"kernel": "linear", "locality": 0.0}
draw(
    values,
    [both_aims(OrdinalMetric(mu=value, **linear)) for value in values],
    "μ, linear map, λ = 0",
)
