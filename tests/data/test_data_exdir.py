"""ExDir(C, α) has the law that its paper describes, at both levels."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from undrift import data
from undrift.data.cover import label_counts
from undrift.data.dirichlet import draw_shares, round_shares
from undrift.data.exdir import allocate_classes

quick = settings(max_examples=60, deadline=None, database=None)


@quick
@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 12), st.integers(0, 99))
def test_level_one_reaches_every_class(num_classes: int, classes: int, clients: int, seed: int) -> None:
    classes = min(classes, num_classes)
    if clients * classes < num_classes:
        return
    mask = allocate_classes(num_classes, clients, classes, np.random.default_rng(seed))
    assert (mask.sum(axis=1) == classes).all()
    assert (mask.sum(axis=0) >= 1).all()


@pytest.mark.parametrize(("num_classes", "clients", "classes"), [(3, 4, 1), (3, 2, 2), (4, 3, 2), (3, 3, 1)])
def test_level_one_is_the_law_of_redrawing(num_classes: int, clients: int, classes: int) -> None:
    """All allocations that reach every class are equally likely, as if clients had redrawn until success."""
    subsets = list(itertools.combinations(range(num_classes), classes))
    possible = [
        choice
        for choice in itertools.product(subsets, repeat=clients)
        if set(itertools.chain(*choice)) == set(range(num_classes))
    ]
    draws = 12 * len(possible)
    rng = np.random.default_rng(1)
    seen = Counter(
        tuple(tuple(np.flatnonzero(row).tolist()) for row in allocate_classes(num_classes, clients, classes, rng))
        for _ in range(draws)
    )
    assert set(seen) <= set(possible)
    assert stats.chisquare([seen[choice] for choice in possible]).pvalue > 1e-3


def test_level_one_ends_where_redrawing_would_not() -> None:
    """200 clients, 200 classes, one each: a redraw succeeds with probability 200!/200^200, about 1e-86."""
    mask = allocate_classes(200, clients=200, classes=1, rng=np.random.default_rng(0))
    assert (mask.sum(axis=0) == 1).all()


@pytest.mark.parametrize("alpha", [0.05, 1.0, 10.0])
def test_level_two_shares_are_dirichlet(alpha: float) -> None:
    """The marginal of Dir(α 1_k) is Beta(α, (k - 1) α)."""
    k, rng = 5, np.random.default_rng(2)
    shares = np.array([draw_shares(alpha, k, rng) for _ in range(4000)])
    assert np.allclose(shares.sum(axis=1), 1.0)
    assert stats.kstest(shares[:, 0], stats.beta(alpha, (k - 1) * alpha).cdf).pvalue > 1e-3
    covariance = np.cov(shares[:, 0], shares[:, 1])[0, 1]
    assert covariance == pytest.approx(-1 / (k**2 * (k * alpha + 1)), rel=0.25)


def test_level_two_splits_a_class_among_its_own_clients_only() -> None:
    labels = np.repeat(np.arange(5), 2000)
    alpha, variances = 10.0, []
    for seed in range(40):
        counts = label_counts(data.exdir(labels, 20, 2, alpha, seed=seed), labels, 5)
        assert (np.count_nonzero(counts, axis=1) <= 2).all()
        for c in range(5):
            held = counts[:, c][counts[:, c] > 0]
            k = held.size
            if k > 1:
                variance = (1 / k) * (1 - 1 / k) / (k * alpha + 1)
                variances.append(np.mean((held / 2000 - 1 / k) ** 2) / variance)
    assert np.mean(variances) == pytest.approx(1.0, abs=0.15)


@quick
@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30), st.integers(0, 1000))
def test_rounding_is_exact_and_close(weights: list[float], total: int) -> None:
    shares = (np.array(weights) + 1e-9) / np.sum(np.array(weights) + 1e-9)
    counts = round_shares(shares, total)
    assert counts.sum() == total
    assert (np.abs(counts - shares * total) < 1.0 + 1e-9).all()


def test_ten_clients_ten_classes_one_each() -> None:
    """The first row of the paper's figure 5: only one result is possible, up to the order of clients."""
    labels = np.repeat(np.arange(10), 50)
    for alpha in (1.0, 10.0, 100.0):
        counts = label_counts(data.exdir(labels, 10, 1, alpha, seed=0), labels, 10)
        assert sorted(counts.max(axis=1).tolist()) == [50] * 10
        assert (np.count_nonzero(counts, axis=0) == 1).all()


def test_a_class_without_samples_takes_no_part() -> None:
    labels = np.repeat([0, 2], 50)
    parts = data.exdir(labels, clients=4, classes=2, alpha=10.0, seed=0, num_classes=5)
    data.check_cover(parts, 100)


@pytest.mark.parametrize("classes", [1, 2])
@pytest.mark.parametrize("name", ["mnist", "fmnist", "cifar10"])
def test_agrees_in_kind_with_published_maps(real_data: Path, name: str, classes: int) -> None:
    """500 clients, ExDir(C, 10): clients hold C classes, and sizes and class popularity spread as in ours."""
    path = real_data / "exdir" / f"{name}-m500-c{classes}-a10.json"
    if not path.is_file() or data.status(name, data_dir=real_data).where == "absent":
        pytest.skip(f"needs {path.name} in exdir/ and {name} in the directory that UNDRIFT_DATA names")
    labels = data.load(name, data_dir=real_data, raw=True).train.y
    published = data.describe(data.from_map(path, labels), labels)
    ours = data.describe(data.exdir(labels, 500, classes, 10.0, seed=0), labels)
    for figures in (published, ours):
        assert figures.sizes.sum() == labels.size
        assert np.mean(figures.classes == classes) > 0.95
    assert ours.classes.max() == classes
    assert ours.sizes.std() == pytest.approx(published.sizes.std(), rel=0.25)
    assert ours.pairwise == pytest.approx(published.pairwise, abs=0.02)
    assert ours.distance.mean() == pytest.approx(published.distance.mean(), abs=0.02)
    popularity = [np.count_nonzero(figures.counts, axis=0) for figures in (published, ours)]
    # Binomial(500, C/10) clients a class: none may stray beyond what chance allows.
    spread = np.sqrt(500 * classes / 10 * (1 - classes / 10))
    for clients_of_class in popularity:
        assert np.abs(clients_of_class - 50 * classes).max() < 4.5 * spread


def test_clients_that_have_their_share_get_nothing_more() -> None:
    """With the cap, who holds fewer classes than it may had N/M samples before the missing ones were shared out."""
    labels = np.repeat(np.arange(10), 60)
    parts = data.exdir(labels, clients=20, classes=2, alpha=1.0, seed=3, cap=True, min_size=0)
    counts = label_counts(parts, labels, 10)
    plain = label_counts(data.exdir(labels, clients=20, classes=2, alpha=1.0, seed=3, min_size=0), labels, 10)
    assert counts.sum() == labels.size
    before = np.cumsum(counts, axis=1) - counts
    alone = [
        c for c in range(10) if not np.any((counts[:, c] > 0) & (before[:, c] < 30))
    ]  # all of its clients were full
    for client, c in zip(*np.nonzero(counts), strict=True):
        assert before[client, c] < 30 or c in alone
    assert counts.sum(axis=1).max() < plain.sum(axis=1).max()
    assert np.count_nonzero(counts) < np.count_nonzero(plain)


def test_every_class_has_as_many_clients_as_asked_for() -> None:
    labels = np.repeat(np.arange(5), 40)
    masks = [label_counts(data.exdir(labels, 20, 1, 50.0, seed=s, min_clients=3), labels, 5) > 0 for s in range(20)]
    assert min(mask.sum(axis=0).min() for mask in masks) == 3
    fewest = [
        (label_counts(data.exdir(labels, 20, 1, 50.0, seed=s), labels, 5) > 0).sum(axis=0).min() for s in range(20)
    ]
    assert min(fewest) < 3  # it makes a difference


def test_clients_of_a_class_that_cannot_be() -> None:
    labels = np.repeat(np.arange(5), 40)
    with pytest.raises(data.PartitionError, match=r"min_clients=5 cannot be reached: .* Take min_clients <= 4"):
        data.exdir(labels, 20, 1, 1.0, min_clients=5)
    with pytest.raises(data.PartitionError, match="in 1000 selections of classes some class always had fewer than"):
        data.exdir(np.repeat(np.arange(10), 10), 50, 1, 1.0, min_clients=5)
