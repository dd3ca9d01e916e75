"""`undrift run`: one method on one problem."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, NamedTuple

from ..engine.history import History, Result
from ..engine.simulate import simulate
from ..errors import DivergenceError, InputError, Interrupted, StorageError
from ..report.promise import Promise, promise_of
from ..studies.entries import Entry, ready
from ..studies.relative import relative_gap
from ..studies.study import Study
from . import codes
from .devices import prepare_devices
from .directory import PAGE, RunDirectory, continue_with
from .setting import says_what, study_from_arguments, study_method, vouched, with_flags
from .talk import Stop, Talk


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    with RunDirectory("run", arguments.out, arguments.overwrite, arguments.resume) as directory:
        return _execute(arguments, directory, Talk(arguments.quiet, arguments.json))


def _execute(arguments: argparse.Namespace, directory: RunDirectory, talk: Talk) -> int:
    study = _study(arguments, directory)
    prepare_devices(arguments.devices, study.problem)
    study, (entry,) = ready(study, study.make_problem(), grids=False)
    notes = _notes(entry)
    for line in notes:
        talk.note(line)
    if directory.holds_a_run() and arguments.resume:
        directory.check_holds(study)
        if (found := directory.finished("finished", "diverged")) is not None:
            talk.note(f"the run in {directory.path} is {found['status']}: nothing to resume")
            return _shown(found, arguments.json, codes.OK if found["status"] == "finished" else codes.DIVERGED)
        if (loss := directory.loss()) is not None:
            talk.note(loss)
    directory.open(study, notes, f"{study.methods[0].name.rpartition('.py:')[2]}-{study.problem.get('name', '')}")
    end = _play(entry, directory, talk, arguments)
    summary = _leave(study, entry, directory, end, arguments.no_figures)
    _tell(entry, directory, end, talk, arguments.json)
    return _shown(summary, arguments.json, end.code)


def _study(arguments: argparse.Namespace, directory: RunDirectory) -> Study:
    """What is to be run; nothing is written yet."""
    if arguments.resume and not says_what(arguments):
        return vouched(directory.study(), arguments)
    return one_method(study_from_arguments(arguments), arguments)


def one_method(study: Study, arguments: argparse.Namespace) -> Study:
    """The study with the one method that is to be run."""
    if arguments.method:
        method = study_method(arguments.method, arguments, arguments.eta)
    elif study.methods:
        method = with_flags(study.methods[0], arguments, arguments.eta)
    else:
        raise InputError("which method? Name one, for example --method fedlin; `undrift list` shows them")
    for key, values in method.grid.items():
        if len(values) > 1:
            remedy = f"give --{key}, or use `undrift compare`" if key == "eta" else "`undrift compare` takes all"
            raise InputError(
                f"{study.source}: {method.name} has {len(values)} values of {key}, `undrift run` takes one: {remedy}"
            )
    return study.but(methods=(method.with_parameters(**{key: values[0] for key, values in method.grid.items()}),))


class End(NamedTuple):
    """How a run ended."""

    status: str
    code: int
    result: Result
    promised: Promise | None
    error: Exception | None = None  # what went wrong


def _play(entry: Entry, directory: RunDirectory, talk: Talk, arguments: argparse.Namespace) -> End:
    run = entry.runs[0]
    with talk.progress() as bar, Stop() as stop:
        task = bar.add_task(entry.label, total=run.rounds)

        def observe(history: History) -> None:
            bar.update(task, completed=history.length - 1)
            stop.heard()

        status, code = "finished", codes.OK
        error: Exception | None = None
        try:
            result = simulate(
                run,
                observe=observe,
                checkpoint=directory.mine,
                checkpoint_seconds=arguments.checkpoint_seconds,
                resume=arguments.resume,
            )
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
    return End(status, code, result, promise_of(run, result), error)


def _notes(entry: Entry) -> tuple[str, ...]:
    """What was chosen for the user, for the terminal and for the study that is written."""
    return tuple(
        f"{name} = {choice.value:g} {'by theorem' if choice.by_theorem else 'was not given'}: {choice.why}"
        for name, choice in entry.chosen.items()
    )


def _leave(study: Study, entry: Entry, directory: RunDirectory, end: End, no_figures: bool) -> dict[str, Any]:
    """All files; the summary."""
    content = {
        "status": end.status,
        "label": entry.label,
        **end.result.summary(),
        "study": study.words(),
        "seeds": {"run": entry.runs[0].seed, "data": study.problem.get("data_seed", 0)},
        "chosen": {name: {"value": choice.value, "why": choice.why} for name, choice in entry.chosen.items()},
        "resources": str(entry.runs[0].resources),
        "theorem": None if end.promised is None else end.promised.claim(),
    }

    def draw(folder: Path, summary: dict[str, Any]) -> None:
        _draw(study, entry, end, folder, summary)

    try:
        return directory.leave(content, end.result.save_arrays, None if no_figures else draw)
    except StorageError as refused:
        raise end.error if isinstance(end.error, StorageError) else refused from refused


def _draw(study: Study, entry: Entry, end: End, folder: Path, summary: dict[str, Any]) -> None:
    from ..report.figures import curve_from, write_figures
    from ..report.page import write_page
    from ..report.page.results import run_document

    history = end.result.history
    measure = "gap" if "gap" in history else "loss"
    columns = {name: column[None, :] for name, column in history.items()}
    values = relative_gap(columns["gap"]) if measure == "gap" else columns["loss"]
    curve = curve_from(entry.label, entry.method.known.colour or entry.method.name, values, columns)
    write_figures([curve], folder, study.title, measure, singles=False)
    write_page(folder / PAGE, run_document(study, entry, end.result, summary, end.promised))


def _tell(entry: Entry, directory: RunDirectory, end: End, talk: Talk, as_json: bool) -> None:
    from ..report.tables import run_table

    if not as_json:
        talk.results.print(run_table(entry.label, repr(entry.runs[0].problem), end.result))
    if end.promised is not None:
        talk.note(str(end.promised.verdict))
    if end.result.stopped is not None:
        talk.note(f"stopped: {end.result.stopped}")
    talk.note(f"written to {directory.path}")
    if end.error is not None:
        talk.notes.print(f"undrift: {end.error}")
    if end.status == "interrupted":
        talk.notes.print(continue_with("run", directory))


def _shown(summary: dict[str, Any], as_json: bool, code: int) -> int:
    if as_json:
        print(json.dumps(summary, indent=2, ensure_ascii=False))
    return code
