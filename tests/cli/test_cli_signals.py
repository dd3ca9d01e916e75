"""Ctrl-C, SIGTERM and SIGHUP, once and twice, between chunks and inside one: exit 130, and what is left can be resumed."""

from __future__ import annotations

import gc
import itertools
import json
import signal
import threading
from pathlib import Path

import pandas as pd
import pytest
from cli_helpers import QUADRATIC

from everyday import only
from processes import PATIENCE
from undrift import cli as undrift_cli
from undrift.command import listing
from undrift.engine import simulate

HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
RUN = [
    *("run", "--method", "scaffold", "--problem", QUADRATIC, "--steps", "2..9", "--eta", "0.01"),
    *("--participation", "uniform:2", "--rounds", "60", "--no-figures", "--checkpoint-seconds", "0"),
]


@pytest.fixture(autouse=True)
def _usual_handlers(monkeypatch):
    """Python's own, whatever the tests were started with; and small chunks of rounds."""
    monkeypatch.setattr(simulate, "CHUNK_SECONDS", 0.0)
    usual = {number: signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL for number in HEARD}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    now = {number: signal.getsignal(number) for number in HEARD}
    for number, handler in before.items():
        signal.signal(number, handler)
    assert now == usual, "a handler was left behind"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What the run leaves behind where nobody stops it."""
    from undrift.cli import main

    folder = tmp_path_factory.mktemp("whole") / "run"
    assert main([*RUN, "--out", str(folder)]) == 0
    return {name: (folder / name).read_bytes() for name in ("history.csv", "model.npy")}


def struck_inside_a_chunk(monkeypatch, number, times, chunk=4):
    """The signals come after the device has played on and before the records know of it."""
    real, calls = simulate.compiled_advance, []

    def advance(*arguments):
        played = real(*arguments)
        calls.append(1)
        if len(calls) == chunk:
            for _ in range(times):
                signal.raise_signal(number)
        return played

    monkeypatch.setattr(simulate, "compiled_advance", advance)


OFTEN = {(signal.SIGINT, 1), (signal.SIGINT, 2), (signal.SIGTERM, 2), (signal.SIGHUP, 1)}


@pytest.mark.parametrize(
    "struck", only(itertools.product(HEARD, (1, 2)), OFTEN), ids=lambda struck: f"{struck[0].name}-{struck[1]}"
)
def test_signals_inside_a_chunk_of_rounds(cli, struck, whole, monkeypatch):
    number, times = struck
    with monkeypatch.context() as patch:
        struck_inside_a_chunk(patch, number, times)
        said = cli(*RUN, "--out", "r")
    assert said.code == 130
    assert "continue with: undrift run --out r --resume" in said.err
    # Chunks of 2, 1, 1, 1 rounds: the fourth ends with round 4 (round 0 is one of them); at once, it never counted.
    left = 4 if times == 1 else 3
    told = (
        f"stopped after {left} of 60 rounds"
        if times == 1
        else f"stopped at once: the last saved state is round {left} of 60"
    )
    assert told in said.err
    summary = json.loads(Path("r/summary.json").read_text())
    assert (summary["rounds"], summary["status"]) == (left, "interrupted")
    assert Path("r/checkpoint.npz").exists()
    assert len(pd.read_csv("r/history.csv")) == left + 1
    assert cli("run", "--out", "r", "--resume", "--no-figures").code == 0
    for name, content in whole.items():
        assert Path("r", name).read_bytes() == content


def test_two_signals_before_anything_was_saved_leave_nothing_to_continue_from(cli, whole, monkeypatch):
    with monkeypatch.context() as patch:
        struck_inside_a_chunk(patch, signal.SIGTERM, 2, chunk=1)
        said = cli(*RUN, "--out", "r")
    assert said.code == 130
    assert not Path("r/checkpoint.npz").exists()
    assert cli("run", "--out", "r", "--resume", "--no-figures").code == 0
    for name, content in whole.items():
        assert Path("r", name).read_bytes() == content


def test_a_signal_that_is_ignored_stays_so(cli, whole, monkeypatch):
    """As under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        struck_inside_a_chunk(monkeypatch, signal.SIGHUP, 2)
        assert cli(*RUN, "--out", "r").code == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert Path("r/history.csv").read_bytes() == whole["history.csv"]


@pytest.mark.parametrize("times", [1, 2])
def test_signals_during_a_comparison(cli, times, monkeypatch):
    words = ["compare", "--method", "gd", "fedsgd", "--problem", QUADRATIC, "--rounds", "5", "--eta",
             "0.01", "--no-figures"]  # fmt: skip
    from undrift.command.compare_files import Finished

    real, saved = Finished.save, []

    def save(self, *arguments):
        real(self, *arguments)
        if not saved:
            saved.append(1)
            for _ in range(times):
                signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(Finished, "save", save)
        said = cli(*words, "--out", "r")
    assert said.code == 130
    assert cli("compare", "--out", "r", "--resume", "--no-figures").code == 0
    assert cli(*words, "--out", "whole").code == 0
    for name in ("history.csv", "grid.csv"):
        assert Path("r", name).read_bytes() == Path("whole", name).read_bytes()


def test_an_interrupt_where_python_cannot_raise_comes_again(cli, monkeypatch, capfd):
    """The garbage collector's callbacks swallow exceptions: the run must still be stopped, and no traceback shown."""

    def strike(*_):
        gc.callbacks.remove(strike)
        raise KeyboardInterrupt

    def wait(arguments):
        gc.callbacks.append(strike)
        gc.collect()
        threading.Event().wait(PATIENCE)  # until it is interrupted
        return 0

    monkeypatch.setattr(listing, "execute", wait)
    said = cli("list")
    assert said.code == 130
    assert "Traceback" not in said.err
    assert "ignored" not in said.err


def test_an_interrupt_in_the_last_words_is_no_traceback(monkeypatch):
    def struck(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(undrift_cli, "complain", struck)
    monkeypatch.setattr(listing, "execute", struck)
    assert undrift_cli.main(["list"]) == 130
