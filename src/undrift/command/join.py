"""`undrift join`: a site of a deployed study."""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..deploy.contract import SHORTEST
from ..engine.interrupt import DEFAULTS, SIGNALS
from ..errors import InputError
from ..report.contract import contract_lines
from ..studies.agreement import Agreement
from ..studies.joining import Membership
from ..studies.study import read_study
from . import codes
from .serve import log_lines
from .talk import Talk


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    from ..deploy.grpc_site import stay_connected  # needs the extra `grpc`

    if not re.fullmatch(r".+:[0-9]{1,5}", arguments.server):
        raise InputError(f"the server is HOST:PORT, for example {arguments.server}:8443, got {arguments.server!r}")
    talk = Talk(arguments.quiet)
    certs = Path(arguments.certs)
    membership = Membership(
        Path(arguments.state),
        lambda agreement: own_data(agreement, arguments.data),
        acceptance(arguments, talk),
        files=[Path(file) for file in arguments.method_file],
        reset=arguments.reset,
        note=talk.note,
    )
    try:
        with ended_by_signals(), log_lines(talk), membership.member() as member:
            stay_connected(arguments.server, certs, member.talk, limit=LIMIT)
    except KeyboardInterrupt:
        talk.notes.print("undrift: stopped; join again with the same command to go on")
        return codes.INTERRUPTED
    talk.note("the run is over")
    return codes.OK


def own_data(agreement: Agreement, given: str | None) -> Any:
    """The site's data as the study wants them."""
    if given is None:
        if agreement.source.public is not None:
            return None
        raise InputError("this run wants data of the site's own: give a file or module:function with --data")
    return agreement.source.read(given)


def acceptance(arguments: argparse.Namespace, talk: Talk) -> Callable[[Agreement], bool]:
    """How the contract is accepted: by its hash, by a study at hand, or by a person who has read it."""
    wanted = arguments.accept
    if arguments.study is not None:
        wanted = Agreement.of(read_study(arguments.study).trusted()).contract.hash

    def accept(agreement: Agreement) -> bool:
        found = agreement.contract.hash
        for line in contract_lines(agreement, talk.notes.width):
            if wanted is None:
                talk.notes.print(line)  # whoever is asked must have seen it
            else:
                talk.note(line)
        if wanted is not None:
            if not agreement.contract.is_called(wanted):
                raise InputError(
                    f"the server's contract is {found}, this site accepts {wanted} (at least {SHORTEST} letters of "
                    "it): nothing was sent"
                )
            return True
        return _asked()

    return accept


LIMIT = 2**31  # bytes of a frame from the server


def _asked() -> bool:
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        raise InputError("nobody is here to accept the contract: give --accept HASH, or --study STUDY.toml")
    print("Does this site take part on these terms? Type yes: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() == "yes"


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end a site as Ctrl-C does: at once, since whatever it keeps is whole at any moment."""

    def end(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        if handler in DEFAULTS:
            signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
