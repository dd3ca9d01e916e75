"""What a browser is told: everything once, then only what has changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..report.page import parts

COLUMNS = ("y", "low", "high")
LOOK = ("label", "kind", "of", "thin", "colour", "dash")


class ListStream:
    """The list of runs."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, Any]] = {}

    def news(self, rows: Mapping[str, tuple[int, dict[str, Any]]]) -> dict[str, Any] | None:
        """Rows that are new or other than before, and the keys of those that are gone."""
        now = {key: row for key, (_, row) in rows.items()}
        changed = [row for key, row in now.items() if self._told.get(key) != row]
        gone = [key for key in self._told if key not in now]
        first, self._told = not self._told, now
        return {"rows": changed, "gone": gone} if changed or gone or first else None


class PageStream:
    """One document that changes: words as parts of a page, curves point by point."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}
        self._shapes: str | None = None
        self._points: dict[tuple[int, int], Mark] = {}

    def news(self, document: Mapping[str, Any], state: Any) -> dict[str, Any] | None:
        """What is other than before; None where nothing is."""
        found: dict[str, Any] = {}
        sections = list(parts.sections(document))
        words = {
            "header": parts.header(document),
            "state": json.dumps(state),
            "presence": json.dumps(document["presence"]),
        }
        words |= {f"section {i}": section for i, section in enumerate(sections)}
        if words["state"] != self._words.get("state"):
            found["state"] = state
        if words["presence"] != self._words.get("presence"):
            found["presence"] = document["presence"]
        if words["header"] != self._words.get("header"):
            found["header"] = words["header"]
        if any(words.get(key) != self._words.get(key) for key in {*words, *self._words} if key.startswith("section")):
            found["sections"] = sections
        self._words = words
        return self._with_figures(document["figures"], found) or None

    def _with_figures(self, figures: list[dict[str, Any]], found: dict[str, Any]) -> dict[str, Any]:
        shapes = json.dumps([_shape(figure) for figure in figures])
        if shapes != self._shapes:
            found["figures"] = [{**figure, "series": [_told(one) for one in figure["series"]]} for figure in figures]
            self._shapes, self._points = shapes, {}
            self._remember(figures)
        else:
            points = [
                {"figure": i, "series": j, **news}
                for i, figure in enumerate(figures)
                for j, one in enumerate(figure["series"])
                if (news := self._behind(i, j, one)) is not None
            ]
            if points:
                found["points"] = points
                self._remember(figures)
        return found

    def _behind(self, i: int, j: int, series: Mapping[str, Any]) -> dict[str, Any] | None:
        """The points of a curve that come behind those that were told; all of them where some were dropped."""
        before, now = self._points.get((i, j)), _mark(series)
        if before == now:
            return None
        start = before.sure if before is not None and before.epoch == now.epoch else 0
        cut = {key: None if series[key] is None else series[key][start:] if start else series[key] for key in COLUMNS}
        x = {axis: column[start:] if start else column for axis, column in series["x"].items()}
        return {"from": start, "x": x, **cut}

    def _remember(self, figures: list[dict[str, Any]]) -> None:
        for i, figure in enumerate(figures):
            for j, one in enumerate(figure["series"]):
                self._points[i, j] = _mark(one)


class Mark(NamedTuple):
    """How much of a curve was told."""

    epoch: int
    sure: int  # points that stay
    last: int | None  # the round of the last point, which may not


def _mark(series: Mapping[str, Any]) -> Mark:
    if "told" not in series:  # of a page: it does not grow
        return Mark(0, _length(series["y"]), None)
    epoch, sure = series["told"]
    return Mark(epoch, sure, series["x"]["round"][-1])


def _shape(figure: Mapping[str, Any]) -> Any:
    """All of a figure but its numbers."""
    series = [[*(one.get(key) for key in LOOK), sorted(one["x"]), one["low"] is None] for one in figure["series"]]
    return [{key: entry for key, entry in figure.items() if key != "series"}, series]


def _told(series: Mapping[str, Any]) -> dict[str, Any]:
    return {key: entry for key, entry in series.items() if key != "told"}


def _length(column: Any) -> int:
    return int(column["count"]) if isinstance(column, dict) else len(column)
