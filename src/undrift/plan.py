"""Who takes part in a round, with how many local steps, and who answers.

A plan is data: for a range of rounds it is drawn on the host as three arrays (members, their τ_i, whether they answer) that
every interpreter reads. A draw depends on (seed, round, client) and on nothing else.

A client that does not answer is silent for the whole round: it is told the round's first message, and nothing of it changes,
neither its own memory nor its slot at the server; means run over those that answered. If nobody answers, the server keeps
its memory too.

*Weights.* f = Σ w_i f_i, and what a cohort S sends must be worth what all would send, in expectation. Where every client is as
likely as any other (`uniform`, `permuted`, and a `rule` that is fair in the long run) an answer counts m·w_i/|S|; where members
are drawn in proportion to w_i (`weighted`) it counts 1/|S|. `renormalise=True` takes w_i/Σ_S w_j instead, the ratio that many
frameworks use: with unequal weights it is biased, and the method then ends at another point. |S| counts those that answered.
Where clients play in turn there is no mean, and the factor m·w_i (none with `weighted` and with `renormalise`) scales
their steps. Before round 1 all m clients are asked, and their answers count w_i.
"""

from __future__ import annotations

import abc
import dataclasses
import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

import jax
import numpy as np

from . import randomness
from .absences import Absences as Absences
from .absences import Draw as Draw
from .errors import InputError
from .gate import LARGEST, shown, whole
from .tracefile import read_trace


class Choice(Protocol):
    """A user's function of the round, called on the host: it names clients, or their local steps."""

    def __call__(self, round: int, key: jax.Array, /) -> Any: ...


@dataclasses.dataclass(frozen=True)
class Participation(abc.ABC):
    """Which clients form the cohort of a round, and what their answers count."""

    @property
    def renormalise(self) -> bool:
        """Whether the weights of a cohort are scaled to sum to one (biased unless they are equal)."""
        return False

    def among(self, weights: np.ndarray) -> Participation:
        """The same among clients with these weights."""
        return self

    def importance(self, relative: np.ndarray) -> np.ndarray:
        """a_i, one per client, so that Σ_S a_i u_i / |S| is unbiased; `relative`: m·w_i."""
        return np.ones_like(relative) if self.renormalise else relative

    @property
    def distinct(self) -> bool:
        """Whether the members of a cohort are different clients."""
        return True

    @abc.abstractmethod
    def size(self, clients: int) -> int:
        """n: members of a cohort."""

    @abc.abstractmethod
    def ids(self, seed: int, round: int, clients: int) -> np.ndarray | None:
        """The members, in order; None means everyone."""

    def cohorts(self, seed: int, rounds: range, clients: int) -> np.ndarray:
        """The members of several rounds, one row for each."""
        return np.stack([np.asarray(self.ids(seed, t, clients)) for t in rounds])


@dataclasses.dataclass(frozen=True)
class Everyone(Participation):
    def size(self, clients: int) -> int:
        return clients

    def ids(self, seed: int, round: int, clients: int) -> np.ndarray | None:
        return None

    def __str__(self) -> str:
        return "full"


@dataclasses.dataclass(frozen=True)
class Uniform(Participation):
    count: int
    replace: bool
    renormalise: bool = False

    @property
    def distinct(self) -> bool:
        return not self.replace

    def size(self, clients: int) -> int:
        if not self.replace and self.count > clients:
            raise InputError(
                f"a cohort of {self.count} cannot be drawn without replacement from {clients} clients: ask for at most "
                f"{clients}"
            )
        return self.count

    def ids(self, seed: int, round: int, clients: int) -> np.ndarray:
        return self.cohorts(seed, range(round, round + 1), clients)[0]

    def cohorts(self, seed: int, rounds: range, clients: int) -> np.ndarray:
        place, at = np.arange(self.size(clients)), np.asarray(rounds)[:, None]
        if self.replace:
            return randomness.integers(seed, 0, clients - 1, randomness.tag("cohort"), at, place)
        return randomness.shuffled(place, clients, randomness.shuffle_keys(seed, randomness.tag("cohort"), at))

    def __str__(self) -> str:
        return f"uniform({self.count}{', replace=True' if self.replace else ''}{_suffix(self)})"


@dataclasses.dataclass(frozen=True)
class Weighted(Participation):
    count: int
    renormalise: bool = False
    chances: tuple[float, ...] = ()  # up to and including each client, once they are known

    def among(self, weights: np.ndarray) -> Weighted:
        running = np.cumsum(np.asarray(weights, np.float64))
        return Weighted(self.count, self.renormalise, tuple((running / running[-1]).tolist()))

    @property
    def distinct(self) -> bool:
        return False

    @cached_property
    def _chances(self) -> np.ndarray:
        return np.asarray(self.chances)

    def importance(self, relative: np.ndarray) -> np.ndarray:
        return np.ones_like(relative)

    def size(self, clients: int) -> int:
        return self.count

    def ids(self, seed: int, round: int, clients: int) -> np.ndarray:
        return self.cohorts(seed, range(round, round + 1), clients)[0]

    def cohorts(self, seed: int, rounds: range, clients: int) -> np.ndarray:
        places = np.arange(self.count)
        chance = randomness.uniform(seed, randomness.tag("cohort"), np.asarray(rounds)[:, None], places)
        found = np.searchsorted(self._chances, chance, side="right")
        return np.minimum(found, clients - 1).astype(np.int64)

    def __str__(self) -> str:
        return f"weighted({self.count}{_suffix(self)})"


@dataclasses.dataclass(frozen=True)
class Permuted(Participation):
    count: int
    renormalise: bool = False

    def size(self, clients: int) -> int:
        if clients % self.count:
            raise InputError(
                f"one permutation of {clients} clients is spread over whole rounds, so the cohort must divide {clients}; got "
                f"{self.count}"
            )
        return self.count

    def ids(self, seed: int, round: int, clients: int) -> np.ndarray:
        rounds_per_pass = clients // self.size(clients)
        which, part = divmod(round - 1, rounds_per_pass)
        place = part * self.count + np.arange(self.count)
        return randomness.shuffled(place, clients, randomness.shuffle_keys(seed, randomness.tag("permutation"), which))

    def __str__(self) -> str:
        return f"permuted({self.count}{_suffix(self)})"


@dataclasses.dataclass(frozen=True)
class Rule(Participation):
    function: Choice
    count: int
    renormalise: bool = False

    def size(self, clients: int) -> int:
        return self.count

    def ids(self, seed: int, round: int, clients: int) -> np.ndarray:
        return self._checked(self.function(round, _user_key(seed, "cohort", round)), round, clients)

    def _checked(self, given: Any, round: int, clients: int) -> np.ndarray:
        chosen = _numbers(given, f"the rule must name {self.count} clients by their numbers", round)
        if chosen.shape != (self.count,):
            raise InputError(f"the rule must name {self.count} clients, in round {round} it gave shape {chosen.shape}")
        if not np.all(chosen == np.floor(chosen)):  # NaN is none either
            odd = chosen[chosen != np.floor(chosen)][0]
            raise InputError(f"the rule must name clients by whole numbers, in round {round} it named {odd}")
        strange = chosen[(chosen < 0) | (chosen >= clients)]
        if strange.size:
            raise InputError(f"the rule named the client {strange[0]} in round {round}; there are 0 … {clients - 1}")
        values, times = np.unique(chosen, return_counts=True)
        if np.any(times > 1):
            raise InputError(
                f"the rule must name {self.count} different clients, in round {round} it named {values[times > 1][0]} more "
                "than once: name each once, or draw with uniform(n, replace=True)"
            )
        return chosen.astype(np.int64)

    def __str__(self) -> str:
        return f"rule({getattr(self.function, '__name__', 'function')}{_suffix(self)})"


def _numbers(given: Any, rule: str, round: int) -> np.ndarray:
    """An array of real numbers from what a user's function gave."""
    where = f" in round {round}" if round else ""
    try:
        found = np.asarray(given)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{rule}, got {shown(given)}{where}: {error}") from None
    if found.dtype == object and all(isinstance(one, int) and not isinstance(one, bool) for one in found.flat):
        raise InputError(f"{rule}, got {shown(given)}{where}: numbers up to {LARGEST} can be counted")
    if found.dtype.kind not in "iuf":
        raise InputError(f"{rule}, got {shown(given)}{where}")
    return found


def _suffix(who: Participation) -> str:
    return ", renormalise=True" if who.renormalise else ""


def full() -> Everyone:
    """All m clients in every round."""
    return Everyone()


def uniform(count: int, replace: bool = False, renormalise: bool = False) -> Uniform:
    """`count` clients, uniformly, without or with replacement. A client drawn twice plays once and counts twice in means.

    An answer counts m·w_i/|S|, which is unbiased; with `renormalise` w_i/Σ_S w_j, which is not, unless all weights are equal.

    >>> sorted(uniform(3).ids(seed=0, round=1, clients=3).tolist())
    [0, 1, 2]
    """
    return Uniform(_members(count), bool(replace), bool(renormalise))


def weighted(count: int, renormalise: bool = False) -> Weighted:
    """`count` clients, each drawn in proportion to its weight w_i (with replacement); an answer counts 1/|S|: unbiased.

    With `renormalise` it counts w_i/Σ_S w_j, so that weights count twice: biased.

    >>> weighted(4).among(np.array([0.0, 1.0])).ids(seed=0, round=1, clients=2)
    array([1, 1, 1, 1])
    """
    return Weighted(_members(count), bool(renormalise))


def permuted(count: int, renormalise: bool = False) -> Permuted:
    """One random permutation of all m clients spread over m/count rounds of `count` clients, then the next one.

    >>> p = permuted(2)
    >>> sorted(p.ids(0, 1, 4).tolist() + p.ids(0, 2, 4).tolist())
    [0, 1, 2, 3]
    """
    return Permuted(_members(count), bool(renormalise))


def rule(function: Choice, count: int, renormalise: bool = False) -> Rule:
    """A user's own choice: function(round, key) -> `count` client numbers. It is called on the host, once a round.

    An answer counts m·w_i/|S|, which is right where the rule takes all clients equally often in the long run.

    >>> rule(lambda round, key: [round % 5, 9], count=2).ids(seed=0, round=7, clients=10)
    array([2, 9])
    """
    return Rule(function, _members(count), bool(renormalise))


def _members(count: Any) -> int:
    given = int(count) if isinstance(count, float | np.floating) and float(count).is_integer() else count
    return whole("a cohort needs a whole number of members", given, 1)


@dataclasses.dataclass(frozen=True)
class RandomSteps:
    """τ_i(t) uniform on [low, high], drawn anew in every round."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"random_steps({self.low}, {self.high})"


def random_steps(low: int, high: int) -> RandomSteps:
    """τ_i(t) uniform on {low, …, high} for each client and round (systems heterogeneity that changes by round)."""
    first, last = (whole("local steps need 1 ≤ low ≤ high, whole numbers", value, 0) for value in (low, high))
    if not 1 <= first <= last:
        raise InputError(f"local steps need 1 ≤ low ≤ high, got low = {low}, high = {high}")
    return RandomSteps(first, last)


@dataclasses.dataclass(frozen=True)
class GeometricSteps:
    """τ(t) by a coin that all clients share, drawn anew in every round: P(τ = k) = (1 − p)^{k−1} p."""

    p: float

    @property
    def mean(self) -> float:
        """1/p"""
        return 1 / self.p

    def __str__(self) -> str:
        return f"geometric_steps({self.p:g})"


def geometric_steps(p: float) -> GeometricSteps:
    """The same τ(t) for all clients, P(τ = k) = (1 − p)^{k−1} p: a coin that shows heads with probability p is tossed after
    every local step, and heads end the round. 1/p steps on average.

    >>> plan = Plan(3, full(), geometric_steps(0.25), failures=0.0, seed=0)
    >>> plan.draw(first=1, count=2).steps
    array([[4, 4, 4],
           [7, 7, 7]])
    """
    return GeometricSteps(probability("p", p))


def probability(name: str, given: Any) -> float:
    """A number in (0, 1]; anything else is refused."""
    number = isinstance(given, int | float | np.number) and not isinstance(given, bool | np.bool_)
    if not number or not 0 < given <= 1:
        raise InputError(
            f"{name}, the probability that a common coin ends a round's local steps, must be a number in (0, 1], got "
            f"{shown(given)}: 1/{name} is the mean number of steps, the same probability in every round"
        )
    return float(given)


def trace(file: str | os.PathLike[str]) -> Absences:
    """The absences of a deployed run, from the file trace.jsonl in its directory: `ud.run(…, plan=trace(file))` plays them.

    Seed, participation, steps and failures must be those of the traced run, and at most its rounds are played. A run in which a
    site lost its memory (`--reset`) is played by message passing, as `ud.loopback` does: without checkpoints.
    """
    return read_trace(file)


Steps = int | Sequence[int] | np.ndarray | RandomSteps | GeometricSteps | Choice


@dataclasses.dataclass(frozen=True)
class Plan:
    """Participation, local steps and failures of a run."""

    clients: int
    participation: Participation
    steps: Steps
    failures: float
    seed: int
    most_steps: int = LARGEST  # that the clients' oracle can tell apart
    absences: Absences | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.failures < 1:
            raise InputError(f"the probability of not answering must be in [0, 1), got {self.failures}")
        self.participation.size(self.clients)  # refuses a cohort that is too large
        if isinstance(self.steps, RandomSteps):
            self._countable(np.asarray(self.steps.high))
        elif isinstance(self.steps, GeometricSteps):
            self._countable(np.asarray(self.steps.mean))
        elif not callable(self.steps):
            self._given_steps  # noqa: B018 (refuses what are no steps)

    @property
    def cohort_size(self) -> int:
        return self.participation.size(self.clients)

    @property
    def everyone_every_round(self) -> bool:
        """Nobody ever misses a round."""
        may_miss = self.failures > 0 or (self.absences is not None and self.absences.possible)
        return not may_miss and takes_all(self.participation, self.clients)

    @property
    def renormalise(self) -> bool:
        """Whether means run over the members' own weights: all are there, or somebody asked for it."""
        return self.everyone_every_round or self.participation.renormalise

    @property
    def same_for_all_seeds(self) -> bool:
        drawn = callable(self.steps) or isinstance(self.steps, RandomSteps | GeometricSteps)
        return isinstance(self.participation, Everyone) and self.failures == 0 and not drawn and self.absences is None

    @property
    def settled(self) -> bool:
        """Whether the library draws it: then it follows from numbers; no function of a user's and no trace has a say."""
        drawn = not callable(self.steps) and type(self.participation) in (Everyone, Uniform, Weighted, Permuted)
        return drawn and self.absences is None

    @property
    def typical_steps(self) -> np.ndarray:
        """τ_i of all clients where one round stands for all: the first one's, or the mean of a coin's tosses."""
        if isinstance(self.steps, GeometricSteps):
            return np.full(self.clients, round(self.steps.mean))
        everyone = dataclasses.replace(self, participation=Everyone(), failures=0.0, absences=None)
        return everyone.draw(1, 1).steps[0]

    def draw(self, first: int, count: int) -> Draw:
        """The plan of rounds first, …, first + count − 1 (round 1 is the first)."""
        rounds = range(first, first + count)
        n = self.cohort_size
        everyone = isinstance(self.participation, Everyone)
        ids = None
        if not everyone:
            ids = self.participation.cohorts(self.seed, rounds, self.clients)
        members = np.broadcast_to(np.arange(self.clients), (count, n)) if ids is None else ids
        answered = None
        if self.failures > 0:
            chance = randomness.uniform(self.seed, randomness.tag("failure"), np.asarray(rounds)[:, None], members)
            answered = chance >= self.failures
        draw = Draw(ids, self._steps(rounds, members), answered)
        return draw if self.absences is None else self.absences.apply(draw, first, self.clients)

    def _steps(self, rounds: range, members: np.ndarray) -> np.ndarray:
        shape = members.shape
        if isinstance(self.steps, RandomSteps):
            where = (randomness.tag("steps"), np.asarray(rounds)[:, None], members)
            return randomness.integers(self.seed, self.steps.low, self.steps.high, *where)
        if isinstance(self.steps, GeometricSteps):
            tosses = randomness.geometric(self.seed, self.steps.p, randomness.tag("coin"), np.asarray(rounds))
            return np.broadcast_to(self._countable(tosses)[:, None], shape)
        if callable(self.steps):
            drawn = [self._checked(self.steps(t, _user_key(self.seed, "steps", t)), t) for t in rounds]
            everyone = np.stack([np.broadcast_to(row, (self.clients,)) for row in drawn])
        else:
            everyone = np.broadcast_to(self._given_steps, (shape[0], self.clients))
        return np.take_along_axis(everyone, members, axis=1)

    @cached_property
    def _given_steps(self) -> np.ndarray:
        """τ, or τ_i of all clients, where no function of the round says them."""
        return self._checked(self.steps, 0)

    def _checked(self, given: Any, round: int) -> np.ndarray:
        where = f" in round {round}" if round else ""
        steps = _numbers(given, "local steps must be whole numbers ≥ 1", round)
        if steps.shape not in ((), (self.clients,)):
            raise InputError(
                f"local steps must be one number or one per client ({self.clients}), got shape {steps.shape}{where}"
            )
        if not np.all(np.isfinite(steps) & (steps == np.floor(steps))):
            raise InputError(f"local steps must be whole numbers, got {steps}{where}")
        if np.any(steps < 1):
            client = int(np.argmin(steps)) if steps.ndim else "every client"
            raise InputError(f"local steps τ_i must be ≥ 1, got {steps.min()} for client {client}{where}")
        return self._countable(steps, where).astype(np.int64)

    def _countable(self, steps: np.ndarray, where: str = "") -> np.ndarray:
        if np.any(steps > self.most_steps):
            raise InputError(
                f"local steps τ_i must be ≤ {self.most_steps}, the most that can be counted here, got {steps.max()}{where}: "
                "play more rounds of fewer steps"
            )
        return steps

    def __str__(self) -> str:
        steps = self.steps if not callable(self.steps) else getattr(self.steps, "__name__", "function")
        return f"participation={self.participation}, steps={steps}, failures={self.failures:g}"


def takes_all(who: Participation, clients: int) -> bool:
    """Whether every cohort is all m clients, in whatever order."""
    in_some_order = isinstance(who, Uniform | Permuted) and who.count == clients
    return isinstance(who, Everyone) or (in_some_order and not getattr(who, "replace", False))


def _user_key(seed: int, what: str, round: int) -> jax.Array:
    key = jax.random.fold_in(jax.random.key(seed), randomness.tag(what))
    return jax.random.fold_in(key, round)
