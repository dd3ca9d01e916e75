"""`undrift compare`: the demo's claims on a small version of it, files, resumption."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_helpers import SMALL

import undrift as ud
from undrift.command.compare import demo
from undrift.engine.simulate import simulate
from undrift.studies.study import read_study

STUDY = """
[problem]
name = "quadratic"
clients = 4
dim = 6
L = 4.0
heterogeneity = 5.0
[run]
rounds = 120
steps = { low = 2, high = 9, fixed = true }
[[method]]
name = "fedavg"
eta = [0.02, 0.05]
[[method]]
name = "fednova"
eta = [0.02, 0.05]
[[method]]
name = "scaffold"
eta = [0.05, 0.1]
[[method]]
name = "fedlin"
eta = [0.2, 0.4, 1000.0]
[[method]]
name = "fedlin"
label = "fedlin, TOP-4 down"
down = "top_k:4"
eta = [0.2, 0.4]
"""


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """One comparison for all tests of this file."""
    from undrift.cli import main

    folder = tmp_path_factory.mktemp("compare")
    (folder / "study.toml").write_text(STUDY)
    assert main(["compare", str(folder / "study.toml"), "--out", str(folder / "out"), "--quiet"]) == 0
    return folder / "out"


def test_the_point_is_visible(compared):
    """Drifting methods stall at the wrong model, corrected ones reach x* to rounding, compression saves bytes."""
    methods = {m["label"]: m for m in json.loads((compared / "summary.json").read_text())["methods"]}
    for name in ("fedavg", "fednova"):
        assert methods[name]["relative_gap"] > 1e-6
    for name in ("scaffold", "fedlin", "fedlin, TOP-4 down"):
        assert methods[name]["relative_gap"] < 1e-13
        assert methods[name]["rounds_to"]["1e-09"] is not None
    assert methods["fedlin, TOP-4 down"]["final"]["bytes_down"] < methods["fedlin"]["final"]["bytes_down"]
    assert methods["fedlin"]["diverged"][2] is not None
    assert methods["fedlin"]["best"]["eta"] < 1000


def test_files_are_tidy_and_read_in_one_line(compared):
    history = pd.read_csv(compared / "history.csv")
    assert len(history) == 5 * 121
    assert {"method", "label", "eta", "seed", "round", "gap", "bytes_up", "gradients"} <= set(history.columns)
    assert history.groupby("label")["round"].max().eq(120).all()
    grid = pd.read_csv(compared / "grid.csv")
    assert len(grid) == 11
    assert grid.groupby("label")["best"].sum().eq(1).all()
    with np.load(compared / "models.npz") as models:
        assert set(models) == set(history["label"])
    for name in ("figure", "gap-per-round", "gap-per-byte", "gap-per-gradient"):
        assert (compared / f"{name}.png").stat().st_size > 5_000
        assert "</svg>" in (compared / f"{name}.svg").read_text()
    page = (compared / "page.html").read_text()
    assert all(f'"label":"{label}"' in page for label in set(history["label"]))
    assert not list(compared.glob("checkpoint*"))


def test_a_row_equals_a_single_run(compared):
    history = pd.read_csv(compared / "history.csv")
    row = history[history["label"] == "fedlin"]
    study = read_study(compared / "study.toml")
    single = simulate(study.describe(ud.fedlin(eta=float(row["eta"].iloc[0])), study.make_problem()))
    assert np.allclose(row["sq_distance"], single.history["sq_distance"], rtol=1e-6, atol=1e-20)
    assert np.array_equal(row["bytes_up"], single.history["bytes_up"])


def test_table_fits_80_columns(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    words = ["compare", "--method", "fedavg", "fedlin", *SMALL, "--out", "r", "--no-figures"]
    said = cli(*words)
    assert said.code == 0
    assert max(map(len, said.out.splitlines())) <= 80
    assert "…" not in said.out
    assert "around 1/(6L)" in said.err


def test_interrupted_and_resumed(cli, monkeypatch):
    from undrift.command.talk import Stop

    words = ["compare", "--method", "gd", "fedsgd", *SMALL, "--eta", "0.05", "--no-figures"]
    calls = []

    def second(self):
        calls.append(1)
        if len(calls) == 3:  # after the first method: its beginning, its rounds, its end
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Stop, "heard", second)
        said = cli(*words, "--out", "r")
    assert said.code == 130
    assert "1 of 2 methods" in said.err
    assert set(pd.read_csv("r/history.csv")["label"]) == {"gd"}
    assert cli("compare", "--out", "r", "--resume", "--no-figures").code == 0
    assert cli(*words, "--out", "whole").code == 0
    for name in ("history.csv", "grid.csv"):
        assert Path("r", name).read_bytes() == Path("whole", name).read_bytes()
    assert cli(*words, "--out", "r").code == 2
    assert "nothing to resume" in cli("compare", "--out", "r", "--resume").err


def test_seeds_and_divergence_of_everything(cli):
    words = ["compare", "--method", "fedavg", *SMALL, "--oracle", "noisy:1.0", "--seeds", "3", "--seed", "4", "--json"]
    summary = cli(*words, "--eta", "0.01", "0.02", "--out", "r", "--no-figures").json
    assert summary["seeds"]["run"] == [4, 5, 6]
    assert pd.read_csv("r/history.csv")["seed"].unique().tolist() == [4, 5, 6]
    lost = cli(*words, "--eta", "1e299", "1e300", "--out", "lost", "--no-figures")
    assert lost.code == 3
    assert json.loads(lost.out)["methods"][0]["best"] is None


def test_the_demo_study_is_sound():
    """It names known problems, methods and compressors, with unequal sizes and speeds (running it is `make demo`)."""
    study = demo()
    problem = study.make_problem()
    assert len(set(study.arguments(problem)["steps"])) > 5
    assert len(set(problem.sizes.tolist())) > 5
    for method in study.methods:
        method.checked().make(**method.points()[0])
    names = {method.name for method in study.methods}
    assert {"fedsgd", "fedavg", "fedprox", "fednova", "fedsplit", "scaffold", "fedlin", "gd"} == names
    assert any(method.down is not None for method in study.methods)


def test_steps_by_theorem_are_checked_and_drawn_per_second(cli, quick_figures, tmp_path):
    words = ["compare", "--method", "fedlin", "gd", *SMALL, "--eta", "theorem"]
    said = cli(*words, "--speeds", "10..100", "--link", "latency=0.2", "--out", str(tmp_path / "run"))
    assert said.code == 0
    assert "fedlin: FedLin, Theorem 1 holds at every round" in said.err
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["theorems"]["gd"]["holds"] is True
    assert summary["resources"].startswith("10 to 100 gradients/s")
    page = (tmp_path / "run" / "page.html").read_text().replace(" ", "")
    assert '"kind":"bound"' in page
    assert '"seconds":[' in page
    history = pd.read_csv(tmp_path / "run" / "history.csv")
    fedlin = history[history["method"] == "fedlin"]
    assert np.allclose(np.diff(fedlin["seconds_latency"]), 2 * 0.2)  # two exchanges a round


def test_bad_means_are_refused_by_name(cli, tmp_path):
    said = cli("run", "--method", "fedavg", *SMALL, "--link", "upp=3", "--out", str(tmp_path / "run"))
    assert said.code == 2
    assert "did you mean 'up'" in said.err
    assert not (tmp_path / "run").exists()


def test_every_program_is_described_and_traced_once(cli, monkeypatch):
    """Two methods × four step sizes: two descriptions, few programs, and a method built for each point, not for each use."""
    from undrift.engine.description import Run
    from undrift.engine.rounds import compilations
    from undrift.recipe import Recipe

    described, built, of, build = [], [], Run.of, Recipe.build

    def counted_of(method, *rest, **arguments):
        described.append(method.name)
        return of(method, *rest, **arguments)

    def counted_build(recipe, *rest):
        built.append(recipe.name)
        return build(recipe, *rest)

    monkeypatch.setattr("undrift.engine.sweep.at_once", lambda: 1)  # four points are one block, on any machine
    monkeypatch.setattr(Run, "of", counted_of)
    monkeypatch.setattr(Recipe, "build", counted_build)
    compilations.clear()
    # A dimension of its own: no other test has compiled these programs.
    said = cli("compare", "--method", "fedsgd", "gd", "--problem", "quadratic:clients=3,dim=11", "--rounds", 9,
               "--steps", 2, "--eta", 0.01, 0.02, 0.03, 0.04, "--out", "r", "--no-figures")  # fmt: skip
    assert said.code == 0
    assert described == ["fedsgd", "gd"]
    # That of a single run, by which a comparison is known on any machine, and that of the block of four.
    assert compilations == {"fedsgd": 2, "gd": 2}
    # Each point once; and for each method its messages, its records, and the openings and rounds of one run and of the block,
    # as shapes and as traces; and twice for the diagram of its messages, also as they are where clients miss rounds
    assert len(built) <= 2 * (4 + 10 + 2)


def test_what_a_grid_cannot_be_told_is_refused(cli):
    Path("s.toml").write_text(STUDY.replace("rounds = 120", "rounds = 120\nstop = { gap = 1e-3 }"))
    said = cli("compare", "s.toml", "--out", "r")
    assert said.code == 2
    assert "stop is for a single run" in said.err
    assert not Path("r").exists()


def test_a_schedule_can_be_a_point_of_a_grid(cli):
    Path("s.toml").write_text(
        '[problem]\nname = "quadratic"\nclients = 4\ndim = 6\n[run]\nrounds = 9\nsteps = 3\ndiagnostics = true\n'
        '[[method]]\nname = "scaffold"\neta = [0.01, { schedule = "inverse", scale = 0.1, offset = 5.0 }]\n'
    )
    assert cli("compare", "s.toml", "--out", "r", "--no-figures").code == 0
    grid = pd.read_csv("r/grid.csv")
    assert grid["gap"].nunique() == 2
    assert grid["variate_error"].max() < 1e-12
