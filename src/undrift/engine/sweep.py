"""A grid of numbers × seeds as one compiled program."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from .. import precision
from ..errors import InputError
from ..plan import Draw
from .description import Run
from .history import History, in_order
from .identity import identity, plan_identity
from .programs import Programs
from .recorder import Recorder
from .simulate import Carry, advance, capacity_of, fresh_carry, padded_plan

SweepObserver = Callable[[int, int], Any]  # (rounds played, rounds) of the program that runs now


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


def _play_grid(
    capacity: int, plan_per_seed: bool, run: Any, numbers: Any, x0: Any, keys: Any, carry: Any, plan: Any, count: Any,
    rounds: Any,
) -> Any:  # fmt: skip
    def single(numbers: Any, x0: Any, key: Any, carry: Any, plan: Any) -> Any:
        return advance(capacity, run.with_inputs(numbers, x0, key), carry, plan, count, rounds)

    # The round is the same for all: were it batched, every branch that depends on it would be played in every round.
    axes: Any = [0] * len(Carry._fields)
    state = Carry(*axes)._replace(round=None)
    seeds = jax.vmap(single, in_axes=(None, 0, 0, state, 0 if plan_per_seed else None), out_axes=(state, 0))
    grid = jax.vmap(seeds, in_axes=(0, None, None, state, None), out_axes=(state, 0))
    return grid(numbers, x0, keys, carry, plan)


_advance_grid = Programs(_play_grid, static=2, donate=6)


def points_of(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All points of a grid, in order."""
    if not grid or not all(len(values) for values in grid.values()):
        raise InputError(f"a grid needs at least one key with at least one value, got {dict(grid)}")
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def sweep_runs(
    runs: Sequence[Run], grid: Mapping[str, Sequence[Any]], seeds: Sequence[int], observe: SweepObserver | None = None
) -> Sweep:
    """The runs of a grid's points (in its order), each with every seed; see `undrift.sweep`.

    Runs whose programs are the same become a batch axis of one of them.
    """
    began = time.perf_counter()
    outcomes: list[Any] = [None] * len(runs)
    for members in _alike(runs):
        with precision.scope(runs[0].population.dtype):
            played = _Grid([runs[i].to_play() for i in members], seeds).play(observe)
            for i, outcome in zip(members, played, strict=True):
                outcomes[i] = outcome
    shape = tuple(len(values) for values in grid.values())
    columns = {name: _stacked([o[0][name] for o in outcomes], shape) for name in in_order(outcomes[0][0])}
    x = _stacked([o[1] for o in outcomes], shape)
    diverged = _stacked([o[2] for o in outcomes], shape)
    keys = {name: list(values) for name, values in grid.items()}
    return Sweep(keys, list(seeds), History(columns), x, diverged, time.perf_counter() - began)


def sweep_identity(runs: Sequence[Run], seeds: Sequence[int]) -> str:
    """A hash of everything that decides the numbers of these runs with these seeds, their number of rounds included."""
    digest = hashlib.sha256(repr((list(seeds), [run.rounds for run in runs])).encode())
    with precision.scope(runs[0].population.dtype):
        for members in _alike(runs):
            digest.update(_Grid([runs[i].to_play() for i in members], seeds).identity().encode())
    return digest.hexdigest()


def _alike(runs: Sequence[Run]) -> list[list[int]]:
    """The places of runs that differ in numbers only."""
    groups: dict[Any, list[int]] = {}
    for i, run in enumerate(runs):
        groups.setdefault(run.recipe, []).append(i)
    return list(groups.values())


class _Grid:
    """Runs that differ in numbers only × all seeds: one program."""

    def __init__(self, runs: list[Run], seeds: Sequence[int]) -> None:
        self.seeded = [runs[0].with_seed(seed) for seed in seeds]
        self.run, self.batch = self.seeded[0], (len(runs), len(seeds))
        self.capacity, self.per_seed = capacity_of(self.run), not self.run.plan.same_for_all_seeds
        self.numbers = {name: np.stack([run.numbers[name] for run in runs]) for name in self.run.numbers}
        self.x0 = np.stack([run.x0 for run in self.seeded])
        self.keys = jax.vmap(jax.random.key)(np.asarray(seeds, np.uint32))
        single = fresh_carry(self.run)
        carry: Carry = jax.tree.map(lambda leaf: np.broadcast_to(leaf, self.batch + np.shape(leaf)).copy(), single)
        self.carry = carry._replace(round=single.round)

    def identity(self) -> str:
        """Of the first chunk: the program is the same for all of them."""
        program = _advance_grid.identity(*self._arguments(self._plans(0, 1), 1))
        plans = "".join(plan_identity(run.plan, self.run.rounds) for run in self.seeded)
        return identity(self.run, program, self.numbers, self.x0) + plans

    def play(self, observe: SweepObserver | None) -> Any:
        """[(columns, x, diverged) per run]."""
        recorders = [Recorder(self.run)]
        recorders += [
            Recorder(run, recorders[0].ledger) for run in self.seeded[1:]
        ]  # messages: the same for every seed
        parts: dict[str, list[np.ndarray]] = {}
        done, total = 0, self.run.rounds + 1
        while done < total:
            count = min(self.capacity, total - done)
            plans = self._plans(done, count)
            self.carry, records = _advance_grid(*self._arguments(plans, count))
            for name, column in jax.device_get(records).columns.items():
                parts.setdefault(name, []).append(np.asarray(column[..., :count], np.float64))
            for recorder, own in zip(recorders, plans if self.per_seed else plans * len(recorders), strict=True):
                recorder.spend(own, done, count)
            done += count
            if observe is not None:
                observe(done - 1, self.run.rounds)
        return self._outcomes(recorders, parts)

    def _plans(self, done: int, count: int) -> list[Draw]:
        runs = self.seeded if self.per_seed else self.seeded[:1]
        return [padded_plan(run, done, count, self.capacity) for run in runs]

    def _arguments(self, plans: list[Draw], count: int) -> tuple[Any, ...]:
        plan = jax.tree.map(lambda *rows: np.stack(rows), *plans) if self.per_seed else plans[0]
        inputs = (self.run, self.numbers, self.x0, self.keys, self.carry, plan, count, self.run.rounds)
        return (self.capacity, self.per_seed, *inputs)

    def _outcomes(self, recorders: list[Recorder], parts: dict[str, list[np.ndarray]]) -> Any:
        columns = {name: np.concatenate(arrays, axis=-1) for name, arrays in parts.items()}
        for name in recorders[0].ledger.columns:
            per_seed = np.stack([recorder.columns[name][: self.run.rounds + 1] for recorder in recorders])
            columns[name] = np.broadcast_to(per_seed, (self.batch[0], *per_seed.shape))
        model = jax.vmap(jax.vmap(self.run.algorithm.model))
        x, diverged = np.asarray(model(self.carry.memory.server)), np.asarray(self.carry.diverged)
        return [({name: c[i] for name, c in columns.items()}, x[i], diverged[i]) for i in range(self.batch[0])]


def _stacked(rows: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    together = np.stack(rows)
    return together.reshape(shape + together.shape[1:])
