"""What came of a run or a comparison, in a sentence: who arrives, who settles elsewhere, who diverges.

Of a method whose gap f − f* is known: it *arrives* in the round from which on the gap stays below 1e-9 of the first one. It
*settles* where its gap has stopped to move: the medians of the last two eighths of its rounds differ by less than 2 %, or by
less than twice the standard deviation of the last one; or the last three slow down so that by Aitken's rule less than 5 % is to
come. Otherwise it is said how far away it is, and whether it still comes closer. Where f* is not known nobody arrives: the
words are about accuracy or loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..studies.comparison import TARGETS, Outcome
from ..studies.relative import filled, relative_gap
from ..theory.methods.printed import FAMILIAR, PRINTED
from .curves import POOLED

ARRIVED = TARGETS[-1]
STILL = 0.02  # a share that a settled gap may move by, from one eighth of the rounds to the next
LEFT = 0.05  # or a share of it that is still to come, where it slows down like a geometric sequence
EIGHTH = 8
PERCENT = 5e-5  # smaller shares are written as numbers
ABOUT = 1.1  # rounds that differ by less count as the same time
NEAR = 1e-3  # accuracies that differ by less are called equal


class Words(NamedTuple):
    """The verdict, what is to be said of the other methods, and what the words mean."""

    headline: str = ""
    others: str = ""
    meaning: str = ""


class Course(NamedTuple):
    """How one method fared: its relative gap (or its loss) in every round, the median over seeds."""

    label: str
    name: str
    values: np.ndarray  # (rounds + 1,)
    pooled: bool = False
    lost: str = ""  # how it diverged
    accuracy: float | None = None

    @property
    def called(self) -> str:
        """Its label, as the method's name is printed: FedLin ↑top_k(32)."""
        rest = self.label.removeprefix(self.name)
        whole = self.name in PRINTED and rest != self.label and not rest[:1].isalnum() and rest[:1] != "_"
        return PRINTED[self.name] + rest if whole else self.label

    @property
    def rounds(self) -> int:
        return self.values.size - 1

    @property
    def end(self) -> float:
        """Where it ended; infinitely far away where it diverged."""
        last = float(self.values[-1])
        return np.inf if self.lost or not np.isfinite(last) else last

    @property
    def arrival(self) -> int | None:
        """The round from which on its gap stays below what counts as arrived."""
        if not np.isfinite(self.end):
            return None
        above = np.flatnonzero(~(self.values <= ARRIVED))
        first = 0 if not above.size else int(above[-1]) + 1
        return first if first < self.values.size else None

    @property
    def fate(self) -> str:
        """What became of it, for a gap.

        >>> Course("fedlin", "fedlin", 0.5 ** np.arange(61.0)).fate
        'arrives after 30 rounds'
        >>> Course("fedavg", "fedavg", 0.02 + 0.5 ** np.arange(61.0)).fate
        'settles 2 % away'
        >>> Course("fedavg", "fedavg", 0.9 ** np.arange(25.0)).fate
        'is 8 % away after 24 rounds and still comes closer'
        """
        if not np.isfinite(self.end):
            return self.lost or "diverges"
        if self.arrival is not None:
            return "starts at the optimum" if self.arrival == 0 else f"arrives after {_rounds(self.arrival)}"
        if not self.rounds:
            return "has not begun"
        if self.end > 1:
            return f"is farther away after {_rounds(self.rounds)} than at the start"
        trend = self._trend()
        if trend == 0:
            return f"settles {away(self.end)} away"
        how = {None: "", -1: " and still comes closer", 1: " and was closer before"}[trend]
        return f"is {away(self.end)} away after {_rounds(self.rounds)}{how}"

    def _trend(self) -> int | None:
        """Whether the gap falls (−1), stays (0) or rises (1) in the last rounds; None where they are too few to tell."""
        eighth = self.values.size // EIGHTH
        if eighth < 3:
            return None
        third, second, last = (self.values[self.values.size - k * eighth :][:eighth] for k in (3, 2, 1))
        moved = float(np.median(last) - np.median(second))
        before = float(np.median(second) - np.median(third))
        if abs(moved) <= max(STILL * float(np.median(last)), 2 * float(np.std(last))):
            return 0
        if moved > 0:
            return 1
        limit = np.median(last) - moved**2 / (moved - before) if before < moved else -np.inf  # Aitken's
        return 0 if limit >= (1 - LEFT) * self.end else -1


def comparison_words(outcomes: Sequence[Outcome]) -> Words:
    """The verdict on a comparison, every method at its best step size."""
    gap = all(outcome.measure == "gap" for outcome in outcomes)
    return words_of([_course_of(outcome, gap) for outcome in outcomes], gap)


def run_words(
    label: str, name: str, history: Mapping[str, np.ndarray], lost: int | None, pooled: bool = False
) -> Words:
    """The verdict on a single run; `lost`: the round in which it diverged."""
    gap = "gap" in history
    values = relative_gap(np.asarray(history["gap"])) if gap else np.asarray(history["loss"])
    accuracy = _last(np.asarray(history["accuracy"])[None]) if "accuracy" in history else None
    how = "" if lost is None else f"diverges in round {lost:,}"
    return words_of([Course(label, name, filled(values[None])[0], pooled, how, accuracy)], gap)


def _course_of(outcome: Outcome, gap: bool) -> Course:
    lost = "diverges at every step size" if outcome.best is None else ""
    values = outcome.curve() if gap else outcome.column("loss")
    accuracy = _last(outcome.column("accuracy")) if "accuracy" in outcome.history else None
    with np.errstate(all="ignore"):
        middle = np.median(filled(values), axis=0)
    return Course(outcome.label, outcome.name, middle, outcome.pooled, lost, accuracy)


def words_of(courses: Sequence[Course], gap: bool) -> Words:
    """The verdict on these courses, of which `gap` says what they show.

    >>> fedlin = Course("fedlin", "fedlin", 0.5 ** np.arange(61.0))
    >>> fedavg = Course("fedavg", "fedavg", 0.02 + 0.5 ** np.arange(61.0))
    >>> words_of([fedavg, fedlin], gap=True).headline
    'FedLin arrives after 30 rounds; FedAvg settles 2 % away.'
    """
    if not courses:
        return Words()
    main = [one for one in courses if not one.pooled] or list(courses)
    if all(not np.isfinite(one.end) for one in main):
        head, named = _all_lost(main), main
    elif gap:
        head, named = _of_gaps(main)
    else:
        head, named = _of_losses(main)
    rest = [one for one in main if one.label not in {said.label for said in named}]
    baselines = [one for one in courses if one.pooled] if any(not one.pooled for one in courses) else []
    return Words(head, _others(rest, baselines, gap), _meaning(courses, gap))


def _all_lost(main: Sequence[Course]) -> str:
    if len(main) == 1:
        return f"{_subject(main[0])} {main[0].fate}."
    return (
        f"{'Both' if len(main) == 2 else f'All {len(main)} methods'} diverge: {_listed([one.called for one in main])}."
    )


def _of_gaps(main: Sequence[Course]) -> tuple[str, list[Course]]:
    """The sentence, and of whom it speaks."""
    if len(main) == 1:
        return f"{_subject(main[0])} {main[0].fate}.", [main[0]]
    arrived = sorted((one for one in main if one.arrival is not None), key=lambda one: one.arrival or 0)
    short = sorted((one for one in main if one.arrival is None), key=lambda one: one.end)
    if not short:
        return _all_arrive(arrived), [arrived[0], arrived[-1]]
    last = next((one for one in short if one.name == FAMILIAR), short[-1])
    if arrived:
        first = _first(main)
        return f"{_subject(first)} {first.fate}; {last.called} {last.fate}.", [first, last]
    near, last = short[0], last if last is not short[0] else short[-1]
    where = f"Nobody arrives within {_rounds(near.rounds)}"
    return f"{where}: {near.called} {near.fate}; {last.called} {last.fate}.", [near, last]


def _first(main: Sequence[Course]) -> Course:
    """Of those that arrive at about the same time the one that was named first: the plain method before its variants."""
    times = {one.label: one.arrival for one in main if one.arrival is not None}
    return next(one for one in main if times.get(one.label, np.inf) <= ABOUT * min(times.values()))


def _all_arrive(arrived: Sequence[Course]) -> str:
    first, last = arrived[0], arrived[-1]
    count = "Both" if len(arrived) == 2 else f"All {len(arrived)} methods"
    if first.arrival == last.arrival:
        return f"{count} arrive after {_rounds(first.arrival or 0)}."
    ends = f"{first.called} first, after {_rounds(first.arrival or 0)}, {last.called} last, after {last.arrival}"
    return f"{count} arrive: {ends}."


def _of_losses(main: Sequence[Course]) -> tuple[str, list[Course]]:
    """Accuracy where there are test data, else the loss."""
    tested = all(one.accuracy is not None for one in main if np.isfinite(one.end))
    able = [one for one in main if np.isfinite(one.end)]
    ranked = sorted(able, key=lambda one: -(one.accuracy or 0.0) if tested else one.end)
    best, worst = ranked[0], ranked[-1]
    after = f"after {_rounds(best.rounds)}"
    if len(main) == 1:
        right = f", with an accuracy of {_share(best)}" if tested else ""
        moved = f"takes the loss from {_number(best.values[0])} to {_number(best.end)} in {_rounds(best.rounds)}"
        return f"{_subject(best)} {moved}{right}.", [best]
    lost = [one for one in main if not np.isfinite(one.end)]
    if lost:  # worse than the worst of the others
        ends = f"an accuracy of {_share(best)}" if tested else f"a loss of {_number(best.end)}"
        return f"{best.called} ends with {ends} {after}; {lost[0].called} {lost[0].fate}.", [best, lost[0]]
    if tested and (best.accuracy or 0.0) - (worst.accuracy or 0.0) < NEAR:
        return f"All end with an accuracy of {_share(best)} {after}.", list(main)
    if tested:
        high, low = f"the highest accuracy, {_share(best)} {after}", f"the lowest, {_share(worst)}"
    else:
        high, low = f"the lowest loss, {_number(best.end)} {after}", f"the highest, {_number(worst.end)}"
    return f"{best.called} ends with {high}; {worst.called} with {low}.", [best, worst]


def _others(rest: Sequence[Course], baselines: Sequence[Course], gap: bool) -> str:
    """Everybody whom the headline leaves out, in a few words each."""
    arrived = sorted((one for one in rest if gap and one.arrival is not None), key=lambda one: one.arrival or 0)
    short = [one for one in rest if not gap or one.arrival is None]
    parts = []
    if arrived:
        parts.append(f"Also: {_listed([_brief(one, gap) for one in arrived])}")
    if short:
        parts.append(
            f"{f'Not within {_rounds(short[0].rounds)}' if gap else 'Others'}: {_listed([_brief(one, gap) for one in short])}"
        )
    if baselines:
        parts.append(f"With {POOLED}: {_listed([_brief(one, gap) for one in baselines])}")
    return ". ".join(parts) + ("." if parts else "")


def _brief(one: Course, gap: bool) -> str:
    if not np.isfinite(one.end):
        return f"{one.called} (diverges)"
    if gap:
        return f"{one.called} ({_rounds(one.arrival) if one.arrival is not None else f'{away(one.end)} away'})"
    return f"{one.called} ({_share(one) if one.accuracy is not None else _number(one.end)})"


def _meaning(courses: Sequence[Course], gap: bool) -> str:
    if not gap:
        return "The optimum is not known here, so that nobody can be said to arrive."
    meant = f"Arrives: f − f* stays below {ARRIVED:.0e}".replace("e-0", "e-") + " of what it was at the start."
    some = next((one for one in courses if one.arrival is None and PERCENT <= one.end <= 1), None)
    return meant if some is None else f"{meant} {away(some.end)} away: that share of it is left."


def _subject(one: Course) -> str:
    return f"{one.called}, with {POOLED}," if one.pooled else one.called


def away(share: float) -> str:
    """A share of the first gap, for people.

    >>> away(0.0234), away(0.3), away(0.00048), away(8.8e-8)
    ('2.3 %', '30 %', '0.048 %', '8.8e-08')
    """
    return f"{float(f'{100 * share:.2g}'):g} %" if share >= PERCENT else f"{share:.1e}"


def _share(one: Course) -> str:
    return f"{one.accuracy or 0.0:.3f}"


def _number(value: float) -> str:
    return f"{float(value):.3g}"


def _rounds(count: int) -> str:
    return "1 round" if count == 1 else f"{count:,} rounds"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _last(values: np.ndarray) -> float | None:
    """The last value that was recorded, the median over seeds."""
    end = float(np.median(filled(values)[:, -1]))
    return end if np.isfinite(end) else None
