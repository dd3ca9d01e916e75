"""When a run may end before its last round.

A rule looks at what is recorded of every round and stops the run in the very round that meets it, in every interpreter: it is
part of the compiled program. `observe` looks at chunks of rounds instead, and can do anything.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from .errors import InputError, unknown
from .gate import Count, NotNegative, check_value

Keep = Literal["last", "best"]
RISING = ("accuracy",)  # columns that are better the larger they are


@dataclasses.dataclass(frozen=True)
class Stop(abc.ABC):
    """A rule. Its state (a tree of numbers) goes from round to round."""

    @property
    @abc.abstractmethod
    def columns(self) -> tuple[str, ...]:
        """What it looks at."""

    @abc.abstractmethod
    def start(self) -> Any:
        """The state before round 0."""

    @abc.abstractmethod
    def look(self, state: Any, records: Mapping[str, Any]) -> tuple[Any, jax.Array]:
        """The state after this round's record, and whether to stop. Rounds that are not evaluated hold NaN."""

    @property
    def watched(self) -> Patience | None:
        """The part of it, if any, that looks for the best round of a column."""
        return None

    def __or__(self, other: Stop) -> Stop:
        return Either(self, other)

    def check(self, available: Mapping[str, Any]) -> None:
        """Refuse columns that this run does not record."""
        for name in self.columns:
            if name not in available:
                raise unknown("column that a rule can stop at", name, available)


@dataclasses.dataclass(frozen=True)
class Reached(Stop):
    targets: tuple[tuple[str, float], ...]
    rising: bool

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.targets)

    def start(self) -> Any:
        return ()

    def look(self, state: Any, records: Mapping[str, Any]) -> tuple[Any, jax.Array]:
        there = [records[name] >= value if self.rising else records[name] <= value for name, value in self.targets]
        return state, jnp.all(jnp.stack([jnp.asarray(one) for one in there]))

    def __str__(self) -> str:
        return " and ".join(f"{name} {'≥' if self.rising else '≤'} {value:g}" for name, value in self.targets)


@dataclasses.dataclass(frozen=True)
class Patience(Stop):
    rounds: int
    column: str
    least: float
    keep: Keep = "last"

    @property
    def watched(self) -> Patience:
        return self

    def best(self, history: Mapping[str, np.ndarray]) -> tuple[int, float] | None:
        """The first round with the best value of the column, and that value; None where it was never measured.

        >>> patience(5, "accuracy").best({"accuracy": np.array([0.1, np.nan, 0.8, 0.8, 0.7])})
        (2, 0.8)
        """
        values = np.asarray(history[self.column], np.float64)
        signed = np.where(np.isfinite(values), -values if rises(self.column) else values, np.inf)
        at = int(np.argmin(signed))
        return (at, float(values[at])) if np.isfinite(signed[at]) else None

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def start(self) -> Any:
        return np.asarray(np.inf), np.asarray(0, np.int32)  # the best value so far, rounds since

    def look(self, state: Any, records: Mapping[str, Any]) -> tuple[Any, jax.Array]:
        best, since = state
        best = jnp.asarray(best)
        value = jnp.asarray(-records[self.column] if rises(self.column) else records[self.column], best.dtype)
        better = value < best - self.least * jnp.where(jnp.isfinite(best), jnp.abs(best), 0)
        state = jnp.where(better, value, best), jnp.where(better, 0, since + 1).astype(jnp.int32)
        return state, (state[1] >= self.rounds) & ~jnp.isnan(value)  # rounds that are not evaluated show nothing

    def __str__(self) -> str:
        return f"{self.column} no better for {self.rounds} rounds"


@dataclasses.dataclass(frozen=True)
class Either(Stop):
    one: Stop
    other: Stop

    @property
    def watched(self) -> Patience | None:
        return self.one.watched or self.other.watched

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.one.columns, *self.other.columns)

    def start(self) -> Any:
        return self.one.start(), self.other.start()

    def look(self, state: Any, records: Mapping[str, Any]) -> tuple[Any, jax.Array]:
        one, first = self.one.look(state[0], records)
        other, second = self.other.look(state[1], records)
        return (one, other), first | second

    def __str__(self) -> str:
        return f"{self.one}, or {self.other}"


def at(**targets: float) -> Stop:
    """Stop in the first round whose columns are all at or below these values (an accuracy: at or above).

    >>> import undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> r = ud.run(ud.fedlin(eta=0.1), p, rounds=1000, steps=5, stop=at(gap=1e-6))
    >>> r.rounds < 100, bool(r.history["gap"][-1] <= 1e-6 < r.history["gap"][-2])
    (True, True)
    """
    if not targets:
        raise InputError("say which column ends the run and where: ud.stop.at(gap=1e-6)")
    low, high = (
        Reached(tuple((name, _number(name, v)) for name, v in targets.items() if rises(name) == rising), rising)
        for rising in (False, True)
    )
    if low.targets and high.targets:
        raise InputError("one rule is about columns that fall or about accuracies: combine two of them with |")
    return low if low.targets else high


def above(**targets: float) -> Stop:
    """Stop in the first round whose columns are all at or above these values: for metrics of one's own that should rise."""
    if not targets:
        raise InputError("say which column ends the run and where: ud.stop.above(recall=0.9)")
    return Reached(tuple((name, _number(name, value)) for name, value in targets.items()), True)


def patience(rounds: int, column: str = "loss", least: float = 0.0, keep: Keep = "last") -> Patience:
    """Stop where the column has not become better for so many rounds, by more than the share `least` of its best value.

    keep: whose model the run returns, that of the "last" round or that of the "best" one, for which a simulation plays the
    rounds up to it once more. `result.best` says which round was best.

    >>> print(patience(10, "test_loss") | at(accuracy=0.9))
    test_loss no better for 10 rounds, or accuracy ≥ 0.9
    """
    rounds = check_value("patience, in rounds,", rounds, Count)
    least = check_value("least, a share of the best value,", least, NotNegative)
    return Patience(rounds, check_value("the column", column, str), least, check_value("keep", keep, Keep))


def rises(column: str) -> bool:
    """Whether a column is better the larger it is."""
    return column.startswith(RISING)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or np.isnan(value):
        raise InputError(f"the value of {name} that ends a run must be a number, got {value!r}")
    return float(value)
