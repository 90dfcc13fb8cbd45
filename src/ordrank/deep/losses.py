"""Losses of a network for ordered labels, and the term that keeps similarity inside a label.

A loss maps outputs (n, n_outputs) of the last linear layer, label indices (n,) and normalised features (n, dim) to a
number, and decodes outputs to label values (n,). ``targets`` are the values that outputs should have, so that the layer
can start from a ridge regression.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss

from ordrank._protocols import FloatArray, IntArray
from ordrank.errors import InputError
from ordrank.geometry import embed_labels


class PositionLoss(nn.Module):
    """Mean squared distance ‖z_i - p(y_i)‖² of the outputs to the positions p of the labels."""

    def __init__(self, labels: FloatArray, positions: FloatArray) -> None:
        super().__init__()
        self.register_buffer("labels", torch.tensor(labels, dtype=torch.float32))
        self.register_buffer("targets", torch.tensor(positions, dtype=torch.float32))

    def forward(self, outputs: Tensor, label_index: Tensor, features: Tensor) -> Tensor:
        """Return the loss."""
        return (outputs - self.targets[label_index]).square().sum(1).mean()

    def decode(self, outputs: Tensor) -> Tensor:
        """Return the labels of the nearest positions."""
        return self.labels[torch.cdist(outputs, self.targets).argmin(1)]


class CoralLoss(nn.Module):
    """Cross-entropy of the thresholds P(y > k) = σ(z + b_k) with one output z.

    Cao, Mirjalili & Raschka, "Rank consistent ordinal regression for neural networks", Pattern Recognit. Lett. 2020.
    """

    def __init__(self, labels: FloatArray, label_index: FloatArray) -> None:
        super().__init__()
        m = len(labels)
        self.register_buffer("labels", torch.tensor(labels, dtype=torch.float32))
        self.register_buffer("targets", torch.linspace(-1, 1, m)[:, None] * np.log(m))
        # A label that none of these samples has is less likely than one of them, not impossible.
        least = 0.5 / len(label_index)
        above = np.clip([(label_index > k).mean() for k in range(m - 1)], least, 1 - least)
        self.biases = nn.Parameter(torch.tensor(np.log(above) - np.log1p(np.negative(above)), dtype=torch.float32))

    def forward(self, outputs: Tensor, label_index: Tensor, features: Tensor) -> Tensor:
        """Return the loss."""
        is_above = label_index[:, None] > torch.arange(len(self.biases), device=outputs.device)
        return (
            binary_cross_entropy_with_logits(outputs + self.biases, is_above.to(outputs.dtype), reduction="none")
            .sum(1)
            .mean()
        )

    def decode(self, outputs: Tensor) -> Tensor:
        """Return the label as many thresholds above the lowest as are more likely exceeded than not."""
        return self.labels[(outputs + self.biases > 0).sum(1)]


class CrossEntropyLoss(nn.Module):
    """Cross-entropy of the labels as classes without an order."""

    def __init__(self, labels: FloatArray) -> None:
        super().__init__()
        self.register_buffer("labels", torch.tensor(labels, dtype=torch.float32))
        self.register_buffer("targets", torch.eye(len(labels)))

    def forward(self, outputs: Tensor, label_index: Tensor, features: Tensor) -> Tensor:
        """Return the loss."""
        return cross_entropy(outputs, label_index)

    def decode(self, outputs: Tensor) -> Tensor:
        """Return the median of the predictive distribution, which has the lowest expected absolute error."""
        return self.labels[(outputs.softmax(1).cumsum(1) < 0.5).sum(1).clamp(max=len(self.labels) - 1)]


class RankNContrastLoss(PositionLoss):
    r"""Contrastive loss that orders the distances of features as the labels are ordered.

    .. math:: -\frac1{n(n-1)} \sum_{i \ne j} \log
              \frac{\exp(-\|f_i - f_j\| / \tau)}{\sum_{k \in S_{ij}} \exp(-\|f_i - f_k\| / \tau)} ,

    where S_ij are the samples whose labels are at least as far from that of i as the label of j. It does
    not train the outputs: they are a regression on the features that were learned, the second stage of the paper.

    Zha, Cao, Son, Yang & Katabi, "Rank-N-Contrast: learning continuous representations for regression", NeurIPS 2023.
    """

    # Of features whose mean square norm was 1 before training; 2 in the paper, whose features are not scaled.
    temperature = 0.2

    def forward(self, outputs: Tensor, label_index: Tensor, features: Tensor) -> Tensor:
        """Return the loss."""
        n = len(features)
        others = ~torch.eye(n, dtype=torch.bool, device=features.device)
        similarity = -torch.cdist(features, features, compute_mode="donot_use_mm_for_euclid_dist") / self.temperature
        labels = self.labels[label_index]
        apart = (labels[:, None] - labels).abs()
        # [i, j, k]: k is in S_ij
        as_far = (apart[:, None, :] >= apart[:, :, None]) & others[:, None, :]
        normalizer = torch.where(as_far, similarity[:, None, :], -torch.inf).logsumexp(2)
        return (normalizer - similarity)[others].sum() / max(1, n * (n - 1))


def local_loss(features: Tensor, neighbors: Tensor, distances: Tensor, unit: float) -> Tensor:
    """Mean of (‖f_i - f_j‖² - δ_ij²)² / unit² over pairs: target neighbours keep the distances δ of before.

    Parameters
    ----------
    features, neighbors : Tensor of shape (n_pairs, dim)
    distances : Tensor of shape (n_pairs,)
        Squared distances before training.
    unit : float
        Mean of the squared distances of all target neighbours, so that the term has no unit.
    """
    return mse_loss((features - neighbors).square().sum(1) / unit, distances / unit)


LOSSES = ("cmds", "regression", "coral", "cross-entropy", "rank-n-contrast")


def make_loss(
    name: str, labels: FloatArray, label_index: FloatArray, rows: IntArray | None = None
) -> PositionLoss | CoralLoss | CrossEntropyLoss:
    """Return a loss by its name.

    ``cmds`` are the positions of the paper, from distances |a - b| + 1 in units of the standard deviation of the
    labels; ``regression`` is the label itself.

    Parameters
    ----------
    name : str
        One of ``LOSSES``.
    labels : ndarray of shape (m,)
        Distinct labels, ascending.
    label_index : ndarray of shape (n,)
        Of the training samples. How often each label occurs determines the positions, which are the same for networks
        that are trained on other parts: otherwise their outputs could not be compared.
    rows : ndarray of int, optional
        Those that a network is trained on, from whose frequencies it starts; by default all.
    """
    counts = np.bincount(label_index.astype(int), minlength=len(labels)).astype(float)
    standard = labels - np.average(labels, weights=counts)
    standard /= np.sqrt(np.average(standard**2, weights=counts))
    if name == "cmds":
        return PositionLoss(labels, embed_labels(standard, min(3, len(labels) - 1), beta=1.0, weights=counts))
    if name == "regression":
        return PositionLoss(labels, standard[:, None])
    if name == "rank-n-contrast":
        return RankNContrastLoss(labels, standard[:, None])
    if name == "coral":
        return CoralLoss(labels, label_index if rows is None else label_index[rows])
    if name == "cross-entropy":
        return CrossEntropyLoss(labels)
    raise InputError(f"there is no loss {name!r}; there are {', '.join(LOSSES)}")
