"""Tables from files: CSV, Parquet, and npz files looked at as tables. What a file holds is hostile until it is checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from undrift.data.columns import Column, look, with_decimal_comma
from undrift.data.errors import DataError
from undrift.gate import check_sound, shown

TABLES = (".csv", ".tsv", ".txt", ".parquet")  # endings of files that are read as tables
Separator = Literal["auto", "comma", "semicolon", "tab"]
Decimal = Literal["auto", "point", "comma"]
Encoding = Literal["utf-8", "cp1252", "latin-1", "utf-16"]


@dataclass
class Table:
    """Columns of equal length, with what is needed to say where a row stands."""

    source: str
    columns: dict[str, Column]
    rows: int
    lines: Sequence[int] | None = None  # of a text file, by row
    notes: list[str] = field(default_factory=list)  # how the file was read, where that was a choice

    def place(self, row: int) -> str:
        """Where a row stands, for complaints."""
        return f"{self.source}, line {self.lines[row]}" if self.lines is not None else f"{self.source}, row {row}"

    def without(self, name: str) -> Table:
        rest = {key: column for key, column in self.columns.items() if key != name}
        return Table(self.source, rest, self.rows, self.lines, self.notes)


def read_table(
    path: str | Path, separator: Separator = "auto", decimal: Decimal = "auto", encoding: Encoding = "utf-8"
) -> Table:
    """The table in a file .csv, .tsv, .txt or .parquet.

    `separator` and `decimal` of text files are found out and said in `notes`: columns are separated by what the header has most
    of, and 1,5 is a number where columns are not separated by commas.
    """
    file = Path(path)
    if file.suffix.lower() == ".parquet":
        from undrift.data.table_parquet import read_parquet

        return read_parquet(file)
    from undrift.data.table_csv import read_csv

    table, commas = read_csv(file, separator, encoding)
    return _row_numbers_left_out(_decimals(table, decimal, commas))


def _decimals(table: Table, decimal: Decimal, commas: bool) -> Table:
    """Numbers with a comma are read where that was said, or where a comma cannot be meant otherwise."""
    if decimal == "point" or (decimal == "auto" and commas):
        return table
    changed = [name for name, column in table.columns.items() if look(column).kind == "decimal comma"]
    for name in changed:
        table.columns[name] = with_decimal_comma(table.columns[name])
    if changed and decimal == "auto":
        table.notes.append(f"{table.source}: numbers such as 1,5 are read with a decimal comma ({_some(changed)})")
    return table


def _row_numbers_left_out(table: Table) -> Table:
    """Without a first column that has no name and counts the rows, as pandas writes it."""
    first = next(iter(table.columns.values()), None)
    if first is None or first.name != "column 1" or first.words or not table.rows:
        return table
    if not np.array_equal(first.numbers, np.arange(table.rows) + first.numbers[0]):
        return table
    table.notes.append(f"{table.source}: the first column has no name and numbers the rows; it is left out")
    return table.without(first.name)


def named(header: Sequence[str], source: str) -> list[str]:
    """The names of the columns, stripped; refuses what cannot be told apart. A column without a name gets its number."""
    names = [name.strip() or f"column {number}" for number, name in enumerate(header, 1)]
    for name in names:
        check_sound(f"a column name of {source}", name)
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise DataError(
            f"{source}: every column needs a name of its own, but {_some([shown(name) for name in twice])} "
            f"{'is' if len(twice) == 1 else 'are'} there more than once: rename or remove the others."
        )
    return names


def joined(tables: Sequence[Table]) -> tuple[Table, np.ndarray]:
    """Several files with the same columns as one table, and the number of the file of every row."""
    first = tables[0]
    for other in tables[1:]:
        _require_same(first, other)
    owner = np.repeat(np.arange(len(tables)), [table.rows for table in tables])
    if len(tables) == 1:
        return first, owner
    columns = {name: _chained(name, tables) for name in first.columns}
    notes = [note for table in tables for note in table.notes]
    return _Joined("the files", columns, int(owner.size), None, notes, tables), owner


@dataclass
class _Joined(Table):
    parts: Sequence[Table] = ()

    def place(self, row: int) -> str:
        for part in self.parts:
            if row < part.rows:
                return part.place(row)
            row -= part.rows
        raise IndexError(row)


def _chained(name: str, tables: Sequence[Table]) -> Column:
    parts = [table.columns[name] for table in tables]
    starts = np.cumsum([0, *(table.rows for table in tables)])
    words = {
        int(start) + row: word for start, part in zip(starts, parts, strict=False) for row, word in part.words.items()
    }
    return Column(name, np.concatenate([part.numbers for part in parts]), words, parts[0].given)


def _require_same(first: Table, other: Table) -> None:
    lacks, more = (
        [name for name in one.columns if name not in two.columns] for one, two in ((first, other), (other, first))
    )
    if lacks or more:
        said = [f"it lacks {_some(lacks)}"] * bool(lacks) + [f"it has {_some(more)} more"] * bool(more)
        raise DataError(
            f"all files must have the same columns (in any order), but {other.source} differs from {first.source}: "
            f"{' and '.join(said)}. Mend it, or choose the columns that all have with features=…"
        )


def _some(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
