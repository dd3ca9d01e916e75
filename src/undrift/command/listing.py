"""`undrift list`: what can be named."""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

from ..algorithms import METHODS
from ..errors import unknown
from ..studies.build import COMPRESSORS, ORACLES, PARTICIPATION
from ..studies.catalogue import PROBLEMS
from ..studies.method import parameters_of
from . import codes
from .talk import Talk

KINDS: dict[str, Mapping[str, Callable[..., Any]]] = {
    "methods": METHODS,
    "problems": PROBLEMS,
    "compressors": COMPRESSORS,
    "oracles": ORACLES,
    "participation": PARTICIPATION,
}


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    if arguments.what is not None and arguments.what not in KINDS:
        raise unknown("list", arguments.what, KINDS)
    kinds = [arguments.what] if arguments.what else list(KINDS)
    found = {kind: [describe(name, thing) for name, thing in KINDS[kind].items()] for kind in kinds}
    if arguments.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return codes.OK
    from ..report.tables import plain_table

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


def describe(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """Name, parameters with their defaults, and the first sentence of the documentation."""
    parameters = [
        {
            "name": key,
            "required": parameter.default is parameter.empty,
            "default": None if parameter.default is parameter.empty else parameter.default,
        }
        for key, parameter in parameters_of(function).items()
    ]
    text = inspect.getdoc(function) or ""
    return {"name": name, "parameters": parameters, "summary": text.split("\n\n")[0].replace("\n", " ").strip()}


def _parameter(parameter: Mapping[str, Any]) -> str:
    if parameter["required"]:
        return str(parameter["name"])
    default = parameter["default"]
    shown = (
        f"{default:g}" if isinstance(default, float) else str(default).lower() if isinstance(default, bool) else default
    )
    return f"{parameter['name']}={'…' if default is None else shown}"
