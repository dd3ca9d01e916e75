"""`undrift data`: where data sets are, whether a copy is right; absent data have an exit code of their own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from undrift.data import catalogue

ABSENT = 5


@pytest.fixture(autouse=True)
def _nothing_here(monkeypatch, tmp_path):
    """No data directory, an empty cache, and an address where nobody answers."""
    monkeypatch.delenv("UNDRIFT_DATA", raising=False)
    monkeypatch.setenv("UNDRIFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("UNDRIFT_MIRROR", "http://127.0.0.1:9")


def heart(folder: Path, label: int = 1) -> None:
    """A well-formed table of the right kind, with made-up patients."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 13)).astype(np.float32)
    np.savez(folder / "heart_disease.npz", x=x, y=np.arange(40) % 2 * label, center=np.arange(40) // 2 % 4)


def test_list(cli):
    found = cli("data", "--json").json
    assert [row["name"] for row in found] == [entry.name for entry in catalogue()]
    places = {row["name"]: row["where"] for row in found}
    assert [places.pop(name) for name in ("digits", "heart", "diabetes")] == ["embedded"] * 3
    assert set(places.values()) == {"absent"}
    table = cli("data").out
    assert "undrift data fetch mnist" in table
    assert "60,000 + 10,000" in table
    assert "preprocess.sh" in cli("data", "list", "femnist").out


def test_a_directory_is_looked_through(cli):
    heart(Path("mine"))
    (row,) = cli("data", "list", "heart", "--data-dir", "mine", "--json").json
    assert row["where"] == "directory"
    assert row["path"].endswith("heart_disease.npz")


def test_verify(cli):
    said = cli("data", "verify", "digits", "--json")
    assert said.code == 0
    assert said.json[0]["genuine"] is True
    assert "the published one" in cli("data", "verify", "digits").out


def test_verify_finds_what_is_wrong(cli):
    heart(Path("mine"))
    heart(Path("malformed"), label=9)
    said = cli("data", "verify", "heart", "--data-dir", "mine")
    assert said.code == 2
    assert "not the published one" in said.err
    said = cli("data", "verify", "heart", "--data-dir", "malformed")
    assert said.code == 2
    assert "undrift: " in said.err
    assert "Traceback" not in said.err


def test_absent_data(cli):
    said = cli("data", "verify", "mnist", "digits", "--json")
    assert said.code == ABSENT
    assert "put mnist.npz" in said.err
    assert said.json[0]["error"].startswith("mnist was not found")
    assert said.json[1]["genuine"] is True  # the others get their turn
    for words in (["data", "verify", "mnist"], ["data", "fetch", "femnist"], ["data", "--data-dir", "nowhere"]):
        assert cli(*words).code == ABSENT
    said = cli("run", "--method", "fedavg", "--problem", "network:data=femnist")
    assert said.code == ABSENT
    assert "To obtain it" in said.err


def test_fetch(cli, monkeypatch):
    said = cli("data", "fetch", "digits")
    assert said.code == 0
    assert "nothing to fetch" in said.out
    waits: list[float] = []
    monkeypatch.setattr("pooch.core.time", SimpleNamespace(sleep=waits.append))  # nobody waits here
    monkeypatch.setattr("undrift.data.download.pooch.HTTPDownloader", _no_network)
    said = cli("data", "fetch", "fmnist", "--json")
    assert said.code == ABSENT
    assert len(waits) == 2  # it was tried three times
    assert "could not be fetched" in said.err
    said = cli("run", "--method", "fedavg", "--problem", "network:data=fmnist")
    assert said.code == ABSENT


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["data", "fetch", "mnits"], "did you mean 'mnist'"),
        (["data", "list", "mnits"], "did you mean 'mnist'"),
        (["data", "fetch"], "which data set?"),
        (["data", "verfy"], "did you mean verify?"),
    ],
)
def test_bad_input(cli, words, text):
    said = cli(*words)
    assert said.code == 2
    assert text in said.err


def _no_network(**options):
    def download(url, file, store):
        raise ConnectionError("no network")

    return download
