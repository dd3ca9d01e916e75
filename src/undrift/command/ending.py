"""How a run ends, whoever played it: its files, its page, and what is said about it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ..engine.description import Run
from ..engine.history import Result
from ..errors import DivergenceError, Interrupted, StorageError
from ..report.clients import Clients
from ..report.promise import Promise, promise_of
from ..report.recorded import write_bounds
from ..report.verdict_words import Words, run_words
from ..studies.entries import Entry
from ..studies.relative import relative_gap
from ..studies.study import Study
from . import codes
from .directory import PAGE, RunDirectory, continue_with
from .farewell import say, say_where
from .talk import Talk


class End(NamedTuple):
    """How a run ended."""

    status: str
    code: int
    result: Result
    promised: Promise | None
    error: Exception | None = None  # what went wrong
    presence: dict[str, Any] | None = None  # what is known of the clients, for the page


def end_of(run: Run, play: Callable[[], Result]) -> End:
    """What becomes of a run that is played now."""
    status, code = "finished", codes.OK
    error: Exception | None = None
    try:
        result = play()
    except Interrupted as stopped:
        status, code, result, error = "interrupted", codes.INTERRUPTED, stopped.result, stopped
    except DivergenceError as diverged:
        status, code, result, error = "diverged", codes.DIVERGED, diverged.result, diverged
    except StorageError as refused:  # of a checkpoint: what was computed is kept as far as there is room
        if refused.result is None:
            raise
        result = refused.result
        if result.rounds < run.rounds and result.stopped is None:
            status, code, error = "interrupted", codes.STORAGE, refused
    return End(status, code, result, None if run.data is None else promise_of(run, result), error)


def leave(
    study: Study, entry: Entry, directory: RunDirectory, end: End, no_figures: bool, served: Clients | None
) -> dict[str, Any]:
    """Write all files of a run that has ended, or was stopped; the summary. `served`: how well its clients are."""
    content = {
        "status": end.status,
        "label": entry.label,
        **end.result.summary(),
        "verdict": words_of(entry, end)._asdict(),
        "study": study.words(),
        "seeds": {"run": entry.runs[0].seed, "data": study.problem.get("data_seed", 0)},
        "chosen": {name: {"value": choice.value, "why": choice.why} for name, choice in entry.chosen.items()},
        "resources": str(entry.runs[0].resources),
        "theorem": None if end.promised is None else end.promised.claim(),
        "clients": None if served is None else served.words(),
    }

    def save(folder: Path) -> None:
        end.result.save_arrays(folder)
        write_bounds(folder, [] if end.promised is None else end.promised.lines(entry.label, end.result.history))

    def draw(folder: Path, summary: dict[str, Any]) -> None:
        _draw(study, entry, end, folder, summary, served)

    try:
        return directory.leave(content, save, None if no_figures else draw)
    except StorageError as refused:
        raise end.error if isinstance(end.error, StorageError) else refused from refused


def words_of(entry: Entry, end: End) -> Words:
    """The verdict on the run."""
    lost = None if end.result.diverged is None else end.result.diverged[0]
    pooled = entry.runs[0].recipe.centralised
    return run_words(entry.label, entry.method.name, end.result.history, lost, pooled)


def _draw(study: Study, entry: Entry, end: End, folder: Path, summary: dict[str, Any], served: Clients | None) -> None:
    from ..report import aside
    from ..report.curves import Drawing, curve_from
    from ..report.page import write_page
    from ..report.page.results import run_document

    history = end.result.history
    measure = "gap" if "gap" in history else "loss"
    columns = {name: column[None, :] for name, column in history.items()}
    values = relative_gap(columns["gap"]) if measure == "gap" else columns["loss"]
    method, pooled = entry.method.known.colour or entry.method.name, entry.runs[0].recipe.centralised
    curve = curve_from(entry.label, method, values, columns, pooled)
    bounds = [] if end.promised is None else end.promised.lines(entry.label, history)
    aside.figures(Drawing.of([curve], study.title, measure, singles=False, bounds=bounds), folder)
    write_page(folder / PAGE, run_document(study, entry, end.result, summary, end.promised, served, end.presence))


def tell(
    entry: Entry,
    directory: RunDirectory,
    end: End,
    talk: Talk,
    as_json: bool,
    served: Clients | None,
    then: str = "",
) -> None:
    """What became of it, on the terminal; `served`: how well the clients are, `then`: the command to try next."""
    from ..report.tables import run_table

    if not as_json:
        talk.results.print(run_table(entry.label, entry.runs[0].words()["problem"], end.result))
        if served is not None and served.roll.clients > 1:
            talk.results.print(served.table())
        say(words_of(entry, end), talk)
    if served is not None and served.roll.clients > 1:
        talk.note(served.sentence())
    if end.promised is not None:
        talk.note(str(end.promised.verdict))
    if end.result.stopped is not None:
        talk.note(f"stopped: {end.result.stopped}")
    if end.result.best is not None:
        talk.note(str(end.result.best))
    say_where(directory, talk, then)
    if end.error is not None:
        talk.notes.print(f"undrift: {end.error}")
    if end.status == "interrupted":
        talk.notes.print(continue_with(directory))


def shown(summary: dict[str, Any], as_json: bool, code: int) -> int:
    """The summary on standard output, where it was asked for; the exit code."""
    if as_json:
        print(json.dumps(summary, indent=2, ensure_ascii=False))
    return code
