"""A run held against the theorem that promises it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..oracles import Oracle
from ..problems.base import Problem
from .bound import Assumption, Bound
from .constants import gaps_at
from .iterates import kept, running_means, shadow_gaps, weighted_means

ROUNDING = 64  # units in the last place of the start (and of f*) below which a difference means nothing
LINEAR_UNTIL = 1e-10  # of the start: where the linear part of a curve is taken to end
COLUMNS = ("gap", "sq_distance")  # of a history that are subjects themselves


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What became of a guarantee.

    `measured` and `promised` are arrays over rounds 0 … T (NaN where the theorem is silent). `slack` is the smallest
    promised/measured (measured/promised for lower bounds): how far the guarantee is from being violated.
    """

    theorem: str
    subject: str
    holds: bool
    round: int | None  # the first that fails
    values: tuple[float, float] | None  # measured and promised there
    measured: np.ndarray
    promised: np.ndarray
    slack: float
    rate: float | None  # measured factor per round on the linear part
    promised_rate: float | None
    runs: int
    error: np.ndarray | None  # standard error of the mean over runs
    telescoped: bool | None  # whether the sharper right-hand side along the run holds too
    assumptions: tuple[Assumption, ...]
    note: str = ""

    @property
    def tightness(self) -> float | None:
        """ln(measured rate)/ln(promised rate): how many times faster than promised. 1 is a tight bound."""
        if self.rate is None or self.promised_rate is None or not 0 < self.promised_rate < 1 or self.rate <= 0:
            return None
        return float(np.log(self.rate) / np.log(self.promised_rate))

    def __str__(self) -> str:
        if self.holds:
            head = f"{self.theorem} holds at every round"
        else:
            assert self.values is not None
            head = f"{self.theorem} fails first at round {self.round}: {self.values[0]:.6g} > {self.values[1]:.6g}"
        parts = [head, f"{self.subject}, smallest slack ×{self.slack:.3g}"]
        if self.tightness is not None:
            parts.append(f"rate {self.rate:.6g} against {self.promised_rate:.6g}: ×{self.tightness:.3g} as fast")
        if self.runs > 1:
            parts.append(f"mean of {self.runs} runs")
        parts += [str(a) for a in self.assumptions if a.status != "holds"]
        return "; ".join(parts + ([self.note] if self.note else []))


def check(
    run: Any,
    bound: Bound,
    problem: Problem | None = None,
    tolerance: float = 1e-9,
    oracle: Oracle | None = None,
) -> Verdict:
    """Hold a run against a bound, round by round, on the iterate that the theorem speaks of.

    run: a `Result`, a list of them (seeds; their mean is held against a bound in expectation), or a `Sweep` with one grid
    point. problem: needed where the theorem speaks of averaged iterates or of the shadow sequence (`keep_iterates=True`).
    oracle: of the run, where local steps are replayed.

    A round fails if measured > promised·(1 + tolerance) + rounding, where rounding is 64 units in the last place of the start
    (of the gap: and of |f*|): below that a computed difference has no digits. A mean over runs may exceed a promise in
    expectation by three standard errors, but never by more than the promise itself.

    >>> import undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> b = ud.theory.fedlin.strongly_convex(ud.theory.constants(p), steps=5)
    >>> print(check(ud.run(ud.fedlin(**b.numbers), p, rounds=40, steps=5), b))
    FedLin, Theorem 1 holds at every round; gap, smallest slack ×1; rate 0.77... against 0.916...: ×2.9... as fast
    >>> check(ud.run(ud.fedlin(eta=9.0), p, rounds=9, steps=5), b).round
    1
    """
    runs = _runs(run)
    columns = _columns(runs)
    samples = _measured(runs, bound, problem, oracle)
    with np.errstate(all="ignore"):  # some runs may have diverged
        measured = samples.mean(axis=0)
        error = samples.std(axis=0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else None
    if bound.subject == "smallest sq_gradient":
        measured = _smallest(measured, bound)
    start = columns[bound.start][0] if bound.start in columns else np.nan
    promised = bound.curve(len(measured) - 1, float(start)) if np.isfinite(start) else _only_telescoped(bound, columns)
    allowance: Any = _rounding(runs[0], bound, columns)
    if error is not None and bound.in_expectation:
        # Never more than the promise itself: of runs that blow up, the standard error is as large as the mean.
        allowance = allowance + np.fmin(3 * np.nan_to_num(error, posinf=0.0), promised)
    bad = _violations(measured, promised, allowance, tolerance, bound.lower)
    first = int(np.argmax(bad)) if np.any(bad) else None
    sharper = None
    if bound.telescoped is not None and len(runs) == 1 and not bound.in_expectation:
        with np.errstate(all="ignore"):
            right = bound.telescoped(columns)
        sharper = not np.any(_violations(measured, right, allowance, tolerance, bound.lower))
    return Verdict(
        theorem=bound.theorem,
        subject=bound.subject,
        holds=first is None,
        round=first,
        values=None if first is None else (float(measured[first]), float(promised[first])),
        measured=measured,
        promised=promised,
        slack=_slack(measured, promised, allowance, bound.lower),
        rate=None if bound.rate is None else fitted_rate(measured, bound.floor),
        promised_rate=bound.rate,
        runs=len(runs),
        error=error,
        telescoped=sharper,
        assumptions=bound.assumptions,
        note="one run of a guarantee in expectation" if bound.in_expectation and len(runs) == 1 else "",
    )


def fitted_rate(measured: np.ndarray, floor: float = 0.0) -> float | None:
    """The factor per round, by least squares on the logarithms of the linear part.

    The linear part lasts while the curve is above 10⁻¹⁰ of its start, and where the guarantee has a floor, above ten times the
    value that the curve ends at.

    >>> round(fitted_rate(0.5 ** np.arange(20.0)), 12)
    0.5
    """
    values = np.asarray(measured, float)
    fine = np.isfinite(values) & (values > 0)
    count = int(np.sum(fine))
    if count < 2:
        return None
    first = values[fine][0]
    level = LINEAR_UNTIL * first
    if floor > 0:
        level = max(level, 10 * float(np.median(values[fine][-max(1, count // 10) :])))
    below = np.flatnonzero(fine & (values < level))
    end = int(below[0]) if below.size else len(values)
    t = np.flatnonzero(fine[:end])
    if t.size < 2:
        return None
    return float(np.exp(np.polyfit(t, np.log(values[t]), 1)[0]))


class _Row(NamedTuple):
    """One seed of a sweep, as if it were a run."""

    history: dict[str, np.ndarray]
    x: np.ndarray
    setting: dict[str, Any]
    iterates: None = None


def _runs(given: Any) -> list[Any]:
    if hasattr(given, "grid"):  # a sweep
        points = int(np.prod([len(values) for values in given.grid.values()]))
        if points != 1:
            raise InputError(f"a verdict needs one grid point with its seeds, the sweep has {points}")
        flat = {name: np.asarray(c).reshape(len(given.seeds), -1) for name, c in given.history.items()}
        models = np.asarray(given.x).reshape(len(given.seeds), -1)
        rows = [{name: column[i] for name, column in flat.items()} for i in range(len(given.seeds))]
        return [_Row(row, models[i], {"seed": given.seeds[i]}) for i, row in enumerate(rows)]
    runs = list(given) if isinstance(given, Sequence) else [given]
    if not runs or not all(hasattr(r, "history") for r in runs):
        raise InputError(f"a verdict needs a run, a list of runs or a sweep, got {type(given).__name__}")
    lengths = {len(r.history["loss"]) for r in runs}
    if len(lengths) != 1:
        raise InputError(
            f"runs of the same length are needed for their mean, got {sorted(n - 1 for n in lengths)} rounds"
        )
    return runs


def _columns(runs: list[Any]) -> dict[str, np.ndarray]:
    """The mean over runs of what the theorems need."""
    names = [n for n in ("loss", "gap", "sq_distance", "grad_norm") if n in runs[0].history]
    with np.errstate(all="ignore"):
        return {n: np.mean([np.asarray(r.history[n], np.float64) for r in runs], axis=0) for n in names}


def _measured(runs: list[Any], bound: Bound, problem: Problem | None, oracle: Oracle | None) -> np.ndarray:
    """The left-hand side, one row for each run; for a smallest gradient still every round's own."""
    if bound.subject in COLUMNS:
        return np.stack([_column(r, bound.subject) for r in runs])
    if bound.subject == "smallest sq_gradient":
        return np.stack([_column(r, "grad_norm") ** 2 for r in runs])
    if problem is None:
        raise InputError(f"{bound.theorem} speaks of the {bound.subject}: pass problem=, to evaluate f there")
    if bound.subject == "mean gap of the shadow sequence":
        return _after_round_one(np.stack([shadow_gaps(r, problem, bound, oracle) for r in runs]))
    iterates = np.stack([kept(r) for r in runs])
    if bound.subject == "gap of the running mean":
        return _after_round_one(_gaps(problem, running_means(iterates)))
    assert bound.weights is not None
    return _gaps(problem, weighted_means(iterates, bound.weights))


def _gaps(problem: Problem, points: np.ndarray) -> np.ndarray:
    return gaps_at(problem, points.reshape(-1, points.shape[-1])).reshape(points.shape[:-1])


def _after_round_one(rows: np.ndarray) -> np.ndarray:
    """Nothing is said before the first round."""
    return np.concatenate([np.full((len(rows), 1), np.nan), rows], axis=1)


def _column(run: Any, name: str) -> np.ndarray:
    if name not in run.history:
        raise InputError(
            f"the run has no column {name!r}: x* of this problem is not known, or was not looked for unasked; where it exists, "
            "look at problem.optimum once before the run"
        )
    if run.setting.get("record_every", 1) != 1:
        raise InputError("some rounds were not evaluated: run with record_every=1 to check every round")
    values = np.asarray(run.history[name], np.float64)
    return np.where(np.isnan(values), np.inf, values)  # a run that diverged keeps no promise


def _smallest(squares: np.ndarray, bound: Bound) -> np.ndarray:
    """min over the iterates that the theorem counts, for T = 0, 1, …"""
    so_far = np.minimum.accumulate(squares)
    return so_far if bound.weights is not None else np.concatenate([[np.nan], so_far[:-1]])


def _only_telescoped(bound: Bound, columns: dict[str, np.ndarray]) -> np.ndarray:
    if bound.telescoped is None:
        raise InputError(f"{bound.theorem} starts from {bound.start}, which needs x*; it is not known for this problem")
    return bound.telescoped(columns)


def _rounding(run: Any, bound: Bound, columns: dict[str, np.ndarray]) -> float:
    eps = ROUNDING * float(np.finfo(np.asarray(run.x).dtype).eps)
    if bound.subject == "sq_distance":
        size = float(np.max(np.abs(np.nan_to_num(run.x, posinf=0.0, neginf=0.0)), initial=0.0))
        return eps * float(columns["sq_distance"][0]) + (eps * size) ** 2
    if bound.subject == "smallest sq_gradient":
        return eps * float(columns["grad_norm"][0]) ** 2
    optimum = abs(float(columns["loss"][0] - columns["gap"][0])) if "gap" in columns else 0.0
    return eps * (optimum + float(columns["gap"][0]))


def _violations(
    measured: np.ndarray, promised: np.ndarray, allowance: Any, tolerance: float, lower: bool
) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        if lower:
            return (measured < promised * (1 - tolerance) - allowance) & ~np.isnan(promised)
        beyond = measured > promised * (1 + tolerance) + allowance
        return np.asarray(beyond | (np.isnan(measured) & ~np.isnan(promised) & (np.arange(len(measured)) > 0)))


def _slack(measured: np.ndarray, promised: np.ndarray, allowance: Any, lower: bool) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = measured / promised if lower else promised / measured
        fine = np.isfinite(ratio) & (measured > allowance)
    return float(np.min(ratio[fine])) if np.any(fine) else float("inf")
