"""Each method against its naive NumPy version: iterates equal to 1e-9 over 30 rounds."""

from __future__ import annotations

import numpy as np
import optax
import pytest
import references as ref
import references_averaging as more
from core_cases import (
    CLIENTS,
    UNEQUAL,
    WEIGHTS,
    changing,
    least_squares_data,
    logistic_data,
    problem_of,
    quadratic_data,
)

import undrift as ud
from everyday import only, share

ROUNDS = 30

# name: (method, reference)
METHODS = {
    "fedsgd": (ud.fedsgd(eta=0.05), lambda w: ref.fedsgd(w, 0.05)),
    "fedavg": (ud.fedavg(eta=0.03, server_eta=0.8), lambda w: ref.fedavg(w, 0.03, server_eta=0.8)),
    "fedavg, local momentum": (
        ud.fedavg(eta=0.02, solver=lambda eta: optax.sgd(eta, momentum=0.9)),
        lambda w: ref.fedavg(w, 0.02, momentum=0.9),
    ),
    "fedavg, Adam at the server": (
        ud.fedavg(eta=0.03, server=optax.adam(0.1)),
        lambda w: ref.fedadam(w, 0.03, 0.1),
    ),
    "fedprox": (ud.fedprox(eta=0.03, beta=2.0), lambda w: ref.fedavg(w, 0.03, beta=2.0)),
    "fednova": (ud.fednova(eta=0.03), lambda w: ref.fednova(w, 0.03)),
    "fedsplit from the prox point": (
        ud.fedsplit(s=0.2, inner_steps=4, inner_eta=0.05),
        lambda w: ref.fedsplit(w, 0.2, 4, 0.05, "prox-point"),
    ),
    "fedsplit from the model": (
        ud.fedsplit(s=0.2, inner_steps=4, inner_eta=0.05, start="model"),
        lambda w: ref.fedsplit(w, 0.2, 4, 0.05, "model"),
    ),
    "scaffold option 1": (
        ud.scaffold(eta=0.02, option=1, server_eta=0.9),
        lambda w: ref.scaffold(w, 0.02, 1, server_eta=0.9),
    ),
    "scaffold option 2": (ud.scaffold(eta=0.02), lambda w: ref.scaffold(w, 0.02, 2)),
    "fedlin": (ud.fedlin(eta=0.03), lambda w: ref.fedlin(w, 0.03)),
    "ef21": (ud.ef21(eta=0.03, up=ud.random_k(2)), lambda w: ref.ef21(w, 0.03, ud.random_k(2, memory="difference"))),
    "feddyn": (ud.feddyn(eta=0.05, alpha=2.0), lambda w: more.feddyn(w, 0.05, 2.0)),
    # A small ε lets η_s grow where Δ̄ vanishes and the Δ_i do not: that iteration multiplies rounding errors.
    "fedexp": (ud.fedexp(eta=0.03, epsilon=0.1), lambda w: more.fedexp(w, 0.03, 0.1)),
    "fedexp, mean of two": (
        ud.fedexp(eta=0.03, epsilon=0.1, average=True),
        lambda w: more.fedexp(w, 0.03, 0.1, average=True),
    ),
    "mimelite": (ud.mimelite(eta=0.03, beta=0.7, server_eta=0.9), lambda w: more.mimelite(w, 0.03, 0.7, 0.9)),
    "mime": (ud.mimelite(eta=0.03, beta=0.7, correction=True), lambda w: more.mime(w, 0.03, 0.7)),
}

# FedLin's variants; random compressors share the library's draws with the reference
LINKS = {
    "server TOP-k without memory": (None, ud.top_k(2, memory=False)),
    "server TOP-k with memory": (None, ud.top_k(2)),
    "client TOP-k with memory": (ud.top_k(3), None),
    "TOP-k at both ends": (ud.top_k(3), ud.top_k(2)),
    "random k up, sign down": (ud.random_k(3, memory=False), ud.scaled_sign()),
    "quantised up, random k down": (ud.quantise(4), ud.random_k(3)),
}


def same_iterates(method, reference, data, *, steps, seed=0, participation=None, failures=0.0, oracle=None):
    plan = ud.plan.Plan(CLIENTS, participation or ud.plan.full(), steps, failures, seed)
    x0 = np.linspace(-1, 1, data.A.shape[-1])
    world = ref.World(data, plan, ROUNDS, oracle, x0)
    expected = ref.iterates(reference(world), x0)
    result = ud.run(
        method, problem_of(data), rounds=ROUNDS, steps=steps, seed=seed, x0=x0, participation=participation,
        failures=failures, oracle=oracle, keep_iterates=True,
    )  # fmt: skip
    assert result.iterates.shape == expected.shape
    np.testing.assert_array_equal(result.iterates[-1], result.x)
    scale = np.max(np.linalg.norm(expected, axis=1))
    assert np.max(np.linalg.norm(result.iterates - expected, axis=1)) <= 1e-9 * scale
    assert scale < 1e6, "a diverging example proves little"


# Equal steps are one program of a method, all others another; a method takes its turn every day in one of two tests.
CELLS = [(name, steps) for name in METHODS for steps in ("equal", "other")]
EQUAL = {("fedavg", "equal"), ("fednova", "equal")}


@pytest.mark.parametrize("cell", share(CELLS, 1, of=8, always=EQUAL), ids="-".join)
def test_quadratics_with_equal_unequal_and_changing_steps(cell):
    method, reference = METHODS[cell[0]]
    equal = cell[1] == "equal"
    for seed, steps in enumerate((3, UNEQUAL, changing, ud.plan.random_steps(1, 5))):
        if equal != (seed == 0):
            continue
        same_iterates(method, reference, quadratic_data(seed, WEIGHTS if seed else None), steps=steps, seed=seed)


@pytest.mark.parametrize("cell", share(CELLS, 3, of=8, always={("fedlin", "equal")}), ids="-".join)
def test_logistic_regression_with_partial_participation_and_failures(cell):
    method, reference = METHODS[cell[0]]
    equal = cell[1] == "equal"
    arguments = {"participation": ud.plan.uniform(3), "failures": 0.3}
    for seed, steps in enumerate((2, UNEQUAL, ud.plan.random_steps(1, 5))):
        if equal != (seed == 0):
            continue
        data = logistic_data(seed, WEIGHTS if seed else None)
        same_iterates(method, reference, data, steps=steps, seed=seed, **arguments)


@pytest.mark.parametrize("name", only(["scaffold option 2", "fedlin", "feddyn", "mime"], {"scaffold option 2"}))
def test_least_squares_with_replacement(name):
    method, reference = METHODS[name]
    for seed in range(2):
        data = least_squares_data(seed, weights=WEIGHTS)
        same_iterates(
            method, reference, data, steps=changing, seed=seed, participation=ud.plan.uniform(4, replace=True)
        )


@pytest.mark.parametrize("name", ["fedlin"])
def test_least_squares_with_fewer_samples_than_parameters(name):
    same_iterates(*METHODS[name], least_squares_data(3, samples=4, weights=WEIGHTS), steps=UNEQUAL)


@pytest.mark.parametrize("variant", share(LINKS, 2))
def test_fedlin_with_compression(variant):
    up, down = LINKS[variant]
    method = ud.fedlin(eta=0.02, up=up, down=down)
    for seed, steps in enumerate((UNEQUAL, changing)):
        same_iterates(method, lambda w: ref.fedlin(w, 0.02, up, down), quadratic_data(seed), steps=steps, seed=seed)


def test_fedlin_with_compression_and_partial_participation():
    up, down = ud.top_k(3), ud.top_k(2)
    for seed in range(3):
        same_iterates(
            ud.fedlin(eta=0.02, up=up, down=down), lambda w: ref.fedlin(w, 0.02, up, down), logistic_data(seed, WEIGHTS),
            steps=changing, seed=seed, participation=ud.plan.uniform(3), failures=0.2,
        )  # fmt: skip


STOCHASTIC = [
    ("fedlin", ud.oracles.noisy(0.5)),
    ("fedavg", ud.oracles.minibatch(3)),
    ("scaffold option 1", ud.oracles.minibatch(2, replace=True)),
    ("feddyn", ud.oracles.noisy(0.5)),
    ("mimelite", ud.oracles.minibatch(3)),
    ("mime", ud.oracles.minibatch(3)),
    ("mime", ud.oracles.noisy(0.5)),
]


@pytest.mark.parametrize("played", only(STOCHASTIC, STOCHASTIC[:3]), ids=lambda played: "{}-{}".format(*played))
def test_stochastic_gradients_share_their_draws_with_the_reference(played):
    name, oracle = played
    same_iterates(*METHODS[name], logistic_data(1), steps=UNEQUAL, seed=4, oracle=oracle)


def test_fedsplit_with_the_exact_prox():
    method = ud.fedsplit(s=0.2)
    data = quadratic_data(5, WEIGHTS)
    same_iterates(method, lambda w: ref.fedsplit(w, 0.2, None, 0.0, "model"), data, steps=1)


def pooled(data):
    """The same data at one client; the sum over clients becomes a mean."""
    m, n, d = data.A.shape
    root = np.sqrt(1 / m)
    return data._replace(A=root * data.A.reshape(1, m * n, d), b=root * data.b.reshape(1, m * n), weights=np.ones(1))


CENTRAL = [None, ud.oracles.minibatch(3), ud.oracles.minibatch(2, replace=True)]


@pytest.mark.parametrize("oracle", only(CENTRAL, CENTRAL[:2]))
def test_centralised_gradient_descent(oracle):
    data = least_squares_data(2)
    method = ud.gd(eta=0.02)
    if oracle is not None:
        method = ud.sgd(eta=0.02, batch=oracle.size, replace=oracle.replace)
    plan = ud.plan.Plan(1, ud.plan.full(), 3, 0.0, 6)
    world = ref.World(pooled(data), plan, ROUNDS, oracle)
    expected = ref.iterates(ref.centralised(world, 0.02), world.x0)
    result = ud.run(method, problem_of(data), rounds=ROUNDS, steps=3, seed=6, keep_iterates=True)
    np.testing.assert_allclose(result.iterates, expected, rtol=0, atol=1e-9 * np.abs(expected).max())
