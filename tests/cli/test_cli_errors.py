"""Bad input: the rule, the value, the nearest valid name, the file and the table; exit code 2."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import SMALL

STUDY = '[problem]\nname = "quadratic"\n[run]\nrounds = 2\n[[method]]\nname = "fedlin"\neta = 0.01\n'


@pytest.mark.parametrize(
    ("old", "new", "texts"),
    [
        ('"fedlin"', '"fedlim"', ["[[method]] number 1", "unknown method 'fedlim'", "did you mean 'fedlin'"]),
        ("eta", "etta", ["[[method]] number 1", "'etta'", "did you mean 'eta'"]),
        ('"quadratic"', '"quadratik"', ["[problem]", "did you mean 'quadratic'"]),
        ('"quadratic"', '"quadratic"\nclient = 3', ["[problem]", "did you mean 'clients'"]),
        ('"quadratic"', '"quadratic"\nclients = "three"', ["clients must be a whole number", "'three'"]),
        ("rounds", "ronds", ["[run]", "did you mean 'rounds'"]),
        ("rounds = 2", "rounds = 2.5", ["[run]", "rounds must be a whole number"]),
        ("[run]", "[runs]", ["unknown table 'runs'", "did you mean 'run'"]),
        ("rounds = 2", 'rounds = 2\nparticipation = "unifrom:3"', ["[run]", "did you mean 'uniform'"]),
        ("rounds = 2", 'rounds = 2\noracle = "minibatch:0"', ["[run]", "mini-batch", "0"]),
        ("rounds = 2", "rounds = 2\nsteps = { low = 2, hihg = 3 }", ["[run]", "did you mean 'high'"]),
        ("rounds = 2", "rounds = 2\nsteps = [1, 2]", ["one per client", "(2,)"]),
        ("rounds = 2", "rounds = 2\nsteps = 0", ["steps must be a whole number ≥ 1", "got 0"]),
        ("rounds = 2", "rounds = 2\nfailures = 1.5", ["[0, 1)"]),
        ("eta = 0.01", 'eta = 0.01\nup = "topk:3"', ["compressor", "did you mean 'top_k'"]),
        ("eta = 0.01", 'eta = 0.01\nup = "top_k:99"', ["k must be between 1 and the dimension d = 20"]),
        ("eta = 0.01", "eta = -1", ["eta must be a finite number > 0"]),
        ("eta = 0.01", 'eta = "big"', ["eta must be a number", "'big'"]),
        ("eta = 0.01", "eta = [0.1, 0.2]", ["2 values of eta", "undrift compare"]),
        ("[run]", "[run", ["not valid TOML"]),
    ],
)
def test_study_files(cli, old, new, texts):
    Path("study.toml").write_text(STUDY.replace(old, new))
    said = cli("run", "study.toml", "--out", "r", "--no-figures")
    assert said.code == 2
    assert "Traceback" not in said.err
    for text in ["study.toml", *texts] if "k must" not in texts[0] else texts:
        assert text in said.err
    assert not Path("r").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["run", "--method", "fedlim", *SMALL], "did you mean 'fedlin'"),
        (["run", *SMALL], "which method?"),
        (["run", "--method", "fedlin"], "which problem?"),
        (["run", "--method", "fedlin", "--ronds", "3"], "did you mean --rounds?"),
        (["run", "nothing.toml"], "cannot be read"),
        (["run", "--method", "fedlin", *SMALL, "--participation", "uniform:99"], "cannot be drawn"),
        (["run", "--method", "fedlin", *SMALL, "--steps", "many"], "steps are written"),
        (["run", "--method", "nowhere.py:f", *SMALL], "does not exist"),
        (["compare", "--method", "fedlin", "fedawg", *SMALL], "did you mean 'fedavg'"),
        (["explain", "fedlim"], "did you mean 'fedlin'"),
        (["list", "metods"], "did you mean 'methods'"),
        (["explian", "fedlin"], "did you mean explain?"),
    ],
)
def test_flags(cli, words, text):
    said = cli(*words)
    assert said.code == 2
    assert text in said.err
    assert not Path("runs").exists()


HELP = """
import json, sys
from undrift.cli import main

def code(words):
    try:
        return main(words)
    except SystemExit as stop:
        return stop.code

codes = [code(words) for words in (["--help"], ["run", "--help"], ["run", "--ronds", "3"])]
slow = [name for name in ("jax", "numpy", "scipy", "matplotlib", "sklearn", "optax", "rich") if name in sys.modules]
print(json.dumps([codes, slow]))
"""


def test_help_and_bad_flags_wait_for_no_library(tmp_path):
    """What takes long to import is imported by those who need it."""
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(done.stdout.splitlines()[-1]) == [[0, 0, 2], []]


def test_help_shows_examples_and_exit_codes(cli):
    for command in ("run", "compare", "explain", "list", "partition", "data"):
        said = cli(command, "--help")
        assert said.code == 0
        assert "examples:" in said.out
        assert "130 interrupted" in said.out
    assert cli("--version").out.startswith("undrift")


def test_without_arguments_it_says_what_to_do(cli):
    """A question that is answered: nothing went wrong."""
    said = cli()
    assert (said.code, said.err) == (0, "")
    assert "undrift demo --open" in said.out
    assert max(map(len, said.out.splitlines())) <= 60


def test_npz_files(cli):
    rng = np.random.default_rng(0)
    np.savez("three.npz", A=rng.standard_normal((3, 8, 4)), b=rng.standard_normal((3, 8)))
    np.savez("rows.npz", A=rng.standard_normal((20, 4)), y=np.sign(rng.standard_normal(20)), client=np.arange(20) % 3)
    np.savez("bad.npz", A=rng.standard_normal((20, 4)), b=rng.standard_normal(20))
    base = ["run", "--method", "fedlin", "--rounds", "3", "--no-figures", "--json"]
    least = cli(*base, "--problem", "npz:three.npz", "--out", "a").json
    assert least["setting"]["problem"] == "<least squares: 3 clients, d = 4, float64>"
    logistic = cli(*base, "--problem", "npz:rows.npz,l2=0.1", "--out", "b").json
    assert logistic["setting"]["problem"] == "<logistic: 3 clients, d = 4, float64>"
    assert cli(*base, "b/study.toml", "--out", "c").code == 0  # the path was written down in full
    said = cli(*base, "--problem", "npz:bad.npz", "--out", "d")
    assert said.code == 2
    assert "array `client`" in said.err


def test_the_package_runs_as_a_module(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["undrift", "list"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("undrift", run_name="__main__")
    assert ended.value.code == 0
    assert "fedlin" in capsys.readouterr().out
