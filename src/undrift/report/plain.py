"""The look of all tables on the terminal. Nothing here needs JAX."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Column, Table
from rich.text import Text

LEAST_NAME = 9  # letters of a name's column; longer names are folded


class FittedTable(Table):
    """A table that leaves out whole columns where it is too narrow for all, those named in `spare` and the first of them first.

    What is left is never cut: names are folded, and what was left out is said below. (Rich itself would shrink the column
    that may be folded to nothing, and then cut figures.)

    >>> table = plain_table(spare=("bytes",))
    >>> for head in ("method", "τ", "bytes"):
    ...     table.add_column(head)
    >>> table.add_row("fedlin", "10", "123456789")
    >>> print([column.header for column in table.fitted(22).columns], table.fitted(22).caption)
    ['method', 'τ'] left out, no room: bytes
    """

    spare: Sequence[str] = ()

    def fitted(self, width: int) -> FittedTable:
        """The same table for so many columns of a terminal."""
        columns, left_out = list(self.columns), list[str]()
        for head in self.spare:
            if _width(columns) <= width:
                break
            if any(column.header == head for column in columns):
                columns = [column for column in columns if column.header != head]
                left_out.append(head)
        made = copy.copy(self)
        room = width - _width(columns)
        made.columns = [
            dataclasses.replace(column, _index=index, width=min(_natural(column), _least(column) + max(room, 0)))
            if _folds(column)
            else dataclasses.replace(column, _index=index)
            for index, column in enumerate(columns)
        ]
        if left_out:
            said = f"left out, no room: {', '.join(left_out)}"
            made.caption = f"{self.caption} {said}" if self.caption else said
        return made

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from super(FittedTable, self.fitted(options.max_width)).__rich_console__(console, options)


def _width(columns: Sequence[Column]) -> int:
    """The least width of a table of these columns: two spaces between any, one at each edge."""
    return sum(_least(column) for column in columns) + 2 * len(columns)


def _least(column: Column) -> int:
    return min(column.min_width or LEAST_NAME, _natural(column)) if _folds(column) else _natural(column)


def _natural(column: Column) -> int:
    cells = [cell.plain if isinstance(cell, Text) else str(cell) for cell in (column.header, *column.cells)]
    return max(cell_len(line) for cell in cells for line in cell.split("\n"))


def _folds(column: Column) -> bool:
    return column.overflow == "fold"


def plain_table(title: str | None = None, caption: str | None = None, spare: Sequence[str] = ()) -> FittedTable:
    """A table with a rule below its head and no other lines; `spare`: heads of columns that may be left out."""
    table = FittedTable(
        title=title,
        caption=caption,
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        title_justify="left",
        caption_justify="left",
        title_style="bold",
        caption_style="dim",
    )
    table.spare = spare
    return table
