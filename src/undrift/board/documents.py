"""Documents of pages, made from what the board knows: of a run that goes on, of one that has ended, of several side by side."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from ..progressfile import Curve
from ..report.page.check import DOCUMENT
from ..report.page.labels import LABELS
from ..report.page.palette import coloured
from ..report.style import OTHERS
from .runs import BoardRun
from .stored import Exchange, Setting, values
from .tracks import MOST_POINTS, Track

AXES = ("bytes", "gradients", "seconds")
COLUMNS = {"gap": "relative"}  # what a figure draws of a track, where that has another name
LARGEST_TABLE = 64 * 2**20  # bytes of a history.csv
ROUNDING = 1e-15


def document_of(run: BoardRun) -> dict[str, Any]:
    """What is shown of one run: its page, if it has ended and has one."""
    page = None if run.tells else run.page()
    if page is not None:
        return {**empty(page["title"]), **page}
    return live_document(run) if run.head is not None else plain_document(run)


def empty(title: str) -> dict[str, Any]:
    """A document with nothing in it."""
    return {**{key: msgspec.to_builtins(value) for key, value in DOCUMENT.items() if value is not ...}, "title": title}


def live_document(run: BoardRun) -> dict[str, Any]:
    """From the progress of a run."""
    head = run.head
    assert head is not None
    played = max((track.played for track in run.tracks.values()), default=0)
    return {
        **empty(head.title),
        "subtitle": head.subtitle,
        "command": head.line,
        "versions": head.versions,
        "seeds": head.seeds,
        "setting": _kept(head.setting, Setting),
        "claims": [
            {**msgspec.to_builtins(claim), "paper": None, "explanation": f"so far, up to round {played:,}"}
            | {key: getattr(claim, key) for key in ("measured", "margin")}
            for claim in run.claims
        ],
        "figures": coloured(_figures(run)),
        "presence": run.lanes.words(),
        "exchange": _kept(head.exchange, Exchange),
    }


def _kept(rows: list[dict[str, Any]], kind: type[msgspec.Struct]) -> list[dict[str, Any]]:
    """Those of the rows that are of this kind, with all its keys."""
    found = []
    for row in rows:
        try:
            found.append(msgspec.to_builtins(msgspec.convert(row, kind)))
        except msgspec.ValidationError:
            continue
    return found


def _figures(run: BoardRun) -> list[dict[str, Any]]:
    """In the order of the page, of what all curves that are there have."""
    assert run.head is not None
    curves = [(curve, run.tracks[curve.label]) for curve in run.head.curves if run.tracks[curve.label].rounds]
    if not curves:
        return []
    shared = set.intersection(*(set(track.columns) for _, track in curves))
    names: list[str] = ["gap"] if "relative" in shared else [name for name in ("accuracy", "loss") if name in shared]
    names += [name for name in ("grad_norm", "drift", "epsilon") if name in shared]
    colours, found = colours_of(run.head.curves), []
    for name in names:
        column = COLUMNS.get(name, name)
        if name == "drift" and not any(value for _, track in curves for value in track.columns[column]):
            continue
        series = [
            {**_series(curve.label, colours[curve.label], track, column), "pooled": curve.pooled}
            for curve, track in curves
        ]
        bounds = _bounds(run) if name == "gap" else []
        title, y_label, y_scale = LABELS[name]
        note = ["A dot marks where a gap comes down to rounding."] if name == "gap" else []
        note += ["Dashed: what is promised."] if bounds else []
        figure = {"title": title, "note": " ".join(note), "y_label": y_label, "y_scale": y_scale, "x_scale": None}
        found.append({**figure, "floor": ROUNDING if name == "gap" else None, "series": series + bounds})
    return found


def colours_of(curves: Sequence[Curve]) -> dict[str, str]:
    """Label -> colour: as the run said, else one of those of the printed figures. To ask for a method's own needs JAX."""
    own = [curve.label for curve in curves if re.fullmatch("#[0-9A-Fa-f]{6}", curve.method) is None]
    given = {curve.label: curve.method for curve in curves if curve.label not in own}
    return given | {label: OTHERS[i % len(OTHERS)] for i, label in enumerate(own)}


def _series(label: str, colour: str, track: Track, column: str) -> dict[str, Any]:
    return {
        "label": label,
        "kind": "measured",
        "method": colour,
        "x": _axes(track),
        "y": track.columns[column],
        "low": track.columns.get(f"{column} low"),
        "high": track.columns.get(f"{column} high"),
        "of": None,
        "thin": False,
        "told": (track.epoch, track.sure),
    }


def _axes(track: Track) -> dict[str, list[Any]]:
    return {"round": track.rounds, **{axis: track.columns[axis] for axis in AXES if track.last(axis)}}


def _bounds(run: BoardRun) -> list[dict[str, Any]]:
    """What is promised, beside the curve it belongs to."""
    assert run.head is not None
    shown = [curve.label for curve in run.head.curves if run.tracks[curve.label].rounds]
    found = []
    for i, bound in enumerate(run.bounds):
        if bound.of in shown and f"bound {i}" in run.tracks[bound.of].columns:
            series = _series(bound.label, OTHERS[0], run.tracks[bound.of], f"bound {i}")
            found.append({**series, "kind": "bound", "of": shown.index(bound.of), "thin": bound.thin})
    return found


def plain_document(run: BoardRun) -> dict[str, Any]:
    """Of a run that left no page and no progress: what history.csv and the summary say."""
    document = empty(str(run.summary.get("label") or run.name)[:400])
    document["subtitle"] = f"{run.name}: {run.damage}" if run.damage else "there is no page in this directory"
    if (track := history_of(run)) is not None:
        for name in ("gap", "accuracy", "loss", "grad_norm"):
            column = COLUMNS.get(name, name)
            if column in track.columns:
                title, y_label, y_scale = LABELS[name]
                figure = {"title": title, "note": "", "y_label": y_label, "y_scale": y_scale, "x_scale": None}
                series = [_series(str(document["title"]), OTHERS[0], track, column)]
                document["figures"].append({**figure, "floor": ROUNDING if name == "gap" else None, "series": series})
        document["figures"] = coloured(document["figures"])
    return document


def history_of(run: BoardRun) -> Track | None:
    """The curve in the history.csv of a single run."""
    content = run.folder.read(run.place, "history.csv", LARGEST_TABLE)
    if content is None:
        return None
    track = Track()
    try:
        rows = csv.DictReader(io.StringIO(content.decode("utf-8")))
        if rows.fieldnames is None or "method" in rows.fieldnames:
            return None
        first: float | None = None
        for row in rows:
            numbers = {name: float(word) for name, word in row.items() if name and word}
            first = numbers.get("gap", 0.0) if first is None else first
            if first > 0 and "gap" in numbers:
                numbers["relative"] = max(numbers["gap"], 0.0) / first
            numbers["bytes"] = sum(numbers.get(f"bytes_{link}", 0.0) for link in ("up", "down", "peer"))
            track.put(int(numbers.pop("round")), numbers)
    except (ValueError, KeyError, TypeError, csv.Error, UnicodeDecodeError):
        return None
    return track if track.rounds else None


class Comparison:
    """Several runs side by side. What has ended is read once."""

    def __init__(self) -> None:
        self._ended: dict[str, tuple[int, dict[str, Any]]] = {}

    def document(self, runs: Sequence[BoardRun]) -> dict[str, Any]:
        """Figures of the same title become one."""
        document = empty(f"{len(runs)} runs side by side")
        document["subtitle"] = ", ".join(run.name for run in runs)[:400]
        figures: dict[str, dict[str, Any]] = {}
        for run in runs:
            own = self._own(run)
            document["claims"] += [{**claim, "sentence": f"{run.name}: {claim['sentence']}"} for claim in own["claims"]]
            for figure in own["figures"]:
                joined = figures.setdefault(figure["title"], {**figure, "note": "", "series": []})
                _join(joined, figure["series"], run.name)
        document["figures"] = coloured(list(figures.values()))
        return document

    def _own(self, run: BoardRun) -> dict[str, Any]:
        if run.tells:
            return document_of(run)
        if self._ended.get(run.key, (-1, {}))[0] != run.version:
            found = document_of(run)
            figures = [{**one, "series": [shortened(line) for line in one["series"]]} for one in found["figures"]]
            self._ended[run.key] = run.version, {"claims": found["claims"], "figures": figures}
        return self._ended[run.key][1]


def _join(figure: dict[str, Any], series: Sequence[dict[str, Any]], name: str) -> None:
    """Add the curves of a run to a figure, with its name."""
    before = len(figure["series"])
    for one in series:
        added = {key: entry for key, entry in one.items() if key != "colour"}
        added |= {"label": f"{one['label']} · {name}", "method": one["colour"][0]}
        added["of"] = None if one["of"] is None else one["of"] + before
        figure["series"].append(added)


def shortened(series: dict[str, Any]) -> dict[str, Any]:
    """A curve of a page with a bounded number of points, chosen as those of a track are."""
    columns = {("x", axis): values(column) for axis, column in series["x"].items()}
    columns |= {("own", key): values(series[key]) for key in ("y", "low", "high") if series[key] is not None}
    count = len(columns["own", "y"])
    if count > MOST_POINTS:
        track = Track()
        for i, value in enumerate(columns["own", "y"]):
            track.put(i, {"loss": value})
        columns = {key: [column[i] for i in track.rounds] for key, column in columns.items()}
    own = {key: columns.get(("own", key)) for key in ("y", "low", "high")}
    return {**series, "x": {axis: column for (kind, axis), column in columns.items() if kind == "x"}, **own}
