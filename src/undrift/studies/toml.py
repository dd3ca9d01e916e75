"""Writing TOML: the few kinds of values that study files hold. The standard library reads it back."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def document(tables: Mapping[str, Any], comments: Sequence[str] = ()) -> str:
    """A document of tables and lists of tables, each value on its own line.

    >>> print(document({"run": {"rounds": 5}, "method": [{"name": "fedlin", "eta": [0.1, 1.0]}]}))
    [run]
    rounds = 5
    <BLANKLINE>
    [[method]]
    name = "fedlin"
    eta = [0.1, 1.0]
    <BLANKLINE>
    """
    blocks = ["".join(f"# {line}\n" for line in comments)] if comments else []
    for name, content in tables.items():
        many = not isinstance(content, Mapping)
        for table in content if many else [content]:
            head = f"[[{_key(name)}]]" if many else f"[{_key(name)}]"
            lines = [f"{_key(key)} = {value(entry)}" for key, entry in table.items() if entry is not None]
            blocks.append("\n".join([head, *lines]) + "\n")
    return "\n".join(blocks)


def value(entry: Any) -> str:
    """One value, on one line.

    >>> value({"name": "top_k", "k": 5, "memory": False})
    '{ name = "top_k", k = 5, memory = false }'
    """
    if isinstance(entry, np.generic | np.ndarray):
        entry = entry.tolist()
    if isinstance(entry, bool):
        return "true" if entry else "false"
    if isinstance(entry, int):
        return str(entry)
    if isinstance(entry, float):
        return _number(entry)
    if isinstance(entry, str):
        return _string(entry)
    if isinstance(entry, Mapping):
        inside = ", ".join(f"{_key(key)} = {value(inner)}" for key, inner in entry.items() if inner is not None)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(entry, Sequence):
        return f"[{', '.join(value(inner) for inner in entry)}]"
    raise TypeError(f"a study file cannot hold {entry!r}")


def _number(number: float) -> str:
    if math.isfinite(number):
        return repr(number)
    return "nan" if math.isnan(number) else ("inf" if number > 0 else "-inf")


def _string(text: str) -> str:
    # JSON and TOML escape alike, but for DEL, which TOML wants escaped too.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _string(name)
