"""The flags of the commands that deploy. Nothing here needs JAX."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Annotated, Any

from msgspec import Meta

from ..gate import Count, NotNegative, Positive, Seed, Whole

Make = Callable[[str, str, str, str], argparse.ArgumentParser]  # name, summary, details, examples -> its parser
OfKind = Callable[[Any], Callable[[str], Any]]
PORT = 8443
Port = Annotated[int, Meta(ge=0, le=65535)]


def add_deployment(command: Make, of_kind: OfKind) -> None:
    """serve, join, rehearse and replay."""
    _add_serve(command, of_kind)
    _add_join(command)
    _add_rehearse(command, of_kind)
    _add_replay(command, of_kind)


def _add_serve(command: Make, of_kind: OfKind) -> None:
    serve = command(
        "serve",
        "play a study with real sites, as its server",
        "Waits for all sites, plays the rounds, and leaves the directory that `undrift run` leaves. Called again it continues.",
        "  undrift certs --sites a b c --out pki\n"
        "  undrift serve study.toml --certs pki/server --port 8443 --out runs/heart\n"
        "  undrift serve --certs pki/server --out runs/heart      continue after a crash or Ctrl-C",
    )
    serve.add_argument("study", nargs="?", metavar="STUDY.toml", help="the study; not needed to continue")
    serve.add_argument("--certs", required=True, metavar="DIR", help="the server's folder made by `undrift certs`")
    serve.add_argument("--port", type=of_kind(Port), default=PORT, metavar="P", help=f"to listen at ({PORT})")
    serve.add_argument("--host", default="[::]", metavar="ADDRESS", help="to listen at ([::]: all addresses)")
    serve.add_argument("--method", metavar="METHOD", help="the one of the study's methods, by name, if it has several")
    serve.add_argument(
        "--deadline",
        type=of_kind(Positive),
        metavar="S",
        help="play a round without sites that let S seconds pass (else everybody is waited for); over [deploy] deadline",
    )
    serve.add_argument(
        "--farewell",
        type=of_kind(NotNegative),
        default=60.0,
        metavar="S",
        help="seconds in which sites that are away may come back at the end to hear that it is over (60)",
    )
    serve.add_argument("--trust", action="store_true", help="run the program (file.py:factory) that the study names")
    output = serve.add_argument_group("output")
    output.add_argument("--out", metavar="DIR", help="the run directory (default: a fresh one under runs/)")
    output.add_argument("--overwrite", action="store_true", help="replace the run in DIR instead of continuing it")
    output.add_argument("--json", action="store_true", help="the summary as JSON on standard output")
    output.add_argument("--no-figures", action="store_true", help="write no figures")
    output.add_argument("--quiet", action="store_true", help="no table of sites, no notes")


def _add_join(command: Make) -> None:
    join = command(
        "join",
        "take part in a run as a site, with data that never leave",
        "Shows the contract, asks whether it is accepted, and answers the server until the run is over; comes back by itself.",
        "  undrift join server.example:8443 --certs pki/a --data a.csv --state state-a\n"
        "  undrift join server.example:8443 --certs pki/a --data a.npz --state state-a --accept 3f9c…\n"
        "  undrift join server.example:8443 --certs pki/a --data mypackage.data:load --state state-a --study study.toml",
    )
    join.add_argument("server", metavar="HOST:PORT", help="where `undrift serve` listens")
    join.add_argument("--certs", required=True, metavar="DIR", help="this site's folder made by `undrift certs`")
    join.add_argument(
        "--data", metavar="FILE", help="this site's data: a .npz or .csv file, or module:function installed here"
    )
    join.add_argument("--state", required=True, metavar="DIR", help="keeps this site's memory; one for each run")
    accepted = join.add_mutually_exclusive_group()
    accepted.add_argument("--accept", metavar="HASH", help="accept the contract with this hash, unasked")
    accepted.add_argument("--study", metavar="STUDY.toml", help="accept the contract that this study makes, unasked")
    join.add_argument(
        "--method-file",
        action="append",
        default=[],
        metavar="FILE.py",
        help="a method of one's own that the contract names by its hash",
    )
    join.add_argument(
        "--reset",
        action="store_true",
        help="begin without memory, whatever there is, because it was lost (the trace says so)",
    )
    join.add_argument("--quiet", action="store_true", help="no notes")


def _add_rehearse(command: Make, of_kind: OfKind) -> None:
    rehearse = command(
        "rehearse",
        "deploy a study on this machine: server and sites as processes, compared with the simulation",
        "With throw-away certificates; --chaos kills processes at random and starts them again. Prints the largest difference.",
        "  undrift rehearse\n"
        "  undrift rehearse study.toml --chaos 5\n"
        "  undrift rehearse study.toml --clients 8 --out runs/rehearsal\n"
        "  undrift rehearse examples/hospitals/study.toml --data examples/hospitals/data",
    )
    rehearse.add_argument("study", nargs="?", metavar="STUDY.toml", help="the study (default: FedLin on embedded data)")
    rehearse.add_argument(
        "--clients", type=of_kind(Count), metavar="N", help="so many clients (the problem's own number)"
    )
    rehearse.add_argument(
        "--method", metavar="METHOD", help="the one of the study's methods, by name, if it has several"
    )
    rehearse.add_argument("--data", metavar="DIR", help="one file per site, for studies whose data are at the sites")
    rehearse.add_argument("--chaos", type=of_kind(Whole), default=0, metavar="K", help="kill -9 K processes (0)")
    rehearse.add_argument("--seed", type=of_kind(Seed), default=0, help="of the chaos (0)")
    rehearse.add_argument("--flower", action="store_true", help="in a Flower federation of this machine instead")
    rehearse.add_argument("--trust", action="store_true", help="run the program (file.py:factory) that the study names")
    output = rehearse.add_argument_group("output")
    output.add_argument("--out", metavar="DIR", help="keep the run directory there (else it is thrown away)")
    output.add_argument("--json", action="store_true", help="the outcome as JSON on standard output")
    output.add_argument("--quiet", action="store_true", help="no notes")


def _add_replay(command: Make, of_kind: OfKind) -> None:
    replay = command(
        "replay",
        "play a deployed run again in simulation, with the same absences, and say how far the models are apart",
        "Needs the data of all sites: of a rehearsal, of a public problem, or in a folder with one file per site.",
        "  undrift replay runs/heart --data all-sites/",
    )
    replay.add_argument("run", metavar="RUN", help="the directory of `undrift serve`")
    replay.add_argument("--data", metavar="DIR", help="one file per site, for studies whose data were at the sites")
    replay.add_argument(
        "--tolerance",
        type=of_kind(NotNegative),
        metavar="D",
        help="exit with code 6 if a model differs by more (1e-12 in float64, 1e-6 in float32, of the largest entry)",
    )
    replay.add_argument("--trust", action="store_true", help="run the program (file.py:factory) that the study names")
    replay.add_argument("--json", action="store_true", help="as JSON on standard output")
    replay.add_argument("--quiet", action="store_true", help="no notes")
