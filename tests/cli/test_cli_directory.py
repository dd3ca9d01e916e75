"""Run directories: one order of files, resumption after a death anywhere, one owner at a time."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import QUADRATIC
from kills import count_operations, killed_at

import undrift as ud
from everyday import only
from processes import PATIENCE, ended, process, wait_for_line
from undrift import ownership
from undrift.command.directory import RunDirectory
from undrift.ownership import InUse, locked, owned

TINY = ["--problem", QUADRATIC, "--rounds", "3", "--steps", "2"]
RUN = ["run", "--method", "fedsgd", *TINY, "--eta", "0.05", "--per-client", "--keep-iterates"]
COMPARE = ["compare", "--method", "fedsgd", "gd", *TINY, "--eta", "0.05", "0.1"]
VARIES = {"summary.json", "page.html"}  # they tell how long it took, and where it was


def files_of(folder: str | Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def steady(content: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in content.items() if name not in VARIES}


@pytest.fixture
def prepared(monkeypatch):
    """What is run is made ready and identified once: here only its files are looked at."""
    from undrift.command import compare, run

    for command in (run, compare):
        monkeypatch.setattr(command, "ready", functools.partial(_once, {}, command.ready))
    monkeypatch.setattr("undrift.engine.simulate.identity", lambda *_: "this run")
    monkeypatch.setattr("undrift.command.compare.sweep_identity", lambda *_: "this comparison")


def _once(known, make, study, problem, grids):
    if not known:
        known["ready"] = make(study, problem, grids=grids)
    return known["ready"]


def changes(done: list[str]) -> list[int]:
    """Before and after everything that changes a name: in between the disk looks the same."""
    names = ("replace", "unlink", "mkdir", "rmdir")
    return [n for n, name in enumerate(done) if name in names or (n and done[n - 1] in names)]


def some_changes(done: list[str]) -> list[int]:
    """A third of them for every day."""
    return changes(done)[::3]


def everywhere(done: list[str]) -> range:
    return range(len(done))


@pytest.mark.parametrize("points", only([some_changes, everywhere], {some_changes}))
@pytest.mark.parametrize("words", [RUN, [*COMPARE, "--no-figures"]], ids=lambda words: words[0])
def test_killed_between_two_file_operations_and_resumed(
    cli, quick_figures, prepared, monkeypatch, tmp_path, words, points
):
    done = count_operations(monkeypatch, tmp_path / "whole", lambda: cli(*words, "--out", "whole"))
    whole = files_of("whole")
    assert "summary.json" in whole
    numbers = list(points(done))
    assert len(changes(done)) > 15
    for number in numbers:
        place = f"r{number}"
        killed_at(monkeypatch, tmp_path / place, number, lambda place=place: cli(*words, "--out", place))
        if Path(place, "summary.json").exists():  # the mark: everything else is there, to the last byte
            assert steady(whole).items() <= files_of(place).items(), (number, done[number])
        said = cli(*words, "--out", place, "--resume")
        assert said.code == 0, (number, said.err)
        assert files_of(place).keys() == whole.keys(), (number, done[number])
        assert steady(files_of(place)) == steady(whole), (number, done[number])


@pytest.mark.parametrize("words", [RUN, COMPARE], ids=lambda words: words[0])
def test_results_come_first_and_the_summary_last(cli, quick_figures, monkeypatch, words):
    order = []

    replace = os.replace
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append(Path(b).name), replace(a, b))[1])
    assert cli(*words, "--out", "r").code == 0
    order = [name for name in order if not name.startswith(("checkpoint", "progress"))]
    results = [name for name in order if name.endswith((".csv", ".npy", ".npz"))]
    figures = [name for name in order if name.endswith((".png", ".svg"))]
    assert order == ["study.toml", *results, *figures, "page.html", "summary.json"]
    assert len(results) >= 3
    assert len(figures) >= 2


def test_a_file_that_was_lost_after_the_end_is_made_again(cli, quick_figures):
    cli(*RUN, "--out", "r")
    whole = files_of("r")
    assert "nothing to resume" in cli("run", "--out", "r", "--resume").err
    assert files_of("r") == whole
    for name in ("history.csv", "model.npy", "iterates.npy", "figure.svg", "page.html"):
        Path("r", name).unlink()
        said = cli("run", "--out", "r", "--resume")
        assert said.code == 0
        assert f"missing or was changed ({name})" in said.err
        assert steady(files_of("r")) == steady(whole)
    Path("r/history.csv").write_text("round,loss\n0,0\n")  # by somebody's hand
    assert "history.csv" in cli("run", "--out", "r", "--resume").err
    assert steady(files_of("r")) == steady(whole)


def test_a_lost_file_of_a_comparison_is_made_again(cli):
    cli(*COMPARE, "--out", "r", "--no-figures")
    whole = files_of("r")
    Path("r/models.npz").unlink()
    said = cli("compare", "--out", "r", "--resume", "--no-figures")
    assert said.code == 0
    assert "models.npz" in said.err
    assert steady(files_of("r")) == steady(whole)


def test_figures_of_an_interrupted_run_do_not_outlive_it(cli, quick_figures, monkeypatch):
    """Resumed without figures, the directory must not show the half of the run."""
    from undrift.command.talk import Stop

    with monkeypatch.context() as patch:
        patch.setattr(Stop, "heard", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        assert cli(*RUN, "--out", "r", "--rounds", "300").code == 130
    assert json.loads(Path("r/summary.json").read_text())["status"] == "interrupted"
    assert Path("r/figure.png").exists()
    said = cli("run", "--out", "r", "--resume", "--no-figures")
    assert said.code == 0
    assert "nothing to resume" not in said.err
    assert set(files_of("r")) == {
        *("study.toml", "history.csv", "model.npy", "iterates.npy", "clients.npz", "summary.json")
    }


def test_a_directory_is_resumed_by_the_command_that_made_it(cli):
    cli("run", "--method", "gd", *TINY, "--eta", "0.1", "--out", "r", "--no-figures")
    before = files_of("r")
    said = cli("compare", "--out", "r", "--resume", "--no-figures")
    assert said.code == 2
    assert "undrift run" in said.err
    assert files_of("r") == before


def test_a_place_in_use_is_left_alone(cli):
    words = ["run", "--method", "gd", *TINY, "--no-figures"]
    cli(*words, "--out", "r")
    before = files_of("r")
    Path("empty").mkdir()
    with owned(Path("r")), owned(Path("empty")):
        for flags in (["--resume"], ["--overwrite"], []):
            said = cli(*words, "--out", "r", *flags)
            assert said.code == 7
            assert "r is in use by process" in said.err
            assert "wait for it, or choose another directory" in said.err
        assert cli(*words, "--out", "empty").code == 7
        assert cli("partition", "--data", "digits", "--clients", "10", "--out", "empty").code == 7
    assert files_of("r") == before
    assert not files_of("empty")
    assert cli(*words, "--out", "r", "--overwrite").code == 0


def test_bad_input_leaves_no_directory_and_no_lock(cli):
    assert cli("run", "--method", "gd", *TINY, "--eta", "-1", "--out", "new/deep").code == 2
    assert not Path("new").exists()
    cli("run", "--method", "gd", *TINY, "--out", "r", "--no-figures")
    before = files_of("r")
    assert cli("run", "--method", "gd", *TINY, "--eta", "-1", "--out", "r", "--overwrite").code == 2
    assert files_of("r") == before


def test_input_that_is_refused_only_when_it_is_played_leaves_nothing(cli, monkeypatch):
    def refuse(*arguments, **named):
        raise ud.InputError("too late")

    monkeypatch.setattr("undrift.command.run.simulate", refuse)
    for out in ([], ["--out", "new/deep"]):
        assert cli("run", "--method", "gd", *TINY, *out).code == 2
        assert not list(Path().iterdir())


class Words:
    def to_toml(self, comments):
        return "study"


def test_fresh_names_are_taken_by_one_each(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    ready = threading.Barrier(8)

    def take(number: int) -> str:
        with RunDirectory("run", None, False, False) as directory:
            ready.wait(PATIENCE)
            directory.open(Words(), (), "gd")
            ready.wait(PATIENCE)
            return directory.path.name

    with ThreadPoolExecutor(8) as pool:
        names = list(pool.map(take, range(8)))
    assert sorted(names) == [f"gd-{number:03d}" for number in range(1, 9)]


def test_the_same_new_name_is_taken_by_one(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    ready = threading.Barrier(8)

    def take(number: int) -> bool:
        with RunDirectory("run", "runs/one", False, False) as directory:
            ready.wait(PATIENCE)
            try:
                directory.open(Words(), (), "gd")
                return True
            except InUse:
                return False
            finally:
                ready.wait(PATIENCE)

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(take, range(8))) == 1
    assert [path.name for path in Path("runs/one").iterdir()] == ["study.toml"]


def test_names_of_methods_do_not_lead_out_of_runs(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for stem in ("../../etc/x", "m" * 300):
        with RunDirectory("run", None, False, False) as directory:
            directory.open(Words(), (), stem)
            assert directory.path.parent == Path("runs")


def test_one_lock_is_one_owner_although_its_file_comes_and_goes(monkeypatch, tmp_path):
    """Everybody removes the lock's file when done: who opened it before must not think that it is the lock."""
    monkeypatch.setattr(ownership, "LOOK_SECONDS", 0.0001)
    inside, worst = [], []

    def work(number: int) -> None:
        for _ in range(40):
            with locked(tmp_path / ".lock", wait=True):
                inside.append(number)
                worst.append(len(inside))
                inside.remove(number)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert max(worst) == 1
    assert len(worst) == 240
    assert not list(tmp_path.iterdir())


HOLDER = """
import sys
from pathlib import Path
from undrift.ownership import owned

with owned(Path("r")):
    print("mine", flush=True)
    sys.stdin.readline()
"""


def test_a_lock_dies_with_its_process(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with process(HOLDER, ["--of", "the holder"], tmp_path) as made:
        wait_for_line(made, "mine")
        with (
            pytest.raises(InUse, match=rf"r is in use by process {made.pid} on .* since .*--of 'the holder'"),
            owned("r"),
        ):
            pass
        made.kill()
        assert ended(made)[0] == -signal.SIGKILL
    assert Path("r/.lock").exists()
    assert ownership.contents(Path("r")) == []
    with owned("r"):
        pass
    assert not list(Path("r").iterdir())


def test_the_library_locks_its_checkpoints_too(tmp_path):
    problem = ud.problems.quadratic(np.ones((2, 1, 1)), np.array([[1.0], [3.0]]))

    def another(history):
        with pytest.raises(ud.StorageError, match="in use by process"):
            ud.run(ud.fedsgd(eta=0.5), problem, rounds=3, checkpoint=tmp_path, resume=True)

    ud.run(ud.fedsgd(eta=0.5), problem, rounds=3, checkpoint=tmp_path, observe=another)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.npz"]


def test_killed_while_an_old_run_makes_room(cli, monkeypatch, tmp_path):
    """What is resumed then is the old run or the new one, never a mixture."""
    old, new = (["run", "--method", "gd", *TINY, "--eta", eta, "--no-figures"] for eta in ("0.1", "0.2"))
    cli(*old, "--out", "old")
    ends = {}
    for name, words in (("old", old), ("new", new)):
        cli(*words, "--out", name)
        ends[Path(name, "study.toml").read_bytes()] = steady(files_of(name))
    shutil.copytree("old", "counted")
    done = count_operations(monkeypatch, tmp_path / "counted", lambda: cli(*new, "--out", "counted", "--overwrite"))
    room = done.index("replace") + 2  # the study has been replaced
    assert done[:room].count("unlink") >= 3
    for number in [number for number in changes(done) if number <= room]:
        place = f"r{number}"
        shutil.copytree("old", place)
        killed_at(monkeypatch, tmp_path / place, number, lambda place=place: cli(*new, "--out", place, "--overwrite"))
        assert cli("run", "--out", place, "--resume", "--no-figures").code == 0
        assert steady(files_of(place)) == ends[Path(place, "study.toml").read_bytes()], (number, done[number])
