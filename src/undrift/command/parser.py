"""The command line as a parser. Nothing here needs JAX."""

from __future__ import annotations

import argparse
import functools

from . import board, certs, completion
from .parser_deploy import add_deployment
from .parser_figure import add_figure
from .parser_look import add_data, add_explain, add_export, add_list, add_partition, add_schema
from .parser_play import add_advise, add_compare, add_demo, add_reproduce, add_run
from .parser_tools import EXIT_TEXT, Parser, of_kind, sub_command


def build_parser() -> Parser:
    parser = Parser(
        prog="undrift",
        description="Federated optimisation that arrives at the right answer.",
        epilog="examples:\n"
        "  undrift demo --open                          the main methods on embedded data, and their page in the browser\n"
        "  undrift compare                              the same; your own problem, methods and grids with flags or a file\n"
        "  undrift run --method fedlin --problem least_squares --rounds 50 --steps 20\n"
        "  undrift reproduce fedlin/fig2                a figure of a paper, and whether its claims hold\n"
        "  undrift advise --problem least_squares       which method, step size and local steps, and why\n"
        "  undrift figure runs/demo --for paper         a run or comparison as PDF, sized for a journal\n"
        "  undrift explain fedlin --up top_k:50         a round as a message diagram, with sizes\n"
        "  undrift export runs/demo --method fedlin --to sklearn   its model for other programs, with a card\n"
        "  undrift list                                 methods, problems, compressors, oracles, participation\n"
        "  undrift schema                               the JSON Schema of study files, for editors\n"
        "  undrift partition --data digits --clients 20 --how exdir:classes=2,alpha=10 --out runs/parts\n"
        "  undrift data                                 data sets, and where they are\n"
        "  undrift rehearse --chaos 3                   deploy on this machine, kill processes, compare with the simulation\n"
        "  undrift serve study.toml --certs pki/server  a real deployment: certs, serve, join, replay\n"
        "  undrift board runs                           watch runs in a browser as they go on\n\n" + EXIT_TEXT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="show the versions of undrift and its libraries")
    parser.add_argument(
        "--compiled",
        metavar="DIR",
        help="keep compiled programs there, off for nowhere (else $UNDRIFT_COMPILED, else in the user's cache)",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    add_demo(commands)
    add_run(commands)
    add_compare(commands)
    add_advise(commands)
    add_reproduce(commands)
    add_export(commands)
    add_figure(functools.partial(sub_command, commands), of_kind)
    add_explain(commands)
    add_list(commands)
    add_schema(commands)
    add_partition(commands)
    add_data(commands)
    certs.add_parser(commands)
    add_deployment(functools.partial(sub_command, commands), of_kind)
    board.add_parser(functools.partial(sub_command, commands), of_kind)
    completion.add_parser(functools.partial(sub_command, commands))
    return parser
