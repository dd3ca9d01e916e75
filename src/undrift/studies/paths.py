"""Paths in the words of a study."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..gate import check
from .own import absolute_own
from .schema import AvailabilityTable
from .words import split_word

OWN = ("steps", "participation", "oracle", "stop")  # words of [run] that may name a program
TRACE = ".csv:"  # in a word: before it a file, after it what else is said of it
PATHS = {"npz": "path", "csv": "path", "network": "data_dir", "logistic": "data_dir", "least_squares": "data_dir",
         "sites": "folder"}  # fmt: skip
PARTITIONED = ("network", "csv", "logistic", "least_squares")


PROGRAMS = ("model", "loss", "metric")  # of a network: words that may name a program, path/to/file.py:name


def absolute_paths(problem: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The table [problem] with its paths, relative to `folder`, in full."""
    words = dict(problem)
    key = PATHS.get(str(words.get("name")))
    if key is not None and isinstance(words.get(key), str):
        words[key] = _absolute(words[key], folder)
    elif key is not None and isinstance(words.get(key), list):
        words[key] = [_absolute(one, folder) for one in words[key]]
    if words.get("name") == "network":
        own = {key: words[key] for key in PROGRAMS if isinstance(words.get(key), str)}
        words |= absolute_own(own, folder)
    if words.get("name") in PARTITIONED and words.get("partition") is not None:
        from .partition import with_absolute_map

        words["partition"] = with_absolute_map(words["partition"], folder)
    return words


def file_named(problem: Mapping[str, Any]) -> str | None:
    """The word of a table [problem] that names a file or folder of one machine, if there is one.

    >>> file_named({"name": "npz", "path": "a.npz"}), file_named({"name": "digits"})
    ('path', None)
    >>> file_named({"name": "network", "model": "net.py:Net"})
    'model'
    """
    found = next((key for key in ("path", "folder", "data_dir") if problem.get(key) is not None), None)
    if found is None and "from_map" in str(problem.get("partition", "")):
        found = "partition"
    programs = (key for key in PROGRAMS if ".py:" in str(problem.get(key, "")))
    return next(programs, None) if found is None else found


def absolute_run(words: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Words of the table [run] with the files that they name, relative to `folder`, in full."""
    found = dict(words)
    for key in OWN:
        if key in found:
            found[key] = absolute_own(found[key], folder)
    if found.get("availability") is not None:
        table = trace_table(found["availability"])
        found["availability"] = {**table, "file": _absolute(table["file"], folder)}
    return found


def trace_table(words: str | Mapping[str, Any]) -> dict[str, Any]:
    """The table of an availability trace from a word: a file, and what else is said of it.

    >>> trace_table("trace.csv:absent=silent,after=repeat")
    {'file': 'trace.csv', 'absent': 'silent', 'after': 'repeat'}
    """
    if not isinstance(words, str):
        return dict(words)
    stem, colon, rest = words.partition(TRACE)
    if not colon:
        return {"file": words}
    _, positional, named = split_word(f":{rest}")
    if positional:
        raise InputError(f"what else is said of a trace is written key=value, got {positional[0]!r} in {words!r}")
    table = {"file": f"{stem}{TRACE[:-1]}", **named}
    check(AvailabilityTable, table, "availability", "availability: ")
    return table


def _absolute(path: str, folder: Path) -> str:
    return str((folder / Path(path).expanduser()).resolve())
