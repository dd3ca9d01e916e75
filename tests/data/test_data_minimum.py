"""The minimum size is reached exactly when a network flow says that it can be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from undrift.data import PartitionError
from undrift.data.minimum import raise_to_minimum


def reachable(counts: np.ndarray, allowed: np.ndarray, min_size: int) -> bool:
    """Independent reference: source → classes → clients → sink, with `min_size` units wanted by every client."""
    clients, classes = counts.shape
    source, sink = clients + classes, clients + classes + 1
    capacity = np.zeros((sink + 1, sink + 1), dtype=np.int32)
    capacity[source, clients : clients + classes] = counts.sum(axis=0)
    capacity[clients : clients + classes, :clients] = 10_000 * allowed.T
    capacity[:clients, sink] = min_size
    return maximum_flow(csr_array(capacity), source, sink).flow_value == clients * min_size


@settings(max_examples=150, deadline=None, database=None)
@given(st.integers(1, 7), st.integers(1, 5), st.integers(1, 4), st.integers(0, 10_000))
def test_reached_if_and_only_if_possible(clients: int, classes: int, min_size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    allowed = rng.random((clients, classes)) < 0.5
    counts = np.where(allowed, rng.integers(0, 8, allowed.shape), 0)
    if not reachable(counts, allowed, min_size):
        with pytest.raises(PartitionError, match="cannot be reached"):
            raise_to_minimum(counts, allowed, min_size)
        return
    repaired = raise_to_minimum(counts, allowed, min_size)
    assert (repaired.sum(axis=1) >= min_size).all()
    assert (repaired.sum(axis=0) == counts.sum(axis=0)).all()
    assert (repaired[~allowed] == 0).all()
    assert (repaired >= 0).all()


def test_a_chain_is_found_where_no_direct_gift_exists() -> None:
    """Client 0 needs class 0, which only client 1 has; client 1 is at the minimum but can be refilled by client 2."""
    counts = np.array([[0, 0], [1, 0], [0, 5]])
    allowed = np.array([[True, False], [True, True], [False, True]])
    assert raise_to_minimum(counts, allowed, min_size=1).tolist() == [[1, 0], [0, 1], [0, 4]]


def test_a_partition_that_is_large_enough_is_left_alone() -> None:
    counts = np.array([[3, 1], [2, 2]])
    assert raise_to_minimum(counts, np.ones((2, 2), dtype=bool), min_size=4).tolist() == counts.tolist()
