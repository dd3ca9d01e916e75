"""`undrift run --hosts`: the same command in several processes, which play one run together.

Process 0 owns the directory, shows progress and writes; the others read the study and play. Nobody begins before all have read
their input, so that a mistake ends all of them with the same words.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ..engine import hosts
from ..engine.simulate import simulate
from ..errors import DivergenceError, InputError, Interrupted
from ..studies.entries import ready
from ..studies.study import read_study
from . import codes
from .complaints import complain, explained
from .devices import prepare_devices
from .directory import STUDY, RunDirectory
from .run import finish, one_method, play, prepare
from .setting import says_what, study_from_arguments, vouched
from .talk import Stop, Talk

NOTHING_TO_DO = ""
Played = TypeVar("Played")


def execute_on_hosts(arguments: argparse.Namespace) -> int:
    """The command, in one of the processes."""
    if arguments.hosts is None:
        raise InputError("--host-count and --host-index belong to --hosts HOST:PORT, where process 0 listens")
    if arguments.out is None:
        raise InputError("say with --out DIR where all processes find the run: a directory that all of them see")
    if arguments.store is not None:
        raise InputError(
            "--hosts keeps clients' rows in the memory of its processes, --store keeps them on disk: give one of the two"
        )
    arguments.devices = arguments.devices or 1  # there may be a process for every core
    prepare_devices(arguments.devices, {})  # before JAX looks who is there
    hosts.connect(arguments.hosts or None, arguments.host_count, arguments.host_index)
    return _lead(arguments) if hosts.is_first() else _follow(arguments)


def _lead(arguments: argparse.Namespace) -> int:
    begun = False
    try:
        with RunDirectory("run", arguments.out, arguments.overwrite, arguments.resume) as directory:
            talk = Talk(arguments.quiet, arguments.json)
            prepared = prepare(arguments, directory, talk)
            begun = True
            refused = hosts.begin(NOTHING_TO_DO if isinstance(prepared, int) else None)
            if isinstance(prepared, int):
                return prepared
            if refused:
                index, why = next(iter(refused.items()))
                raise InputError(f"process {index} could not begin: {why}")
            end = _or_leave(lambda: play(*prepared, directory, talk, arguments, mesh=True))
            code = finish(*prepared, end, arguments, directory, talk)
            if code == codes.STORAGE:  # of this process alone: the others play on
                hosts.leave(code)
            return code
    except BaseException as error:
        if not begun:
            hosts.begin(explained(error)[0])
        raise


def _follow(arguments: argparse.Namespace) -> int:
    try:
        said = says_what(arguments) or not arguments.resume
        study = (
            one_method(study_from_arguments(arguments), arguments)
            if said
            else vouched(read_study(Path(arguments.out) / STUDY), arguments)
        )
        prepare_devices(arguments.devices, study.problem)
        _, (entry,) = ready(study, study.make_problem(), grids=False)
    except BaseException as error:
        hosts.begin(explained(error)[0])
        raise
    refused = hosts.begin(None)
    if refused:
        return codes.OK if refused.get(0) == NOTHING_TO_DO else codes.BAD_INPUT  # process 0 says why
    with Stop():
        try:
            _or_leave(
                lambda: simulate(
                    entry.runs[0], checkpoint=arguments.out, checkpoint_seconds=0, resume=arguments.resume, mesh=True
                )
            )
        except Interrupted:
            return codes.INTERRUPTED
        except DivergenceError:
            return codes.DIVERGED
    return codes.OK


def _or_leave(played: Callable[[], Played]) -> Played:
    """What was played. A process that fails ends at once: at an ordinary end JAX would wait for the others, and they for it."""
    try:
        return played()
    except (Interrupted, DivergenceError):  # of all processes alike
        raise
    except BaseException as error:
        hosts.leave(complain(error))
