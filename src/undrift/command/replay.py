"""`undrift replay`: a deployed run in simulation, beside the deployed one."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ..studies.replaying import Replay, replay
from . import codes
from .talk import Talk


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    found = replay(
        Path(arguments.run),
        None if arguments.data is None else Path(arguments.data),
        tolerance=arguments.tolerance,
        trust=arguments.trust,
    )
    talk = Talk(arguments.quiet, arguments.json)
    if arguments.json:
        print(json.dumps(found.words(), indent=2))
    else:
        talk.results.print(verdict(found))
    return codes.OK if found.equal else codes.CLAIM_FAILED


def verdict(found: Replay) -> str:
    """The comparison in a line."""
    missing = f", {found.absences} answers missing as in the trace" if found.absences else ""
    judgement = "equal" if found.equal else "NOT equal"
    return (
        f"deployed and simulated models are {judgement}: largest difference {found.difference:.3g} after {found.rounds} rounds"
        f"{missing} (largest entry {found.scale:.3g}, tolerance {found.tolerance:g} of it)"
    )
