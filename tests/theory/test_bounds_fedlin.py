"""FedLin's theorems on hundreds of instances: ill-conditioned, far apart, τ_i from 1 to 100."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from instances import CLIENTS, DIM, failures, hard_quadratic, run_all, setup, spd, uneven_steps

import undrift as ud
from everyday import only

ROUNDS = 60
INSTANCES = only([48, 240], {48})
on_few_or_many = pytest.mark.parametrize("instances", INSTANCES)
fedlin = ud.theory.fedlin


@pytest.fixture(scope="module", params=INSTANCES)
def cases(request):
    """(problem, its constants, τ) for every instance."""
    rng = np.random.default_rng(0)
    problems = [hard_quadratic(rng) for _ in range(request.param)]
    return [(p, ud.theory.constants(p), uneven_steps(rng)) for p in problems]


def played(cases, bounds, seed=0, **options):
    """Every instance with the step of its bound."""
    made = [ud.fedlin(**b.numbers, **options) for b in bounds]
    return run_all(
        [
            setup(m, p, rounds=ROUNDS, steps=steps, keep_iterates=True, seed=seed)
            for m, (p, _, steps) in zip(made, cases, strict=True)
        ]
    )


def problems_of(cases):
    return [p for p, _, _ in cases]


def test_theorem_1(cases):
    bounds = [fedlin.strongly_convex(c, steps) for _, c, steps in cases]
    assert all(b.holds_here for b in bounds)
    assert not failures(played(cases, bounds), bounds, problems_of(cases))


def test_theorem_1_with_steps_drawn_anew_every_round(cases):
    steps = ud.plan.random_steps(1, 100)
    bounds = [fedlin.strongly_convex(c, steps) for _, c, _ in cases]
    assert not failures(played([(p, c, steps) for p, c, _ in cases], bounds), bounds, problems_of(cases))


def test_a_step_sixty_times_too_large_breaks_theorem_1(cases):
    bounds = [fedlin.strongly_convex(c, steps) for _, c, steps in cases]
    wild = [dataclasses.replace(b, numbers={"eta": 60 * b.numbers["eta"]}) for b in bounds]
    broken = failures(played(cases, wild), bounds, problems_of(cases))
    assert len(broken) > len(cases) // 4
    assert "fails first at round" in broken[0]


def test_a_rate_six_times_as_fast_is_not_kept(cases):
    """(1 − 1/κ) at η̄ = 1/(6L): gradient descent's promise at a sixth of its step."""
    bounds = [fedlin.strongly_convex(c, steps) for _, c, steps in cases]
    rates = [1 - 1 / c.kappa for _, c, _ in cases]
    greedy = [
        dataclasses.replace(b, rate=r, values=lambda t, s, r=r: r**t * s) for b, r in zip(bounds, rates, strict=True)
    ]
    assert failures(played(cases, bounds), greedy, problems_of(cases))


@on_few_or_many
def test_proposition_3_with_equal_clients(instances):
    rng = np.random.default_rng(1)
    cases = []
    for _ in range(instances):
        A, b = spd(rng, 10 ** rng.uniform(0, 4)), 10 * rng.normal(size=DIM)
        p = ud.problems.quadratic(np.stack([A] * CLIENTS), np.stack([b] * CLIENTS))
        cases.append((p, ud.theory.constants(p), np.full(CLIENTS, rng.integers(1, 101))))
    bounds = [fedlin.homogeneous(c, H) for _, c, H in cases]
    assert not failures(played(cases, bounds), bounds, problems_of(cases))


def test_proposition_3_is_refused_where_clients_or_steps_differ(cases):
    _, c, _ = cases[0]
    with pytest.raises(ud.InputError, match="all f_i are equal"):
        fedlin.homogeneous(c, 5)
    A = np.stack([np.eye(2)] * 3)
    same = ud.theory.constants(ud.problems.quadratic(A, np.ones((3, 2))))
    with pytest.raises(ud.InputError, match="τ_i = H"):
        fedlin.homogeneous(same, [1, 2, 3])


def singular(rng):
    """Convex, not strongly: every A_i has the same null directions, or its own, and Σ A_i may be singular."""
    shared = spd(rng, 1.0)[:, :2] if rng.uniform() < 0.5 else None
    A = []
    for _ in range(CLIENTS):
        B = spd(rng, 10 ** rng.uniform(0, 3))
        N = shared if shared is not None else rng.normal(size=(DIM, rng.integers(1, DIM)))
        P = np.eye(DIM) - N @ np.linalg.pinv(N)
        M = P @ B @ P
        A.append((M + M.T) / 2)
    A = np.stack(A)
    b = np.einsum("ijk,ik->ij", A, 10 ** rng.uniform(-1, 2) * rng.normal(size=(CLIENTS, DIM)))
    return ud.problems.quadratic(A, b)


@on_few_or_many
def test_theorem_2_on_the_running_mean_and_telescoped(instances):
    rng = np.random.default_rng(2)
    cases = []
    for _ in range(instances):
        p = singular(rng)
        c = ud.theory.constants(p)
        # Rounding leaves eigenvalues of −1e-13 where zeros are meant.
        cases.append((p, dataclasses.replace(c, mu=ud.theory.exact(max(c.mu, 0.0))), uneven_steps(rng)))
    bounds = [fedlin.convex(c, steps) for _, c, steps in cases]
    assert not failures(played(cases, bounds), bounds, problems_of(cases))


def test_theorem_2_on_strongly_convex_instances(cases):
    bounds = [fedlin.convex(c, steps) for _, c, steps in cases]
    assert not failures(played(cases, bounds), bounds, problems_of(cases))


def indefinite(rng):
    """f is convex, the f_i are not: far from it."""
    H = spd(rng, 10 ** rng.uniform(0, 2))
    E = rng.normal(size=(CLIENTS, DIM, DIM)) * 10 ** rng.uniform(0, 3)
    E = E + np.swapaxes(E, 1, 2)
    return ud.problems.quadratic(H + E - E.mean(axis=0), 10 * rng.normal(size=(CLIENTS, DIM)))


@on_few_or_many
def test_theorem_3_where_clients_are_not_convex(instances):
    rng = np.random.default_rng(3)
    problems = [indefinite(rng) for _ in range(instances)]
    cases = [(p, ud.theory.constants(p), uneven_steps(rng)) for p in problems]
    assert all(c.mu < 0 for _, c, _ in cases)
    bounds = [fedlin.nonconvex(c, steps) for _, c, steps in cases]
    assert not failures(played(cases, bounds), bounds, problems)


def test_theorem_3_where_f_has_no_minimum():
    A = np.array([[[1.0]], [[-2.0]]])
    p = ud.problems.quadratic(A, np.ones((2, 1)))
    bound = fedlin.nonconvex(ud.theory.constants(p), 3)
    verdict = ud.theory.check(ud.run(ud.fedlin(**bound.numbers), p, rounds=50, steps=3), bound)
    assert verdict.holds  # on the theorem's own right-hand side, f(x_0) − f(x_T)
    assert np.isfinite(verdict.promised[1:]).all()


def test_theorem_6_top_k_at_the_server_without_memory(cases):
    bounds = [fedlin.server_sparse(c, DIM, steps) for _, c, steps in cases]
    runs = played(cases, bounds, down=ud.top_k(1, memory=False))
    assert not failures(runs, bounds, problems_of(cases))


def test_theorem_7_top_k_at_the_server_with_memory(cases):
    bounds = [fedlin.server_sparse_memory(c, DIM, steps) for _, c, steps in cases]
    assert not failures(played(cases, bounds, down=ud.top_k(1)), bounds, problems_of(cases))


def test_theorem_8_top_k_at_the_clients_with_memory(cases):
    bounds = [fedlin.client_sparse_memory(c, DIM, steps) for _, c, steps in cases]
    assert all(b.holds_here for b in bounds)  # C and D are upper bounds for every x on quadratics
    assert not failures(played(cases, bounds, up=ud.top_k(1)), bounds, problems_of(cases))


@pytest.mark.parametrize("seeds", only([60, 240], {60}))
@pytest.mark.parametrize("share", [1.0, 1.999])
def test_theorem_4_mean_over_seeds(share, seeds):
    """η̄ = 1/(12L), which the proof covers, and almost 1/(6L), which only the statement does."""
    rng = np.random.default_rng(4)
    oracle = ud.oracles.noisy(100.0)
    setups, bounds = [], []
    for worst in (1.5, 10.0, 1e3):
        p = hard_quadratic(rng, worst)
        eta = share / (12 * p.constants.L)
        bounds.append([fedlin.noisy(ud.theory.constants(p, oracle=o), 7, eta_bar=eta) for o in (oracle, None)])
        near = p.optimum.x + 0.1 * rng.normal(size=DIM)  # where the noise is what counts
        setups += [
            setup(ud.fedlin(eta=eta), p, rounds=ROUNDS, steps=7, seed=s, oracle=oracle, x0=near) for s in range(seeds)
        ]
    runs = run_all(setups)
    for i, (bound, without_noise) in enumerate(bounds):
        mine = runs[i * seeds : (i + 1) * seeds]
        verdict = ud.theory.check(mine, bound)
        assert verdict.holds, str(verdict)
        assert verdict.runs == seeds
        assert (verdict.measured[-1] + 3 * verdict.error[-1]) < verdict.promised[-1]  # not by the allowance
        if i == 0:  # well conditioned: the noise is what is left, and without its term the bound breaks
            assert not ud.theory.check(mine, without_noise).holds


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [8, 30])
def test_theorem_4_with_steps_that_fall_like_one_over_t(seeds):
    """No floor: the mean over seeds stays below O(1/T), where a constant step of the same theorem comes to rest above it."""
    rng = np.random.default_rng(5)
    p, oracle, rounds = hard_quadratic(rng, 3.0), ud.oracles.noisy(1e5), 1500
    c = ud.theory.constants(p, oracle=oracle)
    falling, constant = fedlin.decreasing(c, 7), fedlin.noisy(c, 7)
    plan = {"rounds": rounds, "steps": 7, "oracle": oracle, "x0": p.optimum.x}
    mine, other = (
        run_all([setup(ud.fedlin(**b.numbers), p, seed=s, **plan) for s in range(seeds)]) for b in (falling, constant)
    )
    verdict = ud.theory.check(mine, falling)
    assert verdict.holds, str(verdict)
    mean = np.mean([r.history["sq_distance"] for r in mine], axis=0)
    early, late = mean[130:170].mean(), mean[-200:].mean()
    assert late < early / 3  # T grew by a factor of about 9 between the two
    assert late < np.mean([r.history["sq_distance"][-200:] for r in other]) / 4


def test_constants_that_a_theorem_lacks_are_refused_by_the_assumption(cases):
    _, c, _ = cases[0]
    flat = dataclasses.replace(c, mu=ud.theory.exact(0.0))
    for bound in (fedlin.strongly_convex, fedlin.noisy):
        with pytest.raises(ud.InputError, match="strong convexity"):
            bound(flat)
    with pytest.raises(ud.InputError, match="strong convexity"):
        fedlin.server_sparse(flat, 2.0)
    with pytest.raises(ud.InputError, match="convexity of every f_i"):
        fedlin.convex(dataclasses.replace(c, mu=ud.theory.exact(-1.0)))
    with pytest.raises(ud.InputError, match=r"bounded gradient dissimilarity \(Assumption 1\)"):
        fedlin.client_sparse_memory(dataclasses.replace(c, C=None), 2.0)
    with pytest.raises(ud.InputError, match="L-smoothness"):
        fedlin.nonconvex(dataclasses.replace(c, L=None))
    with pytest.raises(ud.InputError, match=r"η̄ ≤ 1/\(6L\)"):
        fedlin.noisy(c, eta_bar=1.0 / c.L)
    with pytest.raises(ud.InputError, match="δ = d/k ≥ 1"):
        fedlin.server_sparse(c, 0.5)


def test_theorem_5_lower_curve():
    bound = fedlin.lower_bound(steps=3)
    assert bound.lower
    np.testing.assert_allclose(bound.curve(3, 2.0), 2.0 * np.exp(-4.0 * np.arange(4)))
