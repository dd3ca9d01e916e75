"""The flags of `undrift reproduce`. Nothing here needs JAX."""

from __future__ import annotations

import argparse
from typing import Literal

from undrift.command.parser_tools import EXIT_TEXT

Scale = Literal["quick", "short", "paper"]
SCALES: tuple[Scale, ...] = ("quick", "short", "paper")
EXAMPLES = """examples:
  undrift reproduce --list
  undrift reproduce fedlin/fig2                one item
  undrift reproduce fedlin ssl/fig4            a paper, and an item of another one
  undrift reproduce --all --scale paper        everything, at the papers' own sizes
  undrift reproduce --out reproduction --report docs/reproduction.md   the pages, from the results that are there"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags."""
    parser.description = (
        "Run the papers' figures, tables and theorems, and decide what they claim. Results are kept: what is there is not run "
        "again, and an interrupted run continues with what is missing."
    )
    parser.epilog = f"{EXAMPLES}\n\n{EXIT_TEXT}"
    parser.add_argument("items", nargs="*", metavar="ITEM", help="an item (fedlin/fig2) or a paper (fedlin)")
    parser.add_argument("--all", action="store_true", help="every item of every paper")
    parser.add_argument("--list", action="store_true", help="name all items, and what is there of them")
    parser.add_argument(
        "--scale",
        choices=list(SCALES),
        default="quick",
        help="quick (default): networks on small data, everything else at full size; short: the papers' data and models, fewer "
        "rounds or seeds; paper: the papers' own settings",
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--out", default="runs/reproduction", metavar="DIR", help="where results are kept (runs/reproduction)"
    )
    output.add_argument("--again", action="store_true", help="run anew what is there already")
    output.add_argument(
        "--finished",
        action="store_true",
        help="start no training where an item can do without: it takes the runs that are finished, and lists the others",
    )
    output.add_argument(
        "--redraw", action="store_true", help="draw figures and pages anew from the data that are there"
    )
    output.add_argument("--strict", action="store_true", help="exit with code 6 if a claim does not hold")
    output.add_argument(
        "--report",
        metavar="FILE.md",
        help="write the page of all results in DIR, and one for each item in a folder beside it",
    )
    output.add_argument("--json", action="store_true", help="verdicts as JSON on standard output")
    output.add_argument("--quiet", action="store_true", help="no progress, no notes")
