"""Scaffnew's theorem: by iteration as the paper states it, by round as it is derived here, and √κ against κ."""

from __future__ import annotations

import numpy as np
import pytest

import undrift as ud
from undrift.theory import scaffnew

CLIENTS, DIM = 4, 3
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4])


def family(
    seed: int, kappa: float = 20.0, clients: int = CLIENTS, dim: int = DIM, apart: float = 0.05
) -> ud.problems.Problem:
    """Quadratics with eigenvalues between 1/κ and 1, both taken by every client, in bases that differ a little (or not)."""
    rng = np.random.default_rng(seed)
    base, found = np.linalg.qr(rng.standard_normal((dim, dim)))[0], []
    for _ in range(clients):
        Q = np.linalg.qr(base + apart * rng.standard_normal((dim, dim)))[0]
        middle = rng.uniform(1 / kappa, 1, dim - 2)
        found.append(Q @ np.diag([1 / kappa, *middle, 1.0]) @ Q.T)
    A = np.stack(found)
    b = rng.standard_normal((clients, dim))
    return ud.problems.quadratic(A, b, weights=WEIGHTS if clients == CLIENTS else None)


class Iterations:
    """ProxSkip's iterations on a family, for many rows of coins side by side: x and h are (runs, m, d)."""

    def __init__(self, problem: ud.problems.Problem, gamma: float, p: float) -> None:
        self.A, b = (
            problem.hessians(np.zeros(problem.dim)),
            -np.stack([_gradient_at_zero(problem, i) for i in range(problem.clients)]),
        )
        self.b, self.w, self.gamma, self.p = b, np.asarray(problem.weights), gamma, p
        self.best = np.asarray(problem.optimum.x)
        self.h_best = self.gradient(np.tile(self.best, (1, problem.clients, 1)))

    def gradient(self, x: np.ndarray) -> np.ndarray:
        return np.einsum("mij,rmj->rmi", self.A, x) - self.b

    def step(self, x: np.ndarray, h: np.ndarray, heads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        hat = x - self.gamma * (self.gradient(x) - h)
        mean = np.einsum("m,rmd->rd", self.w, hat)[:, None, :]
        new = np.where(heads[:, None, None], mean, hat)
        return new, h + self.p / self.gamma * (new - hat)

    def psi(self, x: np.ndarray, h: np.ndarray) -> np.ndarray:
        away = np.sum((x - self.best) ** 2, axis=-1) + (self.gamma / self.p) ** 2 * np.sum(
            (h - self.h_best) ** 2, axis=-1
        )
        return away @ self.w


def _gradient_at_zero(problem: ud.problems.Problem, i: int) -> np.ndarray:
    return np.asarray(problem.only(i).gradient(np.zeros(problem.dim)))


@pytest.mark.parametrize("p", [0.05, 0.3, 1.0])
def test_one_iteration_contracts_and_heads_at_most_double(p):
    """The two inequalities of the proof, on random states: no sampling, the coin's two sides are both taken."""
    for seed in range(5):
        problem = family(seed)
        c = problem.constants
        for gamma in (1 / c.L, 0.3 / c.L):
            it, rng = Iterations(problem, gamma, p), np.random.default_rng(seed)
            x = rng.standard_normal((200, CLIENTS, DIM)) * rng.uniform(0, 10, (200, 1, 1))
            h = rng.standard_normal(x.shape) * rng.uniform(0, 10, (200, 1, 1))
            h -= np.einsum("m,rmd->rd", it.w, h)[:, None, :]
            H, N = (it.psi(*it.step(x, h, np.full(200, side))) for side in (True, False))
            factor = scaffnew.per_iteration(gamma, p, c.mu)
            assert np.all(p * H + (1 - p) * N <= factor * it.psi(x, h) * (1 + 1e-12))
            assert np.all(H <= 2 * N * (1 + 1e-12))
            theta = 1 / scaffnew.per_round(gamma, p, c.mu)
            assert np.all(theta * p * H + (1 - p) * N <= it.psi(x, h) * (1 + 1e-12)), "the supermartingale"


def test_the_mean_over_coins_by_iteration_and_at_the_heads():
    problem = family(1)
    c = problem.constants
    gamma, p, runs, length = 1 / c.L, np.sqrt(c.mu / c.L), 4000, 120
    it, coins = Iterations(problem, gamma, p), np.random.default_rng(5).random((length, runs)) < p
    x, h = np.zeros((runs, CLIENTS, DIM)), np.zeros((runs, CLIENTS, DIM))
    start, factor = it.psi(x, h)[0], scaffnew.per_iteration(gamma, p, c.mu)
    theta, count, at_heads = 1 / scaffnew.per_round(gamma, p, c.mu), np.zeros(runs, int), {}
    for t, heads in enumerate(coins, start=1):
        x, h = it.step(x, h, heads)
        now = it.psi(x, h)
        error = now.std() / np.sqrt(runs)
        assert now.mean() <= factor**t * start + 3 * error
        count += heads
        for k in (1, 4):
            at_heads.setdefault(k, []).extend(now[heads & (count == k)])
    for k, seen in at_heads.items():
        assert len(seen) > 0.9 * runs
        assert np.sum(seen) / runs <= theta**-k * start + 3 * np.std(seen) / np.sqrt(runs)


@pytest.mark.parametrize("p", [0.1, None, 0.6, 1.0])
def test_runs_keep_the_promise_by_round(p):
    for seed, share in ((0, 1.0), (2, 0.5)):
        problem = family(seed)
        c = ud.theory.constants(problem)
        bound = scaffnew.strongly_convex(c, eta=share / float(c.L), p=p)
        point = {name: [value] for name, value in bound.numbers.items()}
        swept = ud.sweep(ud.scaffnew, problem, grid=point, seeds=60, rounds=60)
        verdict = ud.theory.check(swept, bound)
        assert verdict.holds, str(verdict)
        assert bound.holds_here
        assert verdict.tightness > 1


def test_by_the_run_s_own_number_of_iterations():
    """E[‖x − x*‖² (1 − ζ)^{−T}] ≤ Ψ_0 at the end of every round, T the local steps taken so far: Ψ_t/(1 − ζ)^t, stopped."""
    problem = family(3)
    c = ud.theory.constants(problem)
    bound = scaffnew.strongly_convex(c)
    gamma, p = bound.numbers["eta"], bound.numbers["p"]
    swept = ud.sweep(ud.scaffnew, problem, grid={"eta": [gamma], "p": [p]}, seeds=60, rounds=60)
    steps = swept.history["gradients"][0, 0] / CLIENTS
    left = swept.history["sq_distance"][0, 0] * scaffnew.per_iteration(gamma, p, float(c.mu)) ** -steps
    start = swept.history["sq_distance"][0, 0, 0, 0] + (gamma / p) ** 2 * float(c.zeta_star_sq)
    assert np.all(left.mean(axis=0) <= start + 3 * left.std(axis=0) / np.sqrt(len(left)))


def test_noise_has_the_promised_floor():
    problem, oracle = family(4), ud.oracles.noisy(0.5)
    bound = scaffnew.strongly_convex(ud.theory.constants(problem, oracle=oracle), p=0.4)
    point = {name: [value] for name, value in bound.numbers.items()}
    swept = ud.sweep(ud.scaffnew, problem, grid=point, seeds=100, rounds=150, oracle=oracle)
    verdict = ud.theory.check(swept, bound)
    assert verdict.holds, str(verdict)
    assert 0.01 * bound.floor < verdict.measured[-1] < bound.floor


def test_too_long_a_step_breaks_the_promise():
    problem = family(0)
    c = ud.theory.constants(problem)
    bound = scaffnew.strongly_convex(c)
    runs = [
        ud.run(ud.scaffnew(3 / float(c.L), bound.numbers["p"]), problem, rounds=20, seed=s, on_divergence="continue")
        for s in range(3)
    ]
    assert not ud.theory.check(runs, bound).holds
    with pytest.raises(ud.InputError, match="choose a smaller step"):
        scaffnew.strongly_convex(c, eta=1.1 / float(c.L))


def test_for_p_1_it_is_gradient_descent():
    assert scaffnew.per_round(0.5, 1.0, 0.2) == pytest.approx(1 - 0.5 * 0.2)


KAPPAS = (16.0, 64.0, 256.0)


def rounds_to(histories: np.ndarray, target: float) -> float:
    """The mean over seeds of the first round from which on the squared distance stays below the target."""
    above = histories > target * histories[..., :1]
    assert not np.any(above[..., -1])
    return float(np.mean(above.shape[-1] - np.argmax(above[..., ::-1], axis=-1)))


@pytest.mark.computes
def test_rounds_grow_like_the_root_of_kappa_and_gradient_descent_s_like_kappa():
    """γ = 1/L, p = 1/√κ: log rounds over log κ has slope ½ (± 0.15); FedSGD at 1/L has slope 1 (± 0.15)."""
    ours, plain = [], []
    for kappa in KAPPAS:
        problem = family(7, kappa, clients=6, dim=8, apart=0.0)  # else f is better conditioned than the clients are
        method = ud.sweep(
            ud.scaffnew, problem, grid={"eta": [1.0], "p": [kappa**-0.5]}, seeds=10, rounds=int(40 * np.sqrt(kappa))
        )
        ours.append(rounds_to(method.history["sq_distance"][0, 0], 1e-6))
        history = ud.run(ud.fedsgd(eta=1.0), problem, rounds=int(10 * kappa)).history
        plain.append(rounds_to(history["sq_distance"], 1e-6))
    slopes = [np.polyfit(np.log(KAPPAS), np.log(rounds), 1)[0] for rounds in (ours, plain)]
    assert abs(slopes[0] - 0.5) < 0.15, (slopes, ours)
    assert abs(slopes[1] - 1.0) < 0.15, (slopes, plain)
    assert ours[-1] < plain[-1] / 4


def test_eta_and_p_by_theorem_and_what_it_does_not_cover():
    problem = family(0)
    c = problem.constants
    chosen = ud.describe(ud.scaffnew("theorem", "theorem"), problem, rounds=0).method
    assert chosen.numbers == pytest.approx({"eta": 1 / c.L, "p": np.sqrt(c.mu / c.L)})
    assert ud.describe(ud.scaffnew(0.5 / c.L, "theorem"), problem, rounds=0).method.numbers["p"] == pytest.approx(
        np.sqrt(0.5 * c.mu / c.L)
    )
    assert ud.theory.promise(ud.scaffnew(0.5 / c.L, 0.3), problem) is not None
    assert ud.theory.promise(ud.scaffnew(1.5 / c.L, 0.3), problem) is None
    with pytest.raises(ud.InputError, match="every client takes part"):
        ud.describe(ud.scaffnew("theorem", 0.5), problem, rounds=0, participation=ud.plan.uniform(2))
    flat = ud.problems.quadratic(np.array([[[1.0]], [[0.0]]]), np.array([[1.0], [0.0]]))
    with pytest.raises(ud.InputError, match="strong convexity"):
        ud.describe(ud.scaffnew("theorem", "theorem"), flat, rounds=0)


def test_the_adviser_predicts_its_rounds_exactly():
    problem = family(5)
    advice = ud.advise(problem, 1e-6, methods=["scaffnew", "fedlin"], steps=[1, 4], measure=True, factors=(1.0,))
    found = [c for c in advice.candidates if c.label == "scaffnew"]
    assert len(found) == 2
    for candidate in found:
        assert candidate.how == "exact"
        assert candidate.measured.rounds == candidate.forecast.rounds
        assert candidate.guarantee is not None
    assert "scaffnew:eta=" in found[1].method_word("scaffnew")
    assert "p=0.25" in found[1].method_word("scaffnew")
