"""What runs write while they go on: the numbers of their history, from what is certain, and nothing that could stop them."""

from __future__ import annotations

import csv
import json
import os

import msgspec
import numpy as np
import pytest

import undrift as ud
from undrift.cli import main
from undrift.command.directory import RunDirectory
from undrift.command.live import LiveSites, targets_of
from undrift.deploy.watch import Line as SiteLine
from undrift.engine.description import Run
from undrift.engine.history import History
from undrift.engine.simulate import simulate
from undrift.progressfile import NAME, Head, Line, Writer, stride
from undrift.report.live import LiveRun, _Planned, shares

PROBLEM = "quadratic:clients=3,dim=4"


def lines_of(folder):
    first, *rest = (folder / NAME).read_bytes().splitlines()
    return msgspec.json.decode(first, type=Head), [msgspec.json.decode(line, type=Line) for line in rest]


def rounds_of(lines, label=None):
    return [t for line in lines if label in (None, line.curve) for t in line.round]


@pytest.fixture
def kept(monkeypatch):
    """The progress stays when a run has ended."""
    monkeypatch.setattr(RunDirectory, "drop_checkpoints", lambda self: None)


def history(length):
    loss = 0.5 ** np.arange(float(length))
    return History({"loss": 1 + loss, "gap": loss, "bytes_up": np.arange(length) * 8, "gradients": np.arange(length)})


def described(rounds=100, **more):
    problem = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    return Run.of(ud.fedlin(eta=1 / 12), problem, rounds, steps=5, **more)


def test_a_run_tells_what_its_history_says(tmp_path, kept, capsys):
    flags = ["--problem", PROBLEM, "--rounds", "30", "--steps", "3", "--quiet", "--no-figures", "--per-client"]
    assert (
        main(
            [
                "run",
                "--method",
                "fedlin",
                "--eta",
                "theorem",
                *flags,
                "--stop",
                "gap=1e-200",
                "--out",
                str(tmp_path / "r"),
            ]
        )
        == 0
    )
    head, lines = lines_of(tmp_path / "r")
    assert (head.command, head.rounds, head.targets, head.title) == ("run", 30, {"gap": 1e-200}, "fedlin on quadratic")
    assert rounds_of(lines) == list(range(31))
    with open(tmp_path / "r" / "history.csv") as file:
        rows = list(csv.DictReader(file))
    told = [value for line in lines for value in line.columns.get("gap", [])]
    assert told == [float(row["gap"]) for row in rows]
    bounds = [line.bounds for line in lines if line.bounds is not None]
    assert [one.of for one in bounds[0]] == ["fedlin"]
    measured = [value for line in lines for value in line.columns.get("relative", [])]
    promised = [value for line in lines for value in line.columns.get("bound 0", [])]
    assert all(m <= p * (1 + 1e-9) + 1e-12 for m, p in zip(measured, promised, strict=True))
    assert any(line.claims and line.claims[0].holds for line in lines)
    clients = [line.clients for line in lines if line.clients is not None][-1]
    assert (len(clients.names), clients.round, clients.steps) == (3, 30, [3.0] * 3)
    assert len(clients.drift) == len(clients.loss) == len(clients.seconds) == 3
    assert head.exchange[0]["parts"][-1]["rows"][0]["down"]["bytes"] == 32, "real bytes: four numbers"
    capsys.readouterr()


def test_what_has_ended_leaves_no_progress(tmp_path, capsys):
    flags = ["--problem", PROBLEM, "--rounds", "5", "--steps", "3", "--quiet", "--no-figures"]
    assert main(["run", "--method", "fedlin", "--eta", "0.01", *flags, "--out", str(tmp_path / "r")]) == 0
    assert not (tmp_path / "r" / NAME).exists()
    capsys.readouterr()


def test_a_comparison_tells_each_method_when_it_is_done(tmp_path, kept, capsys):
    flags = ["--problem", PROBLEM, "--rounds", "6", "--steps", "3", "--quiet", "--no-figures", "--seeds", "2"]
    assert main(["compare", "--method", "fedavg", "fedlin", "--eta", "0.01", *flags, "--out", str(tmp_path / "c")]) == 0
    head, lines = lines_of(tmp_path / "c")
    assert [curve.label for curve in head.curves] == ["fedavg", "fedlin"]
    for label in ("fedavg", "fedlin"):
        assert rounds_of(lines, label) == list(range(7))
    assert {"relative", "relative low", "relative high", "bytes"} <= set(lines[-1].columns)
    capsys.readouterr()


def test_a_resumed_run_begins_with_what_is_certain(tmp_path):
    with Writer(tmp_path, Head(1, "run", 0.0, 100, "first")) as writer:
        live = LiveRun(writer, "fedlin", described(), resumed=False)
        live(history(9))
    with Writer(tmp_path, Head(1, "run", 0.0, 100, "second")) as writer:
        live = LiveRun(writer, "fedlin", described(), resumed=True)
        assert lines_of(tmp_path)[0].title == "first", "until something is known"
        live(history(5))
        live(history(7))
        head, lines = lines_of(tmp_path)
        assert head.title == "second"
        assert rounds_of(lines) == list(range(7))
        live(history(6))  # went back inside a process
        assert rounds_of(lines_of(tmp_path)[1]) == list(range(6))


def test_the_page_of_a_resumed_run_shows_its_clients_from_the_first_round_on(tmp_path):
    """As that of an undisturbed run: it depends neither on where a process went on nor on when a clock let it look."""
    run = described(per_client=True)
    result, shown = simulate(run), []
    for resumed, looks in ((False, (9, 30, 101)), (True, (70, 101)), (True, ())):
        with Writer(tmp_path, Head(1, "run", 0.0, 100, "run")) as writer:
            live = LiveRun(writer, "fedlin", run, resumed=resumed)
            for length in looks:
                live(history(length))
            shown.append(live.presence(result))
    assert shown[0] == shown[1] == shown[2]
    assert (shown[0]["rounds"][0], shown[0]["rounds"][-1]) == (1, 100)
    assert shown[0]["loss"] == result.clients["loss"][-1].tolist()


def test_long_runs_are_written_sparsely(tmp_path):
    with Writer(tmp_path, Head(1, "run", 0.0, 100_000, "long")) as writer:
        live = LiveRun(writer, "fedlin", described(100_000), resumed=False)
        live(history(40_000))
        live(history(60_001))
    rounds = rounds_of(lines_of(tmp_path)[1])
    assert rounds[:8192] == list(range(8192))
    assert rounds[-1] == 60_000
    assert len(rounds) < 25_000
    assert all(t % stride(t) == 0 or t in (39_999, 60_000) for t in rounds)


def test_a_disk_that_refuses_ends_the_file_and_not_the_run(tmp_path, monkeypatch):
    with Writer(tmp_path / "nowhere", Head(1, "run", 0.0, 9, "x")) as writer:
        LiveRun(writer, "fedlin", described(9), resumed=False)(history(4))
    with Writer(tmp_path, Head(1, "run", 0.0, 9, "x")) as writer:
        live = LiveRun(writer, "fedlin", described(9), resumed=False)
        live(history(3))
        size = (tmp_path / NAME).stat().st_size

        def full(handle, content):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "write", full)
        live(history(4))
        monkeypatch.undo()
        live(history(5))
        assert (tmp_path / NAME).stat().st_size == size, "nothing comes behind what may be half a line"


def test_sites_tell_who_is_there_and_how_long_they_take(tmp_path):
    lines = {"a": SiteLine(True, 1, 10, 20, None, 3, 0.25), "b": SiteLine()}
    with Writer(tmp_path, Head(1, "serve", 0.0, 9, "x")) as writer:
        live = LiveRun(writer, "fedlin", described(9), resumed=False, deployed=True)
        sites = LiveSites(live, lines)
        sites.observe(history(2))
        sites.traced({"ids": [0, 1], "steps": [5, 5], "answered": [1, 0]})
    found = lines_of(tmp_path)[1][-1].clients
    assert (found.here, found.seconds, found.steps, found.answered) == (
        [True, False],
        [0.25, None],
        [5.0, None],
        [1.0, 0.0],
    )
    assert live.lanes.words()["names"] == ["a", "b"]


def test_simulated_clients_have_the_names_of_the_problem():
    data = np.ones((2, 3, 1)), np.array([[1.0, -1.0, 1.0]] * 2)
    problem = ud.problems.logistic(*data, l2=1.0)
    assert _Planned(Run.of(ud.fedlin(eta=0.1), problem, 3, steps=2)).names == ["client 0", "client 1"]
    problem.columns = {"clients": {"va": 3, "cleveland": 3}}
    assert _Planned(Run.of(ud.fedlin(eta=0.1), problem, 3, steps=2)).names == ["va", "cleveland"]
    assert _Planned(Run.of(ud.gd(eta=0.1), problem, 3)).names == ["client 0"], "all data in one place are no hospital's"


def test_the_head_says_who_holds_all_data_in_one_place(tmp_path, kept, capsys):
    flags = ["--problem", PROBLEM, "--rounds", "3", "--eta", "0.1", "--quiet", "--no-figures"]
    assert main(["compare", "--method", "fedlin", "--method", "gd", *flags, "--out", str(tmp_path / "r")]) == 0
    assert [(curve.label, curve.pooled) for curve in lines_of(tmp_path / "r")[0].curves] == [
        ("fedlin", False),
        ("gd", True),
    ]
    capsys.readouterr()


def test_rules_that_a_prediction_can_use():
    both = ud.stop.at(gap=1e-6) | ud.stop.patience(3)
    assert targets_of(both) == {"gap": 1e-6}
    assert targets_of(None) == {}
    asked, came = shares(np.array([[5, 9]]), np.array([[2, 3]]), np.array([[True, True]]), 4)
    assert asked == came == [None] * 4


def test_observers_see_what_is_recorded_of_clients_last():
    seen = []
    problem = described().problem
    ud.run(
        ud.fedlin(eta=1 / 12),
        problem,
        rounds=4,
        steps=5,
        per_client=True,
        observe=lambda h: seen.append(h.latest) and None,
    )
    assert {"loss", "drift"} <= set(seen[-1])
    assert seen[-1]["loss"].shape == (2,)
    json.dumps({name: row.tolist() for name, row in seen[-1].items()})
