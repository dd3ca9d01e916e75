"""`undrift compare`: several methods on the same problem and plan, each over a grid of step sizes."""

from __future__ import annotations

import argparse
import json
from importlib import resources
from pathlib import Path
from typing import Any

from ..engine.sweep import sweep_identity
from ..errors import InputError
from ..problems.network import Network
from ..progressfile import Writer
from ..recipe import RULES
from ..report.clients import Clients, Roll, clients_of
from ..report.curves import BoundLine
from ..report.promise import Promise, promise_of
from ..report.recorded import write_bounds
from ..report.steps_words import steps_words
from ..report.tables import compare_table
from ..report.verdict_words import comparison_words
from ..studies.columns import write_columns
from ..studies.comparison import Outcome, run_of_best
from ..studies.entries import Entry, ready
from ..studies.method import StudyMethod
from ..studies.playing import play
from ..studies.refining import remarks
from ..studies.study import DEFAULTS, Study, read_toml, study_from
from ..theory.methods import COMPARED, COMPARED_ON_NETWORKS
from ..track import tracker_from
from . import codes
from .compare_files import Finished, summary_of, write_outcomes
from .compare_track import track_outcomes
from .devices import prepare_devices
from .directory import PAGE, RunDirectory, continue_with
from .farewell import SINGLE, after_comparison, say, say_where
from .live import LiveComparison, exchanges_of, head_of
from .setting import says_what, study_from_arguments, study_method, vouched, with_flags
from .talk import Stop, Talk


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    with RunDirectory("compare", arguments.out, arguments.overwrite, arguments.resume) as directory:
        return execute_in(arguments, directory, Talk(arguments.quiet, arguments.json))


def execute_in(arguments: argparse.Namespace, directory: RunDirectory, talk: Talk) -> int:
    """The comparison in a directory that somebody holds."""
    study, given = _study(arguments, directory)
    for word in arguments.track or ():
        tracker_from(word, [""])  # refuses what is none before anything is written
    prepare_devices(arguments.devices, {})  # a grid runs as one batch, on one device
    problem = study.make_problem()
    if not given:
        study = study.but(methods=_methods(study, arguments, isinstance(problem, Network)))
    study, entries = ready(study, problem, grids=True)
    notes = (*problem.remarks, *(f"{entry.label}: {line}" for entry in entries for line in _notes(entry)))
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
    directory.open(study, notes, f"compare-{study.problem.get('name', '').rpartition('.py:')[2]}")
    write_columns(directory.path, problem.columns)
    exchange = exchanges_of(entries)
    outcomes, interrupted = _play(study, entries, exchange, directory, talk)
    promises = _promises(entries, outcomes)
    served = {} if interrupted else _served(entries, outcomes)
    summary = _leave(study, entries, exchange, outcomes, promises, served, directory, interrupted, arguments.no_figures)
    _tell(study, outcomes, promises, talk, arguments.json)
    _show_json(summary, arguments.json)
    if arguments.track and not interrupted:
        track_outcomes(arguments.track, entries, outcomes, directory.path, talk)
    say_where(directory, talk, "" if interrupted else after_comparison(outcomes))
    if interrupted:
        talk.notes.print(f"stopped after {len(outcomes)} of {len(entries)} methods")
        talk.notes.print(continue_with(directory))
        return codes.INTERRUPTED
    return _code(study, summary["diverged"], talk)


def _code(study: Study, lost: list[str], talk: Talk) -> int:
    if lost and study.run["on_divergence"] == "stop":
        of_seeds = ", with one seed at least" if len(study.seeds) > 1 else ""
        talk.notes.print(f"undrift: {', '.join(lost)} diverged at every step size{of_seeds}: give smaller ones")
        return codes.DIVERGED
    return codes.OK


def _show_json(summary: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(summary, indent=2, ensure_ascii=False))


def demo() -> Study:
    """The study that is run where nothing is asked for: the main methods on embedded data."""
    file = resources.files("undrift.studies") / "demo.toml"
    return study_from(read_toml(file.read_text(encoding="utf-8"), "the demo study"), "the demo study")


def _study(arguments: argparse.Namespace, directory: RunDirectory) -> tuple[Study, bool]:
    """What is to be compared, and whether it says with which methods; nothing is written yet."""
    if arguments.resume and not says_what(arguments):
        return vouched(directory.study(), arguments), True
    anything = arguments.study or arguments.problem or arguments.method
    study = study_from_arguments(arguments, None if anything else demo())
    if not study.problem:
        study = study.but(problem=demo().problem)
    for key in SINGLE:
        if study.run[key] != DEFAULTS[key]:
            raise InputError(f"{study.place('[run]')}: {key} is for a single run, `undrift compare` plays whole grids: "
                             "leave it out, or use `undrift run`")  # fmt: skip
    # The study of a run says that its clients were recorded in every round; a comparison asks them once, at its end.
    return study.but(run={**study.run, "per_client": DEFAULTS["per_client"]}), False


def _methods(study: Study, arguments: argparse.Namespace, is_network: bool) -> tuple[StudyMethod, ...]:
    if arguments.method:
        methods = [study_method(word, arguments) for word in arguments.method]
    else:
        usual = COMPARED_ON_NETWORKS if is_network else COMPARED
        methods = [with_flags(method, arguments) for method in study.methods or map(StudyMethod, usual)]
    if arguments.eta is None:
        return tuple(methods)
    return tuple(_with_steps(method, list(arguments.eta)) for method in methods)


def _with_steps(method: StudyMethod, etas: list[Any]) -> StudyMethod:
    """The method over this grid; where its step has another name, over the rules in it, for numbers mean nothing there."""
    if method.known.number == "eta":
        return method.with_parameters(eta=etas)
    rules = [eta for eta in etas if eta in RULES]
    return method.with_parameters(**{method.known.number: rules}) if rules else method


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
            return play(entries, study.seeds, observe, known.get, done, study.run["refine"]), False
        except KeyboardInterrupt:
            return [known[number] for number in sorted(known)], True


def _promises(entries: list[Entry], outcomes: list[Outcome]) -> dict[str, Promise]:
    """The guarantee of every method whose step a theorem or a certificate chose, held against its first seed."""
    of = {entry.label: entry for entry in entries}
    found = {
        outcome.label: promise_of(run_of_best(of[outcome.label], outcome), outcome.result())
        for outcome in outcomes
        if outcome.best is not None
    }
    return {label: promised for label, promised in found.items() if promised is not None}


def _served(entries: list[Entry], outcomes: list[Outcome]) -> dict[str, Clients]:
    """How well the model of every method's first seed serves the clients, who are asked once."""
    of = {entry.label: entry for entry in entries}
    arrived = [outcome for outcome in outcomes if outcome.best is not None]
    chosen = {outcome.label: run_of_best(of[outcome.label], outcome) for outcome in arrived}
    found = {one.label: clients_of(chosen[one.label], one.result(), Roll.of(chosen[one.label])) for one in arrived}
    return {label: clients for label, clients in found.items() if clients is not None and clients.roll.clients > 1}


def _bounds(outcomes: list[Outcome], promises: dict[str, Promise]) -> list[BoundLine]:
    """What is promised of the first seeds."""
    results = {outcome.label: outcome.result() for outcome in outcomes if outcome.best is not None}
    return [line for label, one in promises.items() for line in one.lines(label, results[label].history)]


def _leave(
    study: Study,
    entries: list[Entry],
    exchange: list[dict[str, Any]],
    outcomes: list[Outcome],
    promises: dict[str, Promise],
    served: dict[str, Clients],
    directory: RunDirectory,
    interrupted: bool,
    no_figures: bool,
) -> dict[str, Any]:
    """All files; the summary."""
    content = summary_of(study, outcomes, str(entries[0].runs[0].resources), promises, served)

    def save(folder: Path) -> None:
        if outcomes:
            write_outcomes(folder, outcomes)
            write_bounds(folder, _bounds(outcomes, promises))

    def draw(folder: Path, summary: dict[str, Any]) -> None:
        if outcomes:
            _draw(study, entries, exchange, outcomes, promises, served, summary, folder)

    status = "interrupted" if interrupted else "finished"
    return directory.leave({"status": status, **content}, save, None if no_figures else draw)


def _draw(
    study: Study,
    entries: list[Entry],
    exchange: list[dict[str, Any]],
    outcomes: list[Outcome],
    promises: dict[str, Promise],
    served: dict[str, Clients],
    summary: dict[str, Any],
    folder: Path,
) -> None:
    from ..report import aside
    from ..report.curves import Drawing, curve_from
    from ..report.page import write_page
    from ..report.page.results import compare_document

    curves = [
        curve_from(o.label, o.colour or o.name, o.curve(), {name: o.column(name) for name in o.history}, o.pooled)
        for o in outcomes
        if o.best is not None
    ]
    if curves:
        bounds = _bounds(outcomes, promises)
        aside.figures(Drawing.of(curves, study.title, outcomes[0].measure, bounds=bounds), folder)
    chosen = {
        entry.label: {
            name: {"why": f"{'around ' if _around(entry, name) else ''}{choice.why}"}
            for name, choice in entry.chosen.items()
        }
        for entry in entries
    }
    write_page(folder / PAGE, compare_document(study, outcomes, chosen, summary, promises, served, exchange))


def _tell(study: Study, outcomes: list[Outcome], promises: dict[str, Promise], talk: Talk, as_json: bool) -> None:
    if outcomes and not as_json:
        talk.results.print(
            compare_table(outcomes, f"{study.title}, {study.run['rounds']} rounds, {steps_words(study)}")
        )
        say(comparison_words(outcomes), talk)
    for outcome in outcomes:
        for line in remarks(outcome, study.run["refine"]):
            talk.note(f"{outcome.label}: {line}")
    for label, promised in promises.items():
        talk.note(f"{label}: {promised.verdict}")
