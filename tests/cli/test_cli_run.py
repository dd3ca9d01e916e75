"""`undrift run`: flags, study files, run directories, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_helpers import QUADRATIC, SMALL

import undrift as ud
from everyday import only
from undrift.studies.catalogue import quadratic


def test_a_run_equals_the_library_call_and_leaves_its_files(cli, tmp_path):
    said = cli("run", "--method", "fedlin", *SMALL, "--eta", "0.05", "--out", "r")
    assert said.code == 0
    assert {f.name for f in Path("r").iterdir()} == {
        *("study.toml", "history.csv", "model.npy", "summary.json", "figure.png", "figure.svg", "page.html"),
        "clients.npz",
    }
    expected = ud.run(ud.fedlin(eta=0.05), quadratic(clients=4, dim=6), rounds=12, steps=3, per_client=True)
    assert np.array_equal(np.load("r/model.npy"), expected.x)
    table = np.genfromtxt("r/history.csv", delimiter=",", names=True)  # to the last bit
    assert len(table) == 13
    assert np.array_equal(table["gap"], expected.history["gap"])


def test_the_study_file_in_the_directory_reproduces_the_run(cli):
    cli(
        "run",
        "--method",
        "scaffold",
        *SMALL,
        "--steps",
        "2..5",
        "--participation",
        "uniform:2",
        "--out",
        "a",
        "--no-figures",
    )
    assert cli("run", "a/study.toml", "--out", "b", "--no-figures").code == 0
    assert Path("a/history.csv").read_bytes() == Path("b/history.csv").read_bytes()
    assert Path("a/model.npy").read_bytes() == Path("b/model.npy").read_bytes()


def test_json_is_complete(cli):
    said = cli("run", "--method", "fedlin", *SMALL, "--out", "r", "--json", "--no-figures")
    summary = said.json
    assert summary == json.loads(Path("r/summary.json").read_text())
    assert {"status", "setting", "final", "study", "seeds", "command", "versions", "chosen", "seconds"} <= set(summary)
    assert summary["status"] == "finished"
    assert "1/(6L)" in summary["chosen"]["eta"]["why"]
    assert "eta = " in said.err  # the default is said, not only used


METHODS = ("fedsgd", "fedavg", "fedprox", "fednova", "fedsplit", "scaffold", "fedlin", "gd")


@pytest.mark.parametrize("method", only(METHODS, {"fedsgd", "fedavg", "fedprox", "fedsplit", "fedlin"}))
def test_every_method_has_a_default_step_that_does_not_diverge(cli, method):
    said = cli("run", "--method", method, *SMALL, "--out", "r", "--json", "--no-figures")
    assert said.code == 0
    assert said.json["final"]["loss"] < np.inf
    history = pd.read_csv("r/history.csv")
    assert history["gap"].iloc[-1] < history["gap"].iloc[0]


def test_flags_go_over_the_file(cli):
    Path("s.toml").write_text(
        '[problem]\nname = "quadratic"\nclients = 3\ndim = 5\n[run]\nrounds = 4\nsteps = [1, 2, 3]\n'
        '[[method]]\nname = "fedlin"\neta = 0.02\nup = "top_k:2"\ndown = { name = "top_k", k = 3, memory = false }\n'
    )
    summary = cli("run", "s.toml", "--rounds", "6", "--eta", "0.03", "--out", "r", "--json", "--no-figures").json
    assert summary["rounds"] == 6
    assert "eta=0.03" in summary["setting"]["method"]
    assert "down=top_k(3, memory=False)" in summary["setting"]["method"]
    assert summary["setting"]["steps"] == "[1, 2, 3]"


def test_other_methods_are_compressed_from_outside(cli):
    summary = cli("run", "--method", "fedavg", *SMALL, "--up", "top_k:2", "--out", "r", "--json", "--no-figures").json
    assert "up top_k(2)" in summary["setting"]["method"]
    assert summary["final"]["bytes_up"] < summary["final"]["bytes_down"]


def test_steps_drawn_once_per_client(cli):
    summary = cli(
        "run", "--method", "fedavg", *SMALL, "--steps", "2..9:fixed", "--out", "r", "--json", "--no-figures"
    ).json
    drawn = json.loads(summary["setting"]["steps"])
    assert len(drawn) == 4
    assert all(2 <= step <= 9 for step in drawn)


def test_an_existing_directory_is_not_touched(cli):
    words = ["run", "--method", "fedsgd", *SMALL, "--no-figures", "--out", "r"]
    cli(*words)
    before = {f.name: f.read_bytes() for f in Path("r").iterdir()}
    said = cli(*words, "--eta", "0.01")
    assert said.code == 2
    assert "--resume" in said.err
    assert "--overwrite" in said.err
    assert {f.name: f.read_bytes() for f in Path("r").iterdir()} == before
    assert cli(*words, "--eta", "0.01", "--overwrite").code == 0
    assert Path("r/model.npy").read_bytes() != before["model.npy"]


def test_overwrite_refuses_what_is_not_a_run(cli):
    Path("thesis").mkdir()
    Path("thesis/chapter.tex").write_text("years of work")
    said = cli("run", "--method", "fedsgd", *SMALL, "--out", "thesis", "--overwrite")
    assert said.code == 2
    assert Path("thesis/chapter.tex").read_text() == "years of work"


def test_bad_input_under_overwrite_loses_nothing(cli):
    words = ["run", "--method", "fedsgd", *SMALL, "--no-figures", "--out", "r"]
    cli(*words)
    before = {f.name: f.read_bytes() for f in Path("r").iterdir()}
    assert cli(*words, "--overwrite", "--eta", "-1").code == 2
    assert cli(*words, "--overwrite", "--participation", "uniform:99").code == 2
    assert {f.name: f.read_bytes() for f in Path("r").iterdir()} == before


def test_divergence_has_its_own_code_and_keeps_the_history(cli):
    words = ["run", "--method", "fedsgd", *SMALL, "--rounds", "400", "--eta", "1e9", "--no-figures"]
    said = cli(*words, "--out", "r")
    assert said.code == 3
    assert "diverged" in said.err
    assert json.loads(Path("r/summary.json").read_text())["status"] == "diverged"
    assert 1 < len(pd.read_csv("r/history.csv")) < 401
    assert cli(*words, "--out", "c", "--on-divergence=continue").code == 0
    assert len(pd.read_csv("c/history.csv")) == 401


def test_without_out_a_fresh_directory_is_taken(cli):
    for _ in range(2):
        assert cli("run", "--method", "gd", *SMALL, "--no-figures").code == 0
    assert sorted(p.name for p in Path("runs").iterdir()) == ["gd-quadratic-001", "gd-quadratic-002"]


def test_data_seed_and_seed_are_apart(cli):
    base = ["run", "--method", "fedavg", "--rounds", "3", "--eta", "0.01", "--no-figures"]
    cli(*base, "--problem", f"{QUADRATIC},data_seed=1", "--seed", "5", "--out", "a")
    cli(*base, "--problem", f"{QUADRATIC},data_seed=1", "--seed", "6", "--out", "b")
    cli(*base, "--problem", f"{QUADRATIC},data_seed=2", "--seed", "5", "--out", "c")
    models = [Path(f"{name}/model.npy").read_bytes() for name in "abc"]
    assert models[0] == models[1] != models[2]  # full gradients: the run's seed decides nothing, the data's does


def test_own_method_from_a_file(cli):
    Path("mine.py").write_text(
        "import undrift as ud\n"
        "@ud.method\n"
        "def slow(eta: float) -> ud.Algorithm:\n"
        '    """Half a gradient step a round."""\n'
        "    exchange = ud.Exchange('g', lambda x, s: x, lambda m, x, local: (m, local.gradient(x)),\n"
        "        lambda x, slots, g, cohort: (x - 0.5 * eta * cohort.mean(g), slots),\n"
        "        ud.Account(work=lambda t, sizes: ud.Gradients(0 * t + 1)))\n"
        "    return ud.Algorithm((exchange,))\n"
    )
    assert cli("run", "--method", "mine.py:slow", *SMALL, "--eta", "0.1", "--out", "own", "--no-figures").code == 0
    cli("run", "--method", "fedsgd", *SMALL, "--eta", "0.05", "--out", "known", "--no-figures")
    assert np.allclose(np.load("own/model.npy"), np.load("known/model.npy"), rtol=1e-14)
    said = cli("explain", "mine.py:slow", "--dim", "7", "--json")
    assert said.json["per_round"]["bytes_up"] == 56
    wrong = cli("run", "--method", "mine.py:slwo", *SMALL)
    assert wrong.code == 2
    assert "did you mean 'slow'" in wrong.err


def test_a_step_by_theorem_is_said_checked_and_drawn(cli, quick_figures, tmp_path):
    said = cli("run", "--method", "fedlin", *SMALL, "--eta", "theorem", "--out", str(tmp_path / "run"))
    assert said.code == 0
    assert "by theorem: FedLin, Theorem 1" in said.err
    assert "FedLin, Theorem 1 holds at every round" in said.err
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["theorem"]["holds"] is True
    assert '"kind":"bound"' in (tmp_path / "run" / "page.html").read_text().replace(" ", "")


def test_a_certified_step_is_said_checked_and_drawn_beside_the_theorems(cli, tmp_path):
    said = cli("run", "--method", "fedlin", *SMALL, "--eta", "certified", "--out", str(tmp_path / "run"))
    assert said.code == 0
    assert "certified: FedLin's certificate" in said.err
    assert "holds at every round" in said.err
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["theorem"]["holds"] is True
    assert summary["theorem"]["sentence"].startswith("certified: FedLin")
    page = (tmp_path / "run" / "page.html").read_text()
    data = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
    measured, certified, theorem = data["figures"][0]["series"]
    assert [one["kind"] for one in (measured, certified, theorem)] == ["measured", "bound", "bound"]
    assert [one["thin"] for one in (measured, certified, theorem)] == [False, False, True]
    assert "certified: FedLin" in certified["label"]
    assert theorem["label"].endswith("FedLin, Theorem 1 (at its own step)")
    assert all(y <= bound * (1 + 1e-9) + 1e-12 for y, bound in zip(measured["y"], certified["y"], strict=True))
    assert certified["y"][-1] < theorem["y"][-1]
    drawn = (tmp_path / "run" / "figure.svg").read_text()
    assert "certified: FedLin" in drawn
    assert "at its own step" in drawn


def test_a_step_of_the_users_own_is_held_against_no_theorem(cli, tmp_path):
    said = cli(
        "run",
        "--method",
        "fedlin",
        *SMALL,
        "--eta",
        "0.01",
        "--no-figures",
        "--out",
        str(tmp_path / "run"),
    )
    assert said.code == 0
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["theorem"] is None
