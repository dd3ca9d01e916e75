"""`undrift list`: what can be named."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from ..errors import unknown
from . import codes, facts


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    found = facts.names()
    if arguments.what is not None:
        if arguments.what not in found:
            raise unknown("list", arguments.what, found)
        found = {arguments.what: found[arguments.what]}
    if arguments.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return codes.OK
    from ..report.plain import plain_table
    from .talk import Talk

    talk = Talk()
    for kind, entries in found.items():
        table = plain_table(kind)
        table.add_column("name", no_wrap=True, style="bold")
        table.add_column("parameters")
        table.add_column("what it is")
        for entry in entries:
            shown = ", ".join(_parameter(parameter) for parameter in entry["parameters"])
            table.add_row(entry["name"], shown, entry["summary"])
        talk.results.print(table)
    return codes.OK


def _parameter(parameter: Mapping[str, Any]) -> str:
    if parameter["required"]:
        return str(parameter["name"])
    default = parameter["default"]
    shown = (
        f"{default:g}" if isinstance(default, float) else str(default).lower() if isinstance(default, bool) else default
    )
    return f"{parameter['name']}={'…' if default is None else shown}"
