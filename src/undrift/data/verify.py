"""Is a copy well formed, and is it the published one?"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from undrift.data.catalogue import Entry, entry
from undrift.data.errors import DataError
from undrift.data.sets import Array, Folder
from undrift.data.sources import Origin, Raw, locate, read


@dataclass(frozen=True)
class Status:
    """Where a data set is ("embedded", "directory", "cache", "absent"), and what to do when it is absent."""

    name: str
    where: str
    path: Path | None
    advice: str


@dataclass(frozen=True)
class Report:
    """The outcome of `verify` for a well-formed copy; `genuine` is None where no published digest exists."""

    name: str
    origin: Origin
    train: int
    test: int
    digest: str
    genuine: bool | None


def status(name: str, *, data_dir: Folder = None, cache_dir: Folder = None) -> Status:
    """Say where a data set is, without downloading or reading it.

    >>> status("digits").where
    'embedded'
    """
    wanted = entry(name)
    for needed in filter(None, (name, wanted.builds_on)):
        if locate(needed, data_dir, cache_dir) is None:
            needs = entry(needed)
            advice = "fetch it, or " if needs.downloadable else ""
            return Status(name, "absent", None, advice + needs.obtain)
    origin = locate(name, data_dir, cache_dir)
    assert origin is not None
    return Status(name, origin.where, origin.path, "")


def verify(name: str, *, data_dir: Folder = None, cache_dir: Folder = None) -> Report:
    """Read a copy that is already here, check its form, and compare its content with the published one.

    A malformed copy raises `DataError`, an absent one `MissingDataError`.

    >>> verify("digits").genuine
    True
    """
    wanted = entry(name)
    raw, origin = read(name, data_dir=data_dir, cache_dir=cache_dir, download=False)
    check(wanted, raw)
    found = digest(raw)
    genuine = None if wanted.digest is None else found == wanted.digest
    return Report(name, origin, len(raw.y_train), len(raw.y_test), found, genuine)


def digest(raw: Raw) -> str:
    """sha256 of the arrays in order: x and y of both splits, then the groups; the same for every file format."""
    total = hashlib.sha256()
    for x, y in ((raw.x_train, raw.y_train), (raw.x_test, raw.y_test)):
        if x.dtype.kind == "f":
            x = np.where(np.isnan(x), np.float32(np.nan), x.astype("<f4"))  # one bit pattern for all NaN
        total.update(np.ascontiguousarray(x).tobytes())
        total.update(y.astype("<f8" if y.dtype.kind == "f" else np.uint8).tobytes())
    for group in (raw.group_train, raw.group_test):
        if group is not None:
            total.update(group.astype("<i4").tobytes())
    return total.hexdigest()


def check(wanted: Entry, raw: Raw) -> None:
    """Raise `DataError` unless shapes, types, values and labels are those of the data set."""
    _check_split(wanted, "training", raw.x_train, raw.y_train, raw.group_train)
    _check_split(wanted, "test", raw.x_test, raw.y_test, raw.group_test)


def _check_split(wanted: Entry, split: str, x: Array, y: Array, group: Array | None) -> None:
    where = f"{wanted.name}, {split} split"
    if x.shape[1:] != wanted.sample_shape:
        raise DataError(
            f"{where}: samples must have shape {wanted.sample_shape}, got {x.shape[1:]}: reshape or replace the file."
        )
    columns = [y] if group is None else [y, group]
    if len(x) == 0 or any(column.shape != (len(x),) for column in columns):
        raise DataError(
            f"{where}: every sample needs one label (and one group), got {len(x)} samples and "
            f"{[column.shape for column in columns]}: the file is incomplete, replace it."
        )
    _check_values(where, wanted, x)
    if not wanted.class_names:
        if y.dtype.kind != "f" or not np.isfinite(y).all():
            raise DataError(f"{where}: targets must be finite numbers, got {y.dtype}: replace the file.")
        return
    if any(column.dtype.kind not in "iu" for column in columns):
        kinds = [str(column.dtype) for column in columns]
        raise DataError(f"{where}: labels and groups must be integers, got {kinds}: convert them.")
    outside = np.flatnonzero((y < 0) | (y >= len(wanted.class_names)))
    if outside.size:
        raise DataError(
            f"{where}: labels must lie in 0..{len(wanted.class_names) - 1}, but sample {int(outside[0])} has label "
            f"{int(y[outside[0]])} ({outside.size} such samples): correct or replace the file."
        )


def _check_values(where: str, wanted: Entry, x: Array) -> None:
    if x.dtype == np.uint8:
        if int(x.max()) > wanted.greatest:
            what = "characters" if wanted.form == "text" else "pixels"
            raise DataError(f"{where}: {what} must be at most {wanted.greatest}, got {int(x.max())}: replace the file.")
        return
    if x.dtype.kind != "f":
        raise DataError(f"{where}: samples must be uint8 or floating point, got {x.dtype}: convert them.")
    if wanted.form == "table":  # a table: NaN marks a missing value, and there is no common range
        if np.isinf(x).any():
            raise DataError(f"{where}: values must be finite or NaN (missing), got infinity: replace the file.")
        return
    broken = np.flatnonzero(np.isnan(x.reshape(len(x), -1)).any(axis=1))
    if broken.size:
        raise DataError(
            f"{where}: pixels must be numbers, but sample {int(broken[0])} holds NaN ({broken.size} such samples): "
            f"remove those samples or replace the file."
        )
    low, high = float(x.min()), float(x.max())
    if low < 0.0 or high > 1.0:
        raise DataError(
            f"{where}: floating-point pixels must lie in [0, 1], got {low:g} to {high:g}: divide by 255, "
            f"or store them as uint8."
        )
