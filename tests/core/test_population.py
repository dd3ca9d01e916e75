"""The server knows no data, a client only its own: `population` and `only` look at what they hold."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import DIM, WEIGHTS, hessians

import undrift as ud
from everyday import only
from undrift import precision

SIZES = (3, 8, 1, 5, 9)
CLIENTS = len(SIZES)


def sample_loss(x: Any, sample: Any) -> Any:
    return 0.5 * (sample[:-1] @ x - sample[-1]) ** 2


def whole_loss(x: Any, data: Any) -> Any:
    return jnp.sum((x - data) ** 2)


KINDS = (
    "quadratic",
    "stepwise quadratic",
    "least squares",
    "wide least squares",
    "logistic",
    "custom",
    "custom samples",
    "network",
    "sampled network",
)


@functools.cache
def problems() -> dict[str, ud.problems.Problem]:
    """One of every kind; no number occurs twice in their data."""
    rng = np.random.default_rng(0)
    A, b = [rng.normal(size=(n, DIM)) for n in SIZES], [rng.normal(size=n) for n in SIZES]
    signs = [np.where(r > 0, 1, -1) for r in b]
    narrow = [block[:, :2] for block in A]
    together = [np.column_stack([Ai, bi]) for Ai, bi in zip(A, b, strict=True)]
    images, labels = rng.normal(size=(40, 4)).astype(np.float32), rng.integers(0, 3, 40)
    order, ends = rng.permutation(40)[: sum(SIZES)], np.cumsum(SIZES)[:-1]
    test = rng.normal(size=(12, 4)).astype(np.float32), rng.integers(0, 3, 12)
    net = {"test": test, "cut": 1, "weights": WEIGHTS, "batch": 2}
    model = ud.models.mlp((5,), classes=3, input=(4,))
    make = ud.problems
    return {
        "quadratic": make.quadratic(hessians(rng), rng.normal(size=(CLIENTS, DIM)), weights=WEIGHTS),
        "stepwise quadratic": make.quadratic(hessians(rng), rng.normal(size=(CLIENTS, DIM)), spectral=False),
        "least squares": make.least_squares(narrow, b, weights=WEIGHTS),
        "wide least squares": make.least_squares([rng.normal(size=(n, 20)) for n in SIZES], b, weights=WEIGHTS),
        "logistic": make.logistic(A, signs, l2=0.3, weights=WEIGHTS),
        "custom": make.custom(whole_loss, rng.normal(size=(CLIENTS, DIM)), DIM, constants=(2.0, 2.0)),
        "custom samples": make.custom(sample_loss, together, DIM, per_sample=True, weights=WEIGHTS),
        "network": make.network(model, (images, labels), np.split(order, ends), train_sample=None, **net),
        "sampled network": make.network(model, (images, labels), np.split(order, ends), train_sample=6, **net),
    }


def problem_named(name: str) -> ud.problems.Problem:
    """One of these problems, or one with all data in one place."""
    found = problems()[name.removeprefix("pooled ")]
    return found.pooled() if name.startswith("pooled ") else found


EVERY_KIND = pytest.mark.parametrize("name", KINDS)


def test_the_names_are_those_of_the_problems() -> None:
    assert tuple(problems()) == KINDS


def held(thing: Any, seen: set[int]) -> Iterator[np.ndarray]:
    """Every array that an object holds, and every array that one of these is a view of."""
    if id(thing) in seen or isinstance(thing, type):
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        yield thing
        yield from held(thing.base, seen)
    elif isinstance(thing, jax.Array):
        yield np.asarray(thing)
    elif isinstance(thing, dict):
        for part in thing.values():
            yield from held(part, seen)
    elif isinstance(thing, list | tuple):
        for part in thing:
            yield from held(part, seen)
    elif callable(thing) and hasattr(thing, "__closure__"):
        for cell in thing.__closure__ or ():
            yield from held(cell.cell_contents, seen)
        yield from held(getattr(thing, "__self__", None), seen)
    else:
        yield from held(getattr(thing, "__dict__", None), seen)
        if not isinstance(thing, jax.ShapeDtypeStruct) and jax.tree.leaves(thing) != [thing]:
            yield from held(jax.tree.leaves(thing), seen)


def numbers(arrays: Iterator[np.ndarray]) -> set[float]:
    """All floating numbers but those that anyone may know."""
    found = {float(v) for a in arrays if a.dtype.kind == "f" for v in np.asarray(a, np.float64).ravel()}
    return {v for v in found if v not in (0.0, 1.0, -1.0, 2.0, 0.3) and abs(v) < 1e300}


def sample_numbers(problem: ud.problems.Problem) -> list[set[float]]:
    """For each client, the numbers of its own data."""
    if problem.name == "network":
        x, order = np.asarray(problem.shared["x"], np.float64), np.asarray(problem.shared["order"])
        runs = zip(np.asarray(problem.stack["start"]), problem.sizes, strict=True)
        return [set(x[order[start : start + size]].ravel()) for start, size in runs]
    floats = [leaf for leaf in jax.tree.leaves(problem.stack) if leaf.dtype.kind == "f"]
    return [numbers(iter([np.asarray(leaf[i]) for leaf in floats])) for i in range(problem.clients)]


@EVERY_KIND
def test_a_client_holds_its_own_data_and_nobody_elses(name: str) -> None:
    problem = problem_named(name)
    data = sample_numbers(problem)
    for i, size in enumerate(problem.sizes):
        alone = problem.only(i)
        assert type(alone) is type(problem)
        assert (alone.clients, alone.dim, alone.dtype) == (1, problem.dim, problem.dtype)
        assert alone.sizes.tolist() == [size]
        mine = numbers(held(alone, set()))
        assert data[i] <= mine | numbers(iter([np.zeros(1)])) | {1.0, -1.0}
        for j in range(problem.clients):
            assert i == j or not (data[j] - data[i]) & mine, f"client {i} holds numbers of client {j}"
        if problem.name == "network":
            test = set(np.asarray(problem.shared["test"]["x"], np.float64).ravel())
            assert not test & mine
            assert alone.server_data is None


@EVERY_KIND
def test_a_client_holds_no_more_rows_than_it_has_samples(name: str) -> None:
    problem = problem_named(name)
    d = {problem.dim, 3, 4, 5}  # axes that are not samples: parameters, classes, features, units
    for i, size in enumerate(problem.sizes):
        for array in held(problem.only(i), set()):
            axes = array.shape[:2] if array.ndim and array.shape[0] == 1 else array.shape[:1]
            assert all(axis <= max(size, 1) or axis in d for axis in axes), (i, array.shape)


def test_the_search_finds_what_is_hidden() -> None:
    """The two tests above can fail: views, closures and bound methods are looked through."""
    big = np.arange(3.0, 9.0)

    class Holder:
        def __init__(self) -> None:
            self.part = [big[:1]]

        def method(self) -> None:
            """Drags its object along."""

    for hidden in (Holder(), {"f": lambda: big}, Holder().method):
        assert 8.0 in numbers(held(hidden, set()))


@EVERY_KIND
def test_f_of_one_client_is_its_own(name: str) -> None:
    problem = problem_named(name)
    rng = np.random.default_rng(1)
    x = rng.normal(size=problem.dim).astype(problem.dtype)
    with precision.scope(problem.dtype):
        losses, gradients = jax.jit(lambda p, x: p.each(lambda f: (f.loss(x), f.gradient(x))))(problem, jnp.asarray(x))
    rtol = 1e-12 if problem.dtype == np.float64 else 2e-5
    alone = [problem.only(i) for i in range(CLIENTS)]
    np.testing.assert_allclose([p.gradient(x) for p in alone], gradients, rtol=rtol, atol=rtol)
    if name != "sampled network":  # whose value is an estimate
        np.testing.assert_allclose([p.value(x) for p in alone], losses, rtol=rtol)
    assert np.asarray(alone[0].weights).tolist() == [1.0]


@pytest.mark.parametrize("name", ["quadratic", "least squares", "wide least squares", "logistic"])
def test_optimum_and_constants_are_those_of_the_client(name: str) -> None:
    problem = problem_named(name)
    assert problem.optimum is not None
    for i in (0, 4):
        alone = problem.only(i)
        assert "optimum" not in alone.__dict__
        assert np.linalg.norm(alone.gradient(alone.optimum.x)) < 1e-9
        np.testing.assert_allclose(alone.constants.L, problem.constants.per_client_L[i], rtol=1e-12)


def test_given_constants_hold_for_every_client() -> None:
    alone = problem_named("custom").only(2)
    assert alone.constants.L == 2.0
    assert alone.constants.per_client_mu.tolist() == [2.0]
    with pytest.raises(ud.InputError, match="the minimiser"):
        alone.optimum  # noqa: B018


@pytest.mark.parametrize("client", [-1, CLIENTS, 1.5, "0"])
def test_there_are_no_other_clients(client: Any) -> None:
    with pytest.raises(ud.InputError, match="clients are numbered 0 … 4"):
        problem_named("quadratic").only(client)


@pytest.mark.parametrize("name", [*KINDS, "pooled quadratic", "pooled network"])
def test_a_population_holds_no_sample(name: str) -> None:
    problem = problem_named(name)
    known = problem.population
    arrays = list(held(known, set()))
    assert {a.shape for a in arrays} <= {(problem.clients,)}
    assert numbers(iter(arrays)) <= set(np.asarray(problem.weights, np.float64)) | set(SIZES)
    assert known.clients == problem.clients
    np.testing.assert_array_equal(known.sizes, problem.sizes)
    np.testing.assert_array_equal(known.weights, problem.weights)
    assert (known.dim, known.dtype, known.name) == (problem.dim, problem.dtype, problem.name)
    assert known.default_oracle == problem.default_oracle


@pytest.mark.parametrize("name", [*KINDS, "pooled quadratic", "pooled network"])
def test_a_population_traces_what_a_client_does(name: str) -> None:
    """Its shapes are those of the largest client, and give the shapes of its answers."""
    problem = problem_named(name)
    known, largest = problem.population, problem.only(int(np.argmax(problem.sizes)))
    x = jax.ShapeDtypeStruct((known.dim,), known.dtype)

    def asked(shared: Any, row: Any, x: Any) -> Any:
        return known.view(shared, row).gradient(x), known.view(shared, row).measure(x, None)

    with precision.scope(known.dtype):
        gradient, answers = jax.eval_shape(asked, known.shared, known.row, x)
        row = jax.tree.map(lambda leaf: leaf[0], largest.stack)
        real = jax.jit(lambda row, x: largest.client(row).measure(x, None))(row, np.zeros(known.dim, known.dtype))
    assert gradient.shape == (known.dim,)
    assert {k: (v.shape, v.dtype) for k, v in answers.items()} == {k: (v.shape, v.dtype) for k, v in real.items()}
    if not name.endswith("sampled network"):
        assert shapes(known.shared) == shapes(largest.shared)
        assert shapes(known.row) == shapes(row)


def shapes(tree: Any) -> list[tuple[int, ...]]:
    return [leaf.shape for leaf in jax.tree.leaves(tree)]


def test_relative_weights() -> None:
    unequal = problem_named("quadratic").population
    np.testing.assert_allclose(unequal.relative_weights, CLIENTS * np.array(WEIGHTS) / np.sum(WEIGHTS), rtol=1e-15)
    assert not unequal.equal_weights
    for clients in (3, 7, 49):  # 49 · (1/49) is not 1 in floating-point numbers
        equal = ud.problems.quadratic(np.ones((clients, 1, 1)), np.ones((clients, 1)), weights=np.full(clients, 0.1))
        assert equal.population.equal_weights
        assert equal.population.relative_weights.tolist() == [1.0] * clients


def test_halves_of_a_population() -> None:
    assert problem_named("network").population.halves == problem_named("network").halves
    with pytest.raises(ud.InputError, match="a logistic problem has none"):
        problem_named("logistic").population.halves  # noqa: B018


def test_a_population_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        problem_named("logistic").population.clients = 3  # type: ignore[misc]


@pytest.mark.parametrize("name", only(["quadratic", "logistic", "sampled network"], {"logistic"}))
def test_one_client_can_be_run(name: str) -> None:
    alone = problem_named(name).only(2)
    history = ud.run(ud.fedavg(eta=0.05), alone, rounds=3, steps=2).history
    assert np.isfinite(history["loss"]).all()
