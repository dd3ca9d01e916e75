"""What the data tests share."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from data_helpers import Server, idx_bytes, small_images

from undrift.data.catalogue import RemoteFile, entry

# `undrift.data.catalogue` as an attribute is the function of that name.
CATALOGUE = importlib.import_module("undrift.data.catalogue")


@pytest.fixture(autouse=True)
def _own_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the user's data directory, cache, mirror or proxy."""
    for variable in ("UNDRIFT_DATA", "UNDRIFT_MIRROR", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("UNDRIFT_CACHE", str(tmp_path / "cache"))


REAL_DATA = os.environ.get("UNDRIFT_DATA")  # read on import, before the fixture above hides it


@pytest.fixture
def real_data() -> Path:
    if not REAL_DATA:
        pytest.skip("needs real data: set UNDRIFT_DATA to a directory that holds them")
    return Path(REAL_DATA)


@pytest.fixture
def images() -> dict[str, np.ndarray]:
    return small_images()


@pytest.fixture
def idx_files(images: dict[str, np.ndarray]) -> dict[str, bytes]:
    """The four files of a tiny MNIST, gzipped, under their published names."""
    names = [file.name for file in entry("mnist").files]
    return {name: gzip.compress(idx_bytes(images[key]), mtime=0) for name, key in zip(names, images, strict=True)}


@pytest.fixture
def pretend_published(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, dict[str, bytes]], None]:
    """Let the catalogue know small files under the name of a data set, with their true checksums."""

    def pretend(name: str, files: dict[str, bytes]) -> None:
        remote = tuple(
            RemoteFile(file, f"sha256:{hashlib.sha256(content).hexdigest()}", ("http://127.0.0.1:9",))
            for file, content in files.items()
        )
        monkeypatch.setitem(CATALOGUE._BY_NAME, name, replace(entry(name), files=remote))

    return pretend


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()
