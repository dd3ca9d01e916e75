"""Synthetic pictures in the shapes of the papers' data, so that the benchmarks of networks run everywhere."""

from __future__ import annotations

import numpy as np


def pictures(count: int, shape: tuple[int, ...] = (28, 28, 1), seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A picture of each of ten classes, in noise: (count, height, width, channels) float32, mean 0, and labels."""
    classes = np.random.default_rng(0).random((10, *shape), np.float32) - np.float32(0.5)
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, count).astype(np.int32)
    images = rng.random((count, *shape), np.float32)
    images -= np.float32(0.5)
    images += classes[labels]
    return images, labels
