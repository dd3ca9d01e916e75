"""How many local steps each client takes: τ_i(t)."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import randomness
from ..errors import InputError
from ..gate import LARGEST, shown, whole
from .user import Choice

SCHEDULED_AT_ONCE = 256  # rounds of a schedule that are computed together
MOST_VALUES = 100_000  # of a piece that are told one by one
TIE = 1e-6  # so far below a half a schedule is rounded up: a tie must not depend on the last digit of a machine


@dataclasses.dataclass(frozen=True)
class ChangingSteps:
    """τ_i(t) that changes by round, by a rule that the library knows; hashable. `mean` and `values` are what theory may ask."""

    seeded = True  # whether another seed draws others
    said_by_words = True  # whether what it is called says all of it

    @property
    def mean(self) -> float | None:
        """Of all clients and rounds; None where nobody can say."""
        return None

    @property
    def values(self) -> Sequence[int] | None:
        """All that may occur, ascending; None where there is no largest one, or nobody can say."""
        return None

    @property
    def largest(self) -> int | None:
        """The largest τ that may occur; None where there is none, or nobody can say."""
        return None if self.values is None else int(self.values[-1])


class DrawnSteps(ChangingSteps, abc.ABC):
    """A rule that needs no more than coordinates."""

    @abc.abstractmethod
    def draw(self, seed: int, rounds: np.ndarray, members: np.ndarray) -> np.ndarray:
        """τ of these members, one row for each round."""


@dataclasses.dataclass(frozen=True)
class RandomSteps(DrawnSteps):
    """τ_i(t) uniform on [low, high], drawn anew in every round; `common`: one number for all clients."""

    low: int
    high: int
    common: bool = False

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2

    @property
    def values(self) -> Sequence[int]:
        return range(self.low, self.high + 1)

    def draw(self, seed: int, rounds: np.ndarray, members: np.ndarray) -> np.ndarray:
        if self.common:
            drawn = randomness.integers(seed, self.low, self.high, randomness.tag("common steps"), rounds)
            return np.broadcast_to(drawn[:, None], members.shape)
        return randomness.integers(seed, self.low, self.high, randomness.tag("steps"), rounds[:, None], members)

    def __str__(self) -> str:
        return f"random_steps({self.low}, {self.high}{', common=True' if self.common else ''})"


def random_steps(low: int, high: int, common: bool = False) -> RandomSteps:
    """τ_i(t) uniform on {low, …, high} for each client and round (systems heterogeneity that changes by round).

    `common`: one draw a round, the same for all clients.

    >>> from undrift.plan import Plan, full
    >>> Plan(3, full(), random_steps(2, 9, common=True), failures=0.0, seed=0).draw(first=1, count=2).steps
    array([[5, 5, 5],
           [9, 9, 9]])
    """
    first, last = (whole("local steps need 1 ≤ low ≤ high, whole numbers", value, 0) for value in (low, high))
    if not 1 <= first <= last:
        raise InputError(f"local steps need 1 ≤ low ≤ high, got low = {low}, high = {high}")
    return RandomSteps(first, last, bool(common))


@dataclasses.dataclass(frozen=True)
class GeometricSteps(DrawnSteps):
    """τ(t) by a coin, drawn anew in every round: P(τ = k) = (1 − p)^{k−1} p; `common`: one coin for all clients."""

    p: float
    common: bool = True

    @property
    def mean(self) -> float:
        """1/p"""
        return 1 / self.p

    def draw(self, seed: int, rounds: np.ndarray, members: np.ndarray) -> np.ndarray:
        coin = randomness.tag("coin")
        if self.common:
            return np.broadcast_to(randomness.geometric(seed, self.p, coin, rounds)[:, None], members.shape)
        return randomness.geometric(seed, self.p, coin, rounds[:, None], members)

    def __str__(self) -> str:
        return f"geometric_steps({self.p:g}{'' if self.common else ', common=False'})"


def geometric_steps(p: float, common: bool = True) -> GeometricSteps:
    """τ(t) with P(τ = k) = (1 − p)^{k−1} p: a coin that shows heads with probability p is tossed after every local step, and
    heads end the round. 1/p steps on average. All clients share the coin, as Scaffnew's do; with common=False each has its own.

    >>> from undrift.plan import Plan, full
    >>> Plan(3, full(), geometric_steps(0.25), failures=0.0, seed=0).draw(first=1, count=2).steps
    array([[4, 4, 4],
           [7, 7, 7]])
    >>> Plan(3, full(), geometric_steps(0.25, common=False), failures=0.0, seed=0).draw(first=1, count=2).steps
    array([[1, 1, 1],
           [6, 6, 1]])
    """
    return GeometricSteps(probability("p", p), bool(common))


def probability(name: str, given: Any) -> float:
    """A number in (0, 1]; anything else is refused."""
    number = isinstance(given, int | float | np.number) and not isinstance(given, bool | np.bool_)
    if not number or not 0 < given <= 1:
        raise InputError(
            f"{name}, the probability that a common coin ends a round's local steps, must be a number in (0, 1], got "
            f"{shown(given)}: 1/{name} is the mean number of steps, the same probability in every round"
        )
    return float(given)


@dataclasses.dataclass(frozen=True)
class ScheduledSteps(DrawnSteps):
    """τ(t), the same for all clients: a schedule of the round, rounded to the nearest whole number."""

    schedule: Any  # t -> a number, t = 0 in the first round

    seeded = False
    said_by_words = False  # a function: only what it gives tells what it is

    def draw(self, seed: int, rounds: np.ndarray, members: np.ndarray) -> np.ndarray:
        found = np.array([_scheduled(self.schedule, *divmod(int(t) - 1, SCHEDULED_AT_ONCE)) for t in rounds])
        return np.broadcast_to(found.reshape(-1, 1), members.shape)

    def __str__(self) -> str:
        name = getattr(self.schedule, "__qualname__", "")  # of a function
        return f"scheduled_steps({name.partition('.<locals>')[0] or self.schedule})"


def _scheduled(schedule: Any, block: int, place: int) -> float:
    return float(_block_of(schedule, block)[place])


@functools.lru_cache(maxsize=64)
def _block_of(schedule: Any, block: int) -> np.ndarray:
    """The schedule of some rounds, in double precision and rounded."""
    start = block * SCHEDULED_AT_ONCE
    with jax.enable_x64(True):
        try:
            rounds = jnp.arange(start, start + SCHEDULED_AT_ONCE)
            given = np.asarray(jax.vmap(lambda t: jnp.asarray(schedule(t)))(rounds), np.float64)
        except Exception as error:  # a user's function, which may do anything
            raise InputError(
                f"the schedule {schedule} of local steps is a function of t = 0, 1, … that JAX can trace; in rounds "
                f"{start + 1} … {start + SCHEDULED_AT_ONCE} it gave {type(error).__name__}: {error}"
            ) from error
    if given.shape != (SCHEDULED_AT_ONCE,):
        raise InputError(f"a schedule of local steps gives one number a round, got shape {given.shape[1:]}")
    return np.floor(given + 0.5 + TIE)


def scheduled_steps(schedule: Any) -> ScheduledSteps:
    """τ(t) by a schedule, t = 0 in the first round as Optax counts, rounded to the nearest whole number (halves up).

    The schedule is hashable, and JAX can trace it: what a step size may change by (`ud.fedavg(eta=schedule)`), τ may too.

    >>> import optax
    >>> from undrift.plan import Plan, full
    >>> fewer = scheduled_steps(optax.linear_schedule(10, 1, transition_steps=4))
    >>> Plan(2, full(), fewer, failures=0.0, seed=0).draw(first=1, count=6).steps[:, 0]
    array([10,  8,  6,  3,  1,  1])
    """
    if not callable(schedule):
        raise InputError(
            f"a schedule of local steps is a function of the round, got {shown(schedule)}: give the number"
        )
    try:
        hash(schedule)
    except TypeError:
        raise InputError(f"a schedule must be hashable, got {shown(schedule)}: make it a frozen dataclass") from None
    return ScheduledSteps(schedule)


@dataclasses.dataclass(frozen=True)
class PiecewiseSteps(ChangingSteps):
    """One rule after the other: (first round of a piece, its steps), the first from round 1 on."""

    pieces: tuple[tuple[int, Any], ...]

    @property
    def seeded(self) -> bool:  # type: ignore[override]
        return any(callable(one) or getattr(one, "seeded", False) for _, one in self.pieces)

    @property
    def said_by_words(self) -> bool:  # type: ignore[override]
        return not any(callable(one) or not getattr(one, "said_by_words", True) for _, one in self.pieces)

    @property
    def values(self) -> Sequence[int] | None:
        found: set[int] = set()
        for _, one in self.pieces:
            own = one.values if isinstance(one, ChangingSteps) else None if callable(one) else np.ravel(one).tolist()
            if own is None or len(own) > MOST_VALUES:
                return None
            found.update(own)
        return sorted(found)

    def split(self, rounds: np.ndarray) -> Iterator[tuple[Any, np.ndarray]]:
        """(steps, where among these rounds they hold), for every piece."""
        which = np.searchsorted([first for first, _ in self.pieces], rounds, side="right") - 1
        for number, (_, one) in enumerate(self.pieces):
            if (here := np.flatnonzero(which == number)).size:
                yield one, here

    def __str__(self) -> str:
        inside = (f"{first}: {list(one) if isinstance(one, tuple) else one}" for first, one in self.pieces)
        return f"piecewise_steps({', '.join(inside)})"


def piecewise_steps(pieces: Mapping[int, Any]) -> PiecewiseSteps:
    """τ that changes at given rounds: {first round of a piece: its steps}, the first piece from round 1 on.

    A piece is one number, one per client, or drawn (`random_steps`, `geometric_steps`, a function of the round).

    >>> from undrift.plan import Plan, full
    >>> fewer = piecewise_steps({1: [20, 10], 3: 5})
    >>> Plan(2, full(), fewer, failures=0.0, seed=0).draw(first=2, count=2).steps
    array([[20, 10],
           [ 5,  5]])
    """
    rule = "pieces of local steps are a table {first round: steps}"
    if not isinstance(pieces, Mapping) or not pieces:
        raise InputError(f"{rule}, the first from round 1 on; got {shown(pieces)}")
    known = [(whole(f"{rule}, rounds whole numbers", first, 1, LARGEST), _piece(one)) for first, one in pieces.items()]
    found = sorted(known, key=lambda piece: piece[0])
    if found[0][0] != 1:
        raise InputError(
            f"{rule}, the first from round 1 on; got {found[0][0]} as the first round: say what holds before"
        )
    return PiecewiseSteps(tuple(found))


def _piece(given: Any) -> Any:
    """The same, hashable."""
    if isinstance(given, PiecewiseSteps):
        raise InputError(f"a piece of local steps cannot have pieces itself, got {given}: write them side by side")
    return tuple(np.asarray(given).tolist()) if isinstance(given, list | tuple | np.ndarray) else given


Steps = int | Sequence[int] | np.ndarray | ChangingSteps | Choice
