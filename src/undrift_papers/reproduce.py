"""From an item to its result and its folder: run it, decide its claims, draw it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from undrift.ownership import locked

from . import registry
from .data import Data
from .item import BEYOND, Item, Scale, Work
from .store import FIGURE, PAGE, Store

WHOLE, SHORTENED, REDUCED = "in full", "shortened", "reduced"


class Reproduction(NamedTuple):
    """What became of one item."""

    item: Item
    scale: Scale
    file: Path  # the result
    folder: Path  # what is drawn from it
    fresh: bool  # run just now, not found
    seconds: float
    claims: list[dict[str, Any]]
    remarks: list[str]

    @property
    def failed(self) -> int:
        return sum(not claim["holds"] for claim in self.claims)

    def words(self) -> dict[str, Any]:
        """For machines."""
        words = {"item": self.item.name, "scale": self.scale, "fresh": self.fresh}
        places = {"file": str(self.file), "folder": str(self.folder)}
        return {**words, **places, "seconds": round(self.seconds, 2), "claims": self.claims, "failed": self.failed,
                "remarks": self.remarks}  # fmt: skip


def reproduce(
    item: Item,
    store: Store,
    scale: Scale = "quick",
    *,
    again: bool = False,
    redraw: bool = False,
    train: bool = True,
    progress: Callable[[str, int, int], None] | None = None,
) -> Reproduction:
    """Run the item if its result is not there, decide its claims anew, and draw what is not drawn.

    Without `train`, items that can do with part of their training runs take those that are finished.
    """
    archive = store.archive(item, scale)
    archive.path.parent.mkdir(parents=True, exist_ok=True)
    with locked(archive.lock):
        return _reproduce(item, store, scale, again, redraw, train, progress)


def _reproduce(
    item: Item,
    store: Store,
    scale: Scale,
    again: bool,
    redraw: bool,
    train: bool,
    progress: Callable[[str, int, int], None] | None,
) -> Reproduction:
    if again:
        store.clear(item, scale)
    fresh = store.result(item, scale) is None
    if fresh:
        _run(item, store, scale, train, progress)
    data, folder, file = store.load(item, scale), store.folder(item, scale), store.archive(item, scale).path
    folder.mkdir(parents=True, exist_ok=True)
    claims = [claim.verdict(data) for claim in item.claims if item.scale(scale) in claim.scales and claim.ready(data)]
    remarks = [*item.remarks(data, lambda name: stored(name, store))]
    changed = store.claims(item, scale) != claims
    if changed:
        store.save_claims(item, scale, claims)
    result = store.result(item, scale) or {}
    if fresh or redraw or not (folder / f"{FIGURE}.png").exists():
        draw(item, data, folder)
    if fresh or redraw or changed or not (folder / PAGE).exists():
        about = {**result, "setting": store.setting(item, scale), "remarks": remarks}
        write_page_of(item, data, folder, claims, about)
    return Reproduction(item, item.scale(scale), file, folder, fresh, float(result["seconds"]), claims, remarks)


def stored(name: str, store: Store) -> Data | None:
    """The data of an item at full size, if they are there."""
    item = registry.all_items().get(name)
    return store.load(item, "paper") if item is not None and store.result(item, "paper") is not None else None


def command_of(item: Item, scale: Scale) -> str:
    """The command that makes this result."""
    return shlex.join(["undrift", "reproduce", item.name, "--scale", item.scale(scale)])


def _run(item: Item, store: Store, scale: Scale, train: bool, progress: Callable[[str, int, int], None] | None) -> None:
    from undrift.command.versions import versions

    began = time.perf_counter()
    data = item.produce(Work(item, scale, store.work_folder(item, scale), progress, store.jobs, train))
    seconds = round(time.perf_counter() - began, 2)
    about = {"command": command_of(item, scale), "versions": versions(), "seconds": seconds}
    store.save(item, scale, data, about)


def size_of(item: Item, scale: Scale) -> str:
    """At what size an item is run, in words; the paper's is named only where the paper has it and nothing is reduced."""
    if scale != "paper":
        return SHORTENED if scale == "short" else REDUCED
    if item.full is not None:
        return item.full
    numbered = item.paper != BEYOND and any(letter.isdigit() for letter in item.name)
    whole = all(setting.source != "reduced" for setting in item.settings("paper"))
    return "the paper’s size" if numbered and whole else WHOLE


def draw(item: Item, data: Data, folder: Path) -> list[Path]:
    """figure.png and figure.svg."""
    from undrift.report.figures import save_figure

    return save_figure(lambda: item.draw(data), folder / FIGURE)


def write_page_of(item: Item, data: Data, folder: Path, claims: list[dict[str, Any]], result: dict[str, Any]) -> Path:
    """page.html."""
    from undrift.report.page import write_page

    from .draw import page_figures

    if item.page_figures is None:
        figures = page_figures(data, y_label=item.quantity, log=item.log)
    else:
        figures = item.page_figures(data)
    document = {
        "title": item.title,
        "subtitle": " ".join([f"{item.name}, {size_of(item, result['scale'])}.", *result["remarks"]]),
        "command": result["command"],
        "versions": result["versions"],
        "seeds": result["seeds"],
        "setting": result["setting"],
        "claims": claims,
        "figures": figures,
        "tables": item.tables(data),
    }
    write_page(folder / PAGE, document)
    return folder / PAGE
