"""The file trace.jsonl of a deployed run: one line a round, appended before the server's checkpoint.

The first line says what run it is of; every other one who was asked, with how many steps, who answered, in which attempt, and
who had lost its memory. A server that died before its checkpoint plays rounds again: of two records of a round the later
one counts, and nothing that stands between them. A line that a crash cut short is the last one; readers leave it out, and
the next writer removes it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec

from .absences import Absences, Traced
from .errors import InputError
from .files import storage

FORMAT = 1
LONGEST = 64 * 2**20  # bytes of a line
SHOWN = 200  # characters of a complaint
Number = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class Head(msgspec.Struct):
    """The first line. Whatever else it says is for people."""

    format: int = msgspec.field(name="undrift trace")
    deadline: Annotated[float, msgspec.Meta(gt=0)] | None


class Row(msgspec.Struct):
    """A round. Whatever else it says is for people."""

    round: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    ids: list[Number]
    steps: list[Number]
    answered: list[Annotated[int, msgspec.Meta(ge=0, le=1)]]
    resets: list[Number] = []
    columns: dict[str, int | float | None] = {}  # what was recorded, None where that is no number
    clients: dict[str, list[int | float | None]] = {}  # of every client

    def traced(self) -> Traced:
        silent = frozenset(i for i, here in zip(self.ids, self.answered, strict=True) if not here)
        return Traced(tuple(self.ids), tuple(self.steps), silent, tuple(self.resets))


def begin(file: Path, deadline: float | None, **words: Any) -> None:
    """Start a trace with its first line, unless there is one; `words`: more that it should say, for people."""
    if not file.exists() or not _whole_lines(file):
        append(file, {"undrift trace": FORMAT, "deadline": deadline, **words})


def append(file: Path, row: dict[str, Any]) -> None:
    """Add a line, and bring it to the disk."""
    line = json.dumps(row, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    with storage(file), file.open("ab+") as content:
        _remove_cut_line(content)
        content.write(line)
        content.flush()
        os.fsync(content.fileno())


def read_trace(file: str | os.PathLike[str]) -> Absences:
    """Who was silent in which round."""
    head, rows = read_rows(Path(file))
    return Absences({row.round: row.traced() for row in rows}, head.deadline is not None)


def read_rows(file: Path) -> tuple[Head, list[Row]]:
    """(what run it is of, its rounds: 1, 2, …, each as it was played last)."""
    try:
        with file.open("rb") as content:
            lines = _lines(content, file)
            head = _head(next(lines, b""), file)
            return head, _rounds(lines, file)
    except OSError as error:
        raise InputError(f"the trace {file} cannot be read: {error.strerror or error}") from error


def _head(line: bytes, file: Path) -> Head:
    try:
        head = msgspec.json.decode(line, type=Head)
    except (msgspec.DecodeError, ValueError, RecursionError):
        head = None
    if head is None or head.format != FORMAT:
        raise InputError(
            f"{file} is not a trace of undrift (format {FORMAT}): it is the file trace.jsonl of a deployed run"
        )
    return head


def _rounds(lines: Iterator[bytes], file: Path) -> list[Row]:
    rows: list[Row] = []
    decoder = msgspec.json.Decoder(Row)
    for number, line in enumerate(lines, start=2):
        try:
            row = decoder.decode(line)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise InputError(
                f"{file} is damaged: line {number} is no record of a round ({str(error)[:SHOWN]})"
            ) from None
        if not len(row.ids) == len(row.answered) == len(row.steps):
            raise InputError(f"{file} is damaged: line {number} has lists of different lengths")
        if row.round > len(rows) + 1:
            raise InputError(
                f"{file} is damaged: line {number} is of round {row.round}, the one before it of round {len(rows)}"
            )
        del rows[row.round - 1 :]  # the server went back and played on from here
        rows.append(row)
    return rows


def _lines(content: BinaryIO, file: Path) -> Iterator[bytes]:
    while line := content.readline(LONGEST):
        if not line.endswith(b"\n"):
            if len(line) == LONGEST:
                raise InputError(f"{file} is damaged: it has a line of more than {LONGEST} bytes")
            return  # cut short by a crash
        yield line


def _whole_lines(file: Path) -> bool:
    with storage(file), file.open("rb") as content:
        return content.readline(LONGEST).endswith(b"\n")


def _remove_cut_line(content: BinaryIO) -> None:
    """Go back to the end of the last whole line."""
    end = content.seek(0, os.SEEK_END)
    whole = end
    while whole > 0:
        begin = max(0, whole - 65536)
        content.seek(begin)
        found = content.read(whole - begin).rfind(b"\n")
        if found >= 0:
            whole = begin + found + 1
            break
        whole = begin
    if whole < end:
        content.truncate(whole)
    content.seek(0, os.SEEK_END)
