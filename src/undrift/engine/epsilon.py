"""ε(δ) after every round of a private method, counted on the host from the program and the plan.

What a neighbouring run changes is all that one client sends (`privacy.private`). An exchange in which it sends something is one
*release*: a Gaussian mechanism with multiplier σ/2, since replacing a message of norm ≤ C changes it by at most 2C. Rényi
divergences add up, so ε after k releases follows from one curve over orders α, k·ρ(α).

 - *Without amplification* k is the number of releases of the client that was asked most often, by the plan. A member that
   did not answer is counted all the same: on a network its answer may only have been late.
 - *With amplification by sampling* every round is one release of a cohort drawn uniformly without replacement, with the curve
   of Wang, Balle, Kasiviswanathan (2019), Theorem 27, or the plain one where that is smaller.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import InputError
from ..plan import Permuted, Uniform, Weighted
from ..privacy import Private, accountant, private_of
from ..protocol import exchanges
from .description import Run
from .layout import memory_shapes

COLUMN = "epsilon"
AT_ONCE = 1024  # rounds whose cohorts are looked at together
# Of Rényi divergences: small ones for a large ε, large ones for a small ε
ORDERS = (
    1.02, 1.04, 1.06, 1.08, *(1 + k / 10 for k in range(1, 100)), *range(11, 64), *(2**k for k in range(6, 14)),
)  # fmt: skip


class Epsilon:
    """Counts ε(δ) of a run, round by round."""

    def __init__(self, run: Run, private: Private) -> None:
        self.run, self.private, self.noise = run, private, noise_of(run)
        self.start, self.first, self.each = _releases(run)
        self.amplified = not why_not_amplified(run, private)
        self._plain = _curve(self.noise)
        self._round = np.minimum(self._plain, _sampled_curve(run, self.noise)) if self.amplified else self._plain
        self._counted, self._most = 0, [0]  # rounds looked at; by round, the releases of whoever was asked most often
        self._asked = np.zeros(run.population.clients, np.int64)  # releases of each client so far

    @classmethod
    def of(cls, run: Run) -> Epsilon | None:
        """Of a private method; None: of another."""
        private = private_of(run.recipe)
        return None if private is None else cls(run, private)

    def rows(self, first: int, count: int) -> np.ndarray:
        """ε after rounds first, …, first + count − 1; round 0 is the start."""
        self._count(first + count - 1)
        return self._after(np.asarray(self._most[first : first + count]))

    def _after(self, releases: np.ndarray) -> np.ndarray:
        """ε after the start and so many releases."""
        if self.noise == 0:
            return np.where(self.start + releases > 0, np.inf, 0.0)
        each, places = np.unique(releases, return_inverse=True)
        divergences = _times(self.start, self._plain) + _times(each[:, None], self._round)
        return smallest_epsilon(divergences, self.private.delta)[places]

    def _count(self, last: int) -> None:
        while self._counted < last:
            self._count_some(range(self._counted + 1, min(last, self._counted + AT_ONCE) + 1))

    def _count_some(self, rounds: range) -> None:
        cohorts = None if self.amplified else _cohorts(self.run, rounds)
        for place, t in enumerate(rounds):
            released = self.first if t == 1 else self.each
            if cohorts is None:  # everyone, as far as is known
                self._most.append(self._most[-1] + released)
                continue
            members = np.unique(cohorts[place])  # whoever is drawn twice speaks once
            self._asked[members] += released
            self._most.append(max(self._most[-1], int(self._asked[members].max())))
        self._counted = rounds[-1]


def smallest_epsilon(divergences: np.ndarray, delta: float) -> np.ndarray:
    """min_α ρ(α) + log(1 − 1/α) − log(δα)/(α − 1), for many curves ρ over `ORDERS` at once; never below 0.

    Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy" (2020), Proposition 12. It is what
    `dp_accounting.rdp.compute_epsilon` does for one curve, which takes seconds for ten thousand rounds.
    """
    orders = np.asarray(ORDERS)
    each = divergences + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
    nothing = -np.expm1(-divergences) < delta**2  # the divergence is so small that δ alone covers it
    return np.maximum(np.where(nothing, 0.0, each).min(axis=-1), 0.0)


def noise_of(run: Run) -> float:
    """σ of a private method."""
    return float(run.method.numbers["noise"])


def check_private(run: Run) -> None:
    """Refuse now what no run of a private method can keep; nothing where the method is not private."""
    private = private_of(run.recipe)
    if private is None:
        return
    clients = run.population.clients
    if private.delta >= 1 / clients:
        raise InputError(
            f"delta must be below 1/m, here 1/{clients} = {1 / clients:g}, got {private.delta:g}: with a larger one all data "
            f"of one client may be published; take delta = {0.1 / clients:.1g} or less"
        )
    if not private.at_client and not run.participation.distinct:
        raise InputError(
            f"private, where='server', needs cohorts in which nobody is drawn twice, got {run.participation}: a client that "
            "counts twice is not hidden by noise for one. Take ud.plan.uniform(n), or where='client'"
        )
    if noise_of(run) > 0:
        accountant()


def why_not_amplified(run: Run, private: Private) -> str:
    """Why sampling does not count; empty where it does.

    The theorem is about cohorts that are secret, drawn uniformly without replacement and anew for each release, and about
    clients whose message depends on nothing but their data and what was released before. Failures do no harm where nobody
    knows them: they are drawn apart from data, so that k members who answer are a uniform cohort of k ≤ n.
    """
    who, m = run.participation, run.population.clients
    memory = memory_shapes(run.algorithm, run.population)
    _, first, each = _releases(run)
    messages = [leaf for shapes in run.shapes for leaf in jax.tree.leaves(shapes.up)]
    reasons = {
        "noise that clients add hides what they send, not whether they do": private.at_client,
        "cohorts are public": private.cohorts != "secret",
        "everyone takes part in every round": who.size(m) == m and who.distinct,
        "only for plan.uniform(n) without replacement is it known": not (type(who) is Uniform and not who.replace),
        "who is silent is taken from a deployed run": run.absences is not None,
        "who is there is known from a trace": run.availability is not None,
        "unequal weights tell who took part": not _equal(run.population.weights),
        "clients or their slots remember in which rounds they took part": bool(
            jax.tree.leaves((memory.clients, memory.slots))
        ),
        "a round is more than one release": not first == each == 1,
        "whole numbers in the messages tell who took part": not all(map(_is_float, messages)),
        "noise = 0 promises nothing": noise_of(run) == 0,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")


def _releases(run: Run) -> tuple[int, int, int]:
    """Exchanges in which clients send numbers: before round 1, in round 1, in every other round."""
    sends = [any(map(_is_float, jax.tree.leaves(shapes.up))) for shapes in run.shapes]
    algorithm = run.algorithm
    before = len(exchanges(algorithm.start))
    usual = before + len(exchanges(algorithm.first or ()))
    each = sum(sends[usual:])
    return sum(sends[:before]), each if algorithm.first is None else sum(sends[before:usual]), each


def _cohorts(run: Run, rounds: range) -> np.ndarray | None:
    """Who is asked in these rounds; None: everyone, or nobody can say beforehand (a user's rule)."""
    who = run.participation
    if not isinstance(who, Uniform | Weighted | Permuted):
        return None
    return run.plan.cohorts(rounds)


def _curve(noise: float) -> np.ndarray:
    """ρ(α) of one release."""
    if _squares(noise):
        return _composed(accountant().GaussianDpEvent(noise / 2))
    return np.full(len(ORDERS), np.inf if noise < 1 else 0.0)


def _squares(noise: float) -> bool:
    """Whether σ² is a number that the package can count with: 10^±200 are none."""
    return 1e-100 < noise < 1e100


def _times(releases: Any, curve: np.ndarray) -> np.ndarray:
    """The curve of so many releases; none at all tell nothing, however little noise there is."""
    return np.where(releases == 0, 0.0, np.maximum(releases, 1) * curve)


def _sampled_curve(run: Run, noise: float) -> np.ndarray:
    """ρ(α) of one release of a secret cohort of n out of m clients."""
    if not _squares(noise):
        return _curve(noise)
    m, dp = run.population.clients, accountant()
    event = dp.SampledWithoutReplacementDpEvent(m, run.participation.size(m), dp.GaussianDpEvent(noise / 2))
    return _composed(event)


def _composed(event: Any) -> np.ndarray:
    dp = accountant()
    found = dp.rdp.RdpAccountant(ORDERS, dp.NeighboringRelation.REPLACE_ONE).compose(event)
    curve: np.ndarray = found.rdp
    return curve


def _equal(weights: Any) -> bool:
    return bool(np.allclose(weights, np.asarray(weights)[0], rtol=1e-12, atol=0))


def _is_float(leaf: Any) -> bool:
    return bool(jnp.issubdtype(leaf.dtype, jnp.floating))
