"""A run that was stopped, killed or interrupted continues and ends with the same bits."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import AbstractContextManager

import numpy as np
import pytest
from core_cases import CASES, PARTIAL, WEIGHTS, logistic_data, problem_of, told

import undrift as ud
from everyday import share
from processes import ended, go_on, process, wait_for_line
from undrift import files
from undrift.engine import simulate
from undrift.errors import StorageError

ARGUMENTS = {"rounds": 80, "seed": 7, "keep_iterates": True, **PARTIAL}


def equal_bits(a: ud.Result, b: ud.Result) -> None:
    np.testing.assert_array_equal(a.x, b.x)
    np.testing.assert_array_equal(a.iterates, b.iterates)
    assert list(a.history) == list(b.history)
    for name, column in a.history.items():
        np.testing.assert_array_equal(column, b.history[name], err_msg=name)
        assert column.dtype == b.history[name].dtype


def stop_after(chunks: int):
    calls = []

    def observe(history: ud.History) -> None:
        calls.append(history.length)
        if len(calls) == chunks:
            raise KeyboardInterrupt

    return observe


@pytest.mark.parametrize("name", share(CASES, 2, of=12))
def test_stopped_and_resumed_equals_uninterrupted(name, tmp_path, monkeypatch):
    method, problem = CASES[name].make(0.05), problem_of(logistic_data(0, WEIGHTS))
    arguments = told(method, **ARGUMENTS)
    whole = ud.run(method, problem, **arguments)
    monkeypatch.setattr(simulate, "CHUNK_SECONDS", 0.0)  # after the first chunk, one round at a time
    for chunks in (1, 3):
        with pytest.raises(ud.Interrupted, match="of 80 rounds") as caught:
            ud.run(method, problem, **arguments, checkpoint=tmp_path, resume=True, observe=stop_after(chunks))
        done = caught.value.result.rounds
        assert 0 < done < 80
        np.testing.assert_array_equal(caught.value.result.iterates, whole.iterates[: done + 1])
    equal_bits(ud.run(method, problem, **arguments, checkpoint=tmp_path, resume=True), whole)


def test_ctrl_c_inside_a_chunk_waits_for_its_end(tmp_path, monkeypatch):
    method, problem = ud.fedlin(eta=0.05), problem_of(logistic_data(0))
    whole = ud.run(method, problem, **ARGUMENTS)
    monkeypatch.setattr(simulate, "CHUNK_SECONDS", 0.0)
    real, before = simulate.compiled_advance, signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupted(kind, *arguments):
        outcome = real(kind, *arguments)
        if outcome[0].round > 34:
            signal.raise_signal(signal.SIGINT)  # the memory was given away, the records do not know yet
        return outcome

    monkeypatch.setattr(simulate, "compiled_advance", interrupted)
    try:
        with pytest.raises(ud.Interrupted) as caught:
            ud.run(method, problem, **ARGUMENTS, checkpoint=tmp_path)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    done = caught.value.result.rounds
    assert 0 < done < 80
    np.testing.assert_array_equal(caught.value.result.x, whole.iterates[done])
    monkeypatch.setattr(simulate, "compiled_advance", real)
    equal_bits(ud.run(method, problem, **ARGUMENTS, checkpoint=tmp_path, resume=True), whole)


SCRIPT = """
import sys
import numpy as np, optax
import undrift as ud
from undrift.engine import simulate
from undrift.errors import StorageError

simulate.CHUNK_SECONDS = 0.0
rng = np.random.default_rng(0)
p = ud.problems.quadratic(np.stack([np.diag(rng.uniform(1, 2, 4)) for _ in range(3)]), rng.normal(size=(3, 4)))

def pause(history):
    if history.length - 1 == int(sys.argv[3]):
        print("here", flush=True)
        sys.stdin.readline()

m = ud.compressed(ud.fedavg(eta=0.05, solver=optax.adam, server=optax.sgd(0.5, momentum=0.9)), up=ud.top_k(2))
try:
    r = ud.run(m, p, rounds=60, steps=3, participation=ud.plan.uniform(2), oracle=ud.oracles.noisy(0.1), seed=5,
               keep_iterates=True, observe=pause, checkpoint=sys.argv[1], checkpoint_seconds=0.0, resume=True)
except ud.Interrupted as stopped:
    print("interrupted", stopped.result.rounds, file=sys.stderr, flush=True)
    raise SystemExit(130)
np.savez(sys.argv[2], x=r.x, iterates=r.iterates, loss=r.history["loss"], up=r.history["bytes_up"])
"""
NEVER = -1


def start(folder, name, pause_at) -> AbstractContextManager[subprocess.Popen[str]]:
    return process(SCRIPT, [str(folder / name), str(folder / f"{name}.npz"), str(pause_at)], folder)


def finish(folder, name) -> None:
    with start(folder, name, NEVER) as made:
        code, errors = ended(made)
        assert code == 0, errors


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """What the script leaves behind where nobody stops it."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulate, "CHUNK_SECONDS", simulate.CHUNK_SECONDS)  # the script changes it
        patch.setattr(sys, "argv", ["", str(folder / "whole"), str(folder / "whole.npz"), str(NEVER)])
        exec(SCRIPT, {})
    return folder / "whole.npz"


BLOWS = [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.mark.slow
@pytest.mark.parametrize("blow", BLOWS, ids=lambda b: b.name)
def test_killed_and_resumed_in_another_process_equals_uninterrupted(blow, whole_run, tmp_path):
    with start(tmp_path, "broken", 40) as made:
        wait_for_line(made, "here")
        made.send_signal(blow)
        if blow != signal.SIGKILL:  # heard between two chunks, so the run has to go on first
            go_on(made)
        code, errors = ended(made)
    assert code == (-blow if blow == signal.SIGKILL else 130), errors
    assert ("interrupted 40" in errors) == (blow != signal.SIGKILL)
    assert not (tmp_path / "broken.npz").exists()
    finish(tmp_path, "broken")
    with np.load(whole_run) as whole, np.load(tmp_path / "broken.npz") as broken:
        for part in whole:
            np.testing.assert_array_equal(broken[part], whole[part], err_msg=part)


def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one(tmp_path, monkeypatch):
    method, problem = ud.fedlin(eta=0.05), problem_of(logistic_data(0))
    whole = ud.run(method, problem, **ARGUMENTS)
    monkeypatch.setattr(simulate, "CHUNK_SECONDS", 0.0)
    real, saved = files.os.fsync, []

    def full_disk(file):
        saved.append(file)
        if len(saved) > 4:  # two for every file: its content and its name
            raise OSError("no space left on device")
        real(file)

    monkeypatch.setattr(files.os, "fsync", full_disk)
    with pytest.raises(StorageError, match="no space left"):
        ud.run(method, problem, **ARGUMENTS, checkpoint=tmp_path, checkpoint_seconds=0.0)
    monkeypatch.setattr(files.os, "fsync", real)
    assert (tmp_path / "checkpoint.npz").exists()
    seen = []
    again = ud.run(
        method,
        problem,
        **ARGUMENTS,
        checkpoint=tmp_path,
        resume=True,
        observe=lambda so_far: seen.append(so_far.length),
    )
    assert seen[0] > 1, "it began anew"
    equal_bits(again, whole)


def test_more_rounds_continue_a_finished_run(tmp_path):
    problem, method = problem_of(logistic_data(1)), ud.fedlin(eta=0.05)
    ud.run(method, problem, rounds=10, steps=2, checkpoint=tmp_path)
    longer = ud.run(method, problem, rounds=25, steps=2, checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(longer.x, ud.run(method, problem, rounds=25, steps=2).x)
    assert longer.history["loss"].shape == (26,)


def small_run(folder, **changes):
    arguments = {"problem": problem_of(logistic_data(1)), "method": ud.fedlin(eta=0.05), "rounds": 5, "steps": 2}
    arguments |= changes
    return ud.run(arguments.pop("method"), arguments.pop("problem"), **arguments, checkpoint=folder, resume=True)


def test_fewer_rounds_than_were_saved_are_refused(tmp_path):
    problem = ud.problems.quadratic(np.ones((2, 1, 1)), np.array([[1.0], [3.0]]))
    ud.run(ud.fedsgd(eta=0.5), problem, rounds=8, checkpoint=tmp_path)
    with pytest.raises(ud.CheckpointError, match="holds 8 rounds already, more than the 3 asked for"):
        ud.run(ud.fedsgd(eta=0.5), problem, rounds=3, checkpoint=tmp_path, resume=True)


def test_a_corrupt_checkpoint_is_refused(tmp_path):
    small_run(tmp_path)
    file = tmp_path / "checkpoint.npz"
    content = file.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    for damaged in (bytes(flipped), content[:-100], content[:10], b""):
        file.write_bytes(damaged)
        with pytest.raises(ud.CheckpointError, match=r"corrupt.*delete it to start this run again"):
            small_run(tmp_path)
    file.write_bytes(content)
    small_run(tmp_path)
