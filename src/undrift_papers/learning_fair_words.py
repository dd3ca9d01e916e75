"""What the runs at fair step sizes say, for their own claims and for items that stand at the paper's step sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .data import Data
from .item import Elsewhere
from .learning_fair_runs import BEST, PAPERS
from .learning_table import Cell
from .ssl_settings import IN_TURN, METHODS, PARALLEL

FAIR = "ssl/fair-steps"
Pair = tuple[dict[str, Any], dict[str, Any]]  # of FedAvg and of SSL


def rows_of(data: Data, table: str, cell: Cell | None = None, **values: Any) -> list[dict[str, Any]]:
    """The rows of a table, which may be empty."""
    if not len(data[table]["K"]):
        return []
    if cell is not None:
        values |= {"data": cell.data, "classes": cell.classes, "K": cell.steps}
    found = data.where(table, **values)
    return [{name: column[i].item() for name, column in found.items()} for i in range(len(found["K"]))]


def ends_of(data: Data, cell: Cell, how: str) -> Pair | None:
    """Both methods at these steps, once all seeds are run."""
    found = {row["method"]: row for row in rows_of(data, "ends", cell, steps=how)}
    whole = [found[method] for method in METHODS if method in found and found[method]["seeds"] == len(data.seeds)]
    return (whole[0], whole[1]) if len(whole) == len(METHODS) else None


def bests_of(data: Data, cell: Cell) -> Pair | None:
    """Both methods at their best step on the grid, once both searches are finished."""
    searches = {row["method"]: row["best"] for row in rows_of(data, "searches", cell)}
    if not all(np.isfinite(searches.get(method, np.nan)) for method in METHODS):
        return None
    rows = [rows_of(data, "grid", cell, method=method, eta=searches[method])[0] for method in METHODS]
    return rows[0], rows[1]


def margin(pair: Pair) -> float:
    """By how many points SSL is ahead."""
    fedavg, ssl = pair
    return float(ssl["accuracy"] - fedavg["accuracy"])


def says(pair: Pair) -> str:
    """Both accuracies with their steps."""
    spread = [f" ± {row['deviation']:.1f}" if "deviation" in row else "" for row in pair]
    return " and ".join(
        f"{row['method']} {row['accuracy']:.1f}{s} % (η = {row['eta']:g})" for row, s in zip(pair, spread, strict=True)
    )


def fair_sentence(data: Data, cell: Cell) -> str:
    """What becomes of a cell where each method has its own best step."""
    ends, grid, papers = ends_of(data, cell, BEST), bests_of(data, cell), ends_of(data, cell, PAPERS)
    instead = f" instead of {margin(papers):.1f}" if papers else ""
    if ends:
        return f"{cell.panel}: {says(ends)}, so SSL is {margin(ends):+.1f} points ahead{instead}."
    if grid:
        rounds = data.setting["rounds, grid"]
        return f"{cell.panel} (one seed, {rounds} rounds): {says(grid)}, so SSL is {margin(grid):+.1f} points ahead{instead}."
    return f"{cell.panel}: not run yet."


def fair_remarks(cells: Sequence[Cell], data: Data, elsewhere: Elsewhere) -> list[str]:
    """For items that compare both methods at the paper's steps with one class a client."""
    if "digits" in data.setting["data"]:
        return []
    found = elsewhere(FAIR)
    said = "it has not been run yet." if found is None else " ".join(fair_sentence(found, cell) for cell in cells)
    return [
        f"All this is at the paper's step sizes (table 7). {FAIR} asks what remains where each has its own best: {said}"
    ]


def shortly(data: Data) -> str:
    """The finding in a few words, of the first cells that are there."""
    parts = []
    for cell in one_class_cells(data):
        if (pair := ends_of(data, cell, BEST) or bests_of(data, cell)) is None:
            continue
        papers = ends_of(data, cell, PAPERS)
        instead = f" (at the paper's steps {margin(papers):+.1f})" if papers else ""
        parts.append(f"{cell.data.upper()} K = {cell.steps}: SSL {margin(pair):+.1f} points{instead}")
    return "One class a client, best steps: " + "; ".join(parts) if parts else "not run yet"


def one_class_cells(data: Data) -> list[Cell]:
    """Those with one class a client."""
    return [cell_of_row(row) for row in rows_of(data, "searches", classes=1, method=PARALLEL)]


def cell_of_row(row: dict[str, Any]) -> Cell:
    return Cell(row["data"], row["classes"], row["K"])


def not_run(data: Data) -> list[str]:
    """What is missing, cell by cell."""
    searches, seeds = [], []
    for cell in dict.fromkeys(cell_of_row(row) for row in rows_of(data, "searches")):
        if bests_of(data, cell) is None:
            searches.append(cell.panel)
        elif ends_of(data, cell, BEST) is None:
            seeds.append(cell.panel)
    what = {"the search": searches, f"{len(data.seeds)} seeds at the best steps": seeds}
    return [f"{name} in {'; '.join(panels)}" for name, panels in what.items() if panels]


COLUMNS = (
    "cell", "steps", "method", "η", "rounds", "seeds", "accuracy, %", "rounds to 30 %", "to 75 %", "SSL ahead by",
)  # fmt: skip


def fair_tables(data: Data) -> list[dict[str, Any]]:
    """Where the seeds end, for the pages."""
    rows = [_table_row(data, row) for row in rows_of(data, "ends")]
    title = "Several seeds at the best step of the grid, and at the paper's"
    note = (
        f"Mean and standard deviation over evaluated ones of the last {data.setting['averaged over']} rounds and all seeds; "
        "rounds on the mean curve of the seeds, – where it is never there."
    )
    return [{"title": title, "note": note, "columns": list(COLUMNS), "rows": rows}] if rows else []


def _table_row(data: Data, row: dict[str, Any]) -> list[Any]:
    cell = cell_of_row(row)
    both = ends_of(data, cell, row["steps"]) if row["method"] == IN_TURN else None
    reached = [str(row[name]) if row[name] >= 0 else "–" for name in ("to_30", "to_75")]
    ends = f"{row['accuracy']:.2f} ± {row['deviation']:.2f}"
    ahead = f"{margin(both):+.2f}" if both else ""
    return [cell.panel, *(row[key] for key in ("steps", "method", "eta", "rounds", "seeds")), ends, *reached, ahead]
