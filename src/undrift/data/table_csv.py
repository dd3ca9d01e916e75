"""Tables in text files: one line of column names, then a line per sample."""

from __future__ import annotations

import array
import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from undrift import memory
from undrift.data.archives import LARGEST, opened
from undrift.data.columns import Column, cell
from undrift.data.errors import DataError
from undrift.data.table import Encoding, Separator, Table, named
from undrift.gate import NUMBER, shown

MARKS = {"comma": ",", "semicolon": ";", "tab": "\t"}
MOST_COLUMNS = 20_000
LONGEST_HEADER = 2**22  # letters
_FIRST = {b"PAR1": "a Parquet file", b"PK\x03\x04": "a zip archive or an Excel file", b"\x1f\x8b": "gzipped"}


def read_csv(path: Path, separator: Separator = "auto", encoding: Encoding = "utf-8") -> tuple[Table, bool]:
    """The table, and whether its columns are separated by commas."""
    with opened(path, memory.installed() or LARGEST) as stream:
        _refuse_other_forms(stream, path, encoding)
        text = io.TextIOWrapper(stream, encoding="utf-8-sig" if encoding == "utf-8" else encoding, newline="")
        try:
            mark, notes = _separator(text, path, separator)
            return _table(csv.reader(text, delimiter=mark, strict=True), path, notes), mark == ","
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path} is not text in {encoding} ({error.reason} at byte {error.start}): save it as UTF-8, or say "
                f"encoding=cp1252 (Windows) or encoding=utf-16."
            ) from None
        except csv.Error as error:
            raise DataError(
                f"{path} is not a CSV file ({error}): mend its quotation marks, or save it again."
            ) from None


def _refuse_other_forms(stream: IO[bytes], path: Path, encoding: str) -> None:
    first = stream.read(4)
    stream.seek(0)
    for mark, form in _FIRST.items():
        if first.startswith(mark):
            raise DataError(
                f"{path} is {form} and no text: save or unpack it as CSV (a Parquet file ends in .parquet)."
            )
    if first[:2] in (b"\xff\xfe", b"\xfe\xff") and encoding != "utf-16":
        raise DataError(f"{path} is text in UTF-16: say encoding=utf-16, or save it as UTF-8.")


def _separator(text: IO[str], path: Path, wanted: Separator) -> tuple[str, list[str]]:
    """What separates columns, and what is said of it."""
    if wanted != "auto":
        return MARKS[wanted], []
    header = text.readline(LONGEST_HEADER)
    text.seek(0)
    counts = {name: header.count(mark) for name, mark in MARKS.items()}
    found = max(counts, key=lambda name: counts[name])  # commas win a tie
    return MARKS[found], [] if found == "comma" else [f"{path}: columns are separated by {found}s"]


def _table(reader: Any, path: Path, notes: list[str]) -> Table:
    header: list[str] = next(reader, [])
    if not any(name.strip() for name in header):
        raise DataError(
            f"{path} must begin with a line of column names, and its first line is empty: write them there."
        )
    if len(header) > MOST_COLUMNS:
        raise DataError(
            f"{path} may have at most {MOST_COLUMNS} columns, its first line has {len(header)}: is it a table?"
        )
    if all(NUMBER.fullmatch(name.strip()) for name in header):
        raise DataError(
            f"{path} must begin with a line of column names, got {shown(','.join(header))}: write them there."
        )
    names = named(header, str(path))
    values = [array.array("d") for _ in names]
    words: list[dict[int, str]] = [{} for _ in names]
    lines = array.array("q")
    for row, (line, cells) in enumerate(_rows(reader, len(names), path)):
        lines.append(line)
        for at, text in enumerate(cells):
            found = cell(text)
            values[at].append(found if isinstance(found, float) else np.nan)
            if isinstance(found, str):
                words[at][row] = found
    columns = {
        name: Column(name, np.array(numbers, np.float64), own)
        for name, numbers, own in zip(names, values, words, strict=True)
    }
    return Table(str(path), columns, len(lines), lines, notes)


def _rows(reader: Any, width: int, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Lines with as many cells as the header; all others are counted and refused together."""
    ragged: list[tuple[int, int]] = []
    wrong = 0
    for cells in reader:
        if not cells:
            continue  # an empty line
        if len(cells) != width:
            wrong += 1
            ragged = [*ragged, (reader.line_num, len(cells))][:3]
        elif not wrong:
            yield reader.line_num, cells
    if wrong:
        some = ", ".join(f"line {line} has {cells}" for line, cells in ragged)
        raise DataError(
            f"{path}: every line must have {width} cells as the header has, but {wrong} {'does' if wrong == 1 else 'do'} not "
            f"({some}): mend them; a cell that holds the separator stands in quotation marks."
        )
