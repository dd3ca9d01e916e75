"""Runs that end before their last round: rules stop in the very round, observers after a chunk."""

from __future__ import annotations

import numpy as np
import pytest
from twins import both, same_records

import undrift as ud
from undrift.engine import simulate

METHOD = ud.fedlin(eta=0.3)
LONG = {"rounds": 40, "steps": 2, "keep_iterates": True}


def problem(dtype=np.float64):
    return ud.problems.quadratic(np.array([[[1.0]], [[2.0]]], dtype), np.array([[3.0], [100.0]], dtype))


@pytest.fixture(scope="module")
def whole():
    return ud.run(METHOD, problem(), **LONG)


@pytest.fixture
def small_chunks(monkeypatch):
    """After the first chunk, one round at a time."""
    monkeypatch.setattr(simulate, "CHUNK_SECONDS", 0.0)


def first(condition) -> int:
    return int(np.argmax(condition))


def cut(r: ud.Result, whole: ud.Result, at: int) -> None:
    """The run is the whole one up to this round."""
    assert r.rounds == at
    assert r.history.length == len(r.iterates) == at + 1
    for name, column in whole.history.items():
        np.testing.assert_array_equal(r.history[name], column[: at + 1], err_msg=name)
    np.testing.assert_array_equal(r.iterates, whole.iterates[: at + 1])
    np.testing.assert_array_equal(r.x, whole.iterates[at])


# ----- rules
def test_at_stops_in_the_first_round_that_is_there(whole):
    at = first(whole.history["gap"] <= 1e-2)
    assert 5 < at < 40
    r = both(METHOD, problem(), stop=ud.stop.at(gap=1e-2), **LONG)
    cut(r, whole, at)
    assert r.stopped == f"gap ≤ 0.01 in round {at}"
    assert r.setting["stop"] == "gap ≤ 0.01"
    assert r.summary()["stopped"] == r.stopped


def test_all_columns_of_one_rule_and_either_of_two():
    r = ud.run(METHOD, problem(), stop=ud.stop.at(gap=1e-2, grad_norm=1e-2), **LONG)
    assert r.history["gap"][-1] <= 1e-2
    assert r.history["grad_norm"][-1] <= 1e-2
    assert np.all((r.history["gap"][:-1] > 1e-2) | (r.history["grad_norm"][:-1] > 1e-2))
    rule = ud.stop.at(gap=1e-2) | ud.stop.at(grad_norm=20.0)
    r = ud.loopback(METHOD, problem(), stop=rule, **LONG)
    assert r.history["grad_norm"][-1] <= 20.0 < r.history["grad_norm"][-2]
    assert r.stopped == f"gap ≤ 0.01, or grad_norm ≤ 20 in round {r.rounds}"


def test_above_stops_where_a_column_has_risen(whole):
    r = ud.run(METHOD, problem(), stop=ud.stop.above(sq_distance=-1.0), **LONG)
    cut(r, whole, 0)  # there from the start
    assert r.stopped == "sq_distance ≥ -1 in round 0"


def test_a_rule_that_is_never_met_changes_nothing(whole):
    r = ud.run(METHOD, problem(), stop=ud.stop.at(gap=-1.0), **LONG)
    cut(r, whole, 40)
    assert r.stopped is None


def test_patience_waits_so_many_rounds_for_something_better(whole):
    r = both(METHOD, problem(), stop=ud.stop.patience(3, "loss", 1e-3), **LONG)
    best, since, expected = np.inf, 0, None
    for t, loss in enumerate(whole.history["loss"]):
        better = loss < best - (1e-3 * abs(best) if np.isfinite(best) else 0)
        best, since = (loss, 0) if better else (best, since + 1)
        if since >= 3:
            expected = t
            break
    assert 3 < expected < 40
    cut(r, whole, expected)
    assert r.stopped == f"loss no better for 3 rounds in round {expected}"


def test_patience_sees_improvements_that_single_precision_would_not():
    """f = ½x² + 10⁹: the loss falls in its tenth digit."""
    flat = ud.problems.custom(lambda x, c: 0.5 * x @ x + c, np.full(2, 1e9), dim=1)
    for interpreter in (ud.run, ud.loopback):
        r = interpreter(ud.fedsgd(eta=0.1), flat, rounds=8, x0=[1.0], stop=ud.stop.patience(2))
        assert np.all(np.diff(r.history["loss"]) < 0)
        assert r.rounds == 8


def test_rules_skip_rounds_that_are_not_evaluated(whole):
    """NaN is not a value: not one that is low, and not one that is no better."""
    sparse = {**LONG, "record_every": 8}
    r = both(METHOD, problem(), stop=ud.stop.at(gap=1e-2), **sparse)
    at = first(whole.history["gap"] <= 1e-2)
    assert r.rounds == 8 * -(-at // 8)
    r = ud.loopback(METHOD, problem(), stop=ud.stop.patience(3, "gap"), **sparse)
    assert r.stopped is None  # the gap falls from each evaluation to the next
    assert r.rounds == 40
    r = ud.run(METHOD, problem(), stop=ud.stop.patience(3, "loss", least=1e-3), **sparse)
    assert r.rounds % 8 == 0
    assert 0 < r.rounds < 40


def test_rules_in_single_precision():
    rule = ud.stop.patience(3, "gap") | ud.stop.at(gap=1.0)
    r = ud.run(METHOD, problem(np.float32), stop=rule, rounds=40, steps=2)
    assert r.x.dtype == np.float32
    assert r.history["gap"][-1] <= 1.0 < r.history["gap"][-2]


@pytest.mark.parametrize("interpreter", [ud.run, ud.loopback], ids=["run", "loopback"])
@pytest.mark.parametrize("column", ["gpa", "accuracy", "direction_error"])
def test_a_column_that_is_not_recorded_is_refused_by_name(interpreter, column):
    with pytest.raises(ud.InputError, match=column):
        interpreter(METHOD, problem(), rounds=3, stop=ud.stop.patience(3, column))


def test_diagnostics_and_per_client_columns_can_stop_a_run():
    rule = ud.stop.above(direction_error=-1.0, loss_worst=450.0)
    r = ud.loopback(METHOD, problem(), rounds=40, steps=2, diagnostics=True, stop=rule)
    assert r.history["loss_worst"][-1] >= 450.0 > r.history["loss_worst"][-2]


@pytest.mark.parametrize(
    "make",
    [
        lambda: ud.stop.at(),
        lambda: ud.stop.above(),
        lambda: ud.stop.at(gap=np.nan),
        lambda: ud.stop.at(gap="small"),
        lambda: ud.stop.at(gap=True),
        lambda: ud.stop.at(gap=1e-3, accuracy=0.9),
        lambda: ud.stop.patience(0),
        lambda: ud.stop.patience(2.5),
        lambda: ud.stop.patience(3, least=-1.0),
        lambda: ud.stop.patience(3, least=np.nan),
        lambda: ud.run(METHOD, problem(), rounds=1, stop="gap"),
        lambda: ud.run(METHOD, problem(), rounds=1, stop=1e-3),
    ],
)
def test_what_is_no_rule_is_refused(make):
    with pytest.raises(ud.InputError):
        make()


def test_accuracies_rise():
    assert str(ud.stop.at(accuracy=0.9)) == "accuracy ≥ 0.9"
    assert str(ud.stop.at(accuracy_worst=0.5)) == "accuracy_worst ≥ 0.5"
    rule = ud.stop.patience(2, "accuracy")
    state = rule.start()
    for value, met in ((0.1, False), (0.5, False), (0.4, False), (0.6, False), (0.6, False), (0.5, True)):
        state, stop = rule.look(state, {"accuracy": np.float64(value)})
        assert bool(stop) == met


def test_a_sweep_refuses_rules():
    with pytest.raises(ud.InputError, match="stop"):
        ud.sweep(ud.fedlin, problem(), grid={"eta": [0.1]}, rounds=3, stop=ud.stop.at(gap=1.0))


# ----- rules and checkpoints
@pytest.mark.parametrize("rule", [ud.stop.at(gap=1e-2), ud.stop.patience(4, "loss", 1e-3)], ids=str)
def test_resumed_equals_uninterrupted_with_a_rule(rule, tmp_path, small_chunks):
    expected = ud.run(METHOD, problem(), stop=rule, **LONG)
    assert 4 < expected.rounds < 40
    arguments = {"stop": rule, "checkpoint": tmp_path, "resume": True, **LONG}
    early = ud.run(METHOD, problem(), observe=lambda h: h.length >= 4, **arguments)
    assert early.rounds == 3
    for _ in range(2):  # and a run that has stopped stays stopped
        resumed = ud.run(METHOD, problem(), **arguments)
        cut(resumed, expected, expected.rounds)
        assert resumed.stopped == expected.stopped


def test_more_rounds_do_not_wake_a_run_that_its_rule_stopped(tmp_path):
    rule = ud.stop.at(gap=1e-2)
    ended = ud.run(METHOD, problem(), stop=rule, checkpoint=tmp_path, **LONG)
    again = ud.run(METHOD, problem(), stop=rule, checkpoint=tmp_path, resume=True, **{**LONG, "rounds": 99})
    cut(again, ended, ended.rounds)
    assert again.stopped == ended.stopped


def test_another_rule_is_another_run(tmp_path):
    ud.run(METHOD, problem(), stop=ud.stop.at(gap=1e-2), checkpoint=tmp_path, **LONG)
    with pytest.raises(ud.CheckpointError, match="belongs to another run"):
        ud.run(METHOD, problem(), stop=ud.stop.at(gap=1e-3), checkpoint=tmp_path, resume=True, **LONG)


# ----- observers
def test_an_observer_sees_all_columns_so_far(whole, small_chunks):
    seen = []
    r = ud.run(METHOD, problem(), observe=seen.append, **{**LONG, "rounds": 6})
    assert [h.length for h in seen] == [2, 3, 4, 5, 6, 7]
    for h in seen:
        assert list(h) == list(whole.history)
        for name, column in whole.history.items():
            np.testing.assert_array_equal(h[name], column[: h.length], err_msg=name)
    assert r.stopped is None
    assert r.rounds == 6


def test_an_observer_stops_a_run(whole, small_chunks):
    r = ud.run(METHOD, problem(), observe=lambda h: h["gap"][-1] < 1.0, **LONG)
    at = first(whole.history["gap"] < 1.0)
    cut(r, whole, at)
    assert r.stopped == f"the observer asked for it after round {at}"
    passed = ud.loopback(METHOD, problem(), observe=lambda h: h["gap"][-1] < 1.0, **LONG)
    same_records(passed, r)


def test_what_an_observer_answers_otherwise_is_no_wish(small_chunks):
    r = ud.run(METHOD, problem(), observe=lambda h: None, **{**LONG, "rounds": 3})
    assert r.rounds == 3
    assert r.stopped is None


def test_a_rule_speaks_before_an_observer():
    arguments = {"stop": ud.stop.at(gap=1e9), "observe": lambda h: True, "rounds": 3}
    for interpreter in (ud.run, ud.loopback):
        assert interpreter(METHOD, problem(), **arguments).stopped == "gap ≤ 1e+09 in round 0"


def test_an_observer_of_a_sweep_hears_how_far_it_is():
    heard = []
    ud.sweep(ud.fedsgd, problem(), grid={"eta": [0.1]}, rounds=3, observe=lambda done, all_: heard.append((done, all_)))
    assert heard[-1] == (3, 3)


# ----- rules and divergence
def test_a_rule_that_is_met_after_the_run_diverged_has_not_stopped_it(monkeypatch):
    monkeypatch.setattr(simulate, "FIRST_CHUNK", 64)  # both happen in one chunk
    steep = ud.problems.quadratic(np.full((2, 1, 1), 1e30), np.ones((2, 1)))
    told = []
    for interpreter in (ud.run, ud.loopback):
        with pytest.raises(ud.DivergenceError) as caught:
            interpreter(ud.fedsgd(eta=1.0), steep, rounds=30, x0=[1.0], stop=ud.stop.patience(8))
        told.append((caught.value.round, caught.value.result.rounds, caught.value.result.stopped))
    assert told[0] == told[1]
    assert told[0][2] is None
