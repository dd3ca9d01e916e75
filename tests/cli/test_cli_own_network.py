"""Models, losses and metrics of a user's own file, from study files and flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from undrift.errors import InputError
from undrift.studies.networks import MODELS, model_maker
from undrift.studies.study import read_study, study_from

PROGRAM = """
import flax.linen as nn
import jax.numpy as jnp

# {}

class Net(nn.Module):
    width: int = 4
    @nn.compact
    def __call__(self, x):
        return nn.Dense(10)(nn.relu(nn.Dense(self.width)(x.reshape((len(x), -1)))))

class Needy(nn.Module):
    width: int
    @nn.compact
    def __call__(self, x):
        return nn.Dense(self.width)(x)

net = Net()
number = 3

def make(classes, input, width=4):
    return Net(width)

def broken(classes):
    raise KeyError("width")

def margin(outputs, targets):
    signs = 2.0 * (jnp.arange(10)[None, :] == targets[:, None]) - 1
    return jnp.maximum(0, 1 - signs * outputs).mean(axis=1)

def hits(outputs, targets):
    return jnp.argmax(outputs, axis=1) == targets
"""
STUDY = """
[problem]
name = "network"
model = "mine.py:{}"
loss = "mine.py:margin"
metric = "mine.py:hits"
clients = 3
partition = "iid"
[run]
rounds = 2
steps = 2
[[method]]
name = "fedavg"
eta = 0.1
"""


@pytest.fixture
def mine(cli, monkeypatch, tmp_path, request):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("mine.py").write_text(PROGRAM.format(request.node.name))
    Path("study.toml").write_text(STUDY.format("net"))


def test_a_study_with_a_model_a_loss_and_a_metric_of_ones_own(cli, mine):
    said = cli("run", "study.toml", "--no-figures", "--quiet", "--out", "r")
    assert said.code == 2
    assert "study.toml names a model in" in said.err
    assert "--trust" in said.err
    said = cli("run", "study.toml", "--trust", "--no-figures", "--quiet", "--out", "r")
    assert said.code == 0, said.err
    header = (Path("r") / "history.csv").read_text().splitlines()[0]
    assert "hits" in header.split(",")
    assert "accuracy" not in header.split(",")


def test_a_function_or_a_class_makes_the_model_with_options(mine):
    four, two = 64 * 4 + 4 + 50, 64 * 2 + 2 + 30
    for word, dim in (("net", four), ("make:width=2", two), ("Net", four), ("Net:width=2", two)):
        Path("study.toml").write_text(STUDY.format(word))
        assert read_study("study.toml").trusted().make_problem().dim == dim


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ({"model": "mine.py:nett"}, "unknown model in mine.py 'nett': did you mean 'net'"),
        ({"model": "mine.py:number"}, "a model is one of ud.models, a module of Flax, Equinox or Haiku"),
        ({"model": "mine.py:Needy"}, "the Flax module Needy is a class: give an instance"),
        ({"model": "mine.py:Net:wide=3"}, "unknown option of .*mine.py:Net 'wide'"),
        ({"model": "mine.py:net:width=3"}, "takes options as key=value, and only if it is a class or a function"),
        ({"model": "mine.py:make:wide=3"}, "unknown option of .*mine.py:make 'wide'"),
        ({"model": "mine.py:broken"}, "broken cannot be made for .* KeyError"),
        ({"model": "none.py:net"}, "the model's file .*none.py does not exist"),
        ({"loss": "mine.py:number"}, "a loss is a function \\(outputs, targets\\) -> one number per sample"),
        ({"loss": "msee"}, "unknown loss 'msee': did you mean 'mse'"),
        ({"metric": "accuracy"}, "a metric is a function of your own"),
        ({"model": "resnet:depth=9"}, "depth of a residual network is 18, 34 or 6n \\+ 2"),
        ({"model": "char_lstm"}, "a text is a sequence of characters"),
    ],
)
def test_what_is_refused(mine, words, complaint):
    study = study_from(
        {"problem": {"name": "network", "clients": 3, "partition": "iid", **words}}, "study.toml", Path.cwd()
    )
    with pytest.raises(InputError, match=complaint):
        study.trusted().make_problem()


def test_programs_are_not_deployed(cli, mine):
    said = cli("rehearse", "study.toml", "--trust")
    assert said.code == 2
    assert "model of the problem 'network' names a file of one machine, which is not deployed" in said.err


@pytest.mark.slow
def test_a_flag_names_a_model(cli, mine):
    problem = "network:model=mine.py:net,clients=3,partition=iid"
    said = cli(
        "run", "--problem", problem, "--method", "fedavg", "--rounds", "1", "--steps", "1", "--no-figures", "--out", "r"
    )
    assert said.code == 0, said.err
    assert str(Path("mine.py").resolve()) in (Path("r") / "study.toml").read_text()


def test_mean_squares_of_unit_vectors(mine):
    words = {"name": "network", "clients": 3, "partition": "iid", "loss": "mse"}
    p = study_from({"problem": words}, "study.toml").make_problem()
    assert p.architecture.criterion.names == ("loss", "accuracy")


@pytest.mark.parametrize("word", ["resnet:depth=8,width=4", "vgg9:narrower=8"])
def test_words_of_models(word):
    assert model_maker(word)(classes=10, input=(32, 32, 3)).input == (32, 32, 3)
    assert word.partition(":")[0] in MODELS
