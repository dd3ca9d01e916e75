"""Synthetic pictures in the shapes of the papers' data, so that the benchmarks of networks run everywhere."""

from __future__ import annotations

import numpy as np


def pictures(count: int, shape: tuple[int, int, int] = (28, 28, 1), seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Coarse pictures of ten classes, in noise: (count, height, width, channels) float32, mean 0, and labels."""
    height, width, channels = shape
    coarse = np.random.default_rng(0).random((10, height // 4, width // 4, channels), np.float32) - np.float32(0.5)
    classes = coarse.repeat(4, axis=1).repeat(4, axis=2)
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, count).astype(np.int32)
    images = rng.random((count, *shape), np.float32)
    images -= np.float32(0.5)
    images += classes[labels]
    return images, labels
