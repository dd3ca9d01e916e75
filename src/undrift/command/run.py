"""`undrift run`: one method on one problem."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..engine.history import History
from ..engine.rows import owner_of, remove_rows
from ..engine.simulate import simulate
from ..errors import InputError
from ..progressfile import Writer
from ..recipe import CERTIFIED, THEOREM
from ..report.clients import Roll, clients_of
from ..studies.columns import write_columns
from ..studies.entries import Entry, ready
from ..studies.study import Study
from ..track import Tracker, follow, remembered, tracker_from
from . import codes
from .devices import prepare_devices
from .directory import RunDirectory
from .ending import End, end_of, leave, shown, tell
from .farewell import after_run
from .live import exchanges_of, head_of, live_run
from .setting import says_what, study_from_arguments, study_method, vouched, with_flags
from .talk import Stop, Talk

SAID = {"": "was not given", THEOREM: "by theorem", CERTIFIED: "certified"}


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    if arguments.hosts is not None or arguments.host_count is not None or arguments.host_index is not None:
        from .on_hosts import execute_on_hosts

        return execute_on_hosts(arguments)
    with RunDirectory("run", arguments.out, arguments.overwrite, arguments.resume) as directory:
        talk = Talk(arguments.quiet, arguments.json)
        prepared = prepare(arguments, directory, talk)
        if isinstance(prepared, int):
            return prepared
        return finish(*prepared, play(*prepared, directory, talk, arguments), arguments, directory, talk)


def prepare(arguments: argparse.Namespace, directory: RunDirectory, talk: Talk) -> tuple[Study, Entry] | int:
    """What is to be run, in a directory that is ready for it; an exit code where nothing is left to do."""
    study = study_of(arguments, directory)
    for word in arguments.track or ():
        tracker_from(word, [""])  # refuses what is none before anything is written
    prepare_devices(arguments.devices, study.problem)
    problem = study.make_problem()
    study, (entry,) = ready(study, problem, grids=False)
    notes = (*problem.remarks, *_notes(entry))
    for line in notes:
        talk.note(line)
    if directory.holds_a_run() and arguments.resume:
        directory.check_holds(study)
        if (found := directory.finished("finished", "diverged")) is not None:
            talk.note(f"the run in {directory.path} is {found['status']}: nothing to resume")
            return shown(found, arguments.json, codes.OK if found["status"] == "finished" else codes.DIVERGED)
        if (loss := directory.loss()) is not None:
            talk.note(loss)
    directory.open(
        study,
        notes,
        f"{study.methods[0].name.rpartition('.py:')[2]}-{study.problem.get('name', '').rpartition('.py:')[2]}",
    )
    write_columns(directory.path, problem.columns)
    return study, entry


def finish(
    study: Study, entry: Entry, end: End, arguments: argparse.Namespace, directory: RunDirectory, talk: Talk
) -> int:
    """All files of a run that has ended, and what is said of it."""
    run = entry.runs[0]
    served = None  # whom a model that diverged serves well is no question
    if end.status != "diverged":
        served = clients_of(run, end.result, Roll.of(run), look=end.status == "finished")
    summary = leave(study, entry, directory, end, arguments.no_figures, served)
    if arguments.store is not None and summary["status"] != "interrupted":  # nobody goes on from the rows
        remove_rows(Path(arguments.store), owner_of(directory.path))
    then = "" if end.status == "interrupted" else after_run(study, directory.path, "gap" in end.result.history)
    tell(entry, directory, end, talk, arguments.json, served, then)
    return shown(summary, arguments.json, end.code)


def study_of(arguments: argparse.Namespace, directory: RunDirectory) -> Study:
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


def play(
    study: Study,
    entry: Entry,
    directory: RunDirectory,
    talk: Talk,
    arguments: argparse.Namespace,
    mesh: Any = None,
) -> End:
    """The run, while somebody may be watching."""
    run, observers = entry.runs[0], trackers(entry, directory, talk, arguments)
    head = head_of("run", study, [entry], exchanges_of([entry]))
    with talk.progress() as bar, Stop() as stop, Writer(directory.path, head) as writer:
        task = bar.add_task(entry.label, total=run.rounds)
        live = live_run(writer, entry, run, directory)

        def observe(history: History) -> None:
            live(history)
            bar.update(task, completed=history.length - 1)
            stop.heard()

        end = end_of(
            run,
            lambda: follow(
                [*observers, observe],
                run,
                lambda all_: simulate(
                    run,
                    observe=all_,
                    checkpoint=directory.mine,
                    checkpoint_seconds=arguments.checkpoint_seconds,
                    resume=arguments.resume,
                    mesh=mesh,
                    store=arguments.store,
                ),
                directory.path,
                arguments.resume,
                entry.label,
            ),
        )
        return end._replace(presence=live.presence(end.result))


def trackers(entry: Entry, directory: RunDirectory, talk: Talk, arguments: argparse.Namespace) -> list[Tracker]:
    """Those of --track, or of the run that is resumed."""
    words = arguments.track or (remembered(directory.path) if arguments.resume else [])
    found = [tracker_from(word, [directory.path.resolve().name]) for word in dict.fromkeys(words)]
    for tracker in found:
        tracker.say = talk.notes.print
    return found


def _notes(entry: Entry) -> tuple[str, ...]:
    """What was chosen for the user, for the terminal and for the study that is written."""
    return tuple(
        f"{name} = {choice.value:g} {SAID[choice.rule]}: {choice.why}" for name, choice in entry.chosen.items()
    )
