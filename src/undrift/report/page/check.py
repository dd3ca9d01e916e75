"""A page's document, checked and made of plain JSON values. Complaints name the place: figures[0].series[1].y."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, unknown
from ...studies.words import located
from .lanes import LANE, LANES

# key -> value where it is missing; `...` where it must be given
VERDICT = {"headline": "", "others": "", "meaning": ""}
DOCUMENT: dict[str, Any] = {
    "title": ...,
    "verdict": VERDICT,
    "subtitle": "",
    "command": "",
    "versions": {},
    "seeds": [],
    "setting": [],
    "claims": [],
    "figures": [],
    "lanes": [],
    "tables": [],
    "pictures": [],
    "presence": None,
    "exchange": [],
}
SETTING = {"key": ..., "value": ..., "source": "", "note": ""}
CLAIM = {"sentence": ..., "holds": ..., "measured": None, "paper": None, "margin": None, "explanation": None}
FIGURE = {"title": ..., "note": "", "y_label": "", "y_scale": "log", "x_scale": None, "floor": None, "series": ...}
SERIES = {"label": ..., "kind": "measured", "x": ..., "y": ..., "low": None, "high": None, "method": None, "of": None,
          "thin": False, "pooled": False}  # fmt: skip
TABLE = {"title": ..., "note": "", "columns": ..., "rows": ...}
PICTURE = {"title": ..., "note": "", "svg_or_png_path": ...}
MEDIA = {".svg": "image/svg+xml", ".png": "image/png"}


def checked(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with all its keys, its columns as lists with None for what is not finite.

    >>> checked({"title": "A run", "figure": []})
    Traceback (most recent call last):
    undrift.errors.InputError: page: unknown key 'figure': did you mean 'figures'? (valid: ...)
    """
    page = _keys(document, DOCUMENT, "page")
    for key in ("title", "subtitle", "command"):
        _words(page[key], key)
    page["verdict"] = _keys(page["verdict"], VERDICT, "verdict")
    for key, words in page["verdict"].items():
        _words(words, f"verdict.{key}")
    if not isinstance(page["versions"], Mapping):
        raise InputError(f"versions: give a dictionary {{name: version}}, got {page['versions']!r}")
    page["seeds"] = list(_list(page["seeds"], "seeds"))
    page["setting"] = [_keys(row, SETTING, place) for row, place in _each(page, "setting")]
    page["claims"] = [_claim(claim, place) for claim, place in _each(page, "claims")]
    page["figures"] = [_figure(figure, place) for figure, place in _each(page, "figures")]
    page["lanes"] = [_lanes(lanes, place) for lanes, place in _each(page, "lanes")]
    page["tables"] = [_table(table, place) for table, place in _each(page, "tables")]
    page["pictures"] = [_picture(picture, place) for picture, place in _each(page, "pictures")]
    return page


def _claim(claim: Any, place: str) -> dict[str, Any]:
    found = _keys(claim, CLAIM, place)
    if not isinstance(found["holds"], bool | np.bool_):
        raise InputError(f"{place}.holds: a claim holds (True) or fails (False), got {found['holds']!r}")
    return found


def _figure(figure: Any, place: str) -> dict[str, Any]:
    found = _keys(figure, FIGURE, place)
    for key, scales in (("y_scale", ("log", "linear")), ("x_scale", ("log", "linear", None))):
        if found[key] not in scales:
            raise InputError(f"{place}.{key}: 'log' or 'linear', got {found[key]!r}")
    floor = found["floor"]
    if floor is not None and not (isinstance(floor, int | float) and math.isfinite(floor) and floor > 0):
        raise InputError(
            f"{place}.floor: a positive number (values at or below it are rounding) or None, got {floor!r}"
        )
    found["series"] = [_series(series, at) for series, at in _each(found, "series", place)]
    if not found["series"]:
        raise InputError(f"{place}.series: a figure needs at least one series")
    _owners(found["series"], place)
    return found


def _series(series: Any, place: str) -> dict[str, Any]:
    found = _keys(series, SERIES, place)
    if found["kind"] not in ("measured", "bound"):
        raise InputError(f"{place}.kind: 'measured' or 'bound', got {found['kind']!r}")
    if not isinstance(found["x"], Mapping) or not found["x"]:
        raise InputError(f"{place}.x: a dictionary from axes ('round', 'bytes', …) to columns, got {found['x']!r}")
    y = _column(found["y"], f"{place}.y")
    if y.size == 0:
        raise InputError(f"{place}.y: a series needs at least one point")
    columns = {axis: _column(column, f"{place}.x[{axis!r}]", y.size) for axis, column in found["x"].items()}
    for axis, column in columns.items():
        finite = column[np.isfinite(column)]
        if np.any(np.diff(finite) < 0):
            raise InputError(f"{place}.x[{axis!r}]: the column must not decrease (sort the points by it)")
    found["x"] = {axis: _numbers(column) for axis, column in columns.items()}
    for key in ("low", "high"):
        found[key] = None if found[key] is None else _numbers(_column(found[key], f"{place}.{key}", y.size))
    if (found["low"] is None) != (found["high"] is None):
        raise InputError(f"{place}: a band has both low and high, or neither")
    found["y"] = _numbers(y)
    return found


def _owners(series: list[dict[str, Any]], place: str) -> None:
    """Replace `of` by the index of the measured series that a bound belongs to."""
    measured = {one["label"]: i for i, one in enumerate(series) if one["kind"] == "measured"}
    before: int | None = None
    for i, one in enumerate(series):
        if one["kind"] == "measured":
            before, one["of"] = i, None
        elif one["of"] is not None:
            if one["of"] not in measured:
                with located(f"{place}.series[{i}].of"):
                    raise unknown("measured series", str(one["of"]), measured)
            one["of"] = measured[one["of"]]
        else:
            named = [label for label in measured if one["label"].startswith(label)]
            one["of"] = measured[max(named, key=len)] if named else before


def _lanes(lanes: Any, place: str) -> dict[str, Any]:
    found = _keys(lanes, LANES, place)
    found["lanes"] = [_lane(lane, at) for lane, at in _each(found, "lanes", place)]
    if not found["lanes"]:
        raise InputError(f"{place}.lanes: there must be at least one lane")
    for i, lane in enumerate(found["lanes"]):
        if list(lane["curves"]) != list(found["lanes"][0]["curves"]):
            raise InputError(f"{place}.lanes[{i}].curves: all lanes have the same measures, got {list(lane['curves'])}")
    return found


def _lane(lane: Any, place: str) -> dict[str, Any]:
    found = _keys(lane, LANE, place)
    rounds = _column(found["rounds"], f"{place}.rounds")
    if not isinstance(found["curves"], Mapping) or not found["curves"] or not rounds.size:
        raise InputError(f"{place}: a lane has rounds, and curves as a dictionary from measures to columns")
    columns = {
        name: _column(values, f"{place}.curves[{name!r}]", rounds.size) for name, values in found["curves"].items()
    }
    found["rounds"] = [int(t) for t in rounds]
    found["curves"] = {
        name: [v if math.isfinite(v) else None for v in column.tolist()] for name, column in columns.items()
    }
    return found


def _table(table: Any, place: str) -> dict[str, Any]:
    found = _keys(table, TABLE, place)
    found["columns"] = [str(name) for name in _list(found["columns"], f"{place}.columns")]
    found["rows"] = [list(_list(row, at)) for row, at in _each(found, "rows", place)]
    for i, row in enumerate(found["rows"]):
        if len(row) != len(found["columns"]):
            raise InputError(f"{place}.rows[{i}]: {len(found['columns'])} cells, one per column; got {len(row)}")
    return found


def _picture(picture: Any, place: str) -> dict[str, Any]:
    """The picture as a data URI: shown as an image, so nothing inside it can run."""
    found = _keys(picture, PICTURE, place)
    file = Path(found.pop("svg_or_png_path"))
    media = MEDIA.get(file.suffix.lower())
    if media is None:
        raise InputError(f"{place}.svg_or_png_path: a file .svg or .png, got {file}")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InputError(f"{place}.svg_or_png_path: {file} cannot be read: {error}") from error
    return {**found, "uri": f"data:{media};base64,{base64.b64encode(content).decode()}"}


def _keys(given: Any, known: Mapping[str, Any], place: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise InputError(f"{place}: give a dictionary with the keys {', '.join(known)}; got {given!r}")
    for key in given:
        if key not in known:
            with located(place):
                raise unknown("key", str(key), known)
    missing = [key for key, value in known.items() if value is ... and key not in given]
    if missing:
        raise InputError(f"{place}: the key {missing[0]!r} is missing")
    found = {key: given.get(key, value) for key, value in known.items()}
    for key in ("title", "sentence", "label", "key", "name"):
        if key in known:
            _words(found[key], f"{place}.{key}")
    return found


def _words(value: Any, place: str) -> None:
    if not isinstance(value, str):
        raise InputError(f"{place}: text, got {value!r}")


def _list(value: Any, place: str) -> Sequence[Any]:
    if isinstance(value, str | Mapping) or not isinstance(value, Sequence | np.ndarray):
        raise InputError(f"{place}: give a list, got {value!r}")
    return value  # type: ignore[return-value]


def _each(table: Mapping[str, Any], key: str, place: str = "") -> list[tuple[Any, str]]:
    """The entries of a list, each with the name of its place."""
    full = f"{place}.{key}" if place else key
    return [(entry, f"{full}[{i}]") for i, entry in enumerate(_list(table[key], full))]


def _column(values: Any, place: str, length: int | None = None) -> np.ndarray:
    try:
        column = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"{place}: give a list of numbers: {error}") from error
    if column.ndim != 1 or (length is not None and column.size != length):
        wanted = "one axis" if length is None else f"the length of y, {length}"
        raise InputError(f"{place}: a column must have {wanted}; got the shape {column.shape}")
    return column


def plain(value: Any) -> Any:
    """A value of the document as JSON has it; what is not finite becomes a word, or nothing.

    >>> plain({"a": np.float64(0.5), 2: (np.arange(2), float("nan"), float("inf"), Path("x"))})
    {'a': 0.5, '2': [[0, 1], None, 'inf', 'x']}
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _numbers(column: np.ndarray) -> Any:
    """A column for JSON: None for what is not finite, whole numbers short, equal steps as a rule instead of a list.

    >>> _numbers(np.arange(0.0, 50.0, 5.0)), _numbers(np.array([0.5, np.inf]))
    ({'from': 0, 'step': 5, 'count': 10}, [0.5, None])
    """
    finite = np.isfinite(column)
    whole = bool(np.all(column[finite] == np.round(column[finite])) and np.all(np.abs(column[finite]) < 2**53))
    if whole and column.size > 3 and bool(np.all(finite)) and np.ptp(np.diff(column)) == 0:
        return {"from": int(column[0]), "step": int(column[1] - column[0]), "count": column.size}
    values = column.tolist()
    return [(int(v) if whole else v) if ok else None for v, ok in zip(values, finite.tolist(), strict=True)]
