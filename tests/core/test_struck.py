"""Whatever strikes a run, and wherever: what it leaves behind continues to the bits of a run that nobody disturbed."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import undrift as ud
from everyday import only
from undrift import files
from undrift.engine import simulate
from undrift.engine.description import Run

ROUNDS = 4
PLACES = tuple(
    str(Path(ud.__file__).parent / name)
    for name in ("engine/simulate.py", "engine/recorder.py", "engine/checkpoint.py", "engine/interrupt.py", "files.py")
)


HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def out_of_memory() -> None:
    raise MemoryError


def one_signal() -> None:
    signal.raise_signal(signal.SIGINT)


def two_signals() -> None:
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)


class Blow:
    """Strikes at one line of those files, the first time that it is run in one chunk of rounds; else notes all such places."""

    def __init__(self, strike: Callable[[], None] | None = None, at: tuple[int, str, int] | None = None) -> None:
        self.strike, self.at, self.chunks = strike, at, 0
        self.seen: dict[tuple[int, str, int], None] = {}

    def __enter__(self) -> Blow:
        sys.settrace(self._enter)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if (
            code.co_filename not in PLACES or code.co_name == "simulate"
        ):  # its `with` has an end that only tracers can strike
            return None
        self.chunks += code.co_name == "_chunk"
        return self._step

    def _step(self, frame: FrameType, event: str, argument: Any) -> Any:
        place = (self.chunks, frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and place not in self.seen:
            self.seen[place] = None
            if place == self.at and self.strike is not None:
                self.strike()
        return self._step


@pytest.fixture(scope="module")
def described() -> Run:
    problem = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    steps = ud.plan.random_steps(1, 3)
    return ud.describe(ud.fedavg(eta=0.1), problem, rounds=ROUNDS, steps=steps, record_every=3, keep_iterates=True)


def played(run: Run, folder: Path | None = None) -> ud.Result:
    return simulate.simulate(run, checkpoint=folder, checkpoint_seconds=0.0, resume=True)


def same(one: ud.Result, other: ud.Result) -> None:
    assert one.rounds == other.rounds
    np.testing.assert_array_equal(one.x, other.x)
    np.testing.assert_array_equal(one.iterates, other.iterates)
    for name, column in one.history.items():
        np.testing.assert_array_equal(column, other.history[name], err_msg=name)


@pytest.fixture
def usual_handlers():
    """Python's own, whatever the tests were started with, and the same again afterwards."""
    usual = {number: signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL for number in HEARD}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield usual
    for number, handler in before.items():
        signal.signal(number, handler)


def left_by(blow: Blow, run: Run, folder: Path) -> tuple[str, ud.Result | None]:
    """How a run that is struck ends, and what it hands over."""
    with blow:
        try:
            return "finished", played(run, folder)
        except ud.Interrupted as stopped:
            return "interrupted", stopped.result
        except (KeyboardInterrupt, MemoryError):
            return "ended", None


@pytest.mark.parametrize("strike", only([one_signal, two_signals, out_of_memory], {two_signals}))
@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_struck_at_any_line_it_continues_to_the_same_bits(
    strike, every, described, tmp_path, monkeypatch, usual_handlers
):
    monkeypatch.setattr(simulate, "CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(simulate._Simulation, "_identity", lambda self: "the one")  # nobody doubts it here
    monkeypatch.setattr(files.os, "fsync", lambda handle: None)
    whole = played(described)
    looking = Blow()
    assert left_by(looking, described, tmp_path / "counted")[0] == "finished"
    ends: Counter[str] = Counter()
    for place, at in enumerate(list(looking.seen)[::every]):
        folder = tmp_path / str(place)
        how, result = left_by(Blow(strike, at), described, folder)
        ends[how] += 1
        if result is not None:
            np.testing.assert_array_equal(result.iterates, whole.iterates[: result.rounds + 1])
            np.testing.assert_array_equal(result.x, whole.iterates[result.rounds])
            assert result.history.length == result.rounds + 1
        if strike is not out_of_memory:  # which may strike the very end of `with` and leave a handler behind
            assert {number: signal.getsignal(number) for number in HEARD} == usual_handlers
        for number, handler in usual_handlers.items():
            signal.signal(number, handler)
        same(played(described, folder), whole)
    assert ends["finished"] == 0
    assert (ends["interrupted"] > 0) == (strike is not out_of_memory)
