"""`undrift serve`: the server of a deployed study."""

from __future__ import annotations

import argparse
import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.live import Live

from .. import files
from ..deploy.book import Book
from ..deploy.watch import Watched
from ..engine.description import Run
from ..engine.history import History, Result
from ..errors import InputError
from ..progressfile import Writer
from ..report.clients import Roll, clients_of
from ..studies.agreement import Agreement
from ..studies.entries import Entry
from ..studies.serving import serve
from ..studies.study import Study, read_study
from . import codes
from .directory import STUDY, RunDirectory, names_in
from .ending import end_of, leave, shown, tell
from .live import LiveSites, exchanges_of, head_of, live_run
from .setting import vouched
from .sites_table import Board
from .talk import Stop, Talk

CONTRACT = "contract.json"


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    continues = arguments.out is not None and not arguments.overwrite and STUDY in names_in(Path(arguments.out))
    with RunDirectory("serve", arguments.out, arguments.overwrite, continues) as directory:
        return _execute(arguments, directory, Talk(arguments.quiet, arguments.json))


def _execute(arguments: argparse.Namespace, directory: RunDirectory, talk: Talk) -> int:
    study = _study(arguments, directory)
    agreement = Agreement.of(study)
    if directory.holds_a_run() and not arguments.overwrite:
        directory.check_holds(agreement.study)
        if (found := directory.finished("finished", "diverged")) is not None:
            talk.note(f"the run in {directory.path} is {found['status']}: nothing to serve")
            return shown(found, arguments.json, codes.OK if found["status"] == "finished" else codes.DIVERGED)
        Book(directory.path, agreement.contract)  # refuses what was begun with another contract
    from ..deploy.grpc_server import GrpcCarrier  # needs the extra `grpc`

    sites = set(agreement.contract.sites)
    with contextlib.closing(
        GrpcCarrier(
            Path(arguments.certs),
            arguments.port,
            lambda site: None if site in sites else f"{site} is no site of this run",
            host=arguments.host,
            limit=agreement.longest_frame(),
        )
    ) as carrier:
        directory.open(agreement.study, (), f"{agreement.study.methods[0].name.rpartition('.py:')[2]}-deployed")
        files.write_bytes(directory.path / CONTRACT, agreement.contract.document())
        talk.note(f"contract {agreement.contract.hash}")
        talk.note(f"serving at port {carrier.port}; the run is kept in {directory.path}")
        return serve_over(carrier, agreement, directory, talk, arguments)


def serve_over(
    carrier: Any, agreement: Agreement, directory: RunDirectory, talk: Talk, arguments: argparse.Namespace
) -> int:
    """Play the run over this carrier and leave its files; the exit code."""
    study, public = agreement.study, agreement.source.public
    run = agreement.preview if public is None else agreement.simulated(public)
    entry = Entry(study.methods[0], [run], {}, study.methods[0].title)
    head = head_of("serve", study, [entry], exchanges_of([entry]))
    with Stop() as stop, Writer(directory.path, head) as writer:

        def tick() -> None:
            sites.tick()
            stop.heard()

        watched = Watched(carrier, agreement.contract.sites, tick)
        live = live_run(writer, entry, run, directory, deployed=True)
        sites = LiveSites(live, watched.lines)
        board = Board(watched.lines, study.run["rounds"], entry.label)

        def play() -> Result:
            return serve(
                agreement,
                watched,
                directory.path,
                deadline=arguments.deadline or study.deploy.get("deadline"),
                observe=lambda history: _observe(board, sites, history),
                watch=lambda site, what: _note(board, talk, site, what),
                farewell=arguments.farewell,
                traced=sites.traced,
            )

        with log_lines(talk), _live(talk, board):
            end = end_of(run, play)._replace(presence=live.lanes.words())
    served = None
    if end.status != "diverged":
        served = clients_of(run, end.result, _roll(agreement, directory, run), look=False)
    summary = leave(study, entry, directory, end, arguments.no_figures, served)
    tell(entry, directory, end, talk, arguments.json, served)
    return shown(summary, arguments.json, end.code)


def _roll(agreement: Agreement, directory: RunDirectory, run: Run) -> Roll:
    """The sites by name, with the sizes that they told."""
    head = Book(directory.path, agreement.contract).head
    return Roll.of(run if head is None else agreement.run(head.terms), agreement.contract.sites)


def _study(arguments: argparse.Namespace, directory: RunDirectory) -> Study:
    if arguments.study is None:
        study = vouched(directory.study(), arguments) if directory.resume else None
        if study is None:
            raise InputError("which study? Name its file, or an unfinished run with --out DIR")
    else:
        study = vouched(read_study(arguments.study), arguments)
    study = chosen_method(study, arguments.method)
    return study.with_deploy({"deadline": arguments.deadline}) if arguments.deadline else study


def chosen_method(study: Study, name: str | None) -> Study:
    """The study with its one method, or the one of this name or label."""
    if name is None:
        return study
    found = [one for one in study.methods if name in (one.name, one.label)]
    if len(found) != 1:
        names = ", ".join(one.label or one.name for one in study.methods)
        raise InputError(f"{study.source} has {len(found)} methods called {name!r}: name one of {names}")
    return study.but(methods=tuple(found))


def _observe(board: Board, sites: LiveSites, history: History) -> None:
    board.history = history
    sites.observe(history)


def _note(board: Board, talk: Talk, site: str, what: str) -> None:
    if site in board.lines:
        board.lines[site].said = what
    if not talk.watched:
        talk.note(f"{site}: {what}")


@contextlib.contextmanager
def _live(talk: Talk, board: Board) -> Iterator[None]:
    if not talk.watched:
        yield
        return
    with Live(board, console=talk.notes, refresh_per_second=4, transient=True):
        yield


@contextlib.contextmanager
def log_lines(talk: Talk) -> Iterator[None]:
    """Lines of the log of the transport, as notes."""
    handler = _Notes(talk.note)
    log = logging.getLogger("undrift.deploy")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


class _Notes(logging.Handler):
    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self.note = note

    def emit(self, record: logging.LogRecord) -> None:
        self.note(record.getMessage())
