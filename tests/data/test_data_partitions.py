"""Every partition is an exact cover, is reproduced by its seed, keeps its minimum, and ends."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from undrift import data
from undrift.data.cover import label_counts

quick = settings(max_examples=60, deadline=None, database=None)

DRAWN: dict[str, Callable[..., data.Parts]] = {
    "iid": data.iid,
    "dirichlet 0.01": partial(data.dirichlet, alpha=0.01),
    "dirichlet 1": partial(data.dirichlet, alpha=1.0),
    "pathological 1": partial(data.pathological, classes=1),
    "pathological 2": partial(data.pathological, classes=2),
    "exdir 1 10": partial(data.exdir, classes=1, alpha=10.0),
    "exdir 2 0.1": partial(data.exdir, classes=2, alpha=0.1),
}


@st.composite
def feasible(draw: st.DrawFn) -> tuple[np.ndarray, int, int]:
    """Labels of at least two classes, clients enough to reach all classes, and each class large enough for all."""
    classes = draw(st.integers(2, 5))
    clients = draw(st.integers(classes, 12))
    sizes = draw(st.lists(st.integers(clients, clients + 20), min_size=classes, max_size=classes))
    labels = np.random.default_rng(draw(st.integers(0, 9))).permutation(np.repeat(np.arange(classes), sizes))
    return labels, clients, draw(st.integers(0, 2**32))


@pytest.mark.parametrize("name", DRAWN)
@quick
@given(case=feasible())
def test_exact_cover_and_seed(name: str, case: tuple[np.ndarray, int, int]) -> None:
    labels, clients, seed = case
    parts = DRAWN[name](labels, clients=clients, seed=seed)
    assert len(parts) == clients
    data.check_cover(parts, labels.size, min_size=1)
    again = DRAWN[name](labels, clients=clients, seed=seed)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))


@pytest.mark.parametrize("name", DRAWN)
@quick
@given(case=feasible(), min_size=st.integers(0, 4))
def test_minimum_size(name: str, case: tuple[np.ndarray, int, int], min_size: int) -> None:
    labels, clients, seed = case
    if labels.size < clients * min_size:
        return
    # Where clients are bound to few classes, a class may be too small for all of its clients; nowhere else.
    bound = name.startswith(("exdir", "pathological"))
    refusal = suppress(data.PartitionError) if bound else nullcontext()
    with refusal:
        parts = DRAWN[name](labels, clients=clients, seed=seed, min_size=min_size)
        data.check_cover(parts, labels.size, min_size=min_size)


@quick
@given(groups=st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=40), min_size=st.integers(0, 6))
def test_by_group_never_cuts_a_group(groups: list[str], min_size: int) -> None:
    if len(groups) < min_size:
        return
    parts = data.by_group(groups, min_size=min_size)
    data.check_cover(parts, len(groups), min_size=min_size)
    column = np.array(groups)
    holders = [{m for m, part in enumerate(parts) if g in column[part]} for g in set(groups)]
    assert all(len(h) == 1 for h in holders)


@pytest.mark.parametrize("name", DRAWN)
def test_another_seed_is_another_partition(name: str) -> None:
    labels = np.repeat(np.arange(5), 40)
    first, second = (DRAWN[name](labels, clients=10, seed=seed) for seed in (0, 1))
    assert any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("name", DRAWN)
def test_global_random_state_is_neither_used_nor_changed(name: str) -> None:
    labels = np.repeat(np.arange(5), 40)
    before = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    DRAWN[name](labels, clients=10, seed=3)
    after = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
    assert before["pos"] == after["pos"]
    assert np.array_equal(before["key"], after["key"])


def test_a_seed_sequence_is_left_unchanged() -> None:
    root = np.random.SeedSequence(5)
    first, second = data.iid(20, clients=3, seed=root), data.iid(20, clients=3, seed=root)
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    assert root.n_children_spawned == 0


@pytest.mark.parametrize("name", DRAWN)
def test_ten_thousand_clients(name: str) -> None:
    labels = np.random.default_rng(0).integers(0, 10, 60_000)
    parts = DRAWN[name](labels, clients=10_000, seed=0)
    assert len(parts) == 10_000
    data.check_cover(parts, labels.size)


def test_iid_sizes_differ_by_at_most_one() -> None:
    sizes = [len(p) for p in data.iid(103, clients=10, seed=0)]
    assert max(sizes) - min(sizes) == 1


def test_iid_gives_every_pair_of_samples_the_same_chance_to_meet() -> None:
    draws = [data.iid(6, clients=2, seed=s) for s in range(2000)]
    together = sum(any({0, 1} <= set(p.tolist()) for p in parts) for parts in draws) / 2000
    assert together == pytest.approx(0.4, abs=5 * np.sqrt(0.4 * 0.6 / 2000))  # 2 C(4,1) / C(6,3)


@quick
@given(case=feasible(), classes=st.integers(1, 3))
def test_pathological_gives_exactly_c_classes(case: tuple[np.ndarray, int, int], classes: int) -> None:
    labels, clients, seed = case
    total = int(labels.max()) + 1
    if classes > total:
        return
    counts = label_counts(data.pathological(labels, clients, classes, seed=seed), labels, total)
    assert (np.count_nonzero(counts, axis=1) == classes).all()


def test_pathological_sizes_are_nearly_equal() -> None:
    labels = np.repeat(np.arange(10), 600)
    sizes = np.array([len(p) for p in data.pathological(labels, clients=100, classes=2, seed=0)])
    assert (sizes == 60).all()


def test_exdir_with_all_classes_is_dirichlet() -> None:
    labels = np.random.default_rng(0).integers(0, 6, 500)
    whole = data.exdir(labels, clients=15, classes=6, alpha=0.3, seed=11)
    plain = data.dirichlet(labels, clients=15, alpha=0.3, seed=11)
    assert all(np.array_equal(a, b) for a, b in zip(whole, plain, strict=True))


@pytest.mark.parametrize("alpha", [1e-300, 1e-9, 1e-3, 1e3, 1e9])
def test_dirichlet_ends_for_extreme_concentrations(alpha: float) -> None:
    labels = np.repeat(np.arange(3), 100)
    parts = data.dirichlet(labels, clients=50, alpha=alpha, seed=0, min_size=2)
    data.check_cover(parts, 300, min_size=2)


def test_raw_draw_may_leave_clients_empty() -> None:
    labels = np.repeat(np.arange(3), 100)
    parts = data.dirichlet(labels, clients=50, alpha=1e-3, seed=0, min_size=0)
    assert min(len(p) for p in parts) == 0
    data.check_cover(parts, 300, min_size=0)
