"""The benchmarks' own arithmetic: ratios, spread, goals, files, and what counts as a disturbance."""

from __future__ import annotations

import doctest
import importlib
import json

import numpy as np
import pytest
from benchmarks import __main__ as command
from benchmarks import cases, child, disturbance
from benchmarks.measure import Goal, Report, Row, in_turns, least, per_round, ratio
from benchmarks.results import read_all, write

import made_up


@pytest.mark.parametrize("name", ["arithmetic", "disturbance", "measure", "readme", "words"])
def test_examples_in_the_harness_hold(name):
    found = doctest.testmod(importlib.import_module(f"benchmarks.{name}"))
    assert found.attempted > 0
    assert found.failed == 0


def test_candidates_take_turns_in_alternating_order():
    called = []
    candidates = {name: lambda name=name: called.append(name) for name in "abc"}
    seconds = in_turns(candidates, repeat=3)
    assert "".join(called) == "abc" + "abc" + "cba" + "abc"
    assert {name: len(samples) for name, samples in seconds.items()} == {"a": 3, "b": 3, "c": 3}


def test_ratios_compare_each_turn_with_itself():
    slow, fast = np.array([2.0, 40.0, 6.0]), np.array([1.0, 10.0, 3.0])
    assert ratio(slow, fast) == 2.0
    assert least(slow, np.array([3.0, 3.0, 3.0])).tolist() == [2.0, 3.0, 3.0]
    assert per_round(np.array([5.0, 1.0]), np.array([1.0, 2.0]), 4).tolist() == [1.0, 2.5e-10]


def test_medians_come_with_quartiles():
    row = Row.of("x", [1, 2, 3, 4, 100], "ms")
    assert (row.low, row.value, row.high) == (2.0, 3.0, 4.0)
    goal = Goal.of("y", [1, 2, 3, 4, 100], at_most=3.0)
    assert (goal.low, goal.value, goal.high, goal.met) == (2.0, 3.0, 4.0, True)


@pytest.mark.parametrize(
    ("goal", "met", "bound"),
    [
        (Goal("x", 2.0, at_least=2.0), True, "≥ 2"),
        (Goal("x", 1.9, at_least=2.0), False, "≥ 2"),
        (Goal("x", 1.9, at_most=2.0), True, "≤ 2"),
        (Goal("x", 2.1, at_most=2.0), False, "≤ 2"),
        (Goal("x", 0.0, at_least=0, at_most=0), True, "= 0"),
        (Goal("x", float("nan"), at_least=1.0), False, "≥ 1"),
    ],
)
def test_goals_are_met_or_not(goal, met, bound):
    assert goal.met is met
    assert goal.bound == bound


STILL = {"others": 0.01, "stolen": 0.0}
QUIET = [4.0, 4.1, 4.05, 4.2]


@pytest.mark.parametrize(
    ("calibrations", "used", "word"),
    [
        ([4.0, 4.0, 7.0, 8.0], STILL, "fixed piece of work"),
        (QUIET, {"others": 0.2, "stolen": 0.0}, "other processes"),
        (QUIET, {"others": 0.0, "stolen": 0.1}, "other guests"),
    ],
)
def test_a_busy_machine_is_said(calibrations, used, word):
    (reason,) = disturbance.reasons(made_up.race(), calibrations, used)
    assert word in reason


def test_a_quiet_machine_is_not_blamed():
    assert disturbance.reasons(made_up.race(), QUIET, STILL) == []
    assert disturbance.reasons(made_up.race(), [*QUIET, 9.0], STILL) == [], "one hiccup moves no median"
    assert disturbance.reasons(made_up.race(), [], {"others": None, "stolen": None}) == []


def test_a_wide_spread_is_said_of_what_is_drawn():
    rows = [Row("wide", 2.0, "ms", 1.5, 3.0, "undrift"), Row("not drawn", 2.0, "ms", 1.0, 3.0)]
    (reason,) = disturbance.reasons(Report("x", "x", rows), QUIET, STILL)
    assert reason.startswith("wide: quartiles 1.5 and 3 ms")


def test_processor_time_of_others_is_what_is_not_ours():
    before = disturbance.Clock(wall=10.0, busy=100.0, stolen=1.0, ours=50.0)
    after = disturbance.Clock(wall=20.0, busy=116.0, stolen=2.0, ours=62.0)
    assert disturbance.shares(before, after, 2) == {"others": 4 / 20, "stolen": 1 / 20}
    unknown = disturbance.Clock(wall=20.0, busy=None, stolen=None, ours=62.0)
    assert disturbance.shares(before, unknown, 2) == {"others": None, "stolen": None}


def test_calibration_is_noted():
    before = len(disturbance.CALIBRATIONS)
    disturbance.calibrate()
    assert disturbance.CALIBRATIONS[before:][0] > 0


def test_results_are_read_as_they_were_written(tmp_path):
    results = made_up.results()
    for result in results.values():
        write(result, tmp_path)
    (tmp_path / "older.json").write_text(json.dumps({"machine": {}, "reports": []}))
    assert read_all(tmp_path) == results
    assert json.loads((tmp_path / "softmax.json").read_text())["report"]["goals"][1]["met"] is False


def test_every_case_that_is_there_has_a_report_to_give():
    there = [name for name in cases.CASES if cases.missing(name) is None]
    assert {"fedlin", "million", "cohort", "limits"} <= set(there)
    for name in there:
        if not cases.CASES[name].needs:
            assert callable(importlib.import_module(f"benchmarks.{name}").run)


@pytest.fixture
def played(monkeypatch):
    """Cases end at once with what was made up; the names of those that were asked for."""
    asked = []

    def play(name, repeat):
        asked.append((name, repeat))
        if name == "cohort":
            raise child.Failed("it ended with code 1")
        return made_up.result(name, made_up.limits())

    monkeypatch.setattr(command, "in_child", play)
    monkeypatch.setattr(command, "facts", lambda: made_up.MACHINE)
    return asked


def test_cases_are_chosen_by_name_and_progress_is_told(tmp_path, played, capsys):
    assert command.main(["fedlin", "million", "--quick", "--out", str(tmp_path)]) == 0
    assert played == [("fedlin", 3), ("million", 3)]
    said = capsys.readouterr().out
    assert "[1/2] fedlin" in said
    assert "1 left" in said
    assert (tmp_path / "fedlin.json").exists()
    assert "what 2 cores can do" in (tmp_path / "index.html").read_text()


def test_resuming_leaves_out_what_this_code_has_measured(tmp_path, played, capsys):
    command.main(["fedlin", "--out", str(tmp_path)])
    command.main(["fedlin", "million", "--resume", "--out", str(tmp_path)])
    assert [name for name, _ in played] == ["fedlin", "million"]
    assert "fedlin: left out" in capsys.readouterr().out


def test_a_case_that_fails_does_not_stop_the_others(tmp_path, played, capsys):
    assert command.main(["cohort", "fedlin", "--out", str(tmp_path)]) == 1
    assert [name for name, _ in played] == ["cohort", "fedlin"]
    assert "cohort failed: it ended with code 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "complaint"), [(["nonsense"], "unknown case 'nonsense'"), (["--repeat", "0"], "at least 1")]
)
def test_bad_words_are_refused(words, complaint, capsys):
    with pytest.raises(SystemExit):
        command.main(words)
    assert complaint in capsys.readouterr().err


def test_what_is_not_installed_is_said_with_the_remedy(monkeypatch):
    monkeypatch.setitem(cases.CASES, "odd", cases.Case("odd", 1.0, ("torch_that_nobody_has",)))
    monkeypatch.setitem(cases.EXTRAS, "torch_that_nobody_has", "bench")
    assert "pip install 'undrift[bench]'" in cases.missing("odd")
