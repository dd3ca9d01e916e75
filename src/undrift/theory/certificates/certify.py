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
from .questions import exactly, positive_number, read_settings, whole_number
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
LARGEST_CONDITION = 1e6
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
    L, mu = positive_number("L", L), positive_number("mu", mu)
    kappa = _condition(L, mu)
    asked = read_settings(name, known, settings, L)
    if measure not in MEASURES:
        raise unknown("measure", measure, MEASURES)
    federation = _federation(clients, steps, known)
    if measure == "sq_gradient" and federation.alike and len(federation.distinct) > 1:
        raise InputError(
            "with different numbers of steps ‖∇f‖² of the mean model is not bounded by those of the clients' models, as "
            "‖∇f‖² need not be convex: use measure='sq_distance' or 'gap'"
        )
    at = Rates(known, federation, kappa, measure, asked)
    step = at.best() if eta is None else exactly(known.number, eta) * Fraction(L)
    found = at.certified(step)
    chosen = float(step) / L if eta is None else float(eta)
    return Certificate(
        method=name,
        measure=measure,
        eta=chosen,
        rate=found.rate,
        residual=math.nan if found.worst is None else found.rate - found.worst.value,
        L=float(L),
        mu=float(mu),
        steps=federation.distinct,
        numbers={
            known.number: chosen,
            **{key: float(value) for key, value in settings.items() if key in ("beta", "p")},
        },
        scope=federation.scope,
        exact=found.exact,
        source="solved",
        memory=known.memory,
        worst=found.worst,
        per=known.per,
        P=None if known.memory is None else _tight(found.P),
    )


def rates_of(method: str, kappa: Fraction, steps: Set[int], settings: Mapping[str, Any]) -> Rates:
    """Rates of ‖x − x*‖² for any number of clients with these local steps in any mixture, L = 1."""
    known = METHODS[method]
    return Rates(known, _federation(2, steps, known), kappa, "sq_distance", read_settings(method, known, settings, 1.0))


def _method(method: Any) -> tuple[str, Method]:
    if hasattr(method, "numbers"):
        raise InputError(
            f"certify asks for a method without its numbers, got {method}: give the factory (ud.fedlin), and eta and "
            "settings by name"
        )
    name = method if isinstance(method, str) else getattr(method, "name", None)
    if name not in METHODS:
        raise unknown("method with a certificate", name if isinstance(name, str) else repr(method), METHODS)
    return name, METHODS[name]


def _condition(L: float, mu: float) -> Fraction:
    if not mu < L:
        raise InputError(
            f"certificates are for L-smooth, μ-strongly convex losses with 0 < μ < L; got L = {L}, μ = {mu}"
        )
    if L / mu > LARGEST_CONDITION:
        raise InputError(f"certificates are solved up to κ = {LARGEST_CONDITION:g}, here it is {L / mu:.4g}")
    return Fraction(L) / Fraction(mu)


def _exact(step: float) -> Fraction:
    """A step in units of 1/L, as a short fraction."""
    return Fraction(step).limit_denominator(STEP_PLACES)


@dataclasses.dataclass(frozen=True)
class Federation:
    """The kinds of clients: their τ, and their shares where these are fixed."""

    distinct: tuple[int, ...]
    shares: list[Fraction] | None
    counts: tuple[int, ...]  # clients of each kind that stand for all of it in PEPit's programme
    scope: str
    alike: bool


def _federation(clients: int, steps: int | Sequence[int] | Set[int], known: Method) -> Federation:
    clients = whole_number("clients", clients)
    given = [steps] if np.ndim(steps) == 0 and not isinstance(steps, Set) else list(steps)  # type: ignore[arg-type]
    several = [whole_number("local steps", tau) for tau in given]
    if not isinstance(steps, Set) and len(several) not in (1, clients):
        raise InputError(
            f"steps has {len(several)} entries for {clients} clients: give one each, or a set for any mixture"
        )
    alike = known.alike or clients == 1
    counted = Counter(several)
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
            return self._near(near, tolerance)
        reach = self.reach
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

    @property
    def reach(self) -> float:
        """The longest step that is tried."""
        return self.known.reach(max(self.federation.distinct), float(self.kappa))

    def _near(self, near: float, tolerance: float) -> Fraction:
        """The best step around one; the window moves on while the best is at its end."""
        for _ in range(12):
            low, high = 0.85 * near, min(1.3 * near, self.reach)
            found = golden(self.rate, low, high, tolerance)
            if low * 1.02 < found < high * 0.98 or found > 0.98 * self.reach:
                break
            near = found
        return _exact(found)

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
                f"with the step {float(step):.4g}/L no {'quadratic V' if self.known.memory else 'rate'} was found that "
                "contracts in the worst case: take a smaller one, or leave it out"
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


def _tight(P: np.ndarray) -> np.ndarray:
    """The smallest multiple of P with P ⪰ E_11: V_0 is then no larger than it must be."""
    return np.asarray(P * np.linalg.inv(P)[0, 0])


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
