"""Disks that refuse, streams that nobody reads: a clear word, an exit code, and nothing lost."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kills import refused_at

import undrift as ud

TINY = ["--problem", "quadratic:clients=2,dim=2", "--rounds", "3", "--steps", "2"]
RUN = ["run", "--method", "gd", *TINY, "--eta", "0.05"]
FULL = OSError(errno.ENOSPC, "No space left on device")


def files_of(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def test_no_room_for_figures_leaves_the_results(cli, monkeypatch):
    real = os.open

    def full(path, *rest, **named):
        if Path(path).name.startswith(".figure"):
            raise FULL
        return real(path, *rest, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", full)
        said = cli(*RUN, "--out", "r")
    assert said.code == 7
    assert "r/figure.png cannot be written or read: No space left on device; make room" in said.err
    assert set(files_of("r")) == {
        "study.toml",
        "history.csv",
        "model.npy",
        "clients.npz",
        "checkpoint.npz",
        "progress.jsonl",
    }
    assert cli("run", "--out", "r", "--resume", "--no-figures").code == 0
    cli(*RUN, "--out", "whole", "--no-figures")
    for name in ("history.csv", "model.npy"):
        assert files_of("r")[name] == files_of("whole")[name]


def test_no_room_for_a_checkpoint_stops_the_run_and_keeps_what_was_computed(cli, monkeypatch):
    monkeypatch.setattr("undrift.engine.simulate.CHUNK_SECONDS", 0.0)  # one round at a time
    words = [*RUN, "--rounds", "6", "--checkpoint-seconds", "0", "--no-figures"]
    real, saved = os.replace, []

    def full(name, target):
        saved.append(target)
        if Path(target).name == "checkpoint.npz" and len(saved) > 3:
            raise FULL
        return real(name, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        said = cli(*words, "--out", "r")
    assert said.code == 7
    assert "r/checkpoint.npz cannot be written" in said.err
    assert "undrift run --out r --resume" in said.err
    rows = Path("r/history.csv").read_text().splitlines()
    assert 2 < len(rows) < 8
    assert cli("run", "--out", "r", "--resume", "--no-figures").code == 0
    cli(*words, "--out", "whole")
    for name in ("history.csv", "model.npy"):
        assert files_of("r")[name] == files_of("whole")[name]


def test_no_room_for_the_last_checkpoint_is_no_matter_where_the_results_have_room(cli, monkeypatch):
    real = os.replace

    def full(name, target):
        if Path(target).name == "checkpoint.npz":
            raise FULL
        return real(name, target)

    monkeypatch.setattr(os, "replace", full)
    assert cli(*RUN, "--out", "r", "--no-figures").code == 0
    assert set(files_of("r")) == {"study.toml", "history.csv", "model.npy", "clients.npz", "summary.json"}


def test_the_library_hands_over_what_was_computed(monkeypatch, tmp_path):
    problem = ud.problems.quadratic(np.ones((2, 1, 1)), np.array([[1.0], [3.0]]))
    whole = ud.run(ud.fedsgd(eta=0.5), problem, rounds=4)

    def full(name, target):
        raise FULL

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ud.StorageError, match="No space left") as caught:
        ud.run(ud.fedsgd(eta=0.5), problem, rounds=4, checkpoint=tmp_path)
    assert np.array_equal(caught.value.result.x, whole.x)
    assert not list(tmp_path.iterdir())


def test_an_old_run_survives_a_new_one_that_has_no_room(cli, monkeypatch, tmp_path):
    cli(*RUN, "--out", "r", "--no-figures")
    before = files_of("r")

    def overwrite():
        return cli(*RUN, "--out", "r", "--no-figures", "--eta", "0.1", "--overwrite")

    # The study is the first that is written: no room for it, and nothing has happened.
    said = refused_at(monkeypatch, tmp_path / "r", FULL, lambda now, name: name == "fsync", overwrite)
    assert said.code == 7
    assert files_of("r") == before


@pytest.mark.parametrize(
    ("code", "reason"), [(errno.EROFS, "mounted read-only"), (errno.EACCES, "ask for the right to write there")]
)
def test_a_directory_that_may_not_be_written(cli, monkeypatch, tmp_path, code, reason):
    error = OSError(code, os.strerror(code))
    for out in ("new", "there"):
        Path("there").mkdir(exist_ok=True)
        said = refused_at(monkeypatch, tmp_path / out, error, lambda *_: True, lambda out=out: cli(*RUN, "--out", out))
        assert said.code == 7
        assert reason in said.err
        assert out in said.err
        assert "Traceback" not in said.err


@pytest.mark.parametrize("command", [RUN, ["compare", *TINY], ["partition", "--data", "digits"], ["advise", *TINY[:2]]])
@pytest.mark.parametrize(
    ("out", "code", "reason"),
    [
        ("file/below", 7, "a part of the path is a file"),
        ("n" * 300, 7, "choose a shorter name"),
        ("a\0b", 2, "NUL"),
        ("a\udcffb", 2, "valid UTF-8"),
        ("file", 2, "is a file"),
    ],
    ids=["below a file", "too long", "NUL", "no UTF-8", "a file"],
)
def test_places_that_cannot_be(cli, command, out, code, reason):
    Path("file").write_text("mine")
    said = cli(*command, "--out", out)
    assert said.code == code
    assert reason in said.err
    assert "Traceback" not in said.err
    assert files_of(".") == {"file": b"mine"}


class Full:
    """A stream on a full disk, or one whose reader has gone."""

    encoding = "utf-8"

    def __init__(self, error: OSError) -> None:
        self.error = error

    def write(self, text: str) -> int:
        raise self.error

    def flush(self) -> None:
        raise self.error

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "no descriptor")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_run_goes_on_when_nobody_listens(cli, monkeypatch, stream):
    with monkeypatch.context() as patch:
        patch.setattr(sys, stream, Full(BrokenPipeError(errno.EPIPE, "Broken pipe")))
        assert cli(*RUN, "--out", "r", "--no-figures").code == 0
    assert set(files_of("r")) == {"study.toml", "history.csv", "model.npy", "clients.npz", "summary.json"}


def test_output_that_has_no_room_is_said(cli, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Full(FULL))
        said = cli(*RUN, "--out", "r", "--no-figures", "--json")
    assert said.code == 7
    assert "standard output cannot be written or read: No space left on device" in said.err
    assert "summary.json" in files_of("r")


@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [
        ("| true", 0, ""),
        (">&-", 0, ""),
        (">&- 2>&- <&-", 0, ""),
        ("2>&1 | true", 0, ""),
        ("> /dev/full", 7, "undrift: standard output cannot be written or read: No space left on device"),
    ],
)
def test_shells(tmp_path, redirection, code, said):
    """To the very end of the interpreter, which flushes what is left."""
    command = f"set -o pipefail; {sys.executable} -m undrift run --help {redirection}"
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, check=False, env=usual)
    assert done.returncode == code
    assert done.stderr.startswith(said)
    assert "Exception" not in done.stderr
    assert bool(done.stderr) == bool(said)


def test_a_terminal_without_greek(cli, monkeypatch):
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", ascii_only)
        assert cli("compare", "--method", "gd", *TINY, "--out", "r", "--no-figures").code == 0
    assert "gd" in ascii_only.buffer.getvalue().decode("ascii")


@pytest.mark.parametrize(
    ("error", "code", "texts"),
    [
        (MemoryError("Unable to allocate 745. GiB"), 2, ["does not fit into the memory", "745. GiB", "fewer clients"]),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes"), 2, ["does not fit into the memory"]),
        (RecursionError(), 2, ["nested too deeply"]),
        (PermissionError(errno.EACCES, "Permission denied", "x.npy"), 7, ["x.npy", "Permission denied", "the right"]),
        (KeyboardInterrupt(), 130, ["interrupted"]),
        (ZeroDivisionError("oh"), 1, ["a fault of undrift itself: ZeroDivisionError: oh", "report", "UNDRIFT_DEBUG=1"]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_every_error_has_its_words_and_its_code(cli, monkeypatch, error, code, texts):
    def fail(arguments):
        raise error

    monkeypatch.setattr("undrift.command.listing.execute", fail)
    said = cli("list")
    assert said.code == code
    assert all(text in said.err for text in texts)
    assert "Traceback" not in said.err
    assert len(said.err.splitlines()) == 1
    monkeypatch.setenv("UNDRIFT_DEBUG", "1")
    assert "Traceback" in cli("list").err


@pytest.mark.parametrize("command", [RUN, ["partition", "--data", "digits"], ["advise", *TINY[:2]]])
def test_a_place_without_rights_is_refused_before_anything_is_computed(cli, monkeypatch, command):
    monkeypatch.setattr(os, "access", lambda *_: False)
    said = cli(*command, "--out", "new/deep")
    assert said.code == 7
    assert "new/deep cannot be written or read: Permission denied; ask for the right to write there" in said.err
    assert not Path("new").exists()
