"""Verified downloads into the user's cache.

A file enters the cache only after its checksum was found right, and is checked again whenever it is used. What is
truncated or tampered with is thrown away.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pooch

from undrift.data.catalogue import Entry, RemoteFile, entry
from undrift.data.errors import DownloadError, MissingDataError
from undrift.data.sets import Folder

CACHE_VARIABLE = "UNDRIFT_CACHE"
MIRROR_VARIABLE = "UNDRIFT_MIRROR"


def cache_folder(cache_dir: Folder = None) -> Path:
    """Where downloads live: the argument, else $UNDRIFT_CACHE, else the user's cache folder of the system.

    >>> cache_folder("/tmp/somewhere").name
    'somewhere'
    """
    return Path(cache_dir or os.environ.get(CACHE_VARIABLE) or pooch.os_cache("undrift")).expanduser()


def fetch(
    name: str,
    *,
    cache_dir: Folder = None,
    mirror: str | None = None,
    retries: int = 2,
    progress: bool = False,
) -> list[Path]:
    """Download the files of a data set, and of the one it builds on, into the cache; return their paths.

    Files that are there and right are not fetched again. With a `mirror` (or $UNDRIFT_MIRROR) the files come from
    `mirror/name/file` instead of the public addresses; the checksums stay the same.

    >>> fetch("digits")
    []
    """
    wanted = entry(name)
    if wanted.embedded:
        return []
    if not wanted.downloadable:
        raise MissingDataError(f"{name} has no download with a known checksum: {wanted.obtain}.")
    base = mirror or os.environ.get(MIRROR_VARIABLE) or None
    paths = [_fetch_file(wanted, file, cache_folder(cache_dir), base, retries, progress) for file in wanted.files]
    if wanted.builds_on:
        paths += fetch(wanted.builds_on, cache_dir=cache_dir, mirror=mirror, retries=retries, progress=progress)
    return paths


def cached(name: str, cache_dir: Folder = None) -> bool:
    """True when all files of the data set lie in the cache with the right checksums.

    >>> cached("digits")
    False
    """
    wanted = entry(name)
    folder = cache_folder(cache_dir) / name
    return wanted.downloadable and all(_is_right(folder / file.name, file) for file in wanted.files)


def _is_right(path: Path, file: RemoteFile) -> bool:
    algorithm, expected = file.checksum.split(":")
    return path.is_file() and pooch.file_hash(str(path), alg=algorithm) == expected


def _fetch_file(wanted: Entry, file: RemoteFile, cache: Path, mirror: str | None, retries: int, progress: bool) -> Path:
    folder = cache / wanted.name
    path = folder / file.name
    if _is_right(path, file):
        return path
    path.unlink(missing_ok=True)  # a wrong file must not survive, even when the download fails too
    failures = []
    bases = [f"{mirror.rstrip('/')}/{wanted.name}"] if mirror else file.bases
    for base in bases:
        url = f"{base}/{file.name}"
        store = pooch.create(
            path=folder,
            base_url=base,
            registry={file.name: file.checksum},
            urls={file.name: url},
            retry_if_failed=retries,
        )
        downloader = pooch.HTTPDownloader(progressbar=_Progress(file.name) if progress else False, timeout=30)
        try:
            with _quiet():
                return Path(store.fetch(file.name, downloader=downloader))
        except (OSError, ValueError) as error:  # network errors are OSErrors, a wrong checksum is a ValueError
            failures.append(_explain(url, error))
    raise DownloadError(
        f"{wanted.name} needs {file.name} with checksum {file.checksum}. {' '.join(failures)} "
        f"Nothing was kept. Try again, set {MIRROR_VARIABLE} to another address, or {wanted.obtain} (UNDRIFT_DATA)."
    )


def _explain(url: str, error: Exception) -> str:
    if isinstance(error, ValueError) and "hash" in str(error).lower():
        return f"{url} delivered a file with another checksum: it was truncated or tampered with."
    return f"{url} could not be fetched ({type(error).__name__}: {error})."


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the downloader's own log lines off the user's screen, for the length of one call."""
    logger = pooch.get_logger()
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)


class _Progress:
    """A one-line progress report on stderr, in the form that pooch asks for."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.total = 0
        self.done = 0

    def update(self, amount: int) -> None:
        self.done += amount
        share = f"{min(self.done / self.total, 1.0):4.0%}" if self.total else "   ?"
        print(f"\r{self.name}  {share}  {self.done / 1e6:.1f} MB", end="", file=sys.stderr, flush=True)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        print(file=sys.stderr)
