"""The data of the FedAvg paper's toy, with what is known of them in closed form or by bisection."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Toy(NamedTuple):
    """The data; every array is (clients, samples) or (clients, samples, 2)."""

    points: np.ndarray
    labels: np.ndarray  # 0 or 1
    test_points: np.ndarray
    test_labels: np.ndarray
    slope: tuple[float, float] = (1.0, 1.0)  # of the separator, frozen

    @property
    def sums(self) -> np.ndarray:
        """s_1 x_1 + s_2 x_2: the logit without the bias."""
        return self.points @ np.array(self.slope)

    def loss(self, b: np.ndarray) -> np.ndarray:
        """F(b) on all training data, for every entry of b."""
        return _cross_entropy(self.sums.ravel(), self.labels.ravel(), b)

    def test_loss(self, b: np.ndarray) -> np.ndarray:
        return _cross_entropy((self.test_points @ np.array(self.slope)).ravel(), self.test_labels.ravel(), b)

    def gradients(self, b: float) -> np.ndarray:
        """∇F_i(b) for every client."""
        return (1 / (1 + np.exp(-(self.sums + b))) - self.labels).mean(axis=1)

    def optimum(self) -> float:
        """b* by bisection."""
        low, high = -20.0, 20.0
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (low, middle) if self.gradients(middle).mean() > 0 else (middle, high)
        return middle

    def smoothness(self) -> float:
        """L = max_b F''(b), on a fine grid."""
        b = np.linspace(-12, 6, 1801)[:, None]
        p = 1 / (1 + np.exp(-(self.sums.ravel()[None, :] + b)))
        return float((p * (1 - p)).mean(axis=1).max())

    def dissimilarity(self) -> float:
        """ζ = max_i sup_b |∇F_i(b) − ∇F(b)|, on a fine grid: what the theorem asks for, not what a run happens to see."""
        apart = [self.gradients(b) for b in np.linspace(-12, 6, 1801)]
        return float(max(np.abs(g - g.mean()).max() for g in apart))

    def shuffled(self, seed: int) -> Toy:
        """The same data dealt out at random."""
        order = np.random.default_rng([seed, 1]).permutation(self.labels.size)
        points = self.points.reshape(-1, 2)[order].reshape(self.points.shape)
        return self._replace(points=points, labels=self.labels.ravel()[order].reshape(self.labels.shape))


def _cross_entropy(sums: np.ndarray, labels: np.ndarray, b: np.ndarray) -> np.ndarray:
    z = sums[None, :] + np.atleast_1d(b)[:, None]
    return np.asarray((np.logaddexp(0, z) - labels[None, :] * z).mean(axis=1))


def toy(clients: int, deviation: float, seed: int, slope: tuple[float, float] = (1.0, 1.0)) -> Toy:
    """Draw the data: class 0 around (0, 0), class 1 around (1, 1), at the last client around (4, 4)."""
    rng = np.random.default_rng(seed)

    def draw(each: int) -> tuple[np.ndarray, np.ndarray]:
        centres = np.ones(clients)
        centres[-1] = 4
        zero = rng.normal(0, deviation, (clients, each, 2))
        one = centres[:, None, None] + rng.normal(0, deviation, (clients, each, 2))
        labels = np.repeat([[0.0, 1.0]], clients, axis=0).repeat(each, axis=1)
        return np.concatenate([zero, one], axis=1), labels

    return Toy(*draw(50), *draw(10), (float(slope[0]), float(slope[1])))
