"""Who takes part, with how many steps, and who answers."""

from __future__ import annotations

import dataclasses

import hypothesis
import hypothesis.strategies as st
import jax
import numpy as np
import optax
import pytest

import undrift as ud
from undrift.plan import Plan

full = ud.plan.full()


def likely(counts, expected=None):
    """A χ² test does not tell these counts from the expected ones, which are equal unless they are given."""
    from scipy import stats  # costs 64 MB, and is not needed to collect tests

    return stats.chisquare(counts, expected).pvalue > 1e-4


@hypothesis.given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 50), data=st.data())
def test_cohorts_without_replacement_are_distinct_and_in_range(seed, m, data):
    n = data.draw(st.integers(1, m))
    ids = Plan(m, ud.plan.uniform(n), 1, 0.0, seed).draw(1, 20).ids
    assert ids.shape == (20, n)
    assert ids.min() >= 0
    assert ids.max() < m
    assert all(len(set(row)) == n for row in ids.tolist())


@hypothesis.given(
    seed=st.integers(0, 2**32 - 1), first=st.integers(1, 1000), cuts=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    replace=st.booleans(),
)  # fmt: skip
def test_the_same_draw_whatever_the_chunks(seed, first, cuts, replace):
    plan = Plan(6, ud.plan.uniform(4, replace=replace), ud.plan.random_steps(2, 9), 0.3, seed)
    whole = plan.draw(first, sum(cuts))
    start = first
    for count in cuts:
        part = plan.draw(start, count)
        for a, b in zip(part, whole.rows(start - first, start - first + count), strict=True):
            np.testing.assert_array_equal(a, b)
        start += count


@pytest.mark.parametrize("replace", [False, True])
def test_every_client_and_every_pair_are_equally_likely(replace):
    m, n, rounds = 6, 3, 6000
    ids = Plan(m, ud.plan.uniform(n, replace=replace), 1, 0.0, 1).draw(1, rounds).ids
    for place in range(n):
        assert likely(np.bincount(ids[:, place], minlength=m))
    pairs = np.bincount(ids[:, 0] * m + ids[:, 1], minlength=m * m).reshape(m, m)
    counts = pairs.ravel() if replace else pairs[~np.eye(m, dtype=bool)]
    assert likely(counts)
    assert replace or np.all(np.diag(pairs) == 0)


def test_random_steps_are_uniform_and_belong_to_the_client():
    plan = Plan(5, full, ud.plan.random_steps(2, 7), 0.0, 3)
    steps = plan.draw(1, 4000).steps
    assert likely(np.bincount(steps.ravel() - 2, minlength=6))
    assert (steps.min(), steps.max()) == (2, 7)
    partial = Plan(5, ud.plan.uniform(2), ud.plan.random_steps(2, 7), 0.0, 3).draw(1, 50)
    np.testing.assert_array_equal(partial.steps, np.take_along_axis(steps[:50], partial.ids, axis=1))


@pytest.mark.parametrize("rate", [0.1, 0.7])
def test_failures_have_the_given_rate(rate):
    answered = Plan(10, full, 1, rate, 5).draw(1, 2000).answered
    share = 1 - answered.mean(axis=0)
    assert np.all(np.abs(share - rate) < 5 * np.sqrt(rate * (1 - rate) / 2000))
    assert abs(np.corrcoef(answered[:-1].ravel(), answered[1:].ravel())[0, 1]) < 0.05


def test_nobody_fails_and_everyone_takes_part_by_default():
    draw = Plan(4, full, [1, 2, 3, 4], 0.0, 0).draw(7, 2)
    assert draw.ids is None
    assert draw.answered is None
    np.testing.assert_array_equal(draw.steps, [[1, 2, 3, 4]] * 2)


def test_seeds_rounds_and_purposes_do_not_repeat_each_other():
    cohorts = [Plan(1000, ud.plan.uniform(20), 1, 0.0, seed).draw(1, 20).ids for seed in range(20)]
    assert len({tuple(row) for ids in cohorts for row in ids.tolist()}) == 400


def test_functions_of_the_round():
    def steps(round, key):
        assert jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key)
        return [round, round + 1, 2 * round]

    plan = Plan(3, ud.plan.rule(lambda round, key: [round % 2, 2], count=2), steps, 0.0, 0)
    draw = plan.draw(4, 2)
    np.testing.assert_array_equal(draw.ids, [[0, 2], [1, 2]])
    np.testing.assert_array_equal(draw.steps, [[4, 8], [6, 10]])


def test_a_rule_may_draw_from_its_key():
    rule = ud.plan.rule(lambda round, key: jax.random.choice(key, 50, (5,), replace=False), count=5)
    a, b = (Plan(50, rule, 1, 0.0, seed).draw(1, 3).ids for seed in (0, 1))
    np.testing.assert_array_equal(a, Plan(50, rule, 1, 0.0, 0).draw(1, 3).ids)
    assert not np.array_equal(a, b)
    assert len(np.unique(a, axis=0)) == 3


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Plan(3, ud.plan.uniform(4), 1, 0.0, 0), "a cohort of 4 cannot be drawn without replacement from 3 clients"),
        (lambda: ud.plan.uniform(0), "whole number of members ≥ 1, got 0"),
        (lambda: ud.plan.weighted("a"), "whole number of members ≥ 1, got 'a'"),
        (lambda: ud.plan.uniform(1.5), "whole number of members ≥ 1, got 1.5"),
        (lambda: Plan(3, full, 0, 0.0, 0), "τ_i must be ≥ 1, got 0 for client every client"),
        (lambda: Plan(3, full, [1, 0, 2], 0.0, 0), "τ_i must be ≥ 1, got 0 for client 1"),
        (lambda: Plan(3, full, [1, 2], 0.0, 0), r"one per client \(3\), got shape \(2,\)"),
        (lambda: Plan(3, full, 1.5, 0.0, 0), "must be whole numbers, got 1.5"),
        (lambda: Plan(3, full, float("nan"), 0.0, 0), "must be whole numbers"),
        (lambda: Plan(3, full, lambda t, key: [1, t - 2, 1], 0.0, 0).draw(1, 3), "got -1 for client 1 in round 1"),
        (lambda: ud.plan.random_steps(0, 3), "1 ≤ low ≤ high, got low = 0, high = 3"),
        (lambda: ud.plan.random_steps(4, 3), "1 ≤ low ≤ high"),
        (lambda: Plan(3, full, 1, 1.0, 0), r"must be in \[0, 1\), got 1.0"),
        (lambda: Plan(3, full, 1, float("nan"), 0), r"must be in \[0, 1\), got nan"),
        (lambda: Plan(3, ud.plan.rule(lambda t, key: [0, 3], 2), 1, 0.0, 0).draw(1, 1), "named the client 3 in round 1"),
        (lambda: Plan(3, ud.plan.rule(lambda t, key: [-1, 2], 2), 1, 0.0, 0).draw(1, 1), "named the client -1 in round 1"),
        (lambda: Plan(3, ud.plan.rule(lambda t, key: [0], 2), 1, 0.0, 0).draw(1, 1), r"must name 2 clients.*shape \(1,\)"),
    ],
)  # fmt: skip
def test_bad_plans(make, text):
    with pytest.raises(ud.InputError, match=text):
        make()


def test_weighted_cohorts_can_be_renormalised_and_say_so():
    """Then weights count twice: in who is drawn, and in the mean of two different members."""
    problem = ud.problems.quadratic(np.ones((2, 1, 1)), np.array([[0.0], [10.0]]), weights=[0.9, 0.1])
    plain, twice = (ud.plan.weighted(2, renormalise=flag) for flag in (False, True))
    assert (str(plain), str(twice)) == ("weighted(2)", "weighted(2, renormalise=True)")
    a, b = (ud.run(ud.fedsgd(eta=1.0), problem, rounds=40, participation=p, keep_iterates=True) for p in (plain, twice))
    mixed = a.iterates[1:, 0] == 5.0  # one of each
    assert mixed.any()
    np.testing.assert_allclose(b.iterates[1:, 0][mixed], 1.0)


def test_common_steps_are_the_same_for_all_clients_and_uniform():
    steps = Plan(4, full, ud.plan.random_steps(2, 7, common=True), 0.0, 3).draw(1, 4000).steps
    assert np.all(steps == steps[:, :1])
    assert likely(np.bincount(steps[:, 0] - 2, minlength=6))
    partial = Plan(4, ud.plan.uniform(2), ud.plan.random_steps(2, 7, common=True), 0.0, 3).draw(1, 50).steps
    np.testing.assert_array_equal(partial, steps[:50, :2])


def test_a_coin_of_ones_own_belongs_to_the_client():
    p, coin = 0.25, ud.plan.geometric_steps(0.25, common=False)
    steps = Plan(4, full, coin, 0.0, 3).draw(1, 5000).steps
    expected = np.array([p * (1 - p) ** k for k in range(8)] + [(1 - p) ** 8]) * steps.size
    assert likely(np.bincount(np.minimum(steps.ravel(), 9) - 1, minlength=9), expected)
    assert abs(np.corrcoef(steps[:, 0], steps[:, 1])[0, 1]) < 0.06
    partial = Plan(4, ud.plan.uniform(2), coin, 0.0, 3).draw(1, 50)
    np.testing.assert_array_equal(partial.steps, np.take_along_axis(steps[:50], partial.ids, axis=1))


@dataclasses.dataclass(frozen=True)
class Falling:
    start: float

    def __call__(self, count):
        return self.start / (1 + count)


def test_schedules_of_steps():
    optax_made = ud.plan.scheduled_steps(optax.linear_schedule(50, 5, transition_steps=100))
    steps = Plan(2, full, optax_made, 0.0, 0).draw(1, 300).steps
    exact = np.floor(np.maximum(50 - 0.45 * np.arange(300), 5) + 0.5 + 1e-6)
    np.testing.assert_array_equal(steps, np.stack([exact, exact], axis=1))
    own = Plan(3, ud.plan.uniform(2), ud.plan.scheduled_steps(Falling(8.0)), 0.0, 0)
    np.testing.assert_array_equal(own.draw(3, 3).steps, [[3, 3], [2, 2], [2, 2]])
    assert own.same_for_all_seeds is False
    assert Plan(3, full, ud.plan.scheduled_steps(Falling(8.0)), 0.0, 0).same_for_all_seeds
    with pytest.raises(ud.InputError, match=r"≥ 1, got 0\.0 for client every client in round 17"):
        own.draw(1, 20)


def test_pieces_of_steps_each_draw_as_they_would_alone():
    drawn, coin = ud.plan.random_steps(2, 9), ud.plan.geometric_steps(0.3)
    pieces = Plan(3, full, ud.plan.piecewise_steps({1: 4, 3: drawn, 6: [1, 2, 3], 8: coin}), 0.0, 5)
    whole = pieces.draw(1, 10).steps
    alone = {one: Plan(3, full, one, 0.0, 5).draw(1, 10).steps for one in (drawn, coin)}
    np.testing.assert_array_equal(whole[:2], np.full((2, 3), 4))
    np.testing.assert_array_equal(whole[2:5], alone[drawn][2:5])
    np.testing.assert_array_equal(whole[5:7], [[1, 2, 3]] * 2)
    np.testing.assert_array_equal(whole[7:], alone[coin][7:])
    np.testing.assert_array_equal(pieces.draw(5, 3).steps, whole[4:7])
    assert (pieces.steps.largest, ud.plan.piecewise_steps({1: 4, 3: drawn}).largest) == (None, 9)
    assert tuple(ud.plan.piecewise_steps({1: [7, 1], 3: ud.plan.random_steps(2, 3)}).values) == (1, 2, 3, 7)


def test_theory_knows_the_largest_of_steps_that_change():
    problem = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    eta = {}
    for steps in (9, ud.plan.piecewise_steps({1: 3, 4: 9}), ud.plan.random_steps(2, 9, common=True)):
        eta[str(steps)] = ud.describe(ud.fedavg(eta="theorem"), problem, rounds=5, steps=steps).method.numbers["eta"]
    assert len(set(eta.values())) == 1
    for unknown in (ud.plan.scheduled_steps(Falling(9.0)), ud.plan.geometric_steps(0.3, common=False)):
        with pytest.raises(ud.InputError, match="nobody knows the largest of"):
            ud.describe(ud.fedavg(eta="theorem"), problem, rounds=5, steps=unknown)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ud.plan.piecewise_steps({}), "a table {first round: steps}, the first from round 1 on; got {}"),
        (lambda: ud.plan.piecewise_steps({2: 5}), "got 2 as the first round: say what holds before"),
        (lambda: ud.plan.piecewise_steps({"a": 5}), "rounds whole numbers ≥ 1, got 'a'"),
        (lambda: ud.plan.piecewise_steps({1: ud.plan.piecewise_steps({1: 2})}), "cannot have pieces itself"),
        (lambda: Plan(3, full, ud.plan.piecewise_steps({1: 3, 5: [1, 2]}), 0.0, 0), r"one per client \(3\)"),
        (lambda: Plan(3, full, ud.plan.piecewise_steps({1: 0}), 0.0, 0), "τ_i must be ≥ 1, got 0"),
        (lambda: ud.plan.scheduled_steps(5), "a function of the round, got 5: give the number"),
        (lambda: Plan(3, full, ud.plan.scheduled_steps(lambda t: "a"), 0.0, 0).draw(1, 1), "that JAX can trace"),
        (lambda: Plan(3, full, ud.plan.scheduled_steps(lambda t: float("nan")), 0.0, 0).draw(1, 1), "whole numbers, got nan"),
        (lambda: Plan(3, full, ud.plan.scheduled_steps(lambda t: [1, 2]), 0.0, 0).draw(1, 1), "one number a round"),
    ],
)  # fmt: skip
def test_bad_steps_that_change(make, text):
    with pytest.raises(ud.InputError, match=text):
        make()
