"""Downloads from a web server on this machine: good, truncated, tampered, missing, flaky."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from data_helpers import Server

from undrift import data

Pretend = Callable[[str, dict[str, bytes]], None]


def offer(server: Server, name: str, files: dict[str, bytes]) -> None:
    server.files = {f"/{name}/{file}": content for file, content in files.items()}


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_good_download(
    server: Server,
    idx_files: dict[str, bytes],
    images: dict[str, np.ndarray],
    pretend_published: Pretend,
    tmp_path: Path,
) -> None:
    pretend_published("mnist", idx_files)
    offer(server, "mnist", idx_files)
    d = data.load("mnist", mirror=server.url, raw=True)
    assert np.array_equal(d.train.x[..., 0], images["x_train"])
    assert files_in(tmp_path / "cache") == sorted(idx_files)
    assert data.status("mnist").where == "cache"
    assert data.verify("mnist").train == 12
    before = len(server.requests)
    data.load("mnist", mirror=server.url)
    assert len(server.requests) == before  # the cache is used


def test_mirror_and_cache_from_the_environment(
    server: Server,
    idx_files: dict[str, bytes],
    pretend_published: Pretend,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pretend_published("mnist", idx_files)
    offer(server, "mnist", idx_files)
    monkeypatch.setenv("UNDRIFT_MIRROR", server.url + "/")
    paths = data.fetch("mnist", cache_dir=tmp_path / "elsewhere")
    assert [path.parent for path in paths] == [tmp_path / "elsewhere" / "mnist"] * 4


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("tampered", "delivered a file with another checksum: it was truncated or tampered with"),
        ("truncated", "(truncated or tampered with|could not be fetched)"),
        ("missing", "could not be fetched .*404"),
        ("elsewhere", "could not be fetched .*file:///etc/hostname"),
        ("endless", "could not be fetched .*at most 1.07 GB, it has 1 TB or more"),
    ],
)
def test_bad_download_leaves_nothing(
    server: Server, idx_files: dict[str, bytes], pretend_published: Pretend, tmp_path: Path, fault: str, message: str
) -> None:
    pretend_published("mnist", idx_files)
    offer(server, "mnist", idx_files)
    server.faults = [fault] * 10
    with pytest.raises(data.DownloadError, match=message) as caught:
        data.fetch("mnist", mirror=server.url, retries=0)
    assert "train-images-idx3-ubyte.gz with checksum sha256:" in str(caught.value)
    assert "Nothing was kept. Try again, set UNDRIFT_MIRROR" in str(caught.value)
    assert files_in(tmp_path / "cache") == []
    assert data.status("mnist").where == "absent"


def test_what_arrives_is_counted(
    server: Server,
    idx_files: dict[str, bytes],
    pretend_published: Pretend,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pretend_published("mnist", idx_files)
    offer(server, "mnist", idx_files)
    server.faults = ["silent about its length"] * 4
    assert len(data.fetch("mnist", mirror=server.url, retries=0, cache_dir=tmp_path / "other")) == 4
    monkeypatch.setattr(importlib.import_module("undrift.data.download"), "LARGEST", 20)
    server.faults = ["silent about its length"] * 4
    with pytest.raises(data.DownloadError, match="a file must be at most 20 bytes, it has"):
        data.fetch("mnist", mirror=server.url, retries=0)
    assert files_in(tmp_path / "cache") == []


def test_a_mirror_is_on_the_web() -> None:
    for wrong in ("file:///tmp", "ftp://x", "/tmp", "mirror"):
        with pytest.raises(
            data.DownloadError, match=r"must be an address http://… or https://…, got .*correct UNDRIFT_"
        ):
            data.fetch("mnist", mirror=wrong)


def test_a_second_try_succeeds(
    server: Server, idx_files: dict[str, bytes], pretend_published: Pretend, tmp_path: Path
) -> None:
    pretend_published("mnist", idx_files)
    offer(server, "mnist", idx_files)
    server.faults = ["truncated"]
    data.fetch("mnist", mirror=server.url, retries=1)
    assert files_in(tmp_path / "cache") == sorted(idx_files)
    assert len(server.requests) == 5


def test_a_cached_file_that_was_changed_is_replaced(
    server: Server, idx_files: dict[str, bytes], pretend_published: Pretend
) -> None:
    pretend_published("mnist", idx_files)
    offer(server, "mnist", idx_files)
    first = data.fetch("mnist", mirror=server.url)[0]
    first.write_bytes(b"tampered with later")
    with pytest.raises(FileNotFoundError):
        data.verify("mnist")
    data.load("mnist", mirror=server.url)
    assert first.read_bytes() == idx_files[first.name]


def test_a_changed_cached_file_does_not_survive_a_failed_download(
    server: Server, idx_files: dict[str, bytes], pretend_published: Pretend
) -> None:
    pretend_published("mnist", idx_files)
    offer(server, "mnist", idx_files)
    first = data.fetch("mnist", mirror=server.url)[0]
    first.write_bytes(b"tampered with later")
    server.files = {}
    with pytest.raises(data.DownloadError):
        data.fetch("mnist", mirror=server.url, retries=0)
    assert not first.exists()


def test_no_network(idx_files: dict[str, bytes], pretend_published: Pretend, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_published("mnist", idx_files)  # its public address is a closed port of this machine
    with pytest.raises(data.DownloadError, match=r"http://127.0.0.1:9/train.*could not be fetched.*put mnist.npz"):
        data.fetch("mnist", retries=0)


def test_progress_goes_to_stderr(
    server: Server, idx_files: dict[str, bytes], pretend_published: Pretend, capsys: pytest.CaptureFixture[str]
) -> None:
    pretend_published("mnist", idx_files)
    offer(server, "mnist", idx_files)
    data.fetch("mnist", mirror=server.url, progress=True)
    captured = capsys.readouterr()
    assert "train-images-idx3-ubyte.gz  100%" in captured.err
    assert captured.out == ""


def test_sets_without_a_checksum_are_not_downloaded() -> None:
    with pytest.raises(FileNotFoundError, match="femnist has no download with a known checksum: LEAF publishes"):
        data.fetch("femnist")


def test_every_checksum_has_the_length_of_its_algorithm() -> None:
    for entry in data.catalogue():
        for file in entry.files:
            algorithm, value = file.checksum.split(":")
            assert len(value) == {"md5": 32, "sha256": 64}[algorithm]
            assert all(base.startswith("http") and not base.endswith("/") for base in file.bases)
