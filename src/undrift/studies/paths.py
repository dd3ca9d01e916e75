"""Paths in the words of a problem."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

PATHS = {"npz": "path", "network": "data_dir"}


def absolute_paths(problem: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The table [problem] with its paths, relative to `folder`, in full."""
    words = dict(problem)
    key = PATHS.get(str(words.get("name")))
    if key is not None and isinstance(words.get(key), str):
        words[key] = str((folder / Path(words[key]).expanduser()).resolve())
    if words.get("name") == "network" and "partition" in words:
        from .partition import with_absolute_map

        words["partition"] = with_absolute_map(words["partition"], folder)
    return words
