"""Which clients form the cohort of a round, and what their answers count."""

from __future__ import annotations

import abc
import dataclasses
from functools import cached_property
from typing import Any

import numpy as np

from .. import randomness
from ..errors import InputError
from ..gate import whole
from .user import Choice, numbers_from, user_key


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

    def cohorts_there(self, seed: int, rounds: range, clients: int, there: np.ndarray) -> np.ndarray:
        """The same where only some clients are `there`, (rounds, m): members that are not there are left out by the plan.

        Here they are whom the rule names anyway, and nobody takes their place.
        """
        return self.cohorts(seed, rounds, clients)


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

    def cohorts_there(self, seed: int, rounds: range, clients: int, there: np.ndarray) -> np.ndarray:
        """Uniformly from those that are there: the first of them in a random order of all, which also draws who is never
        absent. Where they are too few, others fill the row."""
        if self.replace:
            chosen = [randomness.integers(seed, 0, max(k, 1) - 1, randomness.tag("cohort"), t, np.arange(self.count))
                      for t, k in zip(rounds, there.sum(axis=1), strict=True)]  # fmt: skip
            return np.stack([_nth(here, places) for here, places in zip(there, chosen, strict=True)])
        everyone, size, rows = Uniform(clients, False), self.size(clients), []
        for t, here in zip(rounds, there, strict=True):
            order = everyone.ids(seed, t, clients)
            rows.append(order[np.argsort(~here[order], kind="stable")][:size])
        return np.stack(rows)

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

    def cohorts_there(self, seed: int, rounds: range, clients: int, there: np.ndarray) -> np.ndarray:
        """In proportion to their weights from those that are there."""
        rows, weights = self.cohorts(seed, rounds, clients), np.diff(self._chances, prepend=0.0)
        for row, (t, here) in enumerate(zip(rounds, there, strict=True)):
            if not here.all() and weights[here].sum() > 0:
                those = Weighted(self.count).among(weights[here]).ids(seed, t, int(here.sum()))
                rows[row] = _nth(here, those)
        return rows

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
        return self._checked(self.function(round, user_key(seed, "cohort", round)), round, clients)

    def _checked(self, given: Any, round: int, clients: int) -> np.ndarray:
        chosen = numbers_from(given, f"the rule must name {self.count} clients by their numbers", round)
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


def _nth(here: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The clients at these places among those that are there; 0 where nobody is."""
    those = np.flatnonzero(here)
    return those[places] if those.size else np.zeros(places.shape, np.int64)


def takes_all(who: Participation, clients: int) -> bool:
    """Whether every cohort is all m clients, in whatever order."""
    in_some_order = isinstance(who, Uniform | Permuted) and who.count == clients
    return isinstance(who, Everyone) or (in_some_order and not getattr(who, "replace", False))


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
