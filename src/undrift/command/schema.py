"""`undrift schema`: what a study file may say, for editors."""

from __future__ import annotations

import argparse
import json

from . import codes, facts


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    print(json.dumps(facts.schema(), indent=1, ensure_ascii=False))
    return codes.OK
