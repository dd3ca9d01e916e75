"""A grid of numbers × seeds as one compiled program."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from .. import precision
from ..errors import InputError, unknown
from ..oracles import Oracle
from ..problems.base import Problem
from ..recipe import Factory, Method
from .history import History
from .recorder import Recorder
from .setup import Setup, prepare
from .simulate import Carry, Kind, advance, fresh_carry, kind_of, padded_plan


@dataclasses.dataclass(frozen=True)
class Sweep:
    """Stacked outcomes: axes are the grid's keys in order, then seeds, then rounds + 1 (or d)."""

    grid: dict[str, list[Any]]
    seeds: list[int]
    history: History
    x: np.ndarray
    diverged: np.ndarray  # first round whose loss is not finite, or −1
    seconds: float

    def best(self, column: str = "loss", at: int = -1) -> dict[str, Any]:
        """The grid point whose mean over seeds is lowest in that round.

        Rows that diverged lose; NaN everywhere is an error.
        """
        values = np.where(np.isfinite(self.history[column][..., at]), self.history[column][..., at], np.inf)
        mean = values.mean(axis=-1)
        if not np.any(np.isfinite(mean)):
            raise InputError(f"every run of the grid diverged: choose smaller values than {self.grid}")
        where = np.unravel_index(int(np.argmin(mean)), mean.shape)
        return {name: values[i] for (name, values), i in zip(self.grid.items(), where, strict=True)}


@functools.partial(jax.jit, static_argnums=(0, 1), donate_argnums=7)
def _advance_grid(
    kind: Kind, plan_per_seed: bool, problem: Any, reference: Any, numbers: Any, x0: Any, keys: Any, carry: Any, plan: Any,
    count: Any, rounds: Any,
) -> Any:  # fmt: skip
    def single(numbers: Any, x0: Any, key: Any, carry: Any, plan: Any) -> Any:
        return advance(kind, problem, reference, numbers, x0, key, carry, plan, count, rounds)

    # The round is the same for all: were it batched, every branch that depends on it would be played in every round.
    state: Any = Carry(*[0] * len(Carry._fields))._replace(round=None)  # type: ignore[arg-type]
    seeds = jax.vmap(single, in_axes=(None, 0, 0, state, 0 if plan_per_seed else None), out_axes=(state, 0))
    grid = jax.vmap(seeds, in_axes=(0, None, None, state, None), out_axes=(state, 0))
    return grid(numbers, x0, keys, carry, plan)


def sweep(
    factory: Callable[..., Any],
    problem: Problem,
    *,
    grid: Mapping[str, Sequence[Any]],
    seeds: int | Sequence[int] = 1,
    rounds: int,
    oracle: Oracle | None = None,
    progress: Callable[[int, int], None] | None = None,
    **arguments: Any,
) -> Sweep:
    """Every point of the grid with every seed; runs that diverge are marked and do not stop the others.

    Grid keys that are numbers of the method (step sizes and the like) become a batch axis of one compiled program; keys that
    change the program (compressors, options) are compiled once per value. `arguments` are those of `run`.

    >>> import undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> s = sweep(ud.fedavg, p, grid={"eta": [0.01, 0.1, 0.3]}, seeds=2, rounds=50, steps=10)
    >>> s.history["gap"].shape, s.best("gap")
    ((3, 2, 51), {'eta': 0.01})
    """
    began = time.perf_counter()
    keys = {name: list(values) for name, values in grid.items()}
    if not keys or not all(keys.values()):
        raise InputError(f"a grid needs at least one key with at least one value, got {dict(grid)}")
    seed_list = list(range(seeds)) if isinstance(seeds, int) else [int(s) for s in seeds]
    if not seed_list:
        raise InputError("a sweep needs at least one seed")
    if {"keep_iterates", "on_divergence", "seed"} & set(arguments):
        raise InputError("sweep does not take keep_iterates, on_divergence or seed: use run for a single case")
    points = [dict(zip(keys, values, strict=True)) for values in itertools.product(*keys.values())]
    methods = [_method(factory, point) for point in points]
    outcomes: list[Any] = [None] * len(points)
    groups: dict[Any, list[int]] = {}
    for i, made in enumerate(methods):
        groups.setdefault(made.recipe, []).append(i)
    for members in groups.values():
        setups = [
            prepare(
                methods[members[0]],
                problem,
                rounds=rounds,
                oracle=oracle,
                on_divergence="continue",
                seed=s,
                **arguments,
            )
            for s in seed_list
        ]
        at = {"rounds": rounds, "oracle": oracle, "on_divergence": "continue", **arguments}
        ready = [
            prepare(made, problem, **at).method if made.by_theorem else made for made in (methods[i] for i in members)
        ]
        with precision.scope(problem.dtype):
            for i, outcome in zip(members, _play(setups, ready, progress), strict=True):
                outcomes[i] = outcome
    shape = tuple(len(values) for values in keys.values())
    columns = {name: _stacked([o[0][name] for o in outcomes], shape) for name in outcomes[0][0]}
    x = _stacked([o[1] for o in outcomes], shape)
    diverged = _stacked([o[2] for o in outcomes], shape)
    return Sweep(keys, seed_list, History(columns), x, diverged, time.perf_counter() - began)


def _method(factory: Callable[..., Any], point: dict[str, Any]) -> Method:
    if isinstance(factory, Factory):
        for name in point:
            if name not in factory.signature.parameters:
                raise unknown(f"parameter of {factory.function.__name__}", name, factory.signature.parameters)
    made = factory(**point)
    if not isinstance(made, Method):
        raise InputError(f"a sweep needs a method factory such as ud.fedavg, got {factory!r}")
    return made


def _play(setups: list[Setup], methods: list[Method], progress: Callable[[int, int], None] | None) -> Any:
    """All methods (they differ in numbers only) × all seeds: [(columns, x, diverged) per method]."""
    first, problem = setups[0], setups[0].problem
    kind, rounds = kind_of(first), first.rounds
    per_seed = not first.plan.same_for_all_seeds
    recorders = [Recorder(first)]
    recorders += [Recorder(setup, recorders[0].ledger) for setup in setups[1:]]  # messages are the same for every seed
    numbers = {name: np.asarray([made.numbers[name] for made in methods], problem.dtype) for name in methods[0].numbers}
    batch = (len(methods), len(setups))
    single = fresh_carry(first)
    carry: Carry = jax.tree.map(lambda leaf: np.broadcast_to(leaf, batch + np.shape(leaf)).copy(), single)
    carry = carry._replace(round=single.round)
    x0 = np.stack([setup.x0 for setup in setups])
    keys = jax.vmap(jax.random.key)(np.asarray([setup.seed for setup in setups], np.uint32))
    parts: dict[str, list[np.ndarray]] = {
        name: [] for name in (*problem.evaluation_shapes(problem.reference()).columns, "drift")
    }
    done, total = 0, rounds + 1
    while done < total:
        count = min(kind.capacity, total - done)
        plans = [padded_plan(setup, done, count, kind.capacity) for setup in (setups if per_seed else setups[:1])]
        plan = jax.tree.map(lambda *rows: np.stack(rows), *plans) if per_seed else plans[0]
        carry, records = _advance_grid(
            kind, per_seed, problem, first.problem.reference(), numbers, x0, keys, carry, plan, count, rounds
        )
        records = jax.device_get(records)
        for name, column in records.evaluation.columns.items():
            parts[name].append(np.asarray(column[..., :count], np.float64))
        parts["drift"].append(np.asarray(records.drift[..., :count], np.float64))
        for recorder, own in zip(recorders, plans if per_seed else plans * len(recorders), strict=True):
            for name, column in recorder.costs(own, done, count).items():
                recorder.columns[name].append(column)
        done += count
        if progress is not None:
            progress(done - 1, rounds)
    return _outcomes(first, recorders, parts, carry, batch)


def _outcomes(setup: Setup, recorders: list[Recorder], parts: Any, carry: Carry, batch: tuple[int, int]) -> Any:
    columns = {name: np.concatenate(arrays, axis=-1) for name, arrays in parts.items()}
    for name in recorders[0].ledger.columns:
        per_seed = np.stack([np.cumsum(np.concatenate(recorder.columns[name])) for recorder in recorders])
        columns[name] = np.broadcast_to(per_seed, (batch[0], *per_seed.shape))
    model = jax.vmap(jax.vmap(setup.algorithm.model))
    x, diverged = np.asarray(model(carry.memory.server)), np.asarray(carry.diverged)
    return [({name: c[i] for name, c in columns.items()}, x[i], diverged[i]) for i in range(batch[0])]


def _stacked(rows: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    together = np.stack(rows)
    return together.reshape(shape + together.shape[1:])
