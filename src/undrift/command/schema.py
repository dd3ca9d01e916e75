"""`undrift schema`: what a study file may say, for editors."""

from __future__ import annotations

import argparse
import json

from ..studies.json_schema import document
from . import codes


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    print(json.dumps(document(), indent=1, ensure_ascii=False))
    return codes.OK
