"""Items made up for tests: small, with claims whose truth is known."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from undrift_papers.data import Curves, Data
from undrift_papers.item import Claim, Item, Work, at_most, ours, paper, reduced


class Producer:
    """Counts how often it is asked; can be stopped half-way."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.calls, self.steps, self.stop_at = 0, 0, stop_at

    def __call__(self, work: Work) -> Data:
        self.calls += 1
        for part in range(work["parts"]):
            file = work.folder / f"{part}.txt"
            if not file.exists():
                if self.stop_at == self.steps:
                    self.stop_at = None
                    raise KeyboardInterrupt
                self.steps += 1
                file.write_text(repr(0.5**part))
            work.progress("parts", part + 1, work["parts"])
        values = [float((work.folder / f"{part}.txt").read_text()) for part in range(work["parts"])]
        curves = Curves()
        curves.add("panel", "fedlin", values)
        return Data({"curves": curves.table()}, seeds=[7])


def made_up(name: str, producer: Any, limit: float = 1.0, **changes: Any) -> Item:
    def decide(data: Data) -> Any:
        last = float(data.curve("panel", "fedlin")[0, -1])
        return at_most(last, limit, f"ends at {last:g}", "because it was made to fail")

    return Item(
        name=name,
        title=f"made up: {name}",
        setting=(paper("parts", 4), ours("x_0", 1.0)),
        produce=producer,
        draw=lambda data: Figure(figsize=(1, 1)),  # what figures look like is tested with the papers' own items
        claims=(Claim("it ends low", decide, "low"),),
        **changes,
    )


def smaller(parts: int) -> tuple[Any, ...]:
    return (reduced("parts", parts),)


def same_tables(one: Data, other: Data) -> bool:
    """Same tables, column by column, bit by bit."""
    return one.tables.keys() == other.tables.keys() and all(
        list(one[name]) == list(other[name])
        and all(np.array_equal(column, other[name][key]) for key, column in one[name].items())
        for name in one.tables
    )
