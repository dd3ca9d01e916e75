"""Why this method: a few sentences from the numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .guarantee import Guarantee
    from .result import Advice, Candidate


def reasons(advice: Advice) -> list[str]:
    """What to do, what it costs, what decides, what is wrong with the others, and how sure this is."""
    best = advice.recommended
    if best is None:
        return [_nothing(advice)]
    found = [_what(best, advice), _dominant(best, advice)]
    found += _others(advice, best)
    found += _certainty(best)
    return [sentence for sentence in found if sentence]


def _nothing(advice: Advice) -> str:
    nearest = min(
        (c for c in advice.candidates if c.forecast is not None and not c.option.reference),
        key=lambda c: c.forecast.floor if c.forecast is not None else np.inf,
        default=None,
    )
    text = f"No method reached {advice.target_text}."
    if nearest is not None and nearest.forecast is not None and np.isfinite(nearest.forecast.floor):
        text += f" Nearest came {nearest.label}, which tends to a relative gap of {nearest.forecast.floor:.1e}."
    return text + " Ask for a looser target, more rounds, or other local steps."


def _what(best: Candidate, advice: Advice) -> str:
    costs = best.costs
    assert costs is not None
    sure = "measured" if best.measured is not None else f"predicted ({best.how})"
    local = f" with {best.local_steps} {best.option.known.local_words}" if best.option.local else ""
    rounds = f"{costs.rounds} round{'s' if costs.rounds != 1 else ''}"
    sent = f"{megabytes(costs.bytes_up)} up, {megabytes(costs.bytes_down)} down"
    return (
        f"Take {best.label}{local} and {best.option.number} = {best.step:.3g}: it reaches {advice.target_text} after {rounds}, "
        f"{duration(costs.seconds)}, {sent}, {costs.gradients:,.0f} gradients ({sure})."
    )


def _dominant(best: Candidate, advice: Advice) -> str:
    costs = best.costs
    assert costs is not None
    if costs.seconds <= 0:
        return ""
    parts = {"computing": costs.computing, "latency": costs.latency, "transfer of bytes": costs.transfer}
    name, most = max(parts.items(), key=lambda item: item[1])
    share = most / costs.seconds
    meaning = {
        "computing": "so every local step has to pay for itself, and faster clients would help more than better links",
        "latency": "so what counts is the number of exchanges, and further local steps cost little",
        "transfer of bytes": "so shorter or fewer messages count, and further local steps cost little",
    }[name]
    text = f"Of its time {share:.0%} is {name}, {meaning}."
    speeds = advice.resources.speeds
    if advice.resources.unequal and name == "computing":
        slowest = int(np.argmin(speeds))
        slower = max(speeds) / min(speeds)
        text += (
            f" A round waits for its slowest client: number {slowest} is {slower:.3g} times slower than the fastest."
        )
        if np.ptp(best.steps) > 0:
            text += " That is why clients take steps in proportion to their speed."
    return text


def _others(advice: Advice, best: Candidate) -> list[str]:
    rivals = [c for c in advice.best_of_each() if c.label != best.label and not c.option.reference]
    found = []
    lost = [c for c in rivals if c.reaches is False]
    drifting = [c for c in lost if c.option.known.drifts]
    if drifting:
        each = ", ".join(f"{c.label} ({_floor(c)})" for c in drifting)
        found.append(
            f"Not fit for this target: {each}. Their clients drift towards their own minimisers, so the rounds settle where "
            "these drifts balance, not at x*; a smaller step lowers that floor, but not far enough."
        )
    rest = [c for c in lost if not c.option.known.drifts]
    if rest:
        found.append(f"{', '.join(c.label for c in rest)} did not reach it {_within(rest[0])}.")
    slow = [c for c in rivals if c.reaches and _drifts(c) and advice.price(c) > 3 * advice.price(best)]
    if slow:
        each = ", ".join(f"{c.label} {advice.price(c) / advice.price(best):,.3g}×" for c in slow)
        found.append(
            f"Methods without a correction for drift need steps so small that their floor sinks below the target: {each} the "
            f"{advice.by} of {best.label}."
        )
    close = sorted((c for c in rivals if c.reaches and c not in slow), key=advice.price)
    if close:
        factor = advice.price(close[0]) / max(advice.price(best), 1e-300)
        much = f"{factor:.2f} times the {advice.by}" if factor > 1.005 else f"the same {advice.by}"
        found.append(f"Next best is {close[0].label} (τ = {close[0].local_steps}): {much}.")
    return found


def _certainty(best: Candidate) -> list[str]:
    found = []
    if best.measured is None and best.how == "estimated":
        found.append(
            "The problem is not quadratic: rounds come from its second-order models at x* and at x_0, the larger of the two "
            "times 1.5. --measure runs them."
        )
    if best.measured is not None and best.forecast is not None and best.forecast.rounds is not None:
        found.append(f"Predicted were {best.forecast.rounds} rounds ({best.how}).")
    if best.guarantee is not None and best.guarantee.rounds is not None and best.costs is not None:
        found.append(_guaranteed(best, best.guarantee, best.guarantee.rounds / max(best.costs.rounds, 1)))
    elif best.guarantee is None:
        found.append("No theorem here promises a number of rounds for it; the advice rests on this problem alone.")
    return found


def _guaranteed(best: Candidate, sure: Guarantee, factor: float) -> str:
    """What is guaranteed; beside a certificate also what the theorem promises."""
    constants = f"whatever the problem with these constants: {factor:,.3g} times as many."
    if not sure.bound.certified:
        return f"{sure.theorem} promises the target after {sure.rounds:,} rounds with {_numbers(sure)}, {constants}"
    theorem, text = best.theorem, f"Guaranteed: {sure.rounds:,} rounds with {_numbers(sure)} (certified), {constants}"
    if theorem is not None and theorem.rounds is not None:
        text += f" {theorem.theorem} promises {theorem.rounds:,}, with {_numbers(theorem)}."
    return f"{text} Start from the certified step to be safe."


def _numbers(guarantee: Guarantee) -> str:
    return ", ".join(f"{name} = {value:.3g}" for name, value in guarantee.numbers.items())


def _drifts(candidate: Candidate) -> bool:
    """One local step, then the mean, is gradient descent: nothing drifts."""
    return candidate.option.known.drifts and (candidate.option.in_turn or int(np.max(candidate.steps)) > 1)


def _floor(candidate: Candidate) -> str:
    if candidate.forecast is not None and np.isfinite(candidate.forecast.floor):
        return f"stops at a relative gap of {candidate.forecast.floor:.1e}"
    return _within(candidate)


def _within(candidate: Candidate) -> str:
    return (
        f"within {candidate.measured.played} rounds" if candidate.measured is not None else "with any step size tried"
    )


def duration(seconds: float) -> str:
    """
    >>> duration(0.0123), duration(75), duration(9000)
    ('0.0123 s', '75 s', '2.5 h')
    """
    if seconds < 600:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def megabytes(count: float) -> str:
    return f"{count / 1e6:.3g} MB" if count >= 1e5 else f"{count / 1e3:.3g} kB"
