"""`undrift demo`: the comparison of the embedded study, and its page in the browser where that is asked for."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path

from ..errors import InputError
from . import compare
from .directory import PAGE, RunDirectory
from .parser import build_parser
from .talk import Talk

WHAT = (
    "{methods} methods learn handwritten digits from {clients} clients, which hold two of the ten digits each and differ in "
    "size and speed: {rounds} rounds, each method with several step sizes. This takes about a minute."
)


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    if arguments.open and arguments.no_figures:
        raise InputError("--open shows the page, which --no-figures leaves out: give one of them")
    talk = Talk(arguments.quiet, arguments.json)
    with RunDirectory("compare", arguments.out, arguments.overwrite, resume=False) as directory:
        study = compare.demo()
        rounds = study.run["rounds"] if arguments.rounds is None else arguments.rounds
        talk.note(WHAT.format(methods=len(study.methods), clients=study.problem["clients"], rounds=rounds))
        code = compare.execute_in(_as_comparison(arguments), directory, talk)
        page = directory.path / PAGE
    if arguments.open and page.exists():
        _show(page, talk)
    return code


def _as_comparison(arguments: argparse.Namespace) -> argparse.Namespace:
    """What `undrift compare` is told where only these flags are given."""
    nothing = build_parser().parse_args(["compare"])
    return argparse.Namespace(**{**vars(nothing), **vars(arguments), "command": "compare"})


def _show(page: Path, talk: Talk) -> None:
    """The page in the user's browser; where there is none, its address."""
    address = page.resolve().as_uri()
    if not webbrowser.open(address):
        talk.note(f"no browser was found here: open {address} in yours")
