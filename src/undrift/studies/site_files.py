"""A site's own data, read and held against what the study says of them before anything is told to anybody.

Three forms: a CSV file with a header, an .npz file with arrays x and y, or `module:function`, a function installed at the site
that returns (x, y). Which one it is says the site's own command line, never the contract. Complaints name file, line and
column.
"""

from __future__ import annotations

import array
import csv
import importlib
import io
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np

from .. import memory
from ..errors import InputError, unknown
from ..gate import MISSING, NUMBER, shown
from ..problems.arrays import real

FORMS = (".csv", ".npz")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)
MEND = "fill it in, or leave the sample out"


class SiteData(NamedTuple):
    """The samples of one site as the study counts them: labels are −1 and +1, or 0, 1, …, targets are numbers."""

    x: np.ndarray  # (n, d), without the intercept, not standardised
    y: np.ndarray  # (n,)


class Expected(NamedTuple):
    """What the study says of every site's data."""

    kind: Literal["logistic", "least_squares", "network"]
    features: int
    names: tuple[str, ...] | None  # of the features, where the study names them
    label: str  # the column of the label or target
    labels: tuple[str, ...] | None  # words for the labels, in the order of the classes
    classes: int

    @property
    def rule(self) -> str:
        """What a label may be."""
        if self.labels is not None:
            return f"one of the study's labels {', '.join(map(repr, self.labels))}"
        if self.kind == "logistic":
            return "0 or 1, or −1 or 1"
        return "a number" if self.kind == "least_squares" else f"a whole number from 0 to {self.classes - 1}"


def read_data(where: str | Path, expected: Expected) -> SiteData:
    """The data in this file or of this function (`module:function`), checked."""
    word = str(where)
    if _FUNCTION.fullmatch(word) and not Path(word).exists():
        return checked(*_called(word), expected, word)
    path = Path(where)
    if path.suffix.lower() == ".csv":
        return _read_csv(path, expected)
    if path.suffix.lower() == ".npz":
        return checked(*_read_npz(path), expected, str(path))
    raise InputError(
        f"a site's data are a file .csv or .npz, or module:function, got {shown(word)}: convert them, or write a function "
        "that returns (x, y)"
    )


def checked(x: Any, y: Any, expected: Expected, where: str) -> SiteData:
    """Features (n, d) and labels (n,) that fit the study; `where` begins the complaints."""
    features, marks = np.asarray(real(f"{where}: x", x)), _marks(y, expected, where)
    if features.ndim != 2 or marks.ndim != 1 or len(marks) != len(features):
        raise InputError(
            f"{where}: x must be (samples, features) and y (samples,), got {features.shape} and {marks.shape}: reshape them"
        )
    if features.shape[1] != expected.features:
        raise InputError(
            f"{where}: the study has {expected.features} features, x has {features.shape[1]}: give the same ones in the same "
            "order (the intercept is not among them)"
        )
    features = np.array(features, np.float64)
    bad = np.argwhere(~np.isfinite(features))
    if len(bad):
        raise InputError(
            f"{where}: x must be finite, row {bad[0][0]}, column {bad[0][1]} is {features[tuple(bad[0])]}: {MEND}"
        )
    return _finished(features, marks, expected, lambda row: f"{where}: y in row {row}")


def _marks(y: Any, expected: Expected, where: str) -> np.ndarray:
    """The labels as they are given: numbers, or words where the study has words for them."""
    marks = np.asarray(y) if not np.ma.is_masked(y) else y
    if expected.labels is not None and marks.dtype.kind in "UTO" and all(isinstance(one, str) for one in marks.flat):
        return np.asarray(marks, object)
    return np.asarray(real(f"{where}: y", marks))


def _finished(x: np.ndarray, marks: Any, expected: Expected, place: Callable[[int], str]) -> SiteData:
    """The same with labels as the problem counts them; `place` says where the label of a sample stands."""
    if not len(x):
        raise InputError(
            f"{place(0)} and all others are missing: a site needs at least one sample; leave it out otherwise"
        )
    if expected.labels is not None:
        y = _numbered([_word(mark) for mark in marks], expected, place)
        return SiteData(x, 2.0 * y - 1.0 if expected.kind == "logistic" else y)
    y = np.asarray(marks, np.float64)
    if expected.kind == "logistic":
        allowed = np.isin(y, (-1.0, 0.0, 1.0))
    elif expected.kind == "network":
        allowed = (y == np.floor(y)) & (y >= 0) & (y < expected.classes)
    else:
        allowed = np.isfinite(y)
    if not allowed.all():
        row = int(np.flatnonzero(~allowed)[0])
        raise InputError(f"{place(row)} must be {expected.rule}, got {y[row]:g}: correct it, or agree on other labels")
    if expected.kind == "logistic":
        zeros, below = np.flatnonzero(y == 0), np.flatnonzero(y == -1)
        if len(zeros) and len(below):
            raise InputError(
                f"{place(int(zeros[0]))} is 0 and {place(int(below[0]))} is −1: labels are 0 and 1, or −1 and 1; choose one"
            )
        y = np.where(y > 0, 1.0, -1.0)
    return SiteData(x, y.astype(np.int64) if expected.kind == "network" else y)


def _word(mark: Any) -> str:
    """A label as the study would write it: 1.0 is "1"."""
    return str(mark) if isinstance(mark, str) else f"{float(mark):g}"


def _numbered(words: list[str], expected: Expected, place: Callable[[int], str]) -> np.ndarray:
    numbers = {word: number for number, word in enumerate(expected.labels or ())}
    for row, word in enumerate(words):
        if word not in numbers:
            raise InputError(f"{place(row)} must be {expected.rule}, got {shown(word)}: correct it, or the study")
    return np.array([numbers[word] for word in words], np.int64)


def files_of(folder: Path) -> dict[str, Path]:
    """One data file per site, by the site's name."""
    if not folder.is_dir():
        raise InputError(f"folder must be a directory with one file per site, {folder} is none: correct the path")
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in FORMS and not path.name.startswith("."):
            if path.stem in found:
                raise InputError(f"{folder} has two files of the site {path.stem!r}: remove one of them")
            found[path.stem] = path
    if not found:
        raise InputError(f"{folder} must hold one .csv or .npz file per site, and holds none: put them there")
    return found


# ----- npz and functions
def _read_npz(path: Path) -> tuple[Any, Any]:
    from ..data.formats import read_own_npz  # the room of data takes a second: only those wait who need it

    arrays = read_own_npz(path)
    if not {"x", "y"} <= set(arrays):
        raise InputError(
            f"{path} must hold arrays x and y; it holds {', '.join(arrays)[:200] or 'nothing'}: rename or add them"
        )
    return arrays["x"], arrays["y"]


def _called(word: str) -> tuple[Any, Any]:
    module, _, name = word.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"{word} is not installed at this site ({error}): install it, or name a .csv or .npz file"
        ) from error
    try:
        found = function()
    except Exception as error:  # the site's own code may raise anything
        raise InputError(f"{word} failed: {type(error).__name__}: {error}") from error
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise InputError(f"{word} must return a pair (x, y), got {type(found).__name__}")
    return found[0], found[1]


# ----- CSV
def _read_csv(path: Path, expected: Expected) -> SiteData:
    from ..data.archives import opened  # as above

    with opened(path, memory.installed() or 2**30) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        try:
            return _table(text, path, expected)
        except (csv.Error, UnicodeDecodeError) as error:
            raise InputError(f"{path} is not a CSV file in UTF-8 ({error}): save it as one, with commas") from error


def _table(text: IO[str], path: Path, expected: Expected) -> SiteData:
    reader = csv.reader(text, strict=True)
    header = [name.strip() for name in next(reader, [])]
    columns, label = _columns(header, path, expected)
    values, lines, marks = array.array("d"), array.array("q"), []
    for line, row in _rows(reader, len(header), path):
        values.extend(_number(row[at], path, line, header[at]) for at in columns)
        mark = row[label].strip()
        marks.append(mark if expected.labels is not None else _number(mark, path, line, header[label]))
        lines.append(line)
    x = np.frombuffer(values, np.float64).reshape(-1, len(columns)) if lines else np.empty((0, len(columns)))
    return _finished(
        x, marks, expected, lambda row: f"{path}, line {lines[row] if lines else 2}, column {expected.label!r}"
    )


def _rows(reader: Any, width: int, path: Path) -> Iterator[tuple[int, list[str]]]:
    for row in reader:
        if not row:
            continue  # an empty line
        if len(row) != width:
            raise InputError(
                f"{path}, line {reader.line_num}: the header has {width} columns, this line {len(row)}: mend it"
            )
        yield reader.line_num, row


def _columns(header: list[str], path: Path, expected: Expected) -> tuple[list[int], int]:
    """Where the features and the label stand."""
    if not any(header):
        raise InputError(f"{path} must begin with a line of column names, and it is empty: write them there")
    if len(header) == 1 and any(mark in header[0] for mark in ";\t"):
        raise InputError(
            f"{path}, line 1: columns are separated by commas, got {shown(header[0])}: save it with commas"
        )
    if all(NUMBER.fullmatch(name) for name in header):
        raise InputError(
            f"{path} must begin with a line of column names, got {shown(','.join(header))}: write them there"
        )
    for name in header:
        if header.count(name) > 1:
            raise InputError(f"{path}, line 1: the column {shown(name)} is there twice: rename or remove one")
    if expected.label not in header:
        raise unknown(f"column of {path}, which the study's label names,", expected.label, header)
    label = header.index(expected.label)
    if expected.names is None:
        columns = [at for at in range(len(header)) if at != label]
        if len(columns) != expected.features:
            raise InputError(
                f"{path} has {len(columns)} columns beside {expected.label!r}, the study {expected.features} features: remove "
                "the others, or name the features in the study"
            )
        return columns, label
    for name in expected.names:
        if name not in header:
            raise unknown(f"column of {path}, which the study's features name,", name, header)
    return [header.index(name) for name in expected.names], label


def _number(text: str, path: Path, line: int, column: str) -> float:
    text = text.strip()
    if text.lower() in MISSING:
        raise InputError(f"{path}, line {line}, column {column!r}: the value is missing (got {text!r}): {MEND}")
    number = float(text) if NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(number):
        raise InputError(
            f"{path}, line {line}, column {column!r} must be a finite number, got {shown(text)}: write it as a number, with a "
            "point for decimals, or choose the columns by name in the study"
        )
    return number
