"""Runs with clients' rows in a file give the numbers of those with everything in memory, and survive any death."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from core_cases import CASES, PARTIAL, WEIGHTS, least_squares_data, logistic_data, problem_of, told

import undrift as ud
from everyday import only, share
from processes import ended, process, wait_for_line
from undrift import files, memory
from undrift.engine import outofcore, rows, simulate, table
from undrift.engine.rows import RowFile
from undrift.problems import streamed

ARGUMENTS = {"rounds": 13, "seed": 7, "record_every": 4, "keep_iterates": True, "per_client": True, **PARTIAL}
IN_ONE_PLACE = ("gd", "sgd", "iag")
FILLS_SLOTS = ("fedlin table", "fedlin one exchange")  # of all clients, before round 1


def same(a: ud.Result, b: ud.Result, rtol: float = 1e-12) -> None:
    assert (list(a.history), list(a.clients), a.rounds, a.stopped) == (
        list(b.history),
        list(b.clients),
        b.rounds,
        b.stopped,
    )
    pairs = [(a.x, b.x), *((a.history[name], b.history[name]) for name in a.history)]
    pairs += [(a.iterates, b.iterates)] if a.iterates is not None else []
    pairs += [(a.clients[name], b.clients[name]) for name in a.clients]
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-13)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Two clients at a time are looked at, so that sums are sums of parts."""
    monkeypatch.setattr(streamed, "BLOCK_BYTES", 1200)


@pytest.mark.parametrize("name", FILLS_SLOTS)
def test_a_start_that_fills_slots_is_refused(name, tmp_path):
    method = CASES[name].make(0.05)
    with pytest.raises(ud.InputError, match="keeps slots"):
        ud.run(method, problem_of(logistic_data(0, WEIGHTS)), **told(method, **ARGUMENTS), store=tmp_path)


IN_FILES = [name for name in CASES if name not in (*IN_ONE_PLACE, *FILLS_SLOTS)]


@pytest.mark.parametrize("name", only(IN_FILES, {"fedlin compressed"}))
def test_the_numbers_of_a_run_in_memory(name, tmp_path):
    method, problem = CASES[name].make(0.05), problem_of(logistic_data(0, WEIGHTS))
    assert streamed.Streamed(problem, None, False).rows == 2
    arguments = told(method, **ARGUMENTS)
    same(ud.run(method, problem, **arguments, store=tmp_path), ud.run(method, problem, **arguments))
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ssl", "fedavg"])
def test_split_learning_keeps_its_slots_there(name, tmp_path):
    rng = np.random.default_rng(0)
    data = rng.normal(size=(60, 4)).astype(np.float32), rng.integers(0, 3, 60)
    parts = np.split(rng.permutation(60), 6)
    model = ud.models.mlp((5,), classes=3, input=(4,))
    problem = ud.problems.network(model, data, parts, test=data, batch=3, cut=1)
    arguments = {"rounds": 7, "steps": 2, "participation": ud.plan.uniform(2), "record_every": 3}
    method = {"ssl": ud.ssl, "fedavg": ud.fedavg}[name](eta=0.1)
    whole = ud.run(method, problem, **arguments)
    same(ud.run(method, problem, **arguments, store=tmp_path), whole, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("who", share([None, ud.plan.uniform(3, replace=True), ud.plan.weighted(2)], 1))
def test_whoever_takes_part(who, tmp_path):
    problem = problem_of(logistic_data(1, WEIGHTS))
    arguments = {"rounds": 6, "steps": 2, "record_every": 5, "participation": who}
    method = ud.fedlin(eta=0.05, down=ud.top_k(3))
    same(ud.run(method, problem, **arguments, store=tmp_path), ud.run(method, problem, **arguments))


def test_a_rule_ends_it_in_the_same_round(tmp_path):
    problem = problem_of(logistic_data(0))
    for rule in (ud.stop.at(gap=0.05), ud.stop.at(drift=0.02), ud.stop.patience(5)):
        arguments = {"rounds": 40, "steps": 3, "record_every": 2, "stop": rule, "participation": ud.plan.uniform(3)}
        whole = ud.run(ud.fedavg(eta=0.02), problem, **arguments)
        assert whole.stopped is not None
        same(ud.run(ud.fedavg(eta=0.02), problem, **arguments, store=tmp_path), whole)


def test_a_divergence_is_seen_in_the_same_round(tmp_path):
    problem = problem_of(least_squares_data(0))
    found = []
    for more in ({}, {"store": tmp_path}):
        with pytest.raises(ud.DivergenceError) as caught:
            ud.run(ud.scaffold(eta=1e30), problem, **{**ARGUMENTS, "rounds": 40}, **more)
        found.append(caught.value)
    assert (found[0].round, found[0].client) == (found[1].round, found[1].client)
    np.testing.assert_allclose(found[0].result.x, found[1].result.x, rtol=1e-12)


# ----- deaths
class Dead(BaseException):
    """As good as a killed process: nothing after it is done."""


def dies_at(monkeypatch: pytest.MonkeyPatch, step: int) -> list[str]:
    """Let the `step`-th change on the disk be the last one, and half done; returns a list in which they are noted."""
    noted: list[str] = []

    def guard(owner: object, name: str) -> None:
        real = getattr(owner, name)

        def act(*arguments, **named):
            noted.append(name)
            if len(noted) == step:
                if name == "_write_whole":
                    real(arguments[0], arguments[1][: len(arguments[1]) // 2])
                raise Dead
            return real(*arguments, **named)

        monkeypatch.setattr(owner, name, act)

    for owner, name in ((rows, "_write_whole"), (RowFile, "settle"), (RowFile, "settled"), (files.os, "replace")):
        guard(owner, name)
    return noted


@pytest.mark.slow
def test_whenever_it_dies_it_continues_to_the_same_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(simulate, "CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(outofcore.OutOfCore, "_identity", lambda self: "the one")  # nobody doubts it here
    monkeypatch.setattr(table, "IN_MEMORY", 0)  # iterates are in a file as well
    problem = problem_of(logistic_data(0))
    run = ud.describe(
        ud.fedlin(eta=0.05, up=ud.top_k(2)), problem, rounds=6, keep_iterates=True, record_every=2, **PARTIAL
    )
    whole = simulate.simulate(run, store=tmp_path / "whole")

    def played(folder: Path) -> ud.Result:
        return simulate.simulate(run, checkpoint=folder, store=folder, checkpoint_seconds=0.0, resume=True)

    with monkeypatch.context() as patch:
        noted = dies_at(patch, 0)
        played(tmp_path / "counted")
    assert set(noted) == {"_write_whole", "settle", "settled", "replace"}
    for step in range(1, len(noted) + 1):
        folder = tmp_path / str(step)
        with monkeypatch.context() as patch:
            dies_at(patch, step)
            with pytest.raises(Dead):
                played(folder)
        again = played(folder)
        np.testing.assert_array_equal(again.iterates, whole.iterates)
        np.testing.assert_array_equal(again.history["loss"], whole.history["loss"])
        assert len(list(folder.glob("rows-*.bin"))) == len(list(folder.glob("table-*.bin"))) == 1


SCRIPT = """
import sys
import numpy as np
import undrift as ud
from undrift.engine import simulate

simulate.CHUNK_SECONDS = 0.0
rng = np.random.default_rng(0)
p = ud.problems.logistic(rng.normal(size=(9, 3, 4)), np.where(rng.normal(size=(9, 3)) > 0, 1, -1), l2=0.1)

def pause(history):
    if history.length - 1 == int(sys.argv[3]):
        print("here", flush=True)
        sys.stdin.readline()

r = ud.run(ud.scaffold(eta=0.05), p, rounds=20, steps=3, participation=ud.plan.uniform(2), observe=pause,
           checkpoint=sys.argv[1], store=sys.argv[1] + "-rows", checkpoint_seconds=0.0, resume=True)
np.save(sys.argv[2], r.x)
"""


@pytest.mark.slow
def test_a_killed_process_is_continued_by_another(tmp_path):
    for name, pause_at in (("broken", 12), ("broken", -1), ("whole", -1)):
        with process(SCRIPT, [str(tmp_path / name), str(tmp_path / f"{name}.npy"), str(pause_at)], tmp_path) as made:
            if pause_at > 0:
                wait_for_line(made, "here")
                made.kill()
            code, errors = ended(made)
            assert (code == 0) == (pause_at < 0), errors
    np.testing.assert_array_equal(np.load(tmp_path / "broken.npy"), np.load(tmp_path / "whole.npy"))


def test_a_checkpoint_is_resumed_as_it_was_begun(tmp_path):
    problem, method = problem_of(logistic_data(0)), ud.scaffold(eta=0.05)
    arguments = {"rounds": 4, "participation": ud.plan.uniform(2)}
    ud.run(method, problem, **arguments, checkpoint=tmp_path, store=tmp_path / "rows")
    with pytest.raises(ud.CheckpointError, match="rows in a file, and it is resumed without a store"):
        ud.run(method, problem, **arguments, checkpoint=tmp_path, resume=True)
    with pytest.raises(ud.CheckpointError, match="belongs to another run"):
        ud.run(ud.scaffold(eta=0.06), problem, **arguments, checkpoint=tmp_path, store=tmp_path / "rows", resume=True)
    longer = ud.run(
        method, problem, **{**arguments, "rounds": 9}, checkpoint=tmp_path, store=tmp_path / "rows", resume=True
    )
    same(longer, ud.run(method, problem, **{**arguments, "rounds": 9}))
    (held,) = (tmp_path / "rows").glob("rows-*.bin")
    held.write_bytes(held.read_bytes()[:-1])
    with pytest.raises(ud.CheckpointError, match="too short for the rows"):
        ud.run(method, problem, **{**arguments, "rounds": 9}, checkpoint=tmp_path, store=tmp_path / "rows", resume=True)


# ----- when it is done unasked, and what is refused
def test_memories_that_do_not_fit_go_to_a_file_unasked(monkeypatch):
    A = np.random.default_rng(0).normal(size=(40, 1, 6))
    problem, opened = ud.problems.logistic(A, np.ones((40, 1)), l2=0.1), []
    real = outofcore.RowFile
    monkeypatch.setattr(outofcore, "RowFile", lambda *given, **named: opened.append(given[0]) or real(*given, **named))
    arguments = {"rounds": 3, "participation": ud.plan.uniform(2)}
    whole = ud.run(ud.scaffold(eta=0.05), problem, **arguments)
    assert not opened
    monkeypatch.setattr(memory, "installed", lambda: 2 * 40 * 6 * 8 - 1)
    same(ud.run(ud.scaffold(eta=0.05), problem, **arguments), whole)
    assert opened
    assert not opened[0].exists()


def test_what_cannot_be_played_from_a_file_is_played_in_memory_where_nobody_asked(monkeypatch):
    problem = problem_of(logistic_data(0))
    monkeypatch.setattr(memory, "installed", lambda: 1)
    result = ud.run(ud.scaffold(eta=0.1), problem, rounds=2, diagnostics=True, participation=ud.plan.uniform(2))
    assert "variate_error" in result.history


def test_a_store_may_be_the_folder_of_the_checkpoint_by_another_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    problem = problem_of(logistic_data(0))
    ud.run(ud.scaffold(eta=0.1), problem, rounds=2, checkpoint="here", store=tmp_path / "here", **PARTIAL)
    assert list((tmp_path / "here").glob("rows-*.bin"))


def test_a_copied_checkpoint_gets_rows_of_its_own(tmp_path):
    problem = problem_of(logistic_data(0))
    arguments = {"seed": 3, "checkpoint_seconds": 0.0, "store": tmp_path / "rows", **PARTIAL}
    whole = ud.run(ud.scaffold(eta=0.1), problem, rounds=9, seed=3, **PARTIAL)
    ud.run(ud.scaffold(eta=0.1), problem, rounds=5, checkpoint=tmp_path / "a", **arguments)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    for folder in ("b", "a"):
        played = ud.run(ud.scaffold(eta=0.1), problem, rounds=9, checkpoint=tmp_path / folder, resume=True, **arguments)
        same(played, whole)
    assert len(list((tmp_path / "rows").glob("rows-*.bin"))) == 2


def test_an_interrupt_in_the_first_chunk_is_an_interrupt(tmp_path):
    problem = problem_of(logistic_data(0))

    def interrupt(history):
        raise KeyboardInterrupt

    with pytest.raises((KeyboardInterrupt, ud.Interrupted)):
        ud.run(ud.scaffold(eta=0.1), problem, rounds=3, store=tmp_path, observe=interrupt, **PARTIAL)


def test_what_needs_all_rows_at_once_is_refused(tmp_path):
    problem = problem_of(logistic_data(0))
    with pytest.raises(ud.InputError, match="holds all data in one place"):
        ud.run(ud.gd(eta=0.1), problem, rounds=1, store=tmp_path)
    with pytest.raises(ud.InputError, match="diagnostics of scaffold look at the memories of all clients"):
        ud.run(ud.scaffold(eta=0.1), problem, rounds=1, diagnostics=True, store=tmp_path)


def begins(receive, server=lambda x: (x, ())) -> ud.Algorithm:
    """A method whose start is one exchange with this receiver."""
    ask = ud.Exchange("ask", lambda x, slot: x, lambda mine, x, local: (mine, local.gradient(x)), receive)
    return ud.Algorithm((ask._replace(name="local"),), server=server, start=(ask,))


def test_a_start_is_played_by_blocks_if_it_needs_sums_alone(tmp_path):
    problem = problem_of(logistic_data(0, WEIGHTS))
    arguments = {"rounds": 2, "participation": ud.plan.uniform(2)}

    def in_two_sums(x, slots, ups, cohort):
        mean = cohort.mean(ups)
        return x - 0.1 * mean - 0.01 * cohort.total((ups - mean[None]) ** 2), slots

    same(
        ud.run(begins(in_two_sums), problem, **arguments, store=tmp_path),
        ud.run(begins(in_two_sums), problem, **arguments),
    )
    largest = begins(lambda x, slots, ups, cohort: (x - 0.1 * ups.max(axis=0), slots))
    with pytest.raises(ud.InputError, match="answers of all clients at once"):
        ud.run(largest, problem, **arguments, store=tmp_path)
    slots = begins(lambda x, slots, ups, cohort: (x, ups), server=lambda x: (x, x))
    with pytest.raises(ud.InputError, match="without slots, can be played"):
        ud.run(slots, problem, **arguments, store=tmp_path)
