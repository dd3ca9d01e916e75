"""What the numbers of a linear model mean: a small file beside the model, for whoever uses it on raw data.

    { "kind": "logistic", "features": ["age", "pulse"], "label": "ill", "labels": ["no", "yes"], "intercept": true,
      "mean": [54.1, 137.0], "scale": [9.2, 25.6], "l2": 1.0, "weights": "samples",
      "clients": {"a": 303, "b": 292}, "columns": […] }

A feature enters the model as (x − mean)/scale, and 1 follows the features where there is an intercept. Deployed runs (`undrift
serve`) and simulated ones write it alike. `clients` (their samples) and `columns` (what became of each column of a CSV file)
are there where they are known.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..errors import InputError
from ..files import storage, write_text

FILE = "standardisation.json"
LARGEST = 2**28  # bytes of the file


class FromColumn(msgspec.Struct):
    """A column of the user's file and what became of it: itself, or 0 and 1 for each category but the first."""

    column: str
    categories: list[str] | None = None
    fill: list[float] = []  # what stands for a missing value, in each of its features
    truth: bool = False  # true and yes became 1, false and no became 0


class Kept(msgspec.Struct):
    """What the file holds; what older runs did not write has a default."""

    mean: list[float]
    scale: list[float]
    features: list[str] | None = None
    kind: str | None = None
    label: str | None = None
    labels: list[str | int | float] | None = None
    intercept: bool | None = None
    l2: float | None = None
    weights: str | None = None
    clients: dict[str, int] | None = None
    columns: list[FromColumn] | None = None


def write_columns(folder: Path, columns: Mapping[str, Any] | None) -> None:
    """Keep it in a run directory, where the problem has such a thing."""
    if columns is not None:
        write_text(folder / FILE, json.dumps(columns, indent=1, ensure_ascii=False) + "\n")


def read_columns(folder: Path) -> Kept | None:
    """What was kept; None where there is no such file."""
    path = folder / FILE
    if not path.exists():
        return None
    with storage(path), path.open("rb") as file:
        content = file.read(LARGEST + 1)
    try:
        return msgspec.json.decode(content, type=Kept)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged ({error}): bring it back from a copy") from error
