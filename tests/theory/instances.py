"""Random instances that are hard on theorems, and hundreds of runs of one shape as a single compiled program."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import undrift as ud
from undrift import precision
from undrift.engine.description import Run as Described
from undrift.engine.rounds import Carry, advance, opening
from undrift.engine.simulate import padded_plan
from undrift.plan import Draw

CLIENTS, DIM, SAMPLES = 4, 5, 6


@dataclasses.dataclass(frozen=True)
class Run:
    """What `check` reads of a result."""

    x: np.ndarray
    history: dict[str, np.ndarray]
    iterates: np.ndarray | None
    setting: dict[str, Any]


@partial(jax.jit, static_argnums=0)
def _advance_all(capacity, runs, plans, count, rounds):
    state = Carry(*[0] * len(Carry._fields))._replace(round=None)
    carry = jax.vmap(opening, out_axes=state)(runs)
    single = partial(advance, capacity)
    return jax.vmap(single, in_axes=(0, state, 0, None, None), out_axes=(state, 0))(runs, carry, plans, count, rounds)


def _stacked(*rows: Any) -> jax.Array:
    """NumPy stacks them: JAX would compile a concatenation of hundreds for seconds."""
    if not jax.dtypes.issubdtype(getattr(rows[0], "dtype", None), jax.dtypes.prng_key):
        return jnp.asarray(np.stack(rows))
    return jax.random.wrap_key_data(np.stack([jax.random.key_data(key) for key in rows]))


def run_all(runs: list[Described]) -> list[Run]:
    """All of these runs at once: same method, oracle and shapes; problems, numbers, seeds and plans may differ."""
    runs = [run.to_play() for run in runs]
    first = runs[0]
    rounds = first.rounds
    with precision.scope(first.population.dtype):
        plans = [padded_plan(run, 0, rounds + 1, rounds + 1) for run in runs]
        plan = Draw(*(None if p[0] is None else np.stack(p) for p in zip(*plans, strict=True)))
        stacked = jax.tree.map(_stacked, *runs)
        _, records = _advance_all(rounds + 1, stacked, plan, rounds + 1, rounds)
        columns, iterates = jax.device_get((records.columns, records.iterates))
    return [
        Run(
            x=iterates[i, rounds] if first.keep_iterates else s.x0,
            history={k: np.asarray(c[i, : rounds + 1], np.float64) for k, c in columns.items()},
            iterates=iterates[i, : rounds + 1] if first.keep_iterates else None,
            setting={"seed": s.seed, "oracle": str(s.oracle)},
        )
        for i, s in enumerate(runs)
    ]


def setup(method: Any, problem: Any, **arguments: Any) -> Described:
    return ud.describe(method, problem, **arguments)


def spd(rng: np.random.Generator, kappa: float, smallest: float = 1.0) -> np.ndarray:
    """A random positive definite matrix with eigenvalues from `smallest` to kappa·smallest, both ends reached."""
    V, _ = np.linalg.qr(rng.normal(size=(DIM, DIM)))
    values = smallest * kappa ** np.concatenate([[0.0, 1.0], rng.uniform(size=DIM - 2)])
    return (V * values) @ V.T


def hard_quadratic(rng: np.random.Generator, worst: float = 1e4) -> ud.problems.base.Problem:
    """Every client with its own spectrum, axes, scale and minimiser; conditioning up to `worst`, minimisers far apart."""
    kappa = worst ** rng.uniform()
    A = np.stack([spd(rng, kappa ** rng.uniform()) for _ in range(CLIENTS)])
    A[rng.integers(CLIENTS)] = spd(rng, kappa)
    apart = 10 ** rng.uniform(-2, 3)
    minimisers = apart * rng.normal(size=(CLIENTS, DIM)) + 10 * rng.normal(size=DIM)
    return ud.problems.quadratic(A, np.einsum("ijk,ik->ij", A, minimisers))


def uneven_steps(rng: np.random.Generator) -> np.ndarray:
    """τ_i from 1 to 100, at random, with the extremes often present."""
    steps = rng.integers(1, 101, CLIENTS)
    if rng.uniform() < 0.5:
        steps[0], steps[1] = 1, 100
    return steps


def hard_least_squares(rng: np.random.Generator, rank_deficient: bool = False) -> ud.problems.base.Problem:
    """Rows of very different length; with `rank_deficient` f has many minimisers."""
    A = rng.normal(size=(CLIENTS, SAMPLES, DIM)) * 10 ** rng.uniform(-1, 1, (CLIENTS, SAMPLES, 1))
    if rank_deficient:
        A[..., -1] = A[..., 0]
    b = 10 ** rng.uniform(-1, 2) * rng.normal(size=(CLIENTS, SAMPLES))
    return ud.problems.least_squares(A, b)


def failures(runs: list[Run], bounds: list[Any], problems: list[Any]) -> list[str]:
    """What `check` says of the runs that break their bound, the sharper telescoped form included."""
    verdicts = [ud.theory.check(r, b, p) for r, b, p in zip(runs, bounds, problems, strict=True)]
    return [f"instance {i}: {v}" for i, v in enumerate(verdicts) if not v.holds or v.telescoped is False]


# A run on the command line that takes no time, but for its method.
SMALL_RUN = [
    "--problem",
    "quadratic:clients=3,dim=4",
    "--rounds",
    "3",
    "--steps",
    "2",
    "--no-figures",
    "--quiet",
    "--json",
]
