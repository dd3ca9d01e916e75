"""`undrift compare`: several methods on the same problem and plan, each over a grid of step sizes."""

from __future__ import annotations

import argparse
import json
from importlib import resources
from pathlib import Path
from typing import Any

from ..engine.sweep import sweep_identity
from ..errors import InputError
from ..progressfile import Writer
from ..report.promise import Promise, promise_of
from ..studies.comparison import Outcome, play
from ..studies.entries import Entry, ready
from ..studies.method import StudyMethod
from ..studies.study import DEFAULTS, Study, read_toml, study_from
from ..theory.methods import COMPARED, COMPARED_ON_NETWORKS
from . import codes
from .compare_files import Finished, summary_of, write_outcomes
from .devices import prepare_devices
from .directory import PAGE, RunDirectory, continue_with
from .live import LiveComparison, exchanges_of, head_of
from .setting import says_what, study_from_arguments, study_method, vouched, with_flags
from .talk import Stop, Talk

SINGLE = ("stop", "per_client", "keep_iterates")  # what a grid of runs cannot be told


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    with RunDirectory("compare", arguments.out, arguments.overwrite, arguments.resume) as directory:
        return _execute(arguments, directory, Talk(arguments.quiet, arguments.json))


def _execute(arguments: argparse.Namespace, directory: RunDirectory, talk: Talk) -> int:
    study = _study(arguments, directory)
    prepare_devices(arguments.devices, {})  # a grid runs as one batch, on one device
    study, entries = ready(study, study.make_problem(), grids=True)
    notes = tuple(f"{entry.label}: {line}" for entry in entries for line in _notes(entry))
    for line in notes:
        talk.note(line)
    if directory.holds_a_run() and arguments.resume:
        directory.check_holds(study)
        if (found := directory.finished("finished")) is not None:
            talk.note(f"the comparison in {directory.path} is finished: nothing to resume")
            _show_json(found, arguments.json)
            return _code(study, found["diverged"], talk)
        if (loss := directory.loss()) is not None:
            talk.note(loss)
    directory.open(study, notes, f"compare-{study.problem.get('name', '')}")
    exchange = exchanges_of(entries)
    outcomes, interrupted = _play(study, entries, exchange, directory, talk)
    promises = _promises(entries, outcomes)
    summary = _leave(study, entries, exchange, outcomes, promises, directory, interrupted, arguments.no_figures)
    _tell(study, outcomes, promises, talk, arguments.json)
    _show_json(summary, arguments.json)
    talk.note(f"written to {directory.path}")
    if interrupted:
        talk.notes.print(f"stopped after {len(outcomes)} of {len(entries)} methods")
        talk.notes.print(continue_with(directory))
        return codes.INTERRUPTED
    return _code(study, summary["diverged"], talk)


def _code(study: Study, lost: list[str], talk: Talk) -> int:
    if lost and study.run["on_divergence"] == "stop":
        talk.notes.print(f"undrift: {', '.join(lost)} diverged at every step size: give smaller ones")
        return codes.DIVERGED
    return codes.OK


def _show_json(summary: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(summary, indent=2, ensure_ascii=False))


def demo() -> Study:
    """The study that is run where nothing is asked for: the main methods on embedded data."""
    file = resources.files("undrift.studies") / "demo.toml"
    return study_from(read_toml(file.read_text(encoding="utf-8"), "the demo study"), "the demo study")


def _study(arguments: argparse.Namespace, directory: RunDirectory) -> Study:
    """What is to be compared; nothing is written yet."""
    if arguments.resume and not says_what(arguments):
        return vouched(directory.study(), arguments)
    anything = arguments.study or arguments.problem or arguments.method
    study = study_from_arguments(arguments, None if anything else demo())
    if not study.problem:
        study = study.but(problem=demo().problem)
    study = study.but(methods=_methods(study, arguments))
    for key in SINGLE:
        if study.run[key] != DEFAULTS[key]:
            raise InputError(f"{study.place('[run]')}: {key} is for a single run, `undrift compare` plays whole grids: "
                             "leave it out, or use `undrift run`")  # fmt: skip
    return study


def _methods(study: Study, arguments: argparse.Namespace) -> tuple[StudyMethod, ...]:
    if arguments.method:
        methods = [study_method(word, arguments) for word in arguments.method]
    else:
        usual = COMPARED_ON_NETWORKS if study.problem.get("name") == "network" else COMPARED
        methods = [with_flags(method, arguments) for method in study.methods or map(StudyMethod, usual)]
    if arguments.eta is None:
        return tuple(methods)
    # A step size may have another name.
    etas = list(arguments.eta)
    return tuple(method.with_parameters(eta=etas) if method.known.number == "eta" else method for method in methods)


def _notes(entry: Entry) -> list[str]:
    """What was chosen for the user."""
    said = []
    for name, choice in entry.chosen.items():
        if choice.rule:
            said.append(f"{name} = {choice.value:.6g}: {choice.why}")
        elif _around(entry, name):
            said.append(f"{name} = {', '.join(f'{v:g}' for v in choice.around)} around {choice.why}")
        else:
            said.append(f"{name} = {choice.value:g}: {choice.why}")
    return said


def _around(entry: Entry, name: str) -> bool:
    """Whether a grid was laid around what was chosen."""
    return name == entry.method.known.number and not entry.chosen[name].rule


def _play(
    study: Study, entries: list[Entry], exchange: list[dict[str, Any]], directory: RunDirectory, talk: Talk
) -> tuple[list[Outcome], bool]:
    """Outcomes, and whether somebody stopped it."""
    rounds = entries[0].runs[0].rounds
    files = Finished(directory.path, lambda number: sweep_identity(entries[number].runs, study.seeds))
    head = head_of("compare", study, entries, exchange)
    with talk.progress() as bar, Stop() as stop, Writer(directory.path, head) as writer:
        task = bar.add_task("", total=rounds * len(entries))
        known = {number: outcome for number in range(len(entries)) if (outcome := files.load(number)) is not None}
        live = LiveComparison(writer, entries, known)

        def observe(number: int, played: int) -> None:
            bar.update(task, completed=number * rounds + played, description=entries[number].label)
            live.played(number, played)
            stop.heard()

        def done(number: int, outcome: Outcome) -> None:
            files.save(number, outcome)
            known[number] = outcome
            live.done(outcome)
            stop.heard()

        try:
            return play(entries, study.seeds, observe, known.get, done), False
        except KeyboardInterrupt:
            return [known[number] for number in sorted(known)], True


def _promises(entries: list[Entry], outcomes: list[Outcome]) -> dict[str, Promise]:
    """The guarantee of every method whose step a theorem or a certificate chose, held against its first seed."""
    runs = {entry.label: entry.runs for entry in entries}
    found = {
        outcome.label: promise_of(runs[outcome.label][outcome.best], outcome.result())
        for outcome in outcomes
        if outcome.best is not None
    }
    return {label: promised for label, promised in found.items() if promised is not None}


def _leave(
    study: Study,
    entries: list[Entry],
    exchange: list[dict[str, Any]],
    outcomes: list[Outcome],
    promises: dict[str, Promise],
    directory: RunDirectory,
    interrupted: bool,
    no_figures: bool,
) -> dict[str, Any]:
    """All files; the summary."""
    content = summary_of(study, outcomes, str(entries[0].runs[0].resources), promises)

    def save(folder: Path) -> None:
        if outcomes:
            write_outcomes(folder, outcomes)

    def draw(folder: Path, summary: dict[str, Any]) -> None:
        if outcomes:
            _draw(study, entries, exchange, outcomes, promises, summary, folder)

    status = "interrupted" if interrupted else "finished"
    return directory.leave({"status": status, **content}, save, None if no_figures else draw)


def _draw(
    study: Study,
    entries: list[Entry],
    exchange: list[dict[str, Any]],
    outcomes: list[Outcome],
    promises: dict[str, Promise],
    summary: dict[str, Any],
    folder: Path,
) -> None:
    from ..report import aside
    from ..report.curves import Drawing, curve_from
    from ..report.page import write_page
    from ..report.page.results import compare_document

    curves = [
        curve_from(o.label, o.colour or o.name, o.curve(), {name: o.column(name) for name in o.history})
        for o in outcomes
        if o.best is not None
    ]
    if curves:
        results = {outcome.label: outcome.result() for outcome in outcomes if outcome.best is not None}
        bounds = [line for label, one in promises.items() for line in one.lines(label, results[label].history)]
        aside.figures(Drawing.of(curves, study.title, outcomes[0].measure, bounds=bounds), folder)
    chosen = {
        entry.label: {
            name: {"why": f"{'around ' if _around(entry, name) else ''}{choice.why}"}
            for name, choice in entry.chosen.items()
        }
        for entry in entries
    }
    write_page(folder / PAGE, compare_document(study, outcomes, chosen, summary, promises, exchange))


def _tell(study: Study, outcomes: list[Outcome], promises: dict[str, Promise], talk: Talk, as_json: bool) -> None:
    from ..report.tables import compare_table

    if outcomes and not as_json:
        talk.results.print(compare_table(outcomes, f"{study.title}, {study.run['rounds']} rounds"))
    for label, promised in promises.items():
        talk.note(f"{label}: {promised.verdict}")
