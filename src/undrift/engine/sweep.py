"""A grid of numbers × seeds: blocks of runs, each block one compiled program, dealt out to the cores.

Points of a grid that are played with one seed share its plan, its draws and its mini-batches, so that a block merges them into
larger operations. Blocks stay small enough for the cache, and are enough for all cores. What does not merge (convolutions) is
played one run at a time.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from .. import precision
from ..errors import InputError
from ..stop import rises
from .description import Run
from .epsilon import COLUMN, Epsilon
from .grids import edges, worst_seeds
from .history import History, in_order
from .identity import identity, plan_identity
from .programs import Programs
from .recorder import Recorder
from .rounds import Carry, advance, carry_shapes, opening
from .simulate import capacity_of, compiled_advance, compiled_opening, padded_plan
from .threads import at_once, in_threads

BLOCK_BYTES = 2**21  # clients' models of all runs of a block
SweepObserver = Callable[[int, int], Any]  # (rounds played, rounds), the mean over runs that are alike


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
        """The grid point whose worst seed is best in that round: the lowest, of accuracies the highest.

        Points that diverged with any seed lose; if all did, that is an error.
        """
        return self.points[self._best(column, at)]

    def edges(self, column: str = "loss", at: int = -1) -> dict[str, str]:
        """The numbers of the best point that are the smallest ("lower") or the largest ("upper") of their list: a better one
        may lie beyond, so widen the grid there.

        >>> import numpy as np, undrift as ud
        >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
        >>> s = ud.sweep(ud.fedlin, p, grid={"eta": [0.001, 0.01]}, rounds=20, steps=5)
        >>> s.best("gap"), s.edges("gap")
        ({'eta': 0.01}, {'eta': 'upper'})
        """
        numbers = [name for name, values in self.grid.items() if any(isinstance(value, float) for value in values)]
        return edges(self.points, self._best(column, at), numbers)

    @property
    def points(self) -> list[dict[str, Any]]:
        """All points of the grid, in the order of the arrays' rows."""
        return points_of(self.grid)

    def _best(self, column: str, at: int) -> int:
        ends = self.history[column][..., at]
        worst = worst_seeds(-ends if rises(column) else ends, self.diverged).ravel()
        if not np.any(np.isfinite(worst)):
            raise InputError(f"every run of the grid diverged: choose smaller values than {self.grid}")
        return int(np.argmin(worst))


class Axes(NamedTuple):
    """What a block has several of; one stands without an axis."""

    points: int
    seeds: int
    plans: bool  # whether every seed has its own

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(size for size in (self.points, self.seeds) if size > 1)


# The round is the same for all: were it batched, every branch that depends on it would be played in every round.
STATE: Any = Carry._make([0] * len(Carry._fields))._replace(round=None)


def _open_block(axes: Axes, run: Any, numbers: Any, x0: Any, keys: Any) -> Any:
    def single(numbers: Any, x0: Any, key: Any) -> Any:
        return opening(run.with_inputs(numbers, x0, key))

    several = single
    if axes.seeds > 1:
        several = jax.vmap(several, in_axes=(None, 0, 0), out_axes=STATE)
    if axes.points > 1:  # a method may have no numbers
        several = jax.vmap(several, in_axes=(0, None, None), out_axes=STATE, axis_size=axes.points)
    return several(numbers, x0, keys)


def _play_block(
    capacity: int, axes: Axes, run: Any, numbers: Any, x0: Any, keys: Any, carry: Any, plan: Any, count: Any, rounds: Any
) -> Any:  # fmt: skip
    def single(numbers: Any, x0: Any, key: Any, carry: Any, plan: Any) -> Any:
        return advance(capacity, run.with_inputs(numbers, x0, key), carry, plan, count, rounds)

    several = single
    if axes.seeds > 1:
        several = jax.vmap(several, in_axes=(None, 0, 0, STATE, 0 if axes.plans else None), out_axes=(STATE, 0))
    if axes.points > 1:
        several = jax.vmap(several, in_axes=(0, None, None, STATE, None), out_axes=(STATE, 0))
    return several(numbers, x0, keys, carry, plan)


_opening_of_block = Programs(_open_block, static=1)
_advance_block = Programs(_play_block, static=2, donate=6)


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
    """The places of runs that differ in numbers only, and in none by which the method draws its steps: they share a plan."""
    groups: dict[Any, list[int]] = {}
    for i, run in enumerate(runs):
        groups.setdefault((run.recipe, run.method.drawn_steps), []).append(i)
    return list(groups.values())


class _Grid:
    """Runs that differ in numbers only × all seeds."""

    def __init__(self, runs: list[Run], seeds: Sequence[int]) -> None:
        self.runs, self.seeded = runs, [runs[0].with_seed(seed) for seed in seeds]
        self.run, self.capacity = self.seeded[0], capacity_of(self.seeded[0])
        self.numbers = {name: np.stack([run.numbers[name] for run in runs]) for name in self.run.numbers}

    def identity(self) -> str:
        """By the programs of a single run: how runs are put together depends on the machine and decides nothing."""
        carry, plan = carry_shapes(self.run), padded_plan(self.run, 0, 1, self.capacity)
        program = compiled_opening.identity(False, self.run)
        program += compiled_advance.identity(self.capacity, False, self.run, carry, plan, 1, self.run.rounds)
        plans = "".join(plan_identity(run.plan, self.run.rounds) for run in self.seeded)
        return identity(self.run, program, self.numbers, np.stack([run.x0 for run in self.seeded])) + plans

    def play(self, observe: SweepObserver | None) -> Any:
        """[(columns, x, diverged) per run]."""
        workers, points, seeds = at_once(), len(self.runs), len(self.seeded)
        shape = block_shape(points, seeds, room(self.run), workers)
        blocks = [Block(self, some, own) for own in places(seeds, shape[1]) for some in places(points, shape[0])]
        programs, told = blocks[0].compiled(), 0
        jobs = [functools.partial(block.play, programs) for block in blocks]
        for played in in_threads(jobs, workers, functools.partial(precision.scope, self.run.population.dtype)):
            told += played
            if observe is not None:
                observe(max(told // len(blocks) - 1, 0), self.run.rounds)
        return self._outcomes(blocks)

    def _outcomes(self, blocks: list[Block]) -> Any:
        runs = {place: outcome for block in blocks for place, outcome in block.outcomes()}
        costs = self._costs()
        together = []
        for i, run in enumerate(self.runs):
            columns, x, diverged = zip(*(runs[i, j] for j in range(len(self.seeded))), strict=True)
            stacked = {name: np.stack([own[name] for own in columns]) for name in columns[0]}
            together.append((stacked | costs | self._promises(run), np.stack(x), np.stack(diverged)))
        return together

    def _costs(self) -> dict[str, np.ndarray]:
        """What rounds cost, one row for every seed: the numbers of a method do not decide it."""
        first = Recorder(self.run)
        recorders = [first, *(Recorder(run, first.ledger) for run in self.seeded[1:])]  # messages: the same for all
        total = self.run.rounds + 1
        for done in range(0, total, self.capacity):
            count = min(self.capacity, total - done)
            for recorder in recorders:
                recorder.spend(padded_plan(recorder.run, done, count, self.capacity), done, count)
        return {
            name: np.stack([recorder.columns[name][:total] for recorder in recorders]) for name in first.ledger.columns
        }

    def _promises(self, run: Run) -> dict[str, np.ndarray]:
        """ε of a private method, one row for every seed; its noise is one of the method's numbers."""
        counters = [Epsilon.of(seeded.but(method=run.method)) for seeded in self.seeded]
        rows = [counter.rows(0, run.rounds + 1) for counter in counters if counter is not None]
        return {COLUMN: np.stack(rows)} if rows else {}


class Block:
    """Some points with some seeds of a grid, played side by side as one program. Places may be repeated to fill it up."""

    def __init__(self, grid: _Grid, points: Sequence[int], seeds: Sequence[int]) -> None:
        self.grid, self.points, self.seeds = grid, points, seeds
        self.seeded = [grid.seeded[j] for j in seeds]
        self.axes = Axes(len(points), len(seeds), len(seeds) > 1 and not grid.run.plan.same_for_all_seeds)
        self.parts: dict[str, list[np.ndarray]] = {}
        self.ends: tuple[np.ndarray, np.ndarray]

    @functools.cached_property
    def inputs(self) -> tuple[Any, ...]:
        """What the programs of this block are told first."""
        if not self.axes.shape:
            return (self.seeded[0].but(method=self.grid.runs[self.points[0]].method),)
        several = self.axes.seeds > 1
        numbers = {name: values[_squeezed(self.points)] for name, values in self.grid.numbers.items()}
        x0 = np.stack([run.x0 for run in self.seeded]) if several else self.seeded[0].x0
        seeds = np.asarray([run.seed for run in self.seeded], np.uint32)
        keys = jax.vmap(jax.random.key)(seeds) if several else self.seeded[0].key
        return self.grid.run, numbers, x0, keys

    def compiled(self) -> tuple[Any, Any]:
        """What opens a block and what plays its rounds: the same for all blocks of a grid, and for one run as everywhere."""
        first, rounds = (_opening_of_block, _advance_block) if self.axes.shape else (compiled_opening, compiled_advance)
        shapes = jax.eval_shape(functools.partial(first.function, self._kind), *self.inputs)
        return first.compiled(self._kind, *self.inputs), rounds.compiled(*self._arguments(shapes, 0, 1))

    def play(self, programs: tuple[Any, Any], tell: Callable[[int], None]) -> None:
        """All rounds; tells how many have been played now."""
        carry, done, total = programs[0](self._kind, *self.inputs), 0, self.grid.run.rounds + 1
        while done < total:
            count = min(self.grid.capacity, total - done)
            carry, records = programs[1](*self._arguments(carry, done, count))
            for name, column in jax.device_get(records).columns.items():
                self.parts.setdefault(name, []).append(np.asarray(column[..., :count], np.float64))
            done += count
            tell(count)
        self.ends = np.asarray(carry.x), np.asarray(carry.diverged)

    def outcomes(self) -> Iterator[tuple[tuple[int, int], Any]]:
        """((point, seed), (columns, x, diverged)) of every run."""
        shape = len(self.points), len(self.seeds)
        columns = {name: np.concatenate(parts, axis=-1) for name, parts in self.parts.items()}
        columns = {name: column.reshape(*shape, -1) for name, column in columns.items()}
        x, diverged = self.ends[0].reshape(*shape, -1), self.ends[1].reshape(shape)
        for (a, i), (b, j) in itertools.product(enumerate(self.points), enumerate(self.seeds)):
            yield (i, j), ({name: column[a, b] for name, column in columns.items()}, x[a, b], diverged[a, b])

    @property
    def _kind(self) -> Any:
        """The static argument: what there are several of, or that one run is not spread over devices."""
        return self.axes if self.axes.shape else False

    def _arguments(self, carry: Any, done: int, count: int) -> tuple[Any, ...]:
        capacity, rounds = self.grid.capacity, self.grid.run.rounds
        own = self.seeded if self.axes.plans else self.seeded[:1]
        plans = [padded_plan(run, done, count, capacity) for run in own]
        plan = jax.tree.map(lambda *rows: np.stack(rows), *plans) if self.axes.plans else plans[0]
        return capacity, self._kind, *self.inputs, carry, plan, count, rounds


def room(run: Run) -> int:
    """How many runs fit into a block: one where models side by side do not merge, else what stays in the cache."""
    if not run.problem.merges:
        return 1
    models = run.plan.cohort_size * run.population.dim * run.population.dtype.itemsize
    return max(1, BLOCK_BYTES // models)


def block_shape(points: int, seeds: int, room: int, workers: int) -> tuple[int, int]:
    """How many points and seeds make a block, so that the workers are done soonest.

    A block takes as long as its runs, and as long as a sixth of the room would for what points of one seed share (draws,
    samples), half of that for every further seed.

    >>> block_shape(8, 5, room=6, workers=2), block_shape(8, 5, room=1, workers=2), block_shape(1, 200, room=900, workers=1)
    ((4, 1), (1, 1), (1, 200))
    """

    def length(shape: tuple[int, int]) -> float:
        blocks = -(-points // shape[0]) * -(-seeds // shape[1])
        return -(-blocks // workers) * (room / 12 * (1 + shape[1]) + shape[0] * shape[1])

    shapes = [(p, s) for p in _even(points) for s in _even(seeds) if p * s <= max(room, 1)]
    return min(shapes, key=lambda shape: (length(shape), -shape[0]))


def _even(count: int) -> list[int]:
    """Sizes of parts into which so many can be shared out with as little left over as possible."""
    return sorted({-(-count // parts) for parts in range(1, count + 1)})


def places(count: int, size: int) -> list[list[int]]:
    """0, 1, …, count − 1 in parts of this size; the last one is repeated where a part would be short.

    >>> places(5, 2)
    [[0, 1], [2, 3], [4, 4]]
    """
    return [[min(k, count - 1) for k in range(first, first + size)] for first in range(0, count, size)]


def _squeezed(places: Sequence[int]) -> Any:
    return list(places) if len(places) > 1 else places[0]


def _stacked(rows: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    together = np.stack(rows)
    return together.reshape(shape + together.shape[1:])
