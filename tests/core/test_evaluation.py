"""Evaluation from clients' answers: the same columns from one compiled program and from every client alone."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import DIM, WEIGHTS, squared_distance
from test_population import CLIENTS, KINDS, problem_named

import undrift as ud
from everyday import only, share
from undrift import precision
from undrift.problems.evaluation import Evaluation, summarise

STATISTICS = ("worst", "spread", "q10", "q50", "q90")


def at(problem: ud.problems.Problem, seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=problem.dim).astype(problem.dtype)


def evaluated(problem: ud.problems.Problem, x: np.ndarray, reference: Any, per_client: bool = False) -> Evaluation:
    with precision.scope(problem.dtype):
        found = jax.jit(lambda p, x, r: p.evaluate(x, r, per_client))(problem, jnp.asarray(x), reference)
        return jax.device_get(found)


def from_each_alone(problem: ud.problems.Problem, x: np.ndarray, reference: Any, per_client: bool) -> Evaluation:
    """Played as messages: every client answers from `only(i)`, the server adds what it measures itself."""
    optimum = None if reference is None else reference.x
    with precision.scope(problem.dtype):
        answers = [answered(problem.only(i), x, optimum, per_client) for i in range(problem.clients)]
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *answers)
        weights = problem.population.weights
        found = jax.device_get(summarised(x, stacked, weights, reference, per_client))
        server = problem.server_data
        if server is not None:
            found = found._replace(columns=found.columns | jax.device_get(server.measure(jnp.asarray(x))))
        return found


@functools.partial(jax.jit, static_argnums=3)
def answered(alone: ud.problems.Problem, x: jax.Array, optimum: Any, per_client: bool) -> Any:
    """What the only client of this problem says."""
    loss = alone.client(jax.tree.map(lambda leaf: leaf[0], alone.stack))
    return loss.measure(x, optimum, per_client)


summarised = functools.partial(jax.jit, static_argnums=4)(summarise)
CELLS = [
    (name, per_client)
    for name in (*KINDS, "pooled least squares", "pooled sampled network")
    for per_client in (False, True)
]


@pytest.mark.parametrize("cell", share(CELLS, 0, of=8), ids=lambda cell: "{}-{}".format(*cell))
def test_compiled_evaluation_equals_the_exchange(cell: tuple[str, bool]) -> None:
    name, per_client = cell
    problem = problem_named(name)
    x, reference = at(problem), problem.reference()
    a, b = evaluated(problem, x, reference, per_client), from_each_alone(problem, x, reference, per_client)
    tolerance = {"rtol": 1e-11} if problem.dtype == np.float64 else {"rtol": 2e-5, "atol": 1e-6}
    assert set(a.columns) == set(b.columns)
    for column in a.columns:
        np.testing.assert_allclose(a.columns[column], b.columns[column], err_msg=column, **tolerance)
    assert set(a.clients) == set(b.clients)
    assert bool(a.clients) == per_client
    for column in a.clients:
        np.testing.assert_allclose(a.clients[column], b.clients[column], err_msg=column, **tolerance)
    assert a.suspect == b.suspect


KINDS = ["quadratic", "stepwise quadratic", "least squares", "wide least squares", "logistic"]


@pytest.mark.parametrize("name", only(KINDS, {"wide least squares", "logistic"}))
def test_columns_against_numpy(name: str) -> None:
    problem = problem_named(name)
    x, w = at(problem), np.asarray(problem.weights)
    alone = [problem.only(i) for i in range(CLIENTS)]
    losses, gradients = np.array([p.value(x) for p in alone]), np.array([p.gradient(x) for p in alone])
    best = problem.optimum
    expected = {
        "loss": w @ losses,
        "gap": w @ losses - best.value,
        "sq_distance": np.sum((x - best.x) ** 2),
        "grad_norm": np.linalg.norm(w @ gradients),
        "dissimilarity": np.max(np.linalg.norm(gradients - w @ gradients, axis=1)),
        "loss_worst": losses.max(),
        "loss_spread": losses.std(),
        **{f"loss_q{q}": np.percentile(losses, q) for q in (10, 50, 90)},
    }
    for per_client in (False, True):
        found = evaluated(problem, x, problem.reference(), per_client)
        assert list(problem.evaluation_shapes(problem.reference()).columns) == list(expected)
        known = expected | (_accuracies(problem, x) if per_client and name == "logistic" else {})
        assert set(found.columns) == set(known)
        for column, value in known.items():
            np.testing.assert_allclose(found.columns[column], value, rtol=1e-9, err_msg=column)
    np.testing.assert_allclose(found.clients["loss"], losses, rtol=1e-12)
    np.testing.assert_allclose(found.clients["grad_norm"], np.linalg.norm(gradients, axis=1), rtol=1e-12)
    assert ("gap" in found.clients) == (name != "logistic")


def _accuracies(problem: ud.problems.Problem, x: np.ndarray) -> dict[str, float]:
    """Statistics of the share of own samples that each client finds on their side, by NumPy."""
    A, y = np.asarray(problem.stack["A"]), np.asarray(problem.stack["y"])
    right = np.array([np.mean(np.sign(A[i][y[i] != 0] @ x) == y[i][y[i] != 0]) for i in range(CLIENTS)])
    quantiles = {f"accuracy_q{q}": np.percentile(right, q) for q in (10, 50, 90)}
    return {"accuracy_worst": right.min(), "accuracy_spread": right.std(), **quantiles}


@pytest.mark.parametrize("name", ["quadratic", "stepwise quadratic", "least squares", "wide least squares"])
@pytest.mark.parametrize("per_client", [False, True])
def test_the_gap_is_exact_near_the_minimiser(name: str, per_client: bool) -> None:
    """Where f(x) − f* is far below the rounding of f, the shares of the clients still add up to it."""
    problem = problem_named(name)
    reference = problem.reference()
    off = 1e-12 * np.linalg.norm(reference.x) * np.eye(problem.dim)[0]
    moved = (reference.x + off) - reference.x  # what is left of it after rounding
    curvature = sum(w * _hessian(problem.only(i))[0, 0] for i, w in enumerate(np.asarray(problem.weights)))
    gap = evaluated(problem, reference.x + off, reference, per_client).columns["gap"]
    np.testing.assert_allclose(gap, 0.5 * curvature * moved[0] ** 2, rtol=1e-9)


def _hessian(problem: ud.problems.Problem) -> np.ndarray:
    zero = problem.gradient(np.zeros(problem.dim))
    return np.array([problem.gradient(row) - zero for row in np.eye(problem.dim)])


def test_what_is_not_known_is_absent() -> None:
    problem = problem_named("custom")
    assert list(problem.evaluation_shapes(None).columns) == [
        "loss", "grad_norm", "dissimilarity", *(f"loss_{kind}" for kind in STATISTICS)
    ]  # fmt: skip
    network = problem_named("sampled network")
    assert list(network.evaluation_shapes(None).columns) == ["loss", "test_loss", "accuracy"]
    assert network.evaluation_shapes(None).clients == {}
    asked = network.evaluation_shapes(None, per_client=True)
    wanted = [f"{name}_{kind}" for name in ("loss", "accuracy") for kind in STATISTICS]
    assert list(asked.columns) == ["loss", *wanted, "test_loss", "accuracy"]
    assert {name: s.shape for name, s in asked.clients.items()} == {"loss": (CLIENTS,), "accuracy": (CLIENTS,)}


def test_networks_per_client() -> None:
    problem = problem_named("network")
    x = at(problem)
    found = evaluated(problem, x, None, per_client=True)
    with precision.scope(problem.dtype):
        losses = problem.each(lambda f: f.loss(jnp.asarray(x)))
    np.testing.assert_allclose(found.clients["loss"], losses, rtol=1e-5)
    shared = {name: np.asarray(problem.shared[name]) for name in ("x", "y", "order")}
    logits = problem.architecture.net.apply(problem.architecture.unravel(jnp.asarray(x)), shared["x"][shared["order"]])
    right = np.argmax(logits, axis=1) == shared["y"][shared["order"]]
    accuracy = [part.mean() for part in np.split(right, np.cumsum(problem.sizes)[:-1])]
    np.testing.assert_allclose(found.clients["accuracy"], accuracy, rtol=1e-6)
    np.testing.assert_allclose(found.columns["accuracy_worst"], np.min(accuracy), rtol=1e-6)
    np.testing.assert_allclose(found.columns["accuracy_q10"], np.percentile(accuracy, 10), rtol=1e-5)
    np.testing.assert_allclose(found.columns["loss_worst"], np.max(losses), rtol=1e-5)


def test_an_answers_weight_replaces_that_of_the_client() -> None:
    answers = {"loss": jnp.array([1.0, 5.0]), "weight": jnp.array([0.75, 0.25])}
    found = summarise(jnp.zeros(1), answers, jnp.array([0.5, 0.5]), None)
    assert found.columns == {"loss": 2.0}  # of a sample: nothing is said about the clients' own losses
    assert found.suspect == -1


def test_the_suspect_has_the_steepest_gradient_among_broken_losses() -> None:
    gradients = jnp.array([[1.0], [9.0], [4.0], [2.0]])
    weights = jnp.full(4, 0.25)

    def suspect(losses: list[float], gradients: Any = gradients) -> int:
        return int(summarise(jnp.zeros(1), {"loss": jnp.array(losses), "gradient": gradients}, weights, None).suspect)

    infinite = float("inf")
    assert suspect([1.0, 1.0, 1.0, 1.0]) == 1
    assert suspect([infinite] * 4) == 1
    assert suspect([1.0, 1.0, infinite, float("nan")]) == 2
    assert suspect([1.0] * 4, gradients.at[3].set(jnp.nan)) == 3


def test_a_history_tells_clients_apart() -> None:
    targets = np.random.default_rng(0).normal(size=(CLIENTS, DIM))
    problem = ud.problems.custom(squared_distance, targets, DIM, weights=WEIGHTS)
    r = ud.run(ud.fedsgd(eta=0.1), problem, rounds=4, keep_iterates=True)
    losses = np.array([[problem.only(i).value(x) for i in range(CLIENTS)] for x in r.iterates])
    np.testing.assert_allclose(r.history["loss_worst"], losses.max(axis=1), rtol=1e-12)
    np.testing.assert_allclose(r.history["loss_spread"], losses.std(axis=1), rtol=1e-10)
    np.testing.assert_allclose(r.history["loss_q90"], np.percentile(losses, 90, axis=1), rtol=1e-12)
