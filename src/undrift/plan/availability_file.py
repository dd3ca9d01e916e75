"""The CSV file of an availability trace. It may come from anybody: every complaint names line and column."""

from __future__ import annotations

import csv
import dataclasses
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, unknown
from ..files import storage
from ..gate import LARGEST, shown

LARGEST_FILE = 2**28  # bytes
MOST_CELLS = 2**20  # of a line
FORMS = "round,client | round,client,available | client,from,to | round and one column for each client | a matrix of 0 and 1"
WHOLE = re.compile("[0-9]{1,10}")


@dataclasses.dataclass(frozen=True, eq=False)
class Spans:
    """What a file says: label client[k] is there from round first[k] to last[k]; or a grid of all rounds."""

    file: Path
    labels: tuple[str, ...]
    lines: tuple[int, ...]  # where each label stands first
    client: np.ndarray
    first: np.ndarray
    last: np.ndarray
    grid: np.ndarray | None  # (rounds, labels)
    length: int
    longest: int  # the line of the last round

    def place(self, line: int, column: str = "") -> str:
        return f"{self.file}, line {line}" + (f", column {column}" if column else "")

    def table(self, clients: int, names: Sequence[str]) -> np.ndarray:
        """(rounds, m): who is there."""
        numbers = self._numbers(clients, {name: number for number, name in enumerate(names)})
        there = np.zeros((self.length, clients), bool)
        if self.grid is not None:
            if len(numbers) != clients:
                raise InputError(f"{self.place(1)}: the trace tells of {len(numbers)} clients, the problem has {clients}: give "
                                 "each a column")  # fmt: skip
            there[:, numbers] = self.grid
            return there
        single = self.first == self.last
        there[self.first[single] - 1, numbers[self.client[single]]] = True
        for k in np.flatnonzero(~single):
            there[self.first[k] - 1 : self.last[k], numbers[self.client[k]]] = True
        return there

    def _numbers(self, clients: int, names: dict[str, int]) -> np.ndarray:
        found: dict[int, str] = {}
        for label, line in zip(self.labels, self.lines, strict=True):
            number = names.get(label, int(label) if WHOLE.fullmatch(label) else -1)
            if not 0 <= number < clients:
                known = f"a number 0 … {clients - 1}" + (f" or one of {', '.join(names)}" if names else "")
                raise InputError(f"{self.place(line, 'client')}: a client is {known}, got {shown(label)}")
            if number in found:
                raise InputError(
                    f"{self.place(line, 'client')}: {shown(label)} and {shown(found[number])} are one client: use one name"
                )
            found[number] = label
        return np.array(list(found), np.int64)


def read_spans(file: Path) -> Spans:
    """What the file says."""
    with storage(file):
        if not file.is_file():
            raise InputError(f"the trace {file} does not exist, or is no file")
        if file.stat().st_size > LARGEST_FILE:
            raise InputError(f"a trace has at most {LARGEST_FILE:,} bytes, and {file} has more: is it one?")
        try:
            with file.open(newline="", encoding="utf-8-sig") as opened:
                return _Reading(file).read(csv.reader(opened, strict=True))
        except UnicodeDecodeError as error:
            raise InputError(f"{file} is no text in UTF-8: {error.reason} at byte {error.start}") from None


class _Reading:
    """A file that is being read, line by line."""

    def __init__(self, file: Path) -> None:
        self.file, self.line = file, 0
        self.labels: dict[str, int] = {}  # label -> its place
        self.lines: list[int] = []  # where each label stands first
        self.columns: list[str] = []
        self.spans, self.grid = array("q"), list[np.ndarray]()  # spans: client, first, last, line, one after the other
        self.length, self.longest = 0, 0

    def read(self, reader: Any) -> Spans:
        lines = self._lines(reader)
        header = next(lines, None)
        if header is None:
            raise InputError(f"{self.file} is empty; a trace has lines of {FORMS}")
        take = self._form(header)
        for cells in lines:
            take(cells)
        if not self.length:
            raise InputError(f"{self.file} names no round: there is nothing after line {self.line}")
        client, first, last, line = np.frombuffer(self.spans, np.int64).reshape(-1, 4).T
        self._must_be_once(client, first, line)
        kept = last >= first
        grid = np.stack(self.grid) if self.grid else None
        return Spans(self.file, tuple(self.labels), tuple(self.lines), client[kept], first[kept], last[kept], grid,
                     self.length, self.longest)  # fmt: skip

    def _must_be_once(self, client: np.ndarray, first: np.ndarray, line: np.ndarray) -> None:
        """Of one client and round a file says one thing."""
        if "from" in self.columns:
            return
        order = np.lexsort((line, first, client))
        again = (np.diff(client[order]) == 0) & (np.diff(first[order]) == 0)
        if again.any():
            at = int(np.argmax(again))
            label = list(self.labels)[client[order[at]]]
            raise InputError(
                f"{self.file}, line {line[order[at + 1]]}: client {shown(label)} in round {first[order[at]]} stands in line "
                f"{line[order[at]]} already: leave one out"
            )

    def _lines(self, reader: Any) -> Iterator[list[str]]:
        try:
            for cells in reader:
                self.line = reader.line_num
                if len(cells) > MOST_CELLS:
                    raise InputError(f"{self._at()}: a line has at most {MOST_CELLS} cells, got {len(cells)}")
                if cells and not (len(cells) == 1 and not cells[0].strip()):
                    yield [cell.strip() for cell in cells]
        except csv.Error as error:
            raise InputError(f"{self.file}, line {self.line + 1}: this is no CSV ({error})") from None

    # ----- the forms
    def _form(self, header: list[str]) -> Callable[[list[str]], None]:
        """What takes a line of this file."""
        words = [cell.lower() for cell in header]
        if all(cell in ("0", "1") for cell in words):
            self.columns = [f"{k}" for k in range(len(words))]
            take = self._bare
            take(header)
            return take
        self.columns = words
        twice = next((name for name in words if words.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"{self._at(twice)}: the column stands there twice: leave one out")
        for names, take in (
            ({"round", "client"}, self._pair),
            ({"round", "client", "available"}, self._flag),
            ({"client", "from", "to"}, self._span),
        ):
            if set(words) == names:
                return take
        if words[0] == "round" and len(words) > 1 and not {"client", "available"} & set(words):
            self.columns = ["round", *header[1:]]
            return self._row
        wrong = next((word for word in words if word not in ("round", "client", "available", "from", "to")), "")
        about = f"{unknown('column', wrong, ['round', 'client', 'available', 'from', 'to'])}; " if wrong else ""
        raise InputError(f"{self._at()}: {about}a trace has lines of {FORMS}; got {shown(','.join(header))}")

    def _pair(self, cells: list[str]) -> None:
        said = self._said(cells)
        at = self._round("round", said["round"])
        self._add(said["client"], at, at)

    def _flag(self, cells: list[str]) -> None:
        said = self._said(cells)
        at = self._round("round", said["round"])
        self._add(said["client"], at, at if self._truth("available", said["available"]) else 0)

    def _span(self, cells: list[str]) -> None:
        said = self._said(cells)
        first, last = self._round("from", said["from"]), self._round("to", said["to"])
        if last < first:
            raise InputError(f"{self._at('to')}: a client is there from … to a later round, got {first} to {last}")
        self._add(said["client"], first, last)

    def _row(self, cells: list[str]) -> None:
        said = self._said(cells)
        at = self._round("round", said.pop("round"))
        if at != len(self.grid) + 1:
            raise InputError(
                f"{self._at('round')}: rounds are 1, 2, …, one line each; got {at} where {len(self.grid) + 1} comes"
            )
        self._add_row(said)

    def _bare(self, cells: list[str]) -> None:
        self.length, self.longest = self.length + 1, self.line
        self._add_row(self._said(cells))

    def _add_row(self, said: dict[str, str]) -> None:
        for label in said if not self.grid else ():
            self._place(label, 1)
        self.grid.append(np.array([self._truth(label, cell) for label, cell in said.items()]))

    # ----- cells
    def _said(self, cells: list[str]) -> dict[str, str]:
        if len(cells) != len(self.columns):
            raise InputError(
                f"{self._at()}: a line has {len(self.columns)} cells ({shown(','.join(self.columns))}), got {len(cells)}"
            )
        return dict(zip(self.columns, cells, strict=True))

    def _round(self, column: str, cell: str) -> int:
        if not WHOLE.fullmatch(cell) or not 1 <= int(cell) <= LARGEST:
            raise InputError(f"{self._at(column)}: a round is a whole number ≥ 1 and ≤ {LARGEST}, got {shown(cell)}")
        if int(cell) > self.length:
            self.length, self.longest = int(cell), self.line
        return int(cell)

    def _truth(self, column: str, cell: str) -> bool:
        if cell not in ("0", "1"):
            raise InputError(f"{self._at(column)}: who is there is said by 1, who is not by 0; got {shown(cell)}")
        return cell == "1"

    def _add(self, label: str, first: int, last: int) -> None:
        self.spans.extend((self._place(label, self.line), first, last, self.line))

    def _place(self, label: str, line: int) -> int:
        if not label:
            raise InputError(f"{self.file}, line {line}, column client: which client? The cell is empty")
        if label not in self.labels:
            self.labels[label] = len(self.labels)
            self.lines.append(line)
        return self.labels[label]

    def _at(self, column: str = "") -> str:
        return f"{self.file}, line {self.line}" + (f", column {column}" if column else "")
