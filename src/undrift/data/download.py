"""Verified downloads into the user's cache.

A file enters the cache only after its checksum was found right, and is checked again whenever it is used. What is
truncated or tampered with is thrown away. Only http and https are spoken, after a redirect too, and no more than a data
file may have (`archives.LARGEST`) is ever received.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pooch

from undrift import memory
from undrift.data.archives import LARGEST
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
    if base is not None and not base.startswith(("http://", "https://")):
        raise DownloadError(
            f"a mirror must be an address http://… or https://…, got {base!r}: correct {MIRROR_VARIABLE}."
        )
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
        downloader = _Download(_Progress(file.name) if progress else None)
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


class _Download:
    """What pooch calls to fetch one address into a file."""

    def __init__(self, progress: _Progress | None) -> None:
        self.progress = progress

    def __call__(self, url: str, output_file: Any, store: Any) -> None:
        import requests  # takes a while: only those wait who need it
        from urllib3.exceptions import HTTPError

        # As it is, never packed for the way: what is counted is what is kept.
        wanted = {"Accept-Encoding": "identity"}
        with requests.get(url, stream=True, timeout=30, headers=wanted) as response, open(output_file, "wb") as file:
            response.raise_for_status()
            declared = response.headers.get("Content-Length", "")
            total = int(declared) if declared.isdecimal() and len(declared) < 20 else 0
            received = 0
            _allow(total)
            try:
                for piece in response.raw.stream(2**16, decode_content=False):
                    received += len(piece)
                    _allow(received)
                    file.write(piece)
                    if self.progress is not None:
                        self.progress.show(received, total)
            except HTTPError as error:  # the connection broke: let pooch try again
                raise requests.ConnectionError(str(error)) from error
        if self.progress is not None:
            self.progress.close()


def _allow(size: int) -> None:
    if size > LARGEST:
        raise ValueError(f"a file must be at most {memory.words(LARGEST)}, it has {memory.words(size)} or more")


class _Progress:
    """A one-line progress report on stderr."""

    def __init__(self, name: str) -> None:
        self.name = name

    def show(self, done: int, total: int) -> None:
        share = f"{min(done / total, 1.0):4.0%}" if total else "   ?"
        print(f"\r{self.name}  {share}  {done / 1e6:.1f} MB", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        print(file=sys.stderr)
