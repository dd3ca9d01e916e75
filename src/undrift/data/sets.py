"""What a loaded data set looks like."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Folder = str | PathLike[str] | None


class Split(NamedTuple):
    """Samples `x`, labels `y`, and where the data have one, a `group` per sample (writer, speaker or hospital)."""

    x: Array
    y: Array  # int32, or float64 where a number is predicted
    group: npt.NDArray[np.int32] | None = None


@dataclass(frozen=True)
class Dataset:
    """A training and a test split, with the number of classes and the names of classes, groups and a table's features."""

    name: str
    train: Split
    test: Split
    class_names: tuple[str, ...]
    group_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None

    @property
    def classes(self) -> int:
        """The number of classes: labels lie in 0..classes-1. 0: a number is predicted."""
        return len(self.class_names)


def stratified_split(strata: Array, test_fraction: float, seed: int) -> tuple[Array, Array]:
    """Fixed random training and test indices with the same fraction of every stratum in the test split.

    >>> train, test = stratified_split(np.repeat([0, 1], [10, 20]), test_fraction=0.2, seed=0)
    >>> train.size, test.size, int((test < 10).sum())
    (24, 6, 2)
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    in_test = np.zeros(strata.size, dtype=bool)
    for value in np.unique(strata):
        members = rng.permutation(np.flatnonzero(strata == value))
        in_test[members[: round(test_fraction * members.size)]] = True
    return np.flatnonzero(~in_test), np.flatnonzero(in_test)
