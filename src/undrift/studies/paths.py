"""Paths in the words of a study."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
        words |= {key: absolute_method(word, folder) for key, word in own.items()}
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


def absolute_method(name: str, folder: Path) -> str:
    """The name of a method; the file of one's own, relative to `folder`, in full."""
    path, colon, attribute = name.rpartition(".py:")
    return f"{_absolute(path + '.py', folder)}:{attribute}" if colon else name


def _absolute(path: str, folder: Path) -> str:
    return str((folder / Path(path).expanduser()).resolve())
