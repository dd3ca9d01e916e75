"""A comparison in a tracker: one run for each method and seed, at the method's best step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..studies.comparison import Outcome, run_of_best
from ..studies.entries import Entry
from ..track import Beginning, tracker_from
from .talk import Talk


def track_outcomes(
    words: Sequence[str], entries: Sequence[Entry], outcomes: Sequence[Outcome], folder: Path, talk: Talk
) -> None:
    """Hand over what was recorded; grids are played as a whole, so it is known only now which step is best."""
    entry_of = {entry.label: entry for entry in entries}
    for word in dict.fromkeys(words):
        for outcome in outcomes:
            for place, seed in enumerate(outcome.seeds):
                seeded = [f"seed-{seed}"] if len(outcome.seeds) > 1 else []
                tracker = tracker_from(word, [folder.resolve().name, outcome.label, *seeded])
                tracker.say = talk.notes.print
                run, result = run_of_best(entry_of[outcome.label], outcome).with_seed(seed), outcome.result(place)
                tracker.attend(Beginning.of(run, outcome.label))
                tracker(result.history)
                tracker.end(result, "finished" if result.diverged is None else "diverged")
                if tracker.refusal is not None:
                    return  # said once
