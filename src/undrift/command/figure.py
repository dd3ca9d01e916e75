"""`undrift figure`: runs and comparisons drawn for a paper, from what they wrote."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError, unknown
from ..files import write_bytes
from ..gate import Positive, check_value, scalar, shown
from ..report.recorded import Recorded, read_run
from . import codes
from .directory import writable
from .talk import Talk

if TYPE_CHECKING:
    from ..report.publication import Wishes


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    talk = Talk(arguments.quiet, arguments.json)
    runs = _chosen(_read([Path(word) for word in arguments.runs]), arguments.only)
    names = _names(arguments.label, runs, arguments.bounds)
    y = arguments.y or ("relative-gap" if all("gap" in run.columns for run in runs) else "loss")
    paths = _paths(arguments.out or f"{y}-per-{arguments.x}", arguments.overwrite)
    if arguments.bounds and not any(run.bounds for run in runs):
        talk.note(
            "no run knows a bound: their steps come from no theorem or certificate (--eta theorem, --eta certified)"
        )
    from ..report.publication import drawn  # Matplotlib takes a while to import

    contents = drawn(runs, _wishes(arguments, y, names), list(paths))
    for kind, path in paths.items():
        write_bytes(path, contents[kind])
    _tell(arguments, talk, [str(path) for path in paths.values()], runs)
    return codes.OK


def _tell(arguments: argparse.Namespace, talk: Talk, written: list[str], runs: list[Recorded]) -> None:
    if arguments.json:
        print(json.dumps({"files": written, "curves": [run.label for run in runs]}, indent=2, ensure_ascii=False))
    else:
        for path in written:
            talk.results.print(path, soft_wrap=True)


def _read(folders: list[Path]) -> list[Recorded]:
    """All curves; a label that several directories have is told apart by the directory."""
    found = [(folder, run) for folder in dict.fromkeys(folders) for run in read_run(folder)]
    labels = [run.label for _, run in found]
    return [
        run if labels.count(run.label) == 1 else run._replace(label=f"{run.label} ({folder.resolve().name})")
        for folder, run in found
    ]


def _chosen(runs: list[Recorded], only: list[str] | None) -> list[Recorded]:
    if only is None:
        return runs
    by_label = {run.label: run for run in runs}
    for label in only:
        if label not in by_label:
            raise unknown("curve", label, by_label)
    return [by_label[label] for label in dict.fromkeys(only)]


def _names(words: list[str], runs: list[Recorded], bounds: bool) -> tuple[tuple[str, str], ...]:
    known = [run.label for run in runs] + [line.label for run in runs if bounds for line in run.bounds]
    found = []
    for word in words:
        old = next((label for label in sorted(known, key=len, reverse=True) if word.startswith(f"{label}=")), None)
        if old is None:
            raise InputError(f"--label: {unknown('curve', word.partition('=')[0], known)}; write OLD=NEW")
        found.append((old, word[len(old) + 1 :]))
    return tuple(found)


def _wishes(arguments: argparse.Namespace, y: str, names: tuple[tuple[str, str], ...]) -> Wishes:
    from ..report.publication import STYLES, Wishes

    style = STYLES[arguments.purpose]
    if arguments.width is not None:
        style = style._replace(width=_width(arguments.width))
    if arguments.size is not None:
        style = style._replace(text=arguments.size, small=0.875 * arguments.size)
    if arguments.font is not None:
        style = style._replace(serif=arguments.font == "serif")
    return Wishes(
        y=y,
        x=arguments.x,
        style=style,
        height=None if arguments.height is None else _size("--height", arguments.height),
        bounds=arguments.bounds,
        legend=arguments.legend,
        title=arguments.title,
        scale=arguments.scale,
        x_limits=_limits("--xlim", arguments.xlim),
        y_limits=_limits("--ylim", arguments.ylim),
        names=names,
        tex=arguments.usetex,
    )


def _width(word: str) -> float:
    from ..report.publication import WIDTHS

    return WIDTHS[word] if word in WIDTHS else _size("--width", word)


def _size(flag: str, word: str | float) -> float:
    rule = f"{flag}, {'column, page or ' if flag == '--width' else ''}millimetres,"
    value: float = check_value(rule, scalar(word) if isinstance(word, str) else word, Positive)
    if not 20 <= value <= 1000:
        raise InputError(f"{flag} must lie between 20 and 1000 mm, got {value:g}: 88 is a column, 180 a page")
    return value


def _limits(flag: str, word: str | None) -> tuple[float, float] | None:
    if word is None:
        return None
    parts = [scalar(part) for part in word.split(",")]
    numbers = [part for part in parts if isinstance(part, int | float) and not isinstance(part, bool)]
    if len(parts) != 2 or len(numbers) != 2 or not numbers[0] < numbers[1]:
        raise InputError(f"{flag} must be two numbers A,B with A < B, got {shown(word)}: for example 1e-9,1")
    return float(numbers[0]), float(numbers[1])


def _paths(out: str, overwrite: bool) -> dict[str, Path]:
    """The files to write, by kind; refuses now what could not be written."""
    from ..report.publication import KINDS

    ending = Path(out).suffix.lower().removeprefix(".")
    paths = {ending: Path(out)} if ending in KINDS else {kind: Path(f"{out}.{kind}") for kind in KINDS}
    for path in paths.values():
        if path.is_dir():
            raise InputError(f"{path} is a directory: give the name of a file with --out")
        if path.exists() and not overwrite:
            raise InputError(f"{path} is there already: choose another name with --out, or --overwrite")
        writable(path.parent)
    folder = next(iter(paths.values())).parent
    folder.mkdir(parents=True, exist_ok=True)
    return paths
