"""FedTrack and IAG against naive loops over components."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import undrift as ud

SIZES = [7, 4, 9, 6]
STEPS = [1, 9, 20, 5]
DIM = 5
L2 = 0.3


class Naive:
    """Component gradients of four clients, one Python loop each."""

    def __init__(self, kind: str, sizes: list[int] = SIZES) -> None:
        rng = np.random.default_rng(1)
        self.kind = kind
        self.A = [rng.normal(size=(n, DIM)) for n in sizes]
        self.b = [rng.normal(size=n) for n in sizes]

    def problem(self) -> ud.problems.Problem:
        if self.kind == "least squares":
            return ud.problems.least_squares(self.A, self.b)
        if self.kind == "logistic":
            return ud.problems.logistic(self.A, [np.sign(b) for b in self.b], l2=L2)
        import jax.numpy as jnp

        samples = list(zip(self.A, self.b, strict=True))  # the same least squares, through the vector table
        return ud.problems.custom(
            lambda x, s: 0.5 * jnp.square(s[0] @ x - s[1]), samples, DIM, per_sample=True, average=False
        )

    def sample(self, i: int, j: int, x: np.ndarray) -> np.ndarray:
        a, b = self.A[i][j], self.b[i][j]
        if self.kind == "logistic":
            y = np.sign(b)
            return -y * a / (1 + np.exp(y * (a @ x))) + L2 / SIZES[i] * x
        return (a @ x - b) * a

    def components(self, i: int, batch: int) -> list[range]:
        return [range(k, min(k + batch, SIZES[i])) for k in range(0, SIZES[i], batch)]

    def component(self, i: int, samples: range, x: np.ndarray) -> np.ndarray:
        return np.sum([self.sample(i, j, x) for j in samples], axis=0)

    def fedtrack(self, eta: float, rounds: int, batch: int, order: list[int] | None) -> np.ndarray:
        x = np.zeros(DIM)
        path = [x]
        for _ in range(rounds):
            tables = [[self.component(i, c, x) for c in self.components(i, batch)] for i in range(4)]
            full = [np.sum(table, axis=0) for table in tables]
            g = np.mean(full, axis=0)
            ends = []
            for i, tau in enumerate(STEPS):
                parts, table = self.components(i, batch), tables[i]
                y = x - eta * g
                for step in range(1, tau):
                    j = (step - 1) % len(parts) if order is None else order[(step - 1) % len(order)] % len(parts)
                    table[j] = self.component(i, parts[j], y)
                    y = y - eta * (np.sum(table, axis=0) - full[i] + g)
                ends.append(y)
            x = np.mean(ends, axis=0)
            path.append(x)
        return np.array(path)

    def iag(self, eta: float, steps: int) -> np.ndarray:
        x = np.zeros(DIM)
        parts = [(i, j) for i in range(4) for j in range(SIZES[i])]
        table = [self.sample(i, j, x) / 4 for i, j in parts]
        for k in range(steps):
            i, j = parts[k % len(parts)]
            table[k % len(parts)] = self.sample(i, j, x) / 4
            x = x - eta * np.sum(table, axis=0)
        return x


LISTED = [2, 0, 1, 3]


OFTEN = [("least squares", 1, None), ("logistic", 2, LISTED), ("custom", 2, None)]
SELDOM = [
    case
    for case in itertools.product(("least squares", "logistic", "custom"), (1, 2), (None, LISTED))
    if case not in OFTEN
]


@pytest.mark.parametrize(
    ("kind", "batch", "order"), OFTEN + [pytest.param(*case, marks=pytest.mark.slow) for case in SELDOM]
)
def test_iterates_equal_the_naive_loop(kind: str, batch: int, order: list[int] | None) -> None:
    naive = Naive(kind)
    method = ud.fedtrack(eta=0.01, order="cyclic" if order is None else order, batch=batch)
    result = ud.run(method, naive.problem(), rounds=30, steps=STEPS, keep_iterates=True)
    np.testing.assert_allclose(result.iterates, naive.fedtrack(0.01, 30, batch, order), rtol=1e-9, atol=1e-12)


def test_iag_equals_the_naive_loop() -> None:
    naive = Naive("least squares")
    result = ud.run(ud.iag(eta=0.01), naive.problem(), rounds=10, steps=7)
    np.testing.assert_allclose(result.x, naive.iag(0.01, 70), rtol=1e-9)
    assert result.history["gradients"].tolist()[:3] == [sum(SIZES), sum(SIZES) + 7, sum(SIZES) + 14]


def test_a_round_costs_components_plus_steps_minus_one_against_steps_times_components() -> None:
    problem = Naive("least squares").problem()
    track = ud.run(ud.fedtrack(eta=0.01), problem, rounds=3, steps=10).history
    lin = ud.run(ud.fedlin(eta=0.01), problem, rounds=3, steps=10).history
    assert np.diff(track["gradients"]).tolist() == [sum(n + 9 for n in SIZES)] * 3
    assert np.diff(track["component_gradients"]).tolist() == [sum(n + 9 for n in SIZES)] * 3
    assert np.diff(lin["component_gradients"]).tolist() == [10 * sum(SIZES)] * 3


@pytest.mark.parametrize(
    "order",
    [
        pytest.param("cyclic", marks=pytest.mark.slow),
        "reshuffled",
        lambda refresh, count, round, client: refresh * 2 + round,
    ],
)
def test_every_order_arrives_at_the_minimiser(order: object) -> None:
    problem = Naive("logistic").problem()
    result = ud.run(ud.fedtrack(eta=0.01, order=order), problem, rounds=600, steps=12)
    np.testing.assert_allclose(result.x, problem.optimum.x, atol=1e-7)


SOME: dict[str, object] = {"participation": ud.plan.uniform(2), "failures": 0.2}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "arguments"),
    [
        ([7, 4, 7, 4], SOME),  # message passing compiles for every size
        pytest.param(SIZES, SOME, marks=pytest.mark.slow),
        pytest.param(SIZES, {}, marks=pytest.mark.slow),
    ],
    ids=["two sizes, some", "some", "all"],
)
def test_message_passing_agrees(sizes: list[int], arguments: dict[str, object]) -> None:
    problem = Naive("logistic", sizes).problem()
    a, b = (
        f(ud.fedtrack(eta=0.01, order="reshuffled"), problem, rounds=4, steps=5, **arguments)
        for f in (ud.run, ud.loopback)
    )
    np.testing.assert_allclose(a.x, b.x, rtol=1e-12)
    assert a.history["gradients"].tolist() == b.history["gradients"].tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": "cyclik"}, "did you mean 'cyclic'"),
        ({"order": [-1]}, "component numbers ≥ 0"),
        ({"batch": 0}, "whole number of samples ≥ 1"),
        ({"eta": 0.0}, "eta must be a finite number > 0"),
    ],
)
def test_bad_input(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ud.InputError, match=message):
        ud.fedtrack(**{"eta": 0.1, **arguments})


def test_a_problem_without_components_is_refused() -> None:
    problem = ud.problems.quadratic(np.ones((2, 1, 1)), np.ones((2, 1)))
    with pytest.raises(ud.InputError, match="no components"):
        ud.run(ud.fedtrack(eta=0.1), problem, rounds=1)
