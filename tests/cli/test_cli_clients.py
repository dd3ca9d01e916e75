"""Who suffers: every client's loss and accuracy in the summary, on the terminal, in the history and on the page."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import NETWORK, QUADRATIC, SMALL

import undrift as ud
from everyday import only
from undrift.errors import InputError
from undrift.report.clients import Clients, Roll, clients_of, settled_steps
from undrift.report.page import write_page
from undrift.report.page.lanes import lanes_of
from undrift.studies.agreement import Agreement
from undrift.studies.study import read_study, study_from

HOSPITALS = Path(__file__).parents[2] / "examples" / "hospitals"


def test_the_worst_hospital_is_named_everywhere(cli, quick_figures):
    said = cli("run", HOSPITALS / "study.toml", "--rounds", 60, "--out", "r")
    assert said.code == 0, said.err
    assert "worst client: va, 77.3 % right" in said.err
    lines = said.out.splitlines()
    assert any(line.split()[:3] == ["va", "141", "10"] and line.split()[-1] == "worst" for line in lines)
    assert any(line.split()[:1] == ["switzerland"] and line.split()[-1] == "best" for line in lines)
    summary = json.loads(Path("r/summary.json").read_text())["clients"]
    assert (summary["worst"]["name"], summary["best"]["name"]) == ("va", "switzerland")
    assert [one["samples"] for one in summary["listed"]] == [303, 292, 116, 141]
    with open("r/history.csv") as file:
        last = list(csv.DictReader(file))[-1]
    assert float(last["accuracy_worst"]) == pytest.approx(summary["worst"]["accuracy"])
    assert float(last["loss_worst"]) == pytest.approx(max(one["loss"] for one in summary["listed"]))
    with np.load("r/clients.npz") as kept:
        assert kept["accuracy"].shape == (61, 4)
    page = Path("r/page.html").read_text()
    assert page.count("<polyline") >= 8  # a curve of the loss and one of the accuracy for each
    assert page.index("va <span") < page.index("switzerland <span")  # worst first


def test_json_has_it_and_who_asks_not_to_gets_none_of_the_rounds(cli):
    said = cli("run", "--method", "fedlin", *SMALL, "--json", "--no-figures", "--no-per-client", "--out", "r")
    assert said.code == 0, said.err
    assert not Path("r/clients.npz").exists()
    assert said.json["clients"]["count"] == 4  # asked once, at the end
    assert said.json["clients"]["compared_by"] == "loss"
    assert read_study("r/study.toml").run["per_client"] is False


def test_a_run_records_few_clients_unasked_and_many_not(cli):
    assert cli("run", "--method", "fedlin", *SMALL, "--no-figures", "--out", "few").code == 0
    assert read_study("few/study.toml").run["per_client"] is True
    many = ["--problem", "quadratic:clients=101,dim=2", "--rounds", 2, "--steps", 1]
    said = cli("run", "--method", "fedsgd", *many, "--no-figures", "--out", "many")
    assert said.code == 0
    assert read_study("many/study.toml").run["per_client"] is None
    assert "5 worst of 101, median, best" in " ".join(said.out.split())
    listed = json.loads(Path("many/summary.json").read_text())["clients"]
    assert not listed["all_listed"]
    assert len(listed["listed"]) == 7


@pytest.mark.slow
def test_recorded_and_asked_clients_say_the_same():
    p = ud.problems.logistic(
        np.random.default_rng(0).normal(size=(3, 8, 2)), np.ones((3, 8)) * [[1], [-1], [1]], l2=1.0
    )
    run = ud.api.describe(ud.fedlin(eta=0.01), p, rounds=4, steps=[1, 2, 3], per_client=True)
    recorded = ud.engine.simulate.simulate(run)
    silent = ud.engine.simulate.simulate(run.but(per_client=False))
    a, b = clients_of(run, recorded, Roll.of(run)), clients_of(run, silent, Roll.of(run))
    assert a is not None
    assert b is not None
    for name in ("loss", "loss_per_sample", "accuracy"):
        np.testing.assert_allclose(a.values[name], b.values[name], rtol=1e-12)
    assert a.roll.steps.tolist() == [1, 2, 3]
    assert clients_of(run, silent, Roll.of(run), look=False) is None
    assert settled_steps(run.but(steps=ud.plan.random_steps(1, 3))) is None


def test_a_client_that_did_not_answer_is_not_the_worst():
    served = Clients.of(Roll(3), {"loss": np.array([np.nan, 2.0, 1.0])}, round=1)
    assert (served.worst, served.best) == (1, 2)
    assert served.words()["listed"][0]["loss"] is None


def test_losses_that_ran_away_are_no_fault():
    served = Clients.of(Roll(2), {"loss": np.array([1e200, 1e300])}, round=1)
    assert served.words()["spread"]["loss"] is None
    assert "spread (standard deviation) inf" in served.sentence()


def test_names_on_the_page_are_text(tmp_path):
    roll = Roll(2, ("<script>alert(1)</script>", "b"), None)
    p = ud.problems.quadratic(np.ones((2, 1, 1)), np.array([[1.0], [3.0]]))
    result = ud.run(ud.fedavg(eta=0.1), p, rounds=3, steps=2, per_client=True)
    served = Clients.of(roll, {name: rows[-1] for name, rows in result.clients.items()}, 3)
    page = write_page(tmp_path / "p.html", {"title": "t", "lanes": [lanes_of(result, served)]}).read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


@pytest.mark.parametrize(
    ("lanes", "says"),
    [
        ([{"title": "t", "lanes": []}], "at least one lane"),
        ([{"title": "t", "lanes": [{"name": "a", "rounds": [0, 1], "curves": {"loss": [1.0]}}]}], "the length of y, 2"),
        ([{"title": "t", "lanes": [{"name": "a", "rounds": [0], "curves": {}}]}], "a lane has rounds"),
        ([{"title": "t", "lanes": [{"name": 3, "rounds": [0], "curves": {"loss": [1.0]}}]}], "name: text, got 3"),
    ],
)
def test_lanes_that_are_none_are_refused(tmp_path, lanes, says):
    with pytest.raises(InputError, match=says):
        write_page(tmp_path / "p.html", {"title": "t", "lanes": lanes})


# ----- tables at all widths
@pytest.mark.parametrize("width", only([40, 60, 80, 120], {40, 80}))
def test_no_table_loses_its_step_its_steps_or_its_names(cli, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    said = cli("compare", *SMALL, "--method", "fedlin", "fedavg", "--no-figures", "--out", "c")
    assert said.code == 0, said.err
    head = next(line for line in said.out.splitlines() if "method" in line and "step" in line)
    assert "…" not in said.out
    assert "τ = 3" in " ".join(said.out.split())
    assert "gap" in head
    assert all(len(line) <= width for line in said.out.splitlines())
    assert {line.split()[0] for line in said.out.splitlines() if line.strip()} >= {"fedlin", "fedavg"}
    assert ("gradients" in head) == (width >= 60)
    run = cli("run", *SMALL, "--method", "fedlin", "--no-figures", "--out", "r")
    assert "τ = 3" in run.out
    assert "…" not in run.out


def test_advice_keeps_tau_on_a_narrow_terminal(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    said = cli("advise", "--problem", "quadratic:clients=4,dim=6", "--steps", 1, 3, "--method", "fedlin", "fedavg")
    head = next(line for line in said.out.splitlines() if "method" in line)
    assert head.split()[:3] == ["method", "τ", "step"]
    assert "…" not in head


# ----- early stopping
NOISY = ["--problem", QUADRATIC, "--oracle", "noisy:1.0", "--method", "fedavg", "--eta", "0.02", "--rounds", "40"]
LEARNED = ["--problem", f"{NETWORK},data=digits", "--method", "fedavg", "--eta", "4.0", "--rounds", "40"]
STOPPED = {"loss": NOISY, "test_loss": LEARNED}


@pytest.mark.parametrize("column", only(STOPPED, {"loss"}))
def test_the_model_of_the_best_round_is_kept_bit_by_bit(cli, column):
    played, rule = STOPPED[column], f"patience=2,column={column}"
    said = cli("run", *played, "--stop", f"{rule},keep=best", "--out", "stopped", "--no-figures")
    assert said.code == 0, said.err
    assert f"stopped: {column} no better for 2 rounds in round" in said.err
    assert "its model was kept" in said.err
    summary = json.loads(Path("stopped/summary.json").read_text())
    best = summary["best_round"]
    assert best["round"] == summary["rounds"] - 2
    assert cli("run", *played[:-1], best["round"], "--out", "shorter", "--no-figures").code == 0
    np.testing.assert_array_equal(np.load("stopped/model.npy"), np.load("shorter/model.npy"))
    assert summary["clients"]["round"] == best["round"]
    last = cli("run", *played, "--stop", rule, "--out", "last", "--no-figures")
    assert "its model was not kept" in last.err
    assert not np.array_equal(np.load("last/model.npy"), np.load("shorter/model.npy"))


def test_keep_is_last_or_best_and_deployed_runs_keep_the_last():
    with pytest.raises(InputError, match="keep"):
        ud.stop.patience(3, keep="first")
    words = {
        "problem": {"name": "figure1"},
        "run": {"stop": {"patience": 3, "keep": "best"}},
        "method": [{"name": "fedlin"}],
    }
    with pytest.raises(InputError, match="keep = 'best' is for simulations"):
        Agreement.of(study_from(words, "a test"))
