"""npz files looked at as tables: a column for every feature and for every array with one entry per sample."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from undrift.data.columns import Column, cell, numeric, of_cells
from undrift.data.errors import DataError
from undrift.data.formats import read_own_npz
from undrift.data.sets import Array
from undrift.data.table import Table, named

SAMPLES = ("A", "x", "X", "x_train")  # what features are called


def read_npz_table(path: Path) -> Table:
    """The table: samples (n, d), or (clients, n, d), and whatever else has an entry per sample."""
    arrays = read_own_npz(path)
    main = next((name for name in SAMPLES if name in arrays), None)
    if main is None or arrays[main].ndim < 2:
        raise DataError(
            f"{path} must hold samples (n, d) or (clients, n, d) called {', '.join(SAMPLES)}; it holds "
            f"{', '.join(f'{name} {array.shape}' for name, array in arrays.items())[:200] or 'nothing'}: rename them."
        )
    samples = arrays.pop(main)
    columns: list[Column] = []
    if (
        samples.ndim == 3
        and "client" not in arrays
        and all(array.shape == samples.shape[:2] for array in arrays.values())
    ):
        columns.append(numeric("client", np.repeat(np.arange(len(samples)), samples.shape[1])))
        arrays = {name: array.reshape(-1) for name, array in arrays.items()}
        samples = samples.reshape(-1, samples.shape[2])
    flat = samples.reshape(len(samples), -1)
    columns += [_column(f"{main}{number}", flat[:, number], path) for number in range(flat.shape[1])]
    columns += [_column(name, array, path) for name, array in arrays.items() if array.shape == (len(flat),)]
    left = [name for name, array in arrays.items() if array.shape != (len(flat),)]
    notes = [f"{path}: left out, because they have no entry per sample: {', '.join(left)}"] if left else []
    names = named([column.name for column in columns], str(path))
    return Table(str(path), dict(zip(names, columns, strict=True)), len(flat), None, notes)


def _column(name: str, values: Array, path: Path) -> Column:
    if values.dtype.kind in "biuf":
        return numeric(name, values)
    if values.dtype.kind == "U":
        return of_cells(name, (cell(str(one)) for one in values))
    raise DataError(f"{path}: {name} must hold numbers or words, got {values.dtype}: convert it.")
