"""Shakespeare of LEAF: who speaks, eighty characters, and the one that follows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from undrift.data.archives import contents, damage_named
from undrift.data.catalogue import LINE, SHAKESPEARE_CHARACTERS
from undrift.data.errors import DataError
from undrift.data.sets import Array

_UNKNOWN = 255
_NUMBERS = np.full(256, _UNKNOWN, np.uint8)
_NUMBERS[np.frombuffer(SHAKESPEARE_CHARACTERS.encode("latin-1"), np.uint8)] = np.arange(len(SHAKESPEARE_CHARACTERS))


def numbers_of(text: str) -> Array:
    """The numbers of characters, in LEAF's order.

    >>> numbers_of("To be").tolist()
    [44, 67, 1, 54, 57]
    """
    found = _NUMBERS[np.frombuffer(text.encode("latin-1"), np.uint8)]
    if len(strange := np.flatnonzero(found == _UNKNOWN)):
        raise ValueError(f"the character {text[strange[0]]!r} is none of LEAF's {len(SHAKESPEARE_CHARACTERS)}")
    return found


def read_lines(folder: Path) -> tuple[Array, Array, list[str]]:
    """Read one LEAF folder of JSON files: characters (N, 80) as uint8, the next one (N,), and the speaker of every line."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise DataError(f"{folder} must hold LEAF files (*.json), found none: run LEAF's preprocess.sh.")
    lines, following, speakers = [], [], []
    for path in files:
        with damage_named(path, "a LEAF file with users and user_data", "run LEAF's preprocess.sh again"):
            for speaker, x, y in _speakers(json.loads(contents(path))):
                lines.append(x)
                following.append(y)
                speakers += [speaker] * len(y)
    if not speakers:
        raise DataError(f"{folder} holds no line at all: run LEAF's preprocess.sh again.")
    return np.concatenate(lines), np.concatenate(following).astype(np.int64), speakers


def _speakers(content: Any) -> Iterator[tuple[str, Array, Array]]:
    """Name, lines and following characters of everybody who speaks."""
    names = content["users"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError("users must be a list of names, each once")
    for name in names:
        x, y = (_texts(content["user_data"][name][key], length, name) for key, length in (("x", LINE), ("y", 1)))
        if len(x) != len(y):
            raise ValueError(f"{name[:80]} has {len(x)} lines and {len(y)} characters that follow")
        if y:
            yield name, numbers_of("".join(x)).reshape(-1, LINE), numbers_of("".join(y))


def _texts(found: Any, length: int, name: str) -> list[str]:
    if not isinstance(found, list) or not all(isinstance(one, str) and len(one) == length for one in found):
        raise ValueError(f"{name[:80]} must have a list of texts of {length} characters")
    return found
