"""What can be named, and what study files may say, written down: whoever only asks for it does not wait for JAX.

`facts.json` says what the objects themselves say, and a test holds it to that; `python -m undrift.command.facts` makes it anew.
"""

from __future__ import annotations

import argparse
import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError, unknown

OWN = ".py:"  # in a method's name: a user's own file
FILE = Path(__file__).with_name("facts.json")


def names() -> dict[str, list[dict[str, Any]]]:
    """Kind -> what can be named: name, parameters with their defaults, and a sentence.

    >>> [entry["name"] for entry in names()["oracles"]]
    ['full', 'minibatch', 'noisy']
    """
    found: dict[str, list[dict[str, Any]]] = _read()["names"]
    return found


def schema() -> dict[str, Any]:
    """The JSON Schema of study files."""
    found: dict[str, Any] = _read()["schema"]
    return found


def check_flags(arguments: argparse.Namespace) -> None:
    """Refuse a name in a flag that nothing has, as `studies` would a second later."""
    for kind in ("problem", "method"):
        given = getattr(arguments, kind) or ()
        for word in [given] if isinstance(given, str) else given:
            name, known = word.partition(":")[0].strip(), [entry["name"] for entry in names()[f"{kind}s"]]
            if OWN not in word and name not in known:
                raise InputError(f"--{kind}: {unknown(kind, name, known)}")


def observed() -> dict[str, Any]:
    """The facts from the objects themselves."""
    from ..algorithms import METHODS
    from ..studies.build import COMPRESSORS, ORACLES, PARTICIPATION
    from ..studies.catalogue import PROBLEMS
    from ..studies.json_schema import document

    kinds: dict[str, Mapping[str, Callable[..., Any]]] = {
        "methods": METHODS,
        "problems": PROBLEMS,
        "compressors": COMPRESSORS,
        "oracles": ORACLES,
        "participation": PARTICIPATION,
    }
    named = {kind: [_describe(name, thing) for name, thing in things.items()] for kind, things in kinds.items()}
    return {"names": named, "schema": document()}


def _describe(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """Name, parameters with their defaults, and the first sentence of the documentation."""
    from ..studies.method import parameters_of

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


def _read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    FILE.write_text(json.dumps(observed(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
