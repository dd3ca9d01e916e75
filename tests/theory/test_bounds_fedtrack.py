"""FedTrack's theorems, whose L is that of single samples."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from instances import SAMPLES, failures, hard_least_squares, run_all, setup

import undrift as ud
from everyday import only

INSTANCES, ROUNDS = only([44, 220], {44}), 50
fedtrack = ud.theory.fedtrack


def cases(rank_deficient, count):
    rng = np.random.default_rng(10 + rank_deficient)
    problems = [hard_least_squares(rng, rank_deficient) for _ in range(count)]
    steps = [int(rng.integers(1, 4 * SAMPLES)) for _ in problems]
    return [(p, ud.theory.constants(p), H) for p, H in zip(problems, steps, strict=True)]


def played(cases, bounds, factor=1.0):
    return run_all(
        [
            setup(ud.fedtrack(eta=factor * b.numbers["eta"]), p, rounds=ROUNDS, steps=H)
            for b, (p, _, H) in zip(bounds, cases, strict=True)
        ]
    )


@pytest.fixture(scope="module", params=INSTANCES)
def full_rank(request):
    return cases(False, request.param)


def usable(cases):
    assert sum(c.mu > 0 for _, c, _ in cases) >= len(cases) * 200 / 220
    return [case for case in cases if case[1].mu > 0]


@pytest.mark.parametrize("theorem", [fedtrack.strongly_convex, fedtrack.pl, fedtrack.nonconvex])
def test_theorems_1_2_and_3(full_rank, theorem):
    found = usable(full_rank)
    bounds = [theorem(c, H) for _, c, H in found]
    assert all(b.holds_here for b in bounds)
    assert not failures(played(found, bounds), bounds, [p for p, _, _ in found])


@pytest.mark.parametrize("count", INSTANCES)
def test_theorem_3_where_f_has_many_minimisers(count):
    found = cases(True, count)
    with pytest.raises(ud.InputError, match="strong convexity"):
        fedtrack.strongly_convex(dataclasses.replace(found[0][1], mu=ud.theory.exact(0.0)))
    bounds = [fedtrack.pl(c, H) for _, c, H in found]
    assert not failures(played(found, bounds), bounds, [p for p, _, _ in found])


def test_a_step_ten_thousand_times_too_large_breaks_it(full_rank):
    found = usable(full_rank)
    bounds = [fedtrack.strongly_convex(c, H) for _, c, H in found]
    with np.errstate(all="ignore"):
        broken = failures(played(found, bounds, 1e4), bounds, [p for p, _, _ in found])
    assert len(broken) > len(full_rank) * 50 / 220


def test_the_constant_is_that_of_single_samples_times_their_number():
    A = np.array([[[3.0, 4.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 2.0]]])
    squares = ud.theory.constants(ud.problems.least_squares(A, np.ones((2, 2))))
    assert squares.L_components == 2 * 25
    logistic = ud.theory.constants(ud.problems.logistic(A, np.array([[1, -1], [-1, 1]]), l2=0.1))
    np.testing.assert_allclose(logistic.L_components, 2 * (25 / 4 + 0.1 / 2))
    assert squares.L_components.how == logistic.L_components.how == "exact"


def test_without_components_it_is_refused_by_name():
    p = ud.problems.quadratic(np.ones((2, 1, 1)), np.ones((2, 1)))
    with pytest.raises(ud.InputError, match="smoothness of every component"):
        fedtrack.strongly_convex(ud.theory.constants(p))


def test_unequal_steps_are_marked_as_outside_the_theorem():
    p = hard_least_squares(np.random.default_rng(0))
    bound = fedtrack.pl(ud.theory.constants(p), [1, 2, 3, 4])
    assert not bound.holds_here
    assert bound.steps == 4
