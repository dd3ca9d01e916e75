"""The file trace.jsonl of a deployed run: one line a round, appended before the server's checkpoint.

The first line says what run it is of; every other one who was asked, with how many steps, who answered, in which attempt, and
what was recorded. A line that a crash cut short is the last one, and is left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .errors import InputError
from .plan import Absences

FORMAT = 1
LONGEST = 64 * 2**20  # bytes of a line


def read_trace(file: str | os.PathLike[str]) -> Absences:
    """Who was silent in which round."""
    head, rows = read_lines(Path(file))
    silent, members = {}, {}
    for row in rows:
        t, ids, answered = row["round"], row["ids"], row["answered"]
        members[t] = tuple(ids)
        silent[t] = frozenset(i for i, here in zip(ids, answered, strict=True) if not here)
    return Absences(silent, members, bool(head["deadline"]))


def read_lines(file: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """(what run it is of, its rounds)."""
    try:
        lines = list(_lines(file))
    except OSError as error:
        raise InputError(f"the trace {file} cannot be read: {error.strerror or error}") from error
    if not lines or lines[0].get("undrift trace") != FORMAT or "deadline" not in lines[0]:
        raise InputError(
            f"{file} is not a trace of undrift (format {FORMAT}): it is the file trace.jsonl of a deployed run"
        )
    rows = lines[1:]
    for number, row in enumerate(rows, start=1):
        _check(row, number, file)
    return lines[0], rows


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    with file.open("rb") as content:
        while line := content.readline(LONGEST):
            if not line.endswith(b"\n"):
                return  # cut short by a crash
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                raise InputError(f"{file} is damaged: a line of it is not JSON") from None
            if not isinstance(found, dict):
                raise InputError(f"{file} is damaged: a line of it is not an object")
            yield found


def _check(row: dict[str, Any], number: int, file: Path) -> None:
    ids, answered, steps = (row.get(name) for name in ("ids", "answered", "steps"))
    whole = all(
        isinstance(part, list) and all(type(n) is int and n >= 0 for n in part) for part in (ids, answered, steps)
    )
    if row.get("round") != number or not whole or not len(ids) == len(answered) == len(steps):  # type: ignore[arg-type]
        raise InputError(f"{file} is damaged: line {number + 1} is not the record of round {number}")
