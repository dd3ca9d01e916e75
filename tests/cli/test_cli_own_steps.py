"""Methods that draw their local steps themselves: the command line and study files say none to them."""

from __future__ import annotations

import tomllib

import pytest
from cli_helpers import QUADRATIC

from undrift.deploy.contract import Contract
from undrift.studies.agreement import Agreement
from undrift.studies.study import read_study

PROBLEM = ("--problem", QUADRATIC)
REFUSED = "scaffnew draws its local steps itself"


def test_a_run_says_no_steps_and_is_resumed_without_them(cli, tmp_path):
    said = cli("run", "--method", "scaffnew", *PROBLEM, "--rounds", "5", "--out", tmp_path / "run", "--no-figures")
    assert said.code == 0, said.err
    study = tomllib.loads((tmp_path / "run" / "study.toml").read_text())
    assert "steps" not in study["run"]
    assert study["method"][0]["p"] == pytest.approx(0.316)
    again = cli("run", "--resume", "--out", tmp_path / "run", "--no-figures")
    assert again.code == 0, again.err
    other = cli("run", tmp_path / "run" / "study.toml", "--out", tmp_path / "other", "--no-figures")
    assert other.code == 0, other.err
    results = [(tmp_path / name / "history.csv").read_text() for name in ("run", "other")]
    assert results[0] == results[1]


def test_steps_are_refused_by_flag_and_by_file(cli, tmp_path):
    said = cli("run", "--method", "scaffnew", *PROBLEM, "--steps", "5", "--out", tmp_path / "a")
    assert said.code == 2
    assert REFUSED in said.err
    assert "leave steps out" in said.err
    file = tmp_path / "study.toml"
    file.write_text('[problem]\nname = "quadratic"\n[run]\nsteps = 10\n[[method]]\nname = "scaffnew"\n')
    said = cli("run", file, "--out", tmp_path / "b")
    assert said.code == 2
    assert REFUSED in said.err
    assert cli("explain", "scaffnew", "--steps", "5").code == 2
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()


def test_a_comparison_gives_steps_to_those_that_take_them(cli, tmp_path):
    out = tmp_path / "both"
    words = ("--method", "scaffnew", "fedlin", *PROBLEM, "--steps", "3", "--rounds", "6")
    said = cli("compare", *words, "--out", out, "--no-figures", "--json")
    assert said.code == 0, said.err
    assert tomllib.loads((out / "study.toml").read_text())["run"]["steps"] == 3
    alone = cli("compare", "--method", "scaffnew", *PROBLEM, "--steps", "3", "--out", tmp_path / "alone")
    assert alone.code == 2
    assert REFUSED in alone.err


def test_it_is_explained_by_its_mean(cli):
    shown = cli("explain", "scaffnew:p=0.25", "--json").json
    assert shown["steps"] == "geometric_steps(0.25)"
    assert shown["per_round"]["gradients"] == 4


def test_a_contract_says_none_and_both_sides_toss_the_same_coins(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text('[problem]\nname = "quadratic"\nclients = 3\n[run]\nrounds = 6\n[[method]]\nname = "scaffnew"\n')
    server = Agreement.of(read_study(file))
    site = Agreement.accepted(Contract.read(server.contract.document()))
    assert "steps" not in server.contract.study["run"]
    assert str(site.preview.steps) == str(server.preview.steps) == "geometric_steps(0.316)"
