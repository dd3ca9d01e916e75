"""The researcher's story: a method of one's own, from nothing to a figure for a paper, in the commands that a user types."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest

from everyday import only

MINE = '''
from typing import NamedTuple

import jax
import jax.numpy as jnp

import undrift as ud


class Server(NamedTuple):
    x: jax.Array
    v: jax.Array


@ud.method
def heavy(eta: float, beta: float = 0.5) -> ud.Algorithm:
    """↓x; τ_i local steps; ↑y_i − x; v ← βv + Σ w_i(y_i − x); x ← x + v."""

    def client(memory, x, local):
        y = jax.lax.fori_loop(0, local.steps, lambda k, y: y - eta * local.gradient(y, k), x)
        return memory, y - x

    def receive(server, slots, moves, cohort):
        v = beta * server.v + cohort.mean(moves)
        return Server(server.x + v, v), slots

    exchange = ud.Exchange("local", send=lambda server, slot: server.x, client=client, receive=receive)
    return ud.Algorithm((exchange,), server=lambda x: Server(x, jnp.zeros_like(x)), model=lambda server: server.x)


def ring(clients: int, count: int = 2):
    return ud.plan.rule(lambda round, key: (round + jnp.arange(count)) % clients, count)
'''
NET = """
import flax.linen as nn


class Net(nn.Module):
    width: int = 4

    @nn.compact
    def __call__(self, x):
        return nn.Dense(10)(nn.relu(nn.Dense(self.width)(x.reshape((len(x), -1)))))
"""
PROBLEMS = {
    "quadratic": 'name = "quadratic"\nclients = 4\ndim = 6',
    "network": 'name = "network"\nmodel = "net.py:Net"\nclients = 3\npartition = "iid"',
}
ETA = {"quadratic": [0.001, 0.003], "network": [0.1, 0.3]}
STUDY = """
[problem]
{problem}

[run]
rounds = 3
steps = "geometric:0.5:common"
participation = {{ name = "mine.py:ring", clients = 3 }}
availability = {{ file = "trace.csv", after = "repeat" }}

[[method]]
name = "mine.py:heavy"
eta = {eta}

[[method]]
name = "fedavg"
eta = {eta[0]}
"""


@pytest.fixture
def typed(cli, monkeypatch, tmp_path):
    """A line as it is typed; what it says, if it goes well."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("mine.py").write_text(MINE)
    Path("net.py").write_text(NET)
    Path("trace.csv").write_text("round,client\n1,0\n1,1\n1,2\n2,0\n2,1\n")

    def call(line: str):
        program, *words = shlex.split(line)
        assert program == "undrift"
        said = cli(*words)
        assert said.code == 0, (line, said.err)
        return said

    return call


@pytest.mark.parametrize("problem", only(PROBLEMS, {"quadratic"}))
def test_from_a_method_of_ones_own_to_a_figure(typed, problem):
    """Every day on a quadratic; networks of one's own have a short test in `test_cli_own_network`."""
    Path("study.toml").write_text(STUDY.format(problem=PROBLEMS[problem], eta=ETA[problem]))
    assert "heavy" in typed("undrift explain mine.py:heavy").out
    typed(
        "undrift run --method mine.py:heavy --eta 0.02 --problem quadratic:clients=4,dim=6 --rounds 8 --steps 3 "
        "--track tensorboard:tb --no-figures --out runs/first"
    )
    history = pd.read_csv("runs/first/history.csv")
    assert history["gap"].iloc[-1] < history["gap"].iloc[0]
    assert history["gradients"].iloc[-1] == 8 * 4 * 3  # τ_i for each round and client, without being told
    assert list(Path("tb/first").glob("events*"))

    said = typed(
        "undrift compare study.toml --trust --refine 2 --seeds 2 --track tensorboard:tb --no-figures --out runs/both"
    )
    assert "heavy: the grid grew by" in said.err
    summary = json.loads(Path("runs/both/summary.json").read_text())
    assert "heavy" in json.dumps(summary)
    rows = pd.read_csv("runs/both/history.csv")
    assert {method.rpartition(":")[2] for method in rows["method"]} == {"heavy", "fedavg"}
    assert rows["seed"].nunique() == 2
    assert len([*Path("tb/both").rglob("events*")]) == 4  # one run for each method and seed

    typed("undrift figure runs/both --for paper --out paper.pdf")
    assert Path("paper.pdf").read_bytes().startswith(b"%PDF-")


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("server.v +", "server.w +", r"mine.py, line \d+, in receive: AttributeError: "),
        ("y - x", "(y - x)[:2] + x", r"mine.py, line \d+, in client: TypeError: "),
        ("import jax\n", "import jax\n\n1 / 0\n", r"mine.py cannot be imported: mine.py, line \d+: ZeroDivisionError"),
    ],
)
def test_a_fault_of_the_users_program_is_named_with_its_line(cli, typed, before, after, complaint):
    Path("mine.py").write_text(MINE.replace(before, after, 1))
    said = cli(
        "run", "--method", "mine.py:heavy", "--eta", "0.1", "--problem", "quadratic:clients=3,dim=4", "--out", "r"
    )
    assert said.code == 2, said.err
    assert re.search(complaint, said.err), said.err
