"""Networks on the command line and in study files: partitions, cuts, weight decay and clipping, figures, devices."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import NETWORK

import undrift as ud
from undrift.command import devices
from undrift.command.setting import problem_words
from undrift.studies.method import StudyMethod
from undrift.studies.networks import is_convolutional, model_maker
from undrift.studies.solver import solver_from
from undrift.studies.study import Study

PLAYED = ["--problem", NETWORK, "--rounds", 3, "--steps", 2]


@pytest.fixture(autouse=True)
def _no_directory(monkeypatch):
    monkeypatch.delenv("UNDRIFT_DATA", raising=False)


def library(method, cut=None):
    """The same run, through the library."""
    d = ud.data.load("digits")
    parts = ud.data.exdir(d.train.y, clients=4, classes=5, alpha=10.0, seed=0)
    model = ud.models.softmax_regression(10, input=(8, 8, 1))
    problem = ud.problems.network(model, d.train, parts, test=d.test, batch=8, cut=cut)
    return ud.run(method, problem, rounds=3, steps=2, per_client=True)  # as the command does


def test_the_command_is_the_library(cli):
    said = cli("run", "--method", "sequential_fl", "--eta", 0.1, *PLAYED, "--out", "r")
    assert said.code == 0
    assert "accuracy" in said.out
    expected = library(ud.sequential_fl(eta=0.1))
    assert np.array_equal(np.load("r/model.npy"), expected.x)
    summary = json.loads(Path("r/summary.json").read_text())
    assert summary["final"]["accuracy"] == expected.history["accuracy"][-1]
    assert summary["setting"]["participation"] == "uniform(4)"  # everyone, in a fresh random order
    assert "test accuracy" in Path("r/figure.svg").read_text()
    again = cli("run", "r/study.toml", "--out", "s", "--no-figures", "--json").json
    assert again["final"] == summary["final"]


def test_split_methods(cli):
    cut = [*PLAYED, "--no-figures", "--json", "--eta", 0.1, "--out", "r"]
    cut[1] += ",cut=1"
    assert cli("run", "--method", "ssl:mode=peer", *cut).code == 0
    np.testing.assert_allclose(np.load("r/model.npy"), library(ud.sequential_fl(eta=0.1)).x, atol=1e-5)
    said = cli("run", "--method", "ssl", "--eta", 0.1, *PLAYED)
    assert said.code == 2
    assert "cut=" in said.err


@pytest.mark.slow
def test_weight_decay_and_clipping(cli):
    """PyTorch's order: the raw gradient is clipped, then the decay is added."""
    words = [
        "run",
        "--method",
        "fedavg:weight_decay=0.1,clip=0.5",
        "--eta",
        0.2,
        *PLAYED,
        "--no-figures",
        "--out",
        "r",
    ]
    assert cli(*words).code == 0
    solver = solver_from(0.1, clip=0.5)
    assert np.array_equal(np.load("r/model.npy"), library(ud.fedavg(eta=0.2, solver=solver)).x)
    assert "sgd(weight_decay=0.1, clip=0.5)" in json.loads(Path("r/summary.json").read_text())["setting"]["method"]
    made = solver(0.2)
    y, gradient = np.array([1.0, -2.0], np.float32), np.array([3.0, 4.0], np.float32)
    step, _ = made.update(gradient, made.init(y), y)
    np.testing.assert_allclose(step, -0.2 * (gradient / 10 + 0.1 * y), rtol=1e-6)


def test_who_takes_weight_decay():
    for name in ("fedavg", "fedprox", "sequential_fl", "ssl", "sflv1", "sflv2"):
        StudyMethod(name, {"weight_decay": 1e-4, "clip": 10}).checked()
    with pytest.raises(ud.InputError, match="weight_decay"):
        StudyMethod("fedlin", {"weight_decay": 1e-4}).checked()
    with pytest.raises(ud.InputError, match="clip must be"):
        StudyMethod("fedavg", {"eta": 0.1, "clip": -1}).make()


@pytest.mark.slow
def test_study_files(cli):
    """A map beside the study file, and a grid of step sizes that is chosen and said."""
    Path("study").mkdir()
    Path("study/map.json").write_text(json.dumps({"0": list(range(700)), "1": list(range(700, 1438))}))
    Path("study/s.toml").write_text(
        '[problem]\nname = "network"\npartition = { from_map = "map.json" }\n[run]\nrounds = 2\nsteps = 2\n'
        '[[method]]\nname = "fedavg"\nweight_decay = 1e-3\n'
    )
    said = cli("compare", "study/s.toml", "--out", "c", "--no-figures")
    assert said.code == 0
    assert "eta = 0.01, 0.03, 0.1, 0.3 around a usual value for networks" in said.err
    assert str(Path("study/map.json").resolve()) in Path("c/study.toml").read_text()
    assert "accuracy" in said.out


def test_one_permutation_can_be_spread_over_rounds():
    problem = ud.problems.quadratic(np.ones((4, 1, 1)), np.ones((4, 1)))
    study = Study(problem={}).with_run({"participation": "permuted:2"})
    assert study.arguments(problem)["participation"] == ud.plan.permuted(2)


def test_devices(monkeypatch):
    """All cores where the clients of a convolutional network are played in turn, or what the user says."""
    asked = []
    monkeypatch.setattr(devices, "use_devices", asked.append)
    monkeypatch.setattr(devices, "cores", lambda: 7)
    devices.prepare_devices(None, {"name": "network"})
    devices.prepare_devices(None, {"name": "quadratic"})
    assert asked == []
    devices.prepare_devices(None, {"name": "network", "model": "lenet5"})
    devices.prepare_devices(3, {"name": "quadratic"})
    assert asked == [7, 3]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--method", "fedavg", "--problem", "network:model=lenet"], "did you mean 'lenet5'"),
        (["--method", "fedavg", "--problem", "network:partition=exdir:classes=2,alfa=3"], "unknown key"),
        (["--method", "fedavg", "--problem", "network:partition=exdir:classes=2"], "needs alpha"),
        (["--method", "fedavg", "--problem", "network:cut=99"], "a cut lies between"),
        (["--method", "fedavg", "--problem", "network:batch=0"], "batch must be a whole number ≥ 1"),
        (["--method", "fedavg:clip=0", "--problem", "network:clients=5,partition=iid"], "clip must be"),
        (["--method", "fedprox", "--problem", "network:clients=5,partition=iid"], "fedprox:beta="),
        (["--method", "fedavg", *PLAYED, "--devices", "0"], "--devices must be"),
    ],
)
def test_bad_input(cli, words, text):
    said = cli("run", *words)
    assert said.code == 2
    assert text in said.err
    assert not Path("runs").exists()


def test_the_loss_of_a_network_can_be_said(cli):
    """Squared distance from the label's unit vector, with the accuracy that belongs to it."""
    words = ["--problem", NETWORK + ",loss=squared", *PLAYED[2:]]
    said = cli(
        "run", "--method", "fedavg", *words, "--eta", 0.1, "--rounds", 20, "--out", "r", "--no-figures", "--json"
    )
    assert said.code == 0, said.err
    final = said.json["final"]
    assert 0.5 < final["accuracy"] <= 1
    assert final["loss"] < 0.5  # of outputs that are zero
    assert cli("run", "--method", "fedavg", "--problem", "network:loss=square", "--out", "s").code == 2


def test_a_model_is_a_word_with_options_too():
    words = problem_words("network:model=vgg11:narrower=8,dropout=0.5,batch=5,last_batch=short,weights=by size")
    assert words == {
        "name": "network",
        "model": "vgg11:narrower=8,dropout=0.5",
        "batch": 5,
        "last_batch": "short",
        "weights": "by size",
    }
    assert is_convolutional(words["model"])
    assert not is_convolutional("mlp")
    assert model_maker(words["model"])(classes=10, input=(32, 32, 3)).random
    with pytest.raises(ud.InputError, match="dropout must be a number ≥ 0 and < 1"):
        model_maker("vgg11:dropout=1")
    with pytest.raises(ud.InputError, match="lenet5"):
        model_maker("lenet5:narrower=8")
