"""Heterogeneity in figures: how far apart are the clients' label distributions?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import entr

from undrift.data.checks import Floats, Ints, check_labels
from undrift.data.cover import check_cover, label_counts


class Heterogeneity(NamedTuple):
    """Figures of a partition, one entry per client unless said otherwise. With p_m the label distribution of client m:

    - `counts`: samples of class c at client m (clients × classes)
    - `sizes`: samples
    - `classes`: classes with at least one sample
    - `entropy`: label entropy H(p_m) = -Σ_c p_{m,c} log2 p_{m,c}, in bits; 0 for a single class
    - `distance`: total variation ½ Σ_c |p_{m,c} - p_c| from the distribution p of all samples
    - `pairwise`: one number, the mean total variation between two different clients

    An empty client has entropy 0 and distance NaN, and takes no part in `pairwise`.
    """

    counts: Ints
    sizes: Ints
    classes: Ints
    entropy: Floats
    distance: Floats
    pairwise: float

    def summary(self) -> dict[str, dict[str, float]]:
        """Least, mean and greatest value of every per-client figure, for printing.

        >>> describe([[0, 1], [2]], [0, 0, 1]).summary()["sizes"]
        {'least': 1.0, 'mean': 1.5, 'greatest': 2.0}
        """
        columns = {
            "sizes": self.sizes,
            "classes": self.classes,
            "entropy": self.entropy,
            "distance": self.distance[self.sizes > 0],
        }
        return {
            name: {"least": float(v.min()), "mean": float(v.mean()), "greatest": float(v.max())}
            for name, v in columns.items()
        }


def describe(parts: Sequence[npt.ArrayLike], labels: npt.ArrayLike, *, num_classes: int | None = None) -> Heterogeneity:
    """Measure a partition.

    >>> same = describe([[0, 2], [1, 3]], [0, 0, 1, 1])
    >>> same.distance.tolist(), same.entropy.tolist(), same.pairwise
    ([0.0, 0.0], [1.0, 1.0], 0.0)
    >>> apart = describe([[0, 1], [2, 3]], [0, 0, 1, 1])
    >>> apart.distance.tolist(), apart.entropy.tolist(), apart.pairwise
    ([0.5, 0.5], [0.0, 0.0], 1.0)
    """
    y, total = check_labels(labels, num_classes)
    check_cover(parts, y.size, min_size=0)
    counts = label_counts(parts, y, total)
    sizes = counts.sum(axis=1)
    filled = sizes > 0
    p = counts / np.maximum(sizes, 1)[:, None]
    overall = counts.sum(axis=0) / y.size
    distance = np.where(filled, 0.5 * np.abs(p - overall).sum(axis=1), np.nan)
    return Heterogeneity(
        counts=counts,
        sizes=sizes,
        classes=np.count_nonzero(counts, axis=1),
        entropy=entr(p).sum(axis=1) / np.log(2.0),
        distance=distance,
        pairwise=_mean_pairwise(p[filled]),
    )


def _mean_pairwise(p: Floats) -> float:
    """Mean of ½ Σ_c |p_{m,c} - p_{k,c}| over pairs m < k.

    Sorted values a_(1) ≤ ... ≤ a_(M) have Σ_{m<k} |a_m - a_k| = Σ_i (2i - M - 1) a_(i), so that 10,000 clients need
    one sort per class instead of fifty million pairs.
    """
    clients = p.shape[0]
    if clients < 2:
        return 0.0
    weights = 2.0 * np.arange(1, clients + 1) - clients - 1.0
    total = float((weights @ np.sort(p, axis=0)).sum())
    return 0.5 * total / (clients * (clients - 1) / 2)
