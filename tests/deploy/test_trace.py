"""Traces: written line by line, read as if a stranger had written them, and played by the simulation."""

from __future__ import annotations

import json

import numpy as np
import pytest
from chaos import Book, Federation
from federations import COHORTS, UNEQUAL, logistic

import undrift as ud
from undrift import tracefile
from undrift.absences import Absences, Traced

HEAD = {"undrift trace": 1, "deadline": 5.0}


def row(t, answered=(1, 1), ids=(0, 1), steps=(2, 2), **more):
    return {"round": t, "ids": list(ids), "steps": list(steps), "answered": list(answered), **more}


def written(tmp_path, *rows, head=HEAD):
    file = tmp_path / "trace.jsonl"
    for line in (head, *rows):
        tracefile.append(file, line)
    return file


def test_what_is_written_is_read(tmp_path):
    file = tmp_path / "trace.jsonl"
    tracefile.begin(file, 5.0, contract="abc")
    tracefile.begin(file, 5.0, contract="abc")  # a server that starts again
    tracefile.append(file, row(1))
    tracefile.append(file, row(2, (0, 1), resets=[1]))
    found = ud.plan.trace(file)
    assert found.rounds == {1: Traced((0, 1), (2, 2), frozenset()), 2: Traced((0, 1), (2, 2), frozenset({0}), (1,))}
    assert found.possible
    assert found.resets == {2: (1,)}
    assert str(found) == "trace of 2 rounds, 1 answers missing"


def test_without_a_deadline_nobody_can_be_absent(tmp_path):
    assert not ud.plan.trace(written(tmp_path, row(1), head={**HEAD, "deadline": None})).possible


def test_a_line_that_was_cut_is_left_out_and_removed(tmp_path):
    file = written(tmp_path, row(1), row(2))
    whole = file.read_bytes()
    for length in range(len(whole) - 1, whole.rindex(b"\n", 0, -1), -7):
        file.write_bytes(whole[:length])
        assert len(ud.plan.trace(file).rounds) == 1
        tracefile.append(file, row(2, (0, 1)))
        assert ud.plan.trace(file).rounds[2].silent == {0}
        assert len(file.read_bytes().splitlines()) == 3


def test_a_first_line_that_was_cut_begins_anew(tmp_path):
    file = tmp_path / "trace.jsonl"
    file.write_bytes(b'{"undrift tr')
    tracefile.begin(file, None)
    assert len(file.read_bytes().splitlines()) == 1
    assert not ud.plan.trace(file).rounds


def test_a_server_that_went_back_is_believed(tmp_path):
    """Of rounds that were played again the last record counts, and what came after the first one does not."""
    file = written(tmp_path, row(1), row(2), row(3), row(2, (0, 1)))
    assert {t: r.silent for t, r in ud.plan.trace(file).rounds.items()} == {1: set(), 2: {0}}


HOSTILE = {
    "empty": b"",
    "not JSON": b"hello\n",
    "binary": bytes(range(256)) + b"\n",
    "another file": b'{"a": 1}\n',
    "another format": b'{"undrift trace": 2, "deadline": 1.0}\n',
    "a list": b"[1, 2]\n",
    "a deadline of zero": b'{"undrift trace": 1, "deadline": 0}\n',
    "deep": b"[" * 100_000 + b"\n",
}
ROWS = {
    "no JSON": b"oops\n",
    "a list": b"[]\n",
    "missing": b'{"round": 1}\n',
    "round 0": json.dumps(row(0)).encode() + b"\n",
    "a gap": json.dumps(row(3)).encode() + b"\n",
    "unequal lists": json.dumps(row(1, (1,))).encode() + b"\n",
    "a negative client": json.dumps(row(1, ids=(-1, 0))).encode() + b"\n",
    "a fraction": json.dumps(row(1, steps=(1.5, 2))).encode() + b"\n",
    "an answer that is 2": json.dumps(row(1, (2, 1))).encode() + b"\n",
    "huge": b'{"round": 1' + b"0" * 5000 + b"}\n",
    "deep": b'{"round": ' + b"[" * 100_000 + b"\n",
    "text": json.dumps(row(1, ids="ab")).encode() + b"\n",
    "NaN": b'{"round": NaN, "ids": [], "steps": [], "answered": []}\n',
}


@pytest.mark.parametrize("content", [pytest.param(content, id=name) for name, content in HOSTILE.items()])
def test_what_is_no_trace_is_refused(tmp_path, content):
    file = tmp_path / "trace.jsonl"
    file.write_bytes(content)
    with pytest.raises(ud.InputError, match="is not a trace of undrift"):
        ud.plan.trace(file)


@pytest.mark.parametrize("line", [pytest.param(line, id=name) for name, line in ROWS.items()])
def test_a_damaged_line_is_refused(tmp_path, line):
    file = written(tmp_path)
    file.write_bytes(file.read_bytes() + line)
    with pytest.raises(ud.InputError, match=r"damaged: line 2"):
        ud.plan.trace(file)


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    file = written(tmp_path)
    monkeypatch.setattr(tracefile, "LONGEST", 1000)
    file.write_bytes(file.read_bytes() + b" " * 5000)
    with pytest.raises(ud.InputError, match="a line of more than 1000 bytes"):
        ud.plan.trace(file)


def test_no_file_and_no_right_to_write(tmp_path):
    with pytest.raises(ud.InputError, match="cannot be read"):
        ud.plan.trace(tmp_path / "nowhere.jsonl")
    with pytest.raises(ud.StorageError, match="nowhere"):
        tracefile.append(tmp_path / "nowhere" / "trace.jsonl", row(1))


# ----- played by the simulation
ROUNDS = 4
BASE = {"rounds": ROUNDS, "seed": 3, **COHORTS}


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """A run in which one of two members is silent in every second round."""
    plan = ud.describe(ud.scaffold(eta=0.05), logistic(), **BASE).plan.draw(1, ROUNDS)
    rows = [row(t + 1, (1, t % 2), ids=plan.ids[t].tolist(), steps=plan.steps[t].tolist()) for t in range(ROUNDS)]
    return written(tmp_path_factory.mktemp("traced"), *rows)


def test_both_interpreters_play_a_trace(traced):
    plan = ud.plan.trace(traced)
    one = ud.run(ud.scaffold(eta=0.05), logistic(), plan=plan, **BASE)
    two = ud.loopback(ud.scaffold(eta=0.05), logistic(), plan=plan, **BASE)
    np.testing.assert_allclose(one.x, two.x, rtol=0, atol=1e-12)
    assert one.setting["plan"] == "trace of 4 rounds, 2 answers missing"
    np.testing.assert_array_equal(np.diff(one.history["bytes_up"]) > 0, True)
    np.testing.assert_array_equal(one.history["bytes_up"], two.history["bytes_up"])
    assert np.any(one.x != ud.run(ud.scaffold(eta=0.05), logistic(), **BASE).x)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": 4}, "asks the clients"),
        ({"steps": 3}, "has the local steps"),
        ({"participation": ud.plan.uniform(3)}, "asks the clients"),
        ({"participation": None}, "asks the clients"),
        ({"rounds": 5}, "holds 4 rounds, and 5 are to be played"),
        ({"failures": 0.9}, "lets fail the clients"),
        ({"plan": "trace.jsonl"}, r"ud.plan.trace\(file\)"),
    ],
    ids=str,
)
def test_the_trace_of_another_run_is_refused(traced, changes, words):
    with pytest.raises(ud.InputError, match=words):
        ud.run(ud.scaffold(eta=0.05), logistic(), **{**BASE, "plan": ud.plan.trace(traced), **changes})


def test_a_sweep_has_no_trace(traced):
    with pytest.raises(ud.InputError, match="sweep does not take plan"):
        ud.sweep(ud.scaffold, logistic(), grid={"eta": [0.1]}, rounds=4, plan=ud.plan.trace(traced))


def test_checkpoints_know_the_trace(traced, tmp_path):
    method, plan = ud.scaffold(eta=0.05), ud.plan.trace(traced)
    whole = ud.run(method, logistic(), plan=plan, **BASE)
    ud.run(method, logistic(), plan=plan, **{**BASE, "rounds": 2}, checkpoint=tmp_path, checkpoint_seconds=0)
    later = {**plan.rounds, 1: plan.rounds[1]._replace(silent=frozenset())}
    for other in (None, Absences(), Absences(later)):
        with pytest.raises(ud.CheckpointError, match="belongs to another run"):
            ud.run(method, logistic(), plan=other, **BASE, checkpoint=tmp_path, resume=True)
    resumed = ud.run(method, logistic(), plan=plan, **BASE, checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(resumed.x, whole.x)


def test_a_checkpoint_without_a_trace_is_not_resumed_with_one(traced, tmp_path):
    method = ud.scaffold(eta=0.05)
    ud.run(method, logistic(), **{**BASE, "rounds": 2}, failures=0.1, checkpoint=tmp_path, checkpoint_seconds=0)
    with pytest.raises(ud.CheckpointError, match="belongs to another run"):
        ud.run(method, logistic(), plan=Absences(), failures=0.1, **BASE, checkpoint=tmp_path, resume=True)


# ----- a site that lost its memory
def test_a_reset_is_in_the_trace_and_is_replayed(tmp_path):
    own = Federation(ud.scaffold(eta=0.05), logistic(), rounds=6, seed=3, **UNEQUAL)
    chaos, file = own.chaos(0), tmp_path / "trace.jsonl"

    def loses(site, frame):
        if site == "s2" and getattr(frame, "round", 0) == 4 and own.states["s2"] == "s2":
            own.states["s2"] = "another"
            own.disks["s2"] = type(own.disks["s2"])()
            own.reset.add("s2")
            chaos.kill("s2")
            return True
        return False

    chaos.ignores = loses
    result = own.play(chaos, Book(file))
    rows = [json.loads(line) for line in file.read_text().splitlines()[1:]]
    assert [r["resets"] for r in rows] == [[], [], [], [2], [], []]
    plan = ud.plan.trace(file)
    replayed = own.simulated(plan=plan)
    np.testing.assert_allclose(result.x, replayed.x, rtol=0, atol=1e-12)
    assert np.max(np.abs(result.x - own.simulated().x)) > 1e-6, "losing one's memory shows"
    with pytest.raises(ud.InputError, match="message passing, without checkpoints"):
        own.simulated(plan=plan, checkpoint=tmp_path / "checkpoint")


def test_a_reset_of_a_client_that_does_not_exist(tmp_path):
    rows = [row(1, (1,) * 4, ids=range(4), steps=(1,) * 4, resets=[9])]
    file = written(tmp_path, *rows, head={**HEAD, "deadline": None})
    with pytest.raises(ud.InputError, match="client 9 lost its memory"):
        ud.run(ud.fedsgd(eta=0.1), logistic(), rounds=1, plan=ud.plan.trace(file))
