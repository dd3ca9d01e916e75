"""Where a data set is looked for: the user's directory first, then the cache, then a download."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from undrift.data import cifar
from undrift.data.catalogue import HEART, HOSPITALS, entry
from undrift.data.download import cache_folder, cached, fetch
from undrift.data.errors import DataError, DownloadError, MissingDataError
from undrift.data.formats import read_idx, read_leaf, read_npz, read_uci_table
from undrift.data.sets import Array, Folder, stratified_split
from undrift.data.shakespeare import read_lines
from undrift.data.table import read_table

DATA_VARIABLE = "UNDRIFT_DATA"
_SPLIT_SEED = 20260101  # fixed for ever: another seed would be another data set
_TEST_FRACTION = 0.2


class Raw(NamedTuple):
    """The arrays of a data set as published, before any conversion."""

    x_train: Array
    y_train: Array
    x_test: Array
    y_test: Array
    group_train: Array | None = None
    group_test: Array | None = None
    group_names: tuple[str, ...] | None = None


class Origin(NamedTuple):
    """Where the files lie ("embedded", "directory", "cache") and the path that was read."""

    where: str
    path: Path | None


def data_directory(data_dir: Folder = None) -> Path | None:
    """The user's data directory: the argument, else $UNDRIFT_DATA, else None; one that is named must exist."""
    named = data_dir or os.environ.get(DATA_VARIABLE)
    if not named:
        return None
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise MissingDataError(
            f"the data directory must exist, but {folder} does not: create it, or correct data_dir or {DATA_VARIABLE}."
        )
    return folder


def locate(name: str, data_dir: Folder = None, cache_dir: Folder = None) -> Origin | None:
    """Find a data set without downloading; None when it is nowhere.

    >>> locate("digits").where
    'embedded'
    """
    directory = data_directory(data_dir)
    for relative in _PLACES.get(name, ()) if directory else ():
        assert directory is not None
        path = directory / relative
        if path.is_file() or (path.is_dir() and _holds(name, path)):
            return Origin("directory", path)
    if entry(name).embedded:
        return Origin("embedded", None)
    return Origin("cache", cache_folder(cache_dir) / name) if cached(name, cache_dir) else None


def read(
    name: str,
    *,
    data_dir: Folder = None,
    cache_dir: Folder = None,
    mirror: str | None = None,
    download: bool = True,
    progress: bool = False,
) -> tuple[Raw, Origin]:
    """Read the arrays of a data set from the first source that has it."""
    origin = locate(name, data_dir, cache_dir)
    if origin is None:
        _fetch_or_advise(name, data_dir, cache_dir, mirror, download, progress)
        origin = Origin("cache", cache_folder(cache_dir) / name)
    if origin.path is None:
        return _EMBEDDED[name](), origin
    raw = _READERS.get(name, partial(_read_images, name))(origin.path)
    base = entry(name).builds_on
    if base:
        images, _ = read(
            base, data_dir=data_dir, cache_dir=cache_dir, mirror=mirror, download=download, progress=progress
        )
        raw = _join_writers(images, raw)
    return raw, origin


def _fetch_or_advise(
    name: str, data_dir: Folder, cache_dir: Folder, mirror: str | None, download: bool, progress: bool
) -> None:
    wanted, directory = entry(name), data_directory(data_dir)
    looked = f"{directory} has none of {', '.join(_PLACES[name])}" if directory else f"{DATA_VARIABLE} is not set"
    if not wanted.downloadable or not download:
        why = "no download with a known checksum exists" if not wanted.downloadable else "downloads are switched off"
        raise MissingDataError(
            f"{name} was not found: {looked}, the cache has no copy, and {why}. To obtain it: {wanted.obtain}."
        )
    try:
        fetch(name, cache_dir=cache_dir, mirror=mirror, progress=progress)
    except DownloadError as error:
        raise DownloadError(f"{name} was not found: {looked}, and the cache has no copy. {error}") from error


def _holds(name: str, folder: Path) -> bool:
    """True when a folder holds at least the first file expected in it; what else is missing, the reader will say."""
    if name in ("femnist", "shakespeare"):
        return (folder / "train").is_dir()
    if name in _CIFAR:
        return (folder / _CIFAR[name].train[0]).is_file()
    first = entry(name).files[0].name
    return any((folder / candidate).is_file() for candidate in (first, first.removesuffix(".gz")))


def _in_folder(folder: Path, name: str) -> Path:
    for candidate in (folder / name, folder / name.removesuffix(".gz")):
        if candidate.is_file():
            return candidate
    raise MissingDataError(f"{folder} must hold {name}, packed or unpacked, but does not: add that file.")


def _read_images(name: str, path: Path) -> Raw:
    if path.suffix == ".npz":
        arrays = read_npz(path, ("x_train", "y_train", "x_test", "y_test"))
    elif name in _CIFAR:
        tar = path / entry(name).files[0].name
        arrays = cifar.read_cifar(tar if tar.is_file() else path, _CIFAR[name])
    else:
        arrays = [read_idx(_in_folder(path, file.name)) for file in entry(name).files]
    x_train, y_train, x_test, y_test = arrays
    return Raw(_with_channel(x_train), y_train, _with_channel(x_test), y_test)


def _with_channel(images: Array) -> Array:
    """Grey images get a last axis of length one; a view, no copy."""
    return images[..., None] if images.ndim == 3 else images


def _read_digits() -> Raw:
    from sklearn.datasets import load_digits  # takes a second: only those wait who need it

    table = load_digits()
    x, y = table.images.astype(np.uint8)[..., None], table.target
    train, test = stratified_split(y, _TEST_FRACTION, _SPLIT_SEED)
    return Raw(x[train], y[train], x[test], y[test])


def _read_diabetes() -> Raw:
    from sklearn.datasets import load_diabetes  # as above

    table = load_diabetes(scaled=False)
    x, y = table.data.astype(np.float32), table.target.astype(np.float64)
    train, test = stratified_split(np.zeros(len(y), np.int64), _TEST_FRACTION, _SPLIT_SEED)
    return Raw(x[train], y[train], x[test], y[test])


def _read_embedded_heart() -> Raw:
    """The table that comes with undrift (`tables/README.md` says whose it is)."""
    table = read_table(Path(__file__).parent / "tables" / "heart.csv")
    x = np.stack([table.columns[name].numbers for name in HEART], axis=1).astype(np.float32)
    words = table.columns["hospital"].words
    hospital = np.array([HOSPITALS.index(words[row]) for row in range(table.rows)])
    return _split_heart(x, table.columns["diagnosis"].numbers, hospital)


def _read_heart(path: Path) -> Raw:
    """The four tables, one after the other."""
    if path.suffix == ".npz":
        x, diagnosis, hospital = read_npz(path, ("x", "y", "center"))
    else:
        tables = [read_uci_table(_in_folder(path, file.name)) for file in entry("heart").files]
        x, diagnosis = (np.concatenate(columns) for columns in zip(*tables, strict=True))
        hospital = np.repeat(np.arange(len(tables)), [len(y) for _, y in tables])
    if not x.shape[:1] == diagnosis.shape == hospital.shape or x.ndim == 0:
        raise DataError(
            f"{path} must have one diagnosis and one hospital per patient, got features of shape {x.shape}, diagnoses "
            f"{diagnosis.shape} and hospitals {hospital.shape}: correct the file."
        )
    _check_range(path, "a diagnosis", diagnosis, 4)
    _check_range(path, "a hospital", hospital, len(HOSPITALS) - 1)
    return _split_heart(x, diagnosis, hospital)


def _split_heart(x: Array, diagnosis: Array, hospital: Array) -> Raw:
    """The test split takes the same share of each hospital and diagnosis."""
    y = (diagnosis > 0).astype(np.int64)
    train, test = stratified_split(2 * hospital.astype(np.int64) + y, _TEST_FRACTION, _SPLIT_SEED)
    return Raw(x[train], y[train], x[test], y[test], hospital[train], hospital[test], HOSPITALS)


def _check_range(path: Path, what: str, column: Array, greatest: int) -> None:
    if column.dtype.kind not in "iuf":
        raise DataError(f"{path}: {what} must be a number, got {column.dtype}: correct the file.")
    outside = np.flatnonzero(~((column >= 0) & (column <= greatest) & (column == np.floor(column))))
    if outside.size:
        raise DataError(
            f"{path}: {what} must be a whole number in 0..{greatest}, but patient {int(outside[0])} has "
            f"{column[outside[0]]}: correct the file."
        )


def _read_femnist(path: Path) -> Raw:
    splits = [read_leaf(path / part) for part in ("train", "test")]
    return _by_user([(x.reshape(-1, 28, 28, 1) if x.shape[1] == 784 else x, y, users) for x, y, users in splits])


def _read_shakespeare(path: Path) -> Raw:
    return _by_user([read_lines(path / part) for part in ("train", "test")])


def _by_user(splits: Sequence[tuple[Array, Array, list[str]]]) -> Raw:
    """Two splits of LEAF with a group for every user."""
    names = tuple(sorted({user for _, _, users in splits for user in users}))
    number = {user: i for i, user in enumerate(names)}
    (x, y, g), (x_test, y_test, g_test) = (
        (samples, labels, np.array([number[user] for user in users])) for samples, labels, users in splits
    )
    return Raw(x, y, x_test, y_test, g, g_test, names)


def _read_writers(path: Path) -> Raw:
    """Only the writers; the images come from MNIST. QMNIST label columns: 0 is the digit, 2 the writer."""
    if path.suffix == ".npz":
        train, test = read_npz(path, ("writer_train", "writer_test"))
        return Raw(np.empty(0), np.empty(0), np.empty(0), np.empty(0), train, test)
    tables = [read_idx(_in_folder(path, file.name)) for file in entry("mnist-writers").files]
    for file, table in zip(entry("mnist-writers").files, tables, strict=True):
        if table.ndim != 2 or table.shape[1] < 3:
            raise DataError(
                f"{path / file.name} must have a row of at least 3 numbers per image, got shape {table.shape}: "
                f"remove it and fetch it again."
            )
    # QMNIST has 60,000 test images, of which the first 10,000 are those of MNIST.
    train, test = tables[0], tables[1][:10_000]
    return Raw(np.empty(0), train[:, 0], np.empty(0), test[:, 0], train[:, 2], test[:, 2])


def _join_writers(images: Raw, writers: Raw) -> Raw:
    for mine, theirs in ((images.y_train, writers.y_train), (images.y_test, writers.y_test)):
        if theirs.size and not np.array_equal(mine, theirs):
            raise DataError(
                "the QMNIST labels must list the digits of MNIST in the same order, but they differ: "
                "take both from their publishers, unchanged."
            )
    return images._replace(group_train=writers.group_train, group_test=writers.group_test)


_PLACES = {
    "mnist": ("mnist.npz", "mnist", "MNIST/raw"),
    "fmnist": ("fmnist.npz", "fmnist", "FashionMNIST/raw"),
    "cifar10": ("cifar10.npz", "cifar-10-python.tar.gz", "cifar-10-batches-py", "cifar10/cifar-10-batches-py"),
    "cifar100": ("cifar100.npz", "cifar-100-python.tar.gz", "cifar-100-python", "cifar100/cifar-100-python"),
    "femnist": ("femnist", "femnist/data"),
    "shakespeare": ("shakespeare", "shakespeare/data"),
    "mnist-writers": ("mnist_writers.npz", "qmnist", "QMNIST/raw"),
    "heart": ("heart_disease.npz", "heart"),
}
_READERS: dict[str, Callable[[Path], Raw]] = {
    "femnist": _read_femnist,
    "shakespeare": _read_shakespeare,
    "mnist-writers": _read_writers,
    "heart": _read_heart,
}  # of what are not images in two splits
_EMBEDDED: dict[str, Callable[[], Raw]] = {
    "digits": _read_digits,
    "heart": _read_embedded_heart,
    "diabetes": _read_diabetes,
}
_CIFAR = {"cifar10": cifar.CIFAR10, "cifar100": cifar.CIFAR100}
