"""`ud.theory.certify`: the worst case of a round, the step with the best one, and the inequality that shows it."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import InputError, unknown
from .certificate import Certificate, Measure
from .exact import certified_rate
from .finite import worst_case
from .programme import Programme, Solution, kind
from .rounds import METHODS, Method
from .solver import contraction, lyapunov

MEASURES: tuple[Measure, ...] = ("sq_distance", "gap", "sq_gradient")
SLACKS = (
    1e-10,
    1e-9,
    1e-8,
    1e-7,
    1e-6,
    1e-5,
)  # how far inside the cone a solution is asked to lie, so that rounding cannot take it out
MEMORY_SLACK = 1e-8
STEP_PLACES = 10**6  # steps are tried in multiples of 1/(10⁶ L), which are exact fractions


def certify(
    method: Any,
    *,
    L: float,
    mu: float,
    clients: int = 2,
    steps: int | Sequence[int] | Set[int] = 1,
    measure: Measure = "sq_distance",
    eta: float | None = None,
    **settings: Any,
) -> Certificate:
    """The contraction of a round in the worst case over all L-smooth, μ-strongly convex losses of the clients.

    `method` is a method (`ud.fedlin`) or its name; METHODS lists them, with variants like "fedlin+differences". `steps` is
    τ, one τ_i for each client (their proportions are then fixed), or a set {1, 5}: clients may take 1 or 5 steps, in any
    mixture that may change by round. From two clients on the answer does not depend on their number. `measure` is what
    contracts: "sq_distance" ‖x − x*‖², "gap" f(x) − f*, or "sq_gradient" ‖∇f(x)‖²; methods with memory contract a Lyapunov
    function. Without `eta` the step with the best worst case is searched for. `settings` are the method's own: `down=δ`, a
    compressor with ‖C(v) − v‖² ≤ (1 − 1/δ)‖v‖², for FedLin; `p` for Scaffnew; `option` for SCAFFOLD, ….

    >>> c = certify("gd", L=1.0, mu=0.1, eta=1.0)  # doctest: +SKIP
    >>> round(c.rate, 6), c.exact  # (1 − ημ)²  # doctest: +SKIP
    (0.81, True)
    """
    name, known = _method(method)
    kappa = _condition(L, mu)
    asked = _settings(name, known, settings, L)
    if measure not in MEASURES:
        raise unknown("measure", measure, MEASURES)
    federation = _federation(clients, steps, known)
    at = Rates(known, federation, kappa, measure, asked)
    if eta is not None and not (math.isfinite(eta) and eta > 0):
        raise InputError(f"{known.number} is a finite number > 0, got {eta}: leave it out to have the best one found")
    step = _exact(eta * L) if eta is not None else at.best()
    found = at.certified(step)
    return Certificate(
        method=name,
        measure=measure,
        eta=float(step) / L if eta is None else float(eta),
        rate=found.rate,
        residual=math.nan if found.worst is None else found.rate - found.worst.value,
        L=float(L),
        mu=float(mu),
        steps=federation.distinct,
        numbers={known.number: float(step) / L if eta is None else float(eta)},
        scope=federation.scope,
        exact=found.exact,
        source="solved",
        memory=known.memory,
        worst=found.worst,
        per=known.per,
        P=found.P if known.memory is not None else None,
    )


def rates_of(method: str, kappa: Fraction, steps: Set[int], settings: Mapping[str, Any]) -> Rates:
    """Rates of ‖x − x*‖² for any number of clients with these local steps in any mixture, L = 1."""
    known = METHODS[method]
    return Rates(known, _federation(2, steps, known), kappa, "sq_distance", _settings(method, known, settings, 1.0))


def _method(method: Any) -> tuple[str, Method]:
    name = method if isinstance(method, str) else getattr(method, "name", None)
    if name not in METHODS:
        raise unknown("method with a certificate", name if isinstance(name, str) else repr(method), METHODS)
    return name, METHODS[name]


def _condition(L: float, mu: float) -> Fraction:
    if not (math.isfinite(L) and L > 0 and 0 < mu < L):
        raise InputError(
            f"certificates are for L-smooth, μ-strongly convex losses with 0 < μ < L; got L = {L}, μ = {mu}"
        )
    return Fraction(float(L)) / Fraction(float(mu))


def _exact(step: float) -> Fraction:
    """A step in units of 1/L, as a short fraction."""
    return Fraction(step).limit_denominator(STEP_PLACES)


def _settings(name: str, known: Method, given: Mapping[str, Any], L: float) -> dict[str, Any]:
    for key in given:
        if key not in known.settings:
            raise unknown(f"setting of {name} in a certificate", key, known.settings)
    found = {**known.settings, **given}
    units = {"beta": 1 / L, "inner_eta": L}  # those with a dimension, told as multiples of L or 1/L
    return {
        key: _exact(value * units.get(key, 1.0)) if isinstance(value, float) else value for key, value in found.items()
    }


@dataclasses.dataclass(frozen=True)
class Federation:
    """The kinds of clients: their τ, and their shares where these are fixed."""

    distinct: tuple[int, ...]
    shares: list[Fraction] | None
    counts: tuple[int, ...]  # clients of each kind that stand for all of it in PEPit's programme
    scope: str
    alike: bool


def _federation(clients: int, steps: int | Sequence[int] | Set[int], known: Method) -> Federation:
    if int(clients) != clients or clients < 1:
        raise InputError(f"clients is a whole number ≥ 1, got {clients}")
    several = [steps] if isinstance(steps, int | np.integer) else list(steps)
    if not several or any(int(tau) != tau or tau < 1 for tau in several):
        raise InputError(f"local steps are whole numbers ≥ 1, got {steps!r}")
    if isinstance(steps, Sequence) and len(several) not in (1, clients):
        raise InputError(
            f"steps has {len(several)} entries for {clients} clients: give one each, or a set for any mixture"
        )
    alike = known.alike or clients == 1
    counted = Counter(int(tau) for tau in several)
    distinct = tuple(sorted(counted))
    who = "clients with the same data" if alike and clients > 1 else "one client" if alike else "any number of clients"
    if len(distinct) == 1:
        return Federation(distinct, None, (1,) if alike else (2,), f"{who}, any weights" if clients > 1 else who, alike)
    if isinstance(steps, Set) or alike:
        return Federation(distinct, None, (1,) * len(distinct) if alike else (2,) * len(distinct),
                          f"{who}, any weights, any mixture of these steps, also one that changes by round", alike)  # fmt: skip
    shares = [Fraction(counted[tau], clients) for tau in distinct]
    counts = tuple(min(2, counted[tau]) for tau in distinct)
    return Federation(distinct, shares, counts, f"{who} with the steps in these proportions, of equal weight", alike)


@dataclasses.dataclass(frozen=True)
class Found:
    """A certified rate, and the worst case from below."""

    rate: float
    exact: bool
    worst: Any
    P: np.ndarray


class Rates:
    """Rates of a method as a function of its step, in units of 1/L."""

    def __init__(
        self, known: Method, federation: Federation, kappa: Fraction, measure: Measure, settings: Mapping[str, Any]
    ) -> None:
        self.known, self.federation, self.kappa, self.measure, self.settings = (
            known,
            federation,
            kappa,
            measure,
            settings,
        )

    def programme(self, step: Fraction) -> Programme:
        kinds = [
            kind(self.known, tau, step, self.kappa, self.measure, self.settings, self.federation.alike)
            for tau in self.federation.distinct
        ]
        return Programme(kinds, self.federation.shares)

    def rate(self, step: float) -> float:
        """For the search: as it comes from the solver."""
        programme = self.programme(_exact(step))
        if programme.rank == 1:
            solution = contraction(programme, MEMORY_SLACK)
        else:
            solution = _smallest(lambda rate: lyapunov(programme, rate, MEMORY_SLACK), 1e-4)
        return math.inf if solution is None else solution.rate

    def best(self, near: float | None = None, tolerance: float = 2e-4) -> Fraction:
        """The step with the smallest rate: tried in powers of two from the largest that can be, then by golden section.
        `near`: where it was for a problem like this one."""
        if near is not None:
            return _exact(
                golden(
                    self.rate, 0.9 * near, min(1.25 * near, self.known.reach(max(self.federation.distinct))), tolerance
                )
            )
        reach = self.known.reach(max(self.federation.distinct))
        tried = [reach / 2**k for k in range(12)]
        rates = []
        for step in tried:
            rates.append(self.rate(step))
            if len(rates) > 2 and rates[-1] > rates[-2] and rates[-2] < 1:
                break  # it only gets slower from here
        best = int(np.argmin(rates))
        if not rates[best] < 1:
            raise InputError(
                f"no step from {tried[-1]:.3g}/L to {reach:.3g}/L contracts in the worst case (the best rate seen is "
                f"{rates[best]:.4g}): there is no certificate with these settings in the measure {self.measure!r}"
                + (
                    ", but there may be one with measure='gap'"
                    if self.known.memory is None and self.measure != "gap"
                    else ""
                )
            )
        low, high = tried[min(best + 1, len(tried) - 1)], tried[max(best - 1, 0)]
        return _exact(golden(self.rate, low, high, tolerance))

    def certified(self, step: Fraction, worst: bool = True) -> Found:
        """The rate with its inequality checked in fractions; by the solver's word alone where that fails."""
        from_below = self.from_below if worst else lambda step, solution: None
        programme = self.programme(step)
        solution = None
        for found in self.candidates(programme):
            solution = found
            exact = certified_rate(programme, found)
            if exact is not None:
                return Found(_upwards(exact), True, from_below(step, found), found.P)
        if solution is None:
            raise InputError(
                f"with the step {float(step):.4g}/L nothing contracts in the worst case: take a smaller one, or leave it out"
            )
        return Found(solution.rate, False, from_below(step, solution), solution.P)

    def candidates(self, programme: Programme) -> Iterator[Solution]:
        """Solutions from the sharpest one on to such that leave more room for rounding."""
        if programme.rank == 1:
            yield from (found for slack in SLACKS if (found := contraction(programme, slack)) is not None)
            return
        first = _smallest(lambda rate: lyapunov(programme, rate, MEMORY_SLACK), 1e-6)
        if first is not None:
            yield first
            more = (lyapunov(programme, first.rate + extra, MEMORY_SLACK) for extra in (1e-6, 1e-5, 1e-4, 1e-3))
            yield from (found for found in more if found is not None)

    def from_below(self, step: Fraction, solution: Solution) -> Any:
        federation = self.federation
        steps, weights = [], []
        shares = federation.shares or [Fraction(1, len(federation.distinct))] * len(federation.distinct)
        for tau, share, count in zip(federation.distinct, shares, federation.counts, strict=True):
            steps += [tau] * count
            weights += [float(share / count)] * count
        P = solution.P / np.abs(solution.P).max()  # what V is after V = 1 does not depend on its scale
        return worst_case(
            self.known, steps, weights, float(step), float(self.kappa), self.measure, self.settings, P, federation.alike
        )


def _smallest(solve: Callable[[float], Solution | None], tolerance: float) -> Solution | None:
    """The solution with the smallest rate for which there is one, by bisection."""
    low, high = 0.0, 1.0
    best = solve(high)
    if best is None:
        return None
    while high - low > tolerance:
        middle = (low + high) / 2
        found = solve(middle)
        if found is None:
            low = middle
        else:
            high, best = middle, found
    return best


def _upwards(rate: Fraction) -> float:
    """The next number that is not smaller."""
    near = float(rate)
    return near if Fraction(near) >= rate else math.nextafter(near, math.inf)


def golden(function: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """The minimiser of a function that falls and then rises, to a relative tolerance.

    >>> round(golden(lambda x: (x - 2.0) ** 2, 0.5, 5.0, 1e-6), 4)
    2.0
    """
    ratio = (math.sqrt(5) - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = function(a), function(b)
    while high - low > tolerance * high:
        if at_a < at_b or (math.isinf(at_a) and math.isinf(at_b)):
            high, b, at_b = b, a, at_a
            a = high - ratio * (high - low)
            at_a = function(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + ratio * (high - low)
            at_b = function(b)
    return a if at_a < at_b else b
