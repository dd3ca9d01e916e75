"""The last words of a command: what came of it, where it is, and the one command to try next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from ..report.verdict_words import ARRIVED, Words
from ..studies.comparison import Outcome
from ..studies.study import DEFAULTS, Study
from ..theory.methods.printed import RIVALS
from .directory import PAGE, STUDY, RunDirectory
from .talk import Talk

SINGLE = ("stop", "keep_iterates")  # what a grid of runs cannot be told


def say(words: Words, talk: Talk) -> None:
    """The verdict, below the table."""
    if words.headline:
        talk.results.print(Text(words.headline, style="bold"))
    if words.others:
        talk.results.print(words.others)
    if words.meaning:
        talk.results.print(Text(words.meaning, style="dim"))


def say_where(directory: RunDirectory, talk: Talk, then: str = "") -> None:
    """Where the files are, the page first of all, and what to do then."""
    talk.note(f"written to {directory.path}")
    if (page := directory.path / PAGE).exists():
        talk.note(f"page: {page}")
    if then:
        talk.note(f"next: {then}")


def after_comparison(outcomes: Sequence[Outcome]) -> str:
    """How the method that did best works."""
    able = [outcome for outcome in outcomes if outcome.best is not None and not outcome.pooled]
    if not able:
        return "undrift list methods"
    return f"undrift explain {shlex.quote(min(able, key=_rank).name)}"


def _rank(outcome: Outcome) -> tuple[float, float]:
    arrival = outcome.rounds_to(ARRIVED)
    end = float(outcome.curve()[:, -1].mean())
    return (float("inf") if arrival is None else float(arrival), end)


def after_run(study: Study, folder: Path, known_optimum: bool) -> str:
    """The same problem and plan with other methods beside this one; on networks, which take long, how this one works."""
    name = study.methods[0].name
    if not known_optimum or any(study.run[key] != DEFAULTS[key] for key in SINGLE):
        return f"undrift explain {shlex.quote(name)}"
    names = [*(rival for rival in RIVALS if rival != name), name]
    return shlex.join(["undrift", "compare", str(folder / STUDY), "--method", *names])
