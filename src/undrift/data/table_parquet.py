"""Tables in Parquet files, where pyarrow is installed (`undrift[parquet]`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from undrift import memory
from undrift.data.archives import LARGEST, TooLarge, damage_named, opened
from undrift.data.columns import Column, Kind, cell, numeric, of_cells
from undrift.data.errors import DataError
from undrift.data.table import Table, named


def read_parquet(path: Path) -> Table:
    """The table in a Parquet file."""
    parquet = _pyarrow(path)
    most = memory.installed() or LARGEST
    with damage_named(path, "a Parquet file", "save it again"), opened(path, most) as stream:
        file = parquet.ParquetFile(stream)
        declared = 8 * file.metadata.num_rows * file.metadata.num_columns
        packed = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
        if max(declared, packed) > most:
            raise TooLarge(f"it declares {file.metadata.num_rows} rows, more than fits into {memory.words(most)}")
        found = file.read()
        names = named(found.column_names, str(path))
        columns = {name: _column(name, found.column(at)) for at, name in enumerate(names)}
        return Table(str(path), columns, found.num_rows)


def _pyarrow(path: Path) -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise DataError(
            f"{path} is read with pyarrow, which is not installed: pip install 'undrift[parquet]', or save the file as CSV."
        ) from None
    return parquet


def _column(name: str, values: Any) -> Column:
    import pyarrow as pa

    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if (
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
    ):
        return numeric(name, [np.nan if one is None else float(one) for one in values.to_pylist()])
    if pa.types.is_string(kind) or pa.types.is_large_string(
        kind
    ):  # as in a text file: what is written like a number is one
        return of_cells(name, (None if one is None else cell(one) for one in values.to_pylist()))
    given: Kind = "date" if pa.types.is_temporal(kind) else "nested"
    words = {row: str(one)[:80] for row, one in enumerate(values.to_pylist()) if one is not None}
    return Column(name, np.full(len(values), np.nan), words, given)
