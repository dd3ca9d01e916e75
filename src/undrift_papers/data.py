"""Data behind a figure: named tables that are written as CSV and read back exactly."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from undrift.engine.history import COST_COLUMNS, totals
from undrift.errors import InputError, unknown

Table = dict[str, np.ndarray]
CURVES = "curves"
COSTS = ("round", *COST_COLUMNS)


class Data:
    """Named tables, and the values of the setting they were made with.

    >>> d = Data({"ends": {"method": ["a", "b"], "gap": [0.1, 0.2]}}, seeds=[0])
    >>> d["ends"]["gap"]
    array([0.1, 0.2])
    """

    def __init__(
        self,
        tables: Mapping[str, Mapping[str, Any]],
        seeds: Iterable[int] = (),
        setting: Mapping[str, Any] | None = None,
    ) -> None:
        self.tables: dict[str, Table] = {
            name: {key: np.asarray(column) for key, column in table.items()} for name, table in tables.items()
        }
        self.seeds = [int(seed) for seed in seeds]
        self.setting = dict(setting or {})
        for name, table in self.tables.items():
            lengths = {key: len(column) for key, column in table.items()}
            if len(set(lengths.values())) > 1:
                raise InputError(f"all columns of the table {name!r} need the same length, got {lengths}")

    def __getitem__(self, name: str) -> Table:
        if name not in self.tables:
            raise KeyError(str(unknown("table", name, self.tables)))
        return self.tables[name]

    def where(self, table: str, **values: Any) -> Table:
        """The rows in which these columns have these values."""
        rows = self[table]
        keep = np.ones(len(next(iter(rows.values()))), bool)
        for key, value in values.items():
            keep &= rows[key] == value
        return {key: column[keep] for key, column in rows.items()}

    # ----- the usual table of curves
    @property
    def panels(self) -> list[str]:
        """The panels of the figure, in order."""
        return list(dict.fromkeys(self[CURVES]["panel"].tolist()))

    def labels(self, panel: str) -> list[str]:
        """The curves of a panel, in order."""
        return list(dict.fromkeys(self.where(CURVES, panel=panel)["series"].tolist()))

    def curve(self, panel: str, series: str, column: str = "value") -> np.ndarray:
        """One row for each seed, one column for each recorded round."""
        rows = self.where(CURVES, panel=panel, series=series)
        if not len(rows[column]):
            raise KeyError(str(unknown("series", series, self.labels(panel))))
        seeds = list(dict.fromkeys(rows["seed"].tolist()))
        return np.stack([rows[column][rows["seed"] == seed] for seed in seeds])

    def kind(self, panel: str, series: str) -> str:
        """measured, or bound."""
        return str(self.where(CURVES, panel=panel, series=series)["kind"][0])

    # ----- files
    def files(self) -> dict[str, bytes]:
        """One CSV file for each table."""
        return {f"{name}.csv": _csv(table) for name, table in self.tables.items()}

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], seeds: Iterable[int], setting: Mapping[str, Any]) -> Data:
        """What `files` made."""
        tables: dict[str, Any] = {}
        for file, content in files.items():
            header, *rows = list(csv.reader(io.StringIO(content.decode(), newline="")))
            columns = list(zip(*rows, strict=True)) if rows else [() for _ in header]
            tables[file.removesuffix(".csv")] = {
                name: _column(cells) for name, cells in zip(header, columns, strict=True)
            }
        return cls(tables, seeds, setting)


class Curves:
    """Collects the usual table: panel, series, kind, seed, round, value, and what the rounds cost.

    >>> c = Curves()
    >>> c.add("left", "FedLin", [1.0, 0.5])
    >>> Data({"curves": c.table()}).curve("left", "FedLin")
    array([[1. , 0.5]])
    """

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []

    def add(self, panel: str, series: str, values: Any, *, seed: int = 0, kind: str = "measured", **costs: Any) -> None:
        """A curve; `costs` are columns as long as the values (round, bytes, gradients, seconds)."""
        costs.setdefault("round", np.arange(len(values)))
        self._rows.append({"panel": panel, "series": series, "kind": kind, "seed": seed, "value": values, **costs})

    def add_run(self, panel: str, series: str, values: Any, history: Any, *, seed: int = 0, every: int = 1) -> None:
        """A curve of a run, with what it cost; every so many rounds, and the last one."""
        keep = np.unique(np.r_[np.arange(0, len(values), every), len(values) - 1])
        costs = {"round": keep, **{axis: cost[keep] for axis, cost in totals(history).items()}}
        self.add(panel, series, np.asarray(values)[keep], seed=seed, **costs)

    def table(self) -> Table:
        names = ["panel", "series", "kind", "seed", *COSTS, "value"]
        used = [name for name in names if any(name in row for row in self._rows)]
        columns: Table = {}
        for name in used:
            parts = [np.broadcast_to(np.asarray(row.get(name, np.nan)), (len(row["value"]),)) for row in self._rows]
            columns[name] = np.concatenate(parts)
        return columns


def _csv(table: Table) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(table)
    writer.writerows(zip(*(map(_exact, column.tolist()) for column in table.values()), strict=True))
    return text.getvalue().encode()


def _exact(value: Any) -> str:
    if isinstance(value, float):
        return "" if np.isnan(value) else repr(value)
    return str(value)


def _column(cells: Any) -> np.ndarray:
    for kind in (int, float):
        try:
            return np.array([np.nan if kind is float and not cell else kind(cell) for cell in cells])
        except ValueError:
            continue
    return np.array(cells)
