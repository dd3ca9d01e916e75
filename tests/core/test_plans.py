"""Who takes part, with how many steps, and who answers."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
from scipy import stats

import undrift as ud
from undrift.plan import Plan

full = ud.plan.full()


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
        assert stats.chisquare(np.bincount(ids[:, place], minlength=m)).pvalue > 1e-4
    pairs = np.bincount(ids[:, 0] * m + ids[:, 1], minlength=m * m).reshape(m, m)
    counts = pairs.ravel() if replace else pairs[~np.eye(m, dtype=bool)]
    assert stats.chisquare(counts).pvalue > 1e-4
    assert replace or np.all(np.diag(pairs) == 0)


def test_random_steps_are_uniform_and_belong_to_the_client():
    plan = Plan(5, full, ud.plan.random_steps(2, 7), 0.0, 3)
    steps = plan.draw(1, 4000).steps
    assert stats.chisquare(np.bincount(steps.ravel() - 2, minlength=6)).pvalue > 1e-4
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
