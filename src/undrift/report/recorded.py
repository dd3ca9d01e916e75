"""What runs have written, read again: curves from history.csv, summary.json and bounds.csv of a run directory.

The files may be anybody's: what is read is checked, and a complaint names the file and the line.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError, StorageError, nearest
from ..files import write_csv
from ..studies.relative import relative_gap
from .curves import BoundLine

HISTORY, SUMMARY, BOUNDS = "history.csv", "summary.json", "bounds.csv"
LARGEST = 1_000_000_000  # bytes of a file
LONGEST_LABEL = 200
BOUND_COLUMNS = ("of", "label", "thin", "round", "relative_gap")


class Recorded(NamedTuple):
    """One method of a run directory."""

    label: str
    method: str  # its name, for its colour
    columns: dict[str, np.ndarray]  # name -> (seeds, rounds + 1)
    bounds: list[BoundLine]  # what is promised of it, as relative gaps


def read_run(folder: Path) -> list[Recorded]:
    """All methods of a directory that `undrift run`, `compare` or `serve` has written, each with all its seeds."""
    if not folder.is_dir() or not (folder / HISTORY).exists():
        raise InputError(f"{folder} is no run directory (no {HISTORY} there): give one that undrift has written")
    summary, bounds = _summary(folder / SUMMARY), _read_bounds(folder / BOUNDS)
    found = []
    for (label, method), columns in _by_method(folder, summary).items():
        found.append(Recorded(label, method, columns, [line for line in bounds if line.of == label]))
    return found


def write_bounds(folder: Path, lines: Iterable[BoundLine]) -> None:
    """bounds.csv: what is promised in every round, as shares of the first gap; no file where nothing is."""
    kept = [line for line in lines if np.any(np.isfinite(line.values))]
    if kept:
        write_csv(folder / BOUNDS, _bound_rows(kept))


def _bound_rows(lines: Iterable[BoundLine]) -> Iterator[list[Any]]:
    yield list(BOUND_COLUMNS)
    for line in lines:
        for t in np.flatnonzero(np.isfinite(line.values)):
            yield [line.of, line.label, int(line.thin), int(t), repr(float(line.values[t]))]


# ----- the table of rounds
def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """(line, words by column) of a CSV file."""
    try:
        if path.stat().st_size > LARGEST:
            raise InputError(f"{path} has more than {LARGEST:,} bytes: record fewer rounds (--record-every), or cut it")
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            if len(set(header)) != len(header) or not header:
                raise InputError(f"{path} needs a first line that names every column once, got {str(header)[:120]}")
            for row in reader:
                if len(row) != len(header):
                    raise InputError(
                        f"{path}, line {reader.line_num}: {len(header)} entries are due, here are {len(row)}"
                    )
                yield reader.line_num, dict(zip(header, row, strict=True))
    except OSError as error:
        raise StorageError.of(path, error) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is no table of comma-separated UTF-8 text ({error}): make it anew") from None


def _by_method(folder: Path, summary: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, np.ndarray]]:
    """(label, method) -> the columns behind `round`: what stands before it are words and parameters."""
    path, names = folder / HISTORY, list[str]()
    runs: dict[tuple[str, str], dict[str, list[list[float]]]] = {}
    for line, words in _rows(path):
        if not runs:
            names = _measurements(path, list(words))
        label, method = (words["label"], words.get("method", "")) if "label" in words else _of_single(folder, summary)
        seeds = runs.setdefault((checked_label(path, line, label), method), {})
        rows = seeds.setdefault(words.get("seed", "0"), [])
        if words["round"] != str(len(rows)):
            raise InputError(f"{path}, line {line}: round {len(rows)} is due, got {words['round'][:40]!r}")
        rows.append([_number(path, line, name, words[name]) for name in names])
    if not runs:
        raise InputError(f"{path} holds no round: let the run come to its end")
    return {key: _stacked(path, key[0], names, list(seeds.values())) for key, seeds in runs.items()}


def _measurements(path: Path, header: list[str]) -> list[str]:
    if "round" not in header:
        raise InputError(f"{path} has no column 'round' ({', '.join(header)[:120]}): give a history of undrift's")
    return header[header.index("round") + 1 :]


def _stacked(path: Path, label: str, names: list[str], seeds: list[list[list[float]]]) -> dict[str, np.ndarray]:
    if len({len(rows) for rows in seeds}) > 1:
        raise InputError(
            f"{path}: the seeds of {label!r} have different numbers of rounds: let the run come to its end"
        )
    table = np.asarray(seeds, float).reshape(len(seeds), len(seeds[0]), len(names))
    columns = {name: table[:, :, i] for i, name in enumerate(names)}
    return {name: column for name, column in columns.items() if not np.all(np.isnan(column))}


def _number(path: Path, line: int, name: str, word: str) -> float:
    if word == "":
        return np.nan
    try:
        return float(word)
    except ValueError:
        raise InputError(f"{path}, line {line}: {name} must be a number, got {word[:40]!r}") from None


def checked_label(path: Path, line: int, label: str) -> str:
    """The label; refuses what has no place in a figure."""
    if not label or len(label) > LONGEST_LABEL or not label.isprintable():
        raise InputError(
            f"{path}, line {line}: a label is one line of at most {LONGEST_LABEL} printable characters, got {label[:80]!r}"
        )
    return label


# ----- beside it
def _of_single(folder: Path, summary: Mapping[str, Any]) -> tuple[str, str]:
    """Label and method of a single run, from its summary; without one the directory's name."""
    label, study = summary.get("label"), summary.get("study")
    methods = study.get("method") if isinstance(study, dict) else None
    first = methods[0] if isinstance(methods, list) and methods and isinstance(methods[0], dict) else {}
    name = first.get("name")
    return (label if isinstance(label, str) else folder.resolve().name), (name if isinstance(name, str) else "")


def _summary(path: Path) -> dict[str, Any]:
    """What was said at the end; nothing where it has not come to that."""
    if not path.exists():
        return {}
    try:
        if path.stat().st_size > LARGEST:
            raise InputError(f"{path} has more than {LARGEST:,} bytes: it is no summary of undrift's")
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StorageError.of(path, error) from error
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not valid JSON: make it anew with `undrift run --resume`") from None
    return found if isinstance(found, dict) else {}


def _read_bounds(path: Path) -> list[BoundLine]:
    if not path.exists():
        return []
    lines: dict[tuple[str, str, bool], dict[int, float]] = {}
    for line, words in _rows(path):
        if tuple(words) != BOUND_COLUMNS:
            raise InputError(f"{path} must have the columns {', '.join(BOUND_COLUMNS)}, got {', '.join(words)[:120]}")
        key = checked_label(path, line, words["of"]), checked_label(path, line, words["label"]), words["thin"] == "1"
        t = _number(path, line, "round", words["round"])
        if not (t >= 0 and t == int(t) and t < 2**31):
            raise InputError(f"{path}, line {line}: round must be a whole number ≥ 0, got {words['round'][:40]!r}")
        lines.setdefault(key, {})[int(t)] = _number(path, line, "relative_gap", words["relative_gap"])
    return [BoundLine(label, of, _filled(values), thin) for (of, label, thin), values in lines.items()]


def _filled(values: Mapping[int, float]) -> np.ndarray:
    rounds = np.fromiter(values, int)
    column = np.full(min(int(rounds.max()), 100 * rounds.size) + 1, np.nan)  # a hostile round takes no memory
    known = rounds < column.size
    column[rounds[known]] = np.fromiter(values.values(), float)[known]
    return column


# ----- what is shown of it
def measured(run: Recorded, what: str) -> np.ndarray:
    """A column by its name, or what is made of one: (seeds, rounds + 1)."""
    column = {"relative-gap": "gap", "gradient": "grad_norm", "distance": "sq_distance"}.get(what, what)
    if column not in run.columns:
        raise InputError(f"{run.label!r} has not recorded {column}: {nearest(column, run.columns)}")
    return relative_gap(run.columns[column]) if what == "relative-gap" else run.columns[column]
