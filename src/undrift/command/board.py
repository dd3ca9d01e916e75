"""`undrift board`: all runs below a folder, live, in a browser."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from ..errors import InputError
from . import codes
from .parser_deploy import Port

HOST = re.compile(r"[0-9A-Za-z.:-]{1,253}")
EXTRA = "the board needs starlette, uvicorn and itsdangerous, which are not installed: pip install 'undrift[board]'"


def add_parser(command: Any, of_kind: Any) -> None:
    """The flags; `command` makes a sub-command."""
    board = command(
        "board",
        "watch all runs below a folder in a browser, as they go on",
        "It reads what runs write and changes nothing. Only this machine can reach it, unless --host says otherwise: then it "
        "asks for a token, which is part of the address that is shown once.",
        "  undrift board runs\n"
        "  undrift board runs --port 0 --no-open        on any free port; open the address yourself\n"
        "  ssh -L 8765:127.0.0.1:8765 machine           a board on another machine, over SSH\n",
    )
    board.add_argument("folder", nargs="?", default="runs", metavar="DIR", help="the folder that runs are below (runs)")
    board.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="where it listens (127.0.0.1)")
    board.add_argument(
        "--port", type=of_kind(Port), default=8765, metavar="N", help="its port, 0 for any that is free (8765)"
    )
    board.add_argument("--token", action="store_true", help="ask for a token on this machine too")
    board.add_argument("--no-open", action="store_true", help="do not open a browser")


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    folder = Path(arguments.folder)
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}: say where runs are, as in `undrift board runs`")
    if HOST.fullmatch(arguments.host) is None:
        raise InputError(f"--host must be an address or a name of this machine, got {arguments.host!r}: try 127.0.0.1")
    try:
        from ..board.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "undrift":
            raise
        raise InputError(EXTRA) from error
    from .talk import Talk

    talk = Talk()

    def tell(address: str) -> None:
        talk.results.print(f"the runs below {folder}: {address}", soft_wrap=True)
        talk.results.print("Ctrl-C ends the board; runs go on")

    serve(folder, arguments.host, arguments.port, arguments.token, tell, not arguments.no_open)
    return codes.OK
