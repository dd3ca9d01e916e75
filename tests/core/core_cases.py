"""Small random problems, and the one table of all methods that the contract tests walk through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import undrift as ud

CLIENTS, DIM, SAMPLES = 5, 6, 8
UNEQUAL = (1, 4, 2, 3, 2)  # τ_i
WEIGHTS = (1.0, 2.0, 0.5, 1.5, 3.0)

# The plan that most contract tests share, so that they also share compiled programs
PARTIAL: dict[str, Any] = {
    "steps": ud.plan.random_steps(1, 4),
    "participation": ud.plan.uniform(3),
    "failures": 0.25,
}


def changing(round: int, key: jax.Array) -> np.ndarray:
    """τ_i(t), from the round and from the key."""
    del key
    return 1 + (np.arange(CLIENTS) + round) % 4


class Data(NamedTuple):
    """What a problem was made of, for naive references."""

    kind: str
    A: Any
    b: Any
    l2: float
    weights: np.ndarray


def hessians(rng: np.random.Generator, clients: int = CLIENTS, dim: int = DIM) -> np.ndarray:
    """Random positive definite matrices."""
    B = rng.normal(size=(clients, dim, dim))
    return B @ np.swapaxes(B, 1, 2) / dim + 0.5 * np.eye(dim)[None]


def quadratic_data(seed: int = 0, weights: Any = None) -> Data:
    rng = np.random.default_rng(seed)
    return Data("quadratic", hessians(rng), 3 * rng.normal(size=(CLIENTS, DIM)), 0.0, _weights(weights))


def least_squares_data(seed: int = 0, samples: int = SAMPLES, weights: Any = None) -> Data:
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(CLIENTS, samples, DIM)), rng.normal(size=(CLIENTS, samples))
    return Data("least_squares", A, b, 0.0, _weights(weights))


def logistic_data(seed: int = 0, weights: Any = None) -> Data:
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(CLIENTS, SAMPLES, DIM))
    return Data("logistic", A, np.where(rng.normal(size=(CLIENTS, SAMPLES)) > 0, 1, -1), 0.1, _weights(weights))


def problem_of(data: Data, dtype: Any = np.float64, **arguments: Any) -> ud.problems.Problem:
    A, b = data.A.astype(dtype), data.b.astype(dtype)
    if data.kind == "logistic":
        return ud.problems.logistic(A, b, l2=data.l2, weights=data.weights)
    return getattr(ud.problems, data.kind)(A, b, weights=data.weights, **arguments)


def _weights(weights: Any) -> np.ndarray:
    w = np.ones(CLIENTS) if weights is None else np.asarray(weights)
    return w / w.sum()


class Case(NamedTuple):
    """A method with small settings: `make(eta)` and the bytes a client sends and gets in a round (float64)."""

    make: Callable[[float], ud.Method]
    up: int
    down: int
    start_up: int = 0
    start_down: int = 0
    gradients: Callable[[Any], Any] = lambda tau: tau  # a round, as a function of τ_i, where nobody misses rounds
    gradients_absent: Callable[[Any], Any] | None = None  # the same where clients may miss rounds
    start_gradients: int = 0
    federated: bool = True
    parallel: bool | None = (
        True  # several local paths at once, so that they can drift apart; None: messages do not tell
    )
    first_down: int = 0  # in round 1, where it differs
    opening_down: int | None = None  # the first message of a round, where a round has several
    absent_down: int = 0  # what that message holds besides where clients may have missed the last round


def told(method: ud.Method, **arguments: Any) -> dict[str, Any]:
    """What a run is told besides: all of it, but no steps to a method that draws its own."""
    dropped = {"steps"} if method.recipe.draws is not None else set()
    return {name: value for name, value in arguments.items() if name not in dropped}


VECTOR = 8 * DIM
TOP = 8 * 2 + 1  # two values; where they are takes a bitmap of six bits: one byte


def _fedsplit(eta: float) -> ud.Method:
    return ud.fedsplit(s=0.3, inner_steps=3, inner_eta=eta, start="model")


FEDLIN: dict[str, Any] = {
    "start_up": VECTOR,
    "start_down": VECTOR,
    "gradients_absent": lambda tau: tau + 1,
    "start_gradients": 1,
    "absent_down": VECTOR,
}

CASES: dict[str, Case] = {
    "fedsgd": Case(lambda eta: ud.fedsgd(eta=eta), VECTOR, VECTOR, gradients=lambda tau: 0 * tau + 1, parallel=False),
    "ef21": Case(
        lambda eta: ud.ef21(eta=eta, up=ud.top_k(2)), TOP, VECTOR, gradients=lambda tau: 0 * tau + 1, parallel=False
    ),
    "fedavg": Case(lambda eta: ud.fedavg(eta=eta), VECTOR, VECTOR),
    "fedprox": Case(lambda eta: ud.fedprox(eta=eta, beta=0.5), VECTOR, VECTOR),
    "fednova": Case(lambda eta: ud.fednova(eta=eta), VECTOR + 4, VECTOR),
    "fedsplit": Case(_fedsplit, VECTOR, VECTOR, gradients=lambda tau: 0 * tau + 3),
    "scaffold": Case(lambda eta: ud.scaffold(eta=eta), 2 * VECTOR, 2 * VECTOR),
    "scaffold option 1": Case(lambda eta: ud.scaffold(eta=eta, option=1), 2 * VECTOR, 2 * VECTOR),
    # It is told the mean of the round it took part in where it may miss the next one.
    "scaffnew": Case(lambda eta: ud.scaffnew(eta=eta, p=0.4), VECTOR, VECTOR, opening_down=0, absent_down=VECTOR),
    "feddyn": Case(lambda eta: ud.feddyn(eta=eta, alpha=2.0), VECTOR, VECTOR),
    "fedexp": Case(lambda eta: ud.fedexp(eta=eta), VECTOR, VECTOR),
    "mimelite": Case(lambda eta: ud.mimelite(eta=eta), 2 * VECTOR, 2 * VECTOR),
    "mime": Case(lambda eta: ud.mimelite(eta=eta, correction=True), 2 * VECTOR, 3 * VECTOR, opening_down=VECTOR),
    "fedlin": Case(lambda eta: ud.fedlin(eta=eta), 2 * VECTOR, 2 * VECTOR, opening_down=VECTOR, **FEDLIN),
    "fedlin compressed": Case(
        lambda eta: ud.fedlin(eta=eta, up=ud.top_k(2), down=ud.top_k(2)),
        VECTOR + TOP,
        VECTOR + TOP,
        first_down=2 * VECTOR,
        opening_down=TOP,
        **FEDLIN,
    ),
    "fedlin table": Case(
        lambda eta: ud.fedlin(eta=eta, table=True, up=ud.top_k(2, memory="difference")),
        VECTOR + TOP,
        2 * VECTOR,
        opening_down=VECTOR,
        **FEDLIN,
    ),
    "fedlin one exchange": Case(
        lambda eta: ud.fedlin(eta=eta, table=True, exchanges=1, up_model=ud.top_k(2)),
        VECTOR + TOP,
        2 * VECTOR,
        **{**FEDLIN, "absent_down": 0, "gradients_absent": None},
    ),
    "fedtrack": Case(
        lambda eta: ud.fedtrack(eta=eta / 4),
        2 * VECTOR,
        2 * VECTOR,
        opening_down=VECTOR,
        **{**FEDLIN, "gradients_absent": lambda tau: 2 * SAMPLES + tau - 1, "start_gradients": SAMPLES},
        gradients=lambda tau: SAMPLES + tau - 1,
    ),
    "fedavg compressed": Case(lambda eta: ud.compressed(ud.fedavg(eta=eta), up=ud.top_k(2)), TOP, VECTOR),
    "fedavg differences": Case(
        lambda eta: ud.compressed(
            ud.fedavg(eta=eta), up=ud.top_k(2, memory="difference"), down=ud.top_k(2, memory="difference")
        ),
        TOP,
        TOP,
        parallel=None,
    ),
    "sequential_fl": Case(lambda eta: ud.sequential_fl(eta=eta), VECTOR, VECTOR, parallel=False),
    "sequential_fl corrected": Case(
        lambda eta: ud.sequential_fl(eta=eta, corrected=True), 2 * VECTOR, 2 * VECTOR, parallel=False
    ),
    "gd": Case(lambda eta: ud.gd(eta=eta), 0, 0, federated=False),
    "sgd": Case(lambda eta: ud.sgd(eta=eta, batch=2), 0, 0, federated=False),
    "iag": Case(lambda eta: ud.iag(eta=eta), 0, 0, federated=False),
}


def squared_distance(x: jax.Array, target: jax.Array) -> jax.Array:
    """A loss for custom problems."""
    return 0.5 * jnp.sum((x - target) ** 2)
