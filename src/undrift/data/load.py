"""`load`: one call from a name to arrays that can be trained on."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from undrift.data.catalogue import entry
from undrift.data.errors import DataError
from undrift.data.sets import Array, Dataset, Folder, Split
from undrift.data.sources import Raw, read
from undrift.data.verify import check


def load(
    name: str = "digits",
    *,
    raw: bool = False,
    data_dir: Folder = None,
    cache_dir: Folder = None,
    mirror: str | None = None,
    download: bool = True,
    progress: bool = False,
    impute: Literal["mean"] | None = "mean",
    standardise: bool = True,
) -> Dataset:
    """Load a data set by name: from the user's data directory, the cache, or a verified download, in this order.

    Images come as float32 in [0, 1] of shape (N, H, W, C), labels as int32. `raw=True` gives the images as stored,
    uint8, without a copy (and the heart table with its NaN). Lines of text come as int32 numbers of characters.

    - `data_dir` (or $UNDRIFT_DATA): a directory with npz, IDX, pickle, LEAF or UCI files; see the data page.
    - `cache_dir` (or $UNDRIFT_CACHE), `mirror` (or $UNDRIFT_MIRROR), `download`, `progress`: about downloads.
    - `impute`, `standardise`: for the tables `heart` and `diabetes` only. Missing values become the mean of the training
      split, or stay NaN with `impute=None`; then every feature is shifted and scaled to mean 0 and variance 1 on the
      training split.

    >>> d = load("digits")
    >>> d.train.x.shape, d.train.x.dtype, d.classes
    ((1438, 8, 8, 1), dtype('float32'), 10)
    >>> load("digits", raw=True).test.x.dtype
    dtype('uint8')
    """
    wanted = entry(name)
    if impute not in ("mean", None):
        raise DataError(f'impute must be "mean" or None, got {impute!r}: choose one of them.')
    arrays, _ = read(name, data_dir=data_dir, cache_dir=cache_dir, mirror=mirror, download=download, progress=progress)
    check(wanted, arrays)
    if wanted.form == "table":
        x_train, x_test = _table_features(name, arrays, None if raw else impute, standardise and not raw)
    elif wanted.form == "text":
        x_train, x_test = (x if raw else x.astype(np.int32) for x in (arrays.x_train, arrays.x_test))
    else:
        convert = _as_bytes if raw else _as_unit_floats
        x_train, x_test = (convert(x, float(wanted.greatest)) for x in (arrays.x_train, arrays.x_test))
    return Dataset(
        name=name,
        train=Split(x_train, _targets(arrays.y_train), _group(arrays.group_train)),
        test=Split(x_test, _targets(arrays.y_test), _group(arrays.group_test)),
        class_names=wanted.class_names,
        group_names=arrays.group_names,
        feature_names=wanted.features or None,
    )


def _targets(y: Array) -> Array:
    """Labels, or numbers where those are to be predicted."""
    return y.astype(np.float64) if y.dtype.kind == "f" else y.astype(np.int32)


def _group(column: Array | None) -> npt.NDArray[np.int32] | None:
    return None if column is None else column.astype(np.int32)


def _as_unit_floats(images: Array, greatest: float) -> Array:
    floats = images.astype(np.float32)
    if images.dtype == np.uint8:
        floats /= np.float32(greatest)  # in place: CIFAR-10 in float32 is 600 MB, once is enough
    return floats


def _as_bytes(images: Array, greatest: float) -> Array:
    return images if images.dtype == np.uint8 else np.round(images * greatest).astype(np.uint8)


def _table_features(name: str, arrays: Raw, impute: str | None, standardise: bool) -> tuple[Array, Array]:
    """Fill and scale with statistics of the training split only, so that nothing leaks from the test split."""
    if impute is None and not standardise:
        return arrays.x_train, arrays.x_test
    train, test = arrays.x_train.astype(np.float64), arrays.x_test.astype(np.float64)
    unknown = np.flatnonzero(np.isnan(train).all(axis=0))
    if unknown.size:
        raise DataError(
            f"a feature needs at least one known value in the training split, but column {int(unknown[0])} of {name} "
            f"has none: restore the column, or load with raw=True."
        )
    mean = np.nanmean(train, axis=0)
    if impute == "mean":
        train, test = np.where(np.isnan(train), mean, train), np.where(np.isnan(test), mean, test)
    if standardise:
        mean, spread = np.nanmean(train, axis=0), np.nanstd(train, axis=0)
        spread = np.where(spread > 0, spread, 1.0)  # a constant feature becomes 0, not NaN
        train, test = (train - mean) / spread, (test - mean) / spread
    return train.astype(np.float32), test.astype(np.float32)
