"""`undrift run`: one method on one problem."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ..engine.history import History, Result
from ..engine.simulate import simulate
from ..errors import DivergenceError, InputError, Interrupted
from ..report.promise import Promise, promise_of
from ..studies.entries import Entry, ready
from ..studies.relative import relative_gap
from ..studies.study import Study
from . import codes
from .devices import prepare_devices
from .directory import PAGE, RunDirectory
from .setting import says_what, study_from_arguments, study_method, vouched, with_flags
from .talk import Stop, Talk


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    talk = Talk(arguments.quiet, arguments.json)
    study, directory = _study(arguments)
    prepare_devices(arguments.devices, study.problem)
    study, (entry,) = ready(study, study.make_problem(), grids=False)
    notes = _notes(entry)
    for line in notes:
        talk.note(line)
    if arguments.resume and (summary := _finished(directory, study)) is not None:
        talk.note(f"the run in {directory.path} is {summary['status']}: nothing to resume")
        return _shown(summary, arguments.json, codes.OK if summary["status"] == "finished" else codes.DIVERGED)
    directory.open(study, notes, arguments.resume)
    status, code, result, error = _play(entry, directory, talk, arguments)
    promised = promise_of(entry.runs[0], result)
    summary = _save(study, entry, directory, result, status, promised)
    if not arguments.no_figures:
        _draw(study, entry, directory, result, summary, promised)
    if status != "interrupted":
        directory.drop_checkpoints()
    if not arguments.json:
        from ..report.tables import run_table

        talk.results.print(run_table(entry.label, repr(entry.runs[0].problem), result))
    if promised is not None:
        talk.note(str(promised.verdict))
    if result.stopped is not None:
        talk.note(f"stopped: {result.stopped}")
    talk.note(f"written to {directory.path}")
    if error is not None:
        talk.notes.print(f"undrift: {error}", markup=False)
    if status == "interrupted":
        talk.notes.print(f"continue with: undrift run --out {directory.path} --resume", markup=False)
    return _shown(summary, arguments.json, code)


def _study(arguments: argparse.Namespace) -> tuple[Study, RunDirectory]:
    """What is to be run, and where to; nothing is written yet."""
    if arguments.resume and not says_what(arguments):
        directory = RunDirectory.claim(arguments.out, "", False, True)
        return vouched(directory.study(), arguments), directory
    study = one_method(study_from_arguments(arguments), arguments)
    stem = f"{study.methods[0].name.rpartition('.py:')[2]}-{study.problem.get('name', '')}"
    return study, RunDirectory.claim(arguments.out, stem, arguments.overwrite, arguments.resume)


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


def _finished(directory: RunDirectory, study: Study) -> dict[str, Any] | None:
    """The summary, if the run that is to be resumed came to its end."""
    directory.check_holds(study)
    summary = directory.summary()
    return summary if summary is not None and summary.get("status") in ("finished", "diverged") else None


def _play(
    entry: Entry, directory: RunDirectory, talk: Talk, arguments: argparse.Namespace
) -> tuple[str, int, Result, Exception | None]:
    """(status, exit code, result, what went wrong)."""
    with talk.progress() as bar, Stop() as stop:
        task = bar.add_task(entry.label, total=entry.runs[0].rounds)

        def observe(history: History) -> None:
            bar.update(task, completed=history.length - 1)
            stop.heard()

        try:
            result = simulate(
                entry.runs[0],
                observe=observe,
                checkpoint=directory.path,
                checkpoint_seconds=arguments.checkpoint_seconds,
                resume=arguments.resume,
            )
        except Interrupted as stopped:
            return "interrupted", codes.INTERRUPTED, stopped.result, stopped
        except DivergenceError as diverged:
            return "diverged", codes.DIVERGED, diverged.result, diverged
    return "finished", codes.OK, result, None


def _notes(entry: Entry) -> tuple[str, ...]:
    """What was chosen for the user, for the terminal and for the study that is written."""
    return tuple(
        f"{name} = {choice.value:g} {'by theorem' if choice.by_theorem else 'was not given'}: {choice.why}"
        for name, choice in entry.chosen.items()
    )


def _save(
    study: Study, entry: Entry, directory: RunDirectory, result: Result, status: str, promised: Promise | None
) -> dict[str, Any]:
    result.save(directory.path)
    return directory.write_summary(
        {
            "status": status,
            "label": entry.label,
            **result.summary(),
            "study": study.words(),
            "seeds": {"run": entry.runs[0].seed, "data": study.problem.get("data_seed", 0)},
            "chosen": {name: {"value": choice.value, "why": choice.why} for name, choice in entry.chosen.items()},
            "resources": str(entry.runs[0].resources),
            "theorem": None if promised is None else promised.claim(),
        }
    )


def _draw(
    study: Study,
    entry: Entry,
    directory: RunDirectory,
    result: Result,
    summary: dict[str, Any],
    promised: Promise | None,
) -> None:
    from ..report.figures import curve_from, write_figures
    from ..report.page import write_page
    from ..report.page.results import run_document

    measure = "gap" if "gap" in result.history else "loss"
    columns = {name: column[None, :] for name, column in result.history.items()}
    values = relative_gap(columns["gap"]) if measure == "gap" else columns["loss"]
    curve = curve_from(entry.label, entry.method.known.colour or entry.method.name, values, columns)
    write_figures([curve], directory.path, study.title, measure, singles=False)
    write_page(directory.path / PAGE, run_document(study, entry, result, summary, promised))


def _shown(summary: dict[str, Any], as_json: bool, code: int) -> int:
    if as_json:
        print(json.dumps(summary, indent=2, ensure_ascii=False))
    return code
