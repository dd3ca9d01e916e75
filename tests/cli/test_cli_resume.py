"""Runs that are killed or interrupted, and what continues them."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_helpers import QUADRATIC, SMALL, WAITING

from processes import ended, go_on, process, wait_for_line

RUN = [
    *("run", "--method", "scaffold", "--problem", QUADRATIC, "--steps", "2..9", "--eta", "0.01"),
    *("--participation", "uniform:2", "--oracle", "noisy:0.1", "--rounds", "400", "--no-figures"),
    *("--checkpoint-seconds", "0"),
]


def test_a_run_killed_by_kill_9_ends_with_the_same_bits(cli, tmp_path):
    with process(WAITING, [*RUN, "--out", "killed"], tmp_path) as made:
        wait_for_line(made, "saved")
        made.kill()
        assert ended(made)[0] == -signal.SIGKILL
    assert Path("killed/checkpoint.npz").exists()
    assert not Path("killed/history.csv").exists()
    said = cli("run", "--out", "killed", "--resume", "--no-figures")
    assert said.code == 0, said.err
    assert cli(*RUN, "--out", "whole").code == 0
    for name in ("history.csv", "model.npy"):
        assert Path("killed", name).read_bytes() == Path("whole", name).read_bytes()
    assert not Path("killed/checkpoint.npz").exists()


@pytest.mark.slow  # every day: `test_signals_inside_a_chunk_of_rounds`, in this process
def test_ctrl_c_leaves_a_usable_directory(cli, tmp_path):
    with process(WAITING, [*RUN, "--out", "stopped"], tmp_path) as made:
        wait_for_line(made, "saved")
        made.send_signal(signal.SIGINT)
        go_on(made)
        code, errors = ended(made)
    assert code == 130, errors
    assert "--resume" in errors
    summary = json.loads(Path("stopped/summary.json").read_text())
    assert summary["status"] == "interrupted"
    history = pd.read_csv("stopped/history.csv")
    assert len(history) == summary["rounds"] + 1 < 401
    assert Path("stopped/checkpoint.npz").exists()


@pytest.fixture
def interrupted(cli, monkeypatch):
    """A small run, interrupted after its first chunk of rounds."""
    from undrift.command.talk import Stop

    words = ["run", "--method", "fedlin", "--problem", QUADRATIC, "--rounds", "400", "--eta", "0.01", "--no-figures"]
    with monkeypatch.context() as patch:
        patch.setattr(Stop, "heard", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        assert cli(*words, "--out", "r").code == 130
    return words


def test_resume_continues_and_refuses_other_settings(cli, interrupted):
    different = cli(*interrupted, "--eta", "0.02", "--out", "r", "--resume")
    assert different.code == 2
    assert "another run" in different.err
    assert cli(*interrupted, "--out", "r", "--resume").code == 0
    assert len(pd.read_csv("r/history.csv")) == 401
    again = cli("run", "--out", "r", "--resume")
    assert again.code == 0
    assert "nothing to resume" in again.err


def test_a_corrupt_checkpoint_has_its_own_code(cli, interrupted):
    path = Path("r/checkpoint.npz")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    before = Path("r/history.csv").read_bytes()
    said = cli("run", "--out", "r", "--resume")
    assert said.code == 4
    assert "corrupt" in said.err
    assert Path("r/history.csv").read_bytes() == before


def test_there_must_be_something_to_resume(cli):
    said = cli("run", "--out", "nowhere", "--resume")
    assert said.code == 2
    assert "no run" in said.err
    assert cli("run", "--resume").code == 2


def test_a_run_with_a_rule_that_ends_it(cli, monkeypatch):
    """Interrupted and resumed it ends in the same round with the same bits; it is finished, and the reason is shown."""
    from undrift.command.talk import Stop

    words = ["run", "--method", "fedlin", "--problem", QUADRATIC, "--rounds", "4000", "--eta", "0.01", "--no-figures",
             "--stop", "gap=1e-5,patience=300", "--per-client", "--keep-iterates"]  # fmt: skip
    whole = cli(*words, "--out", "whole", "--json")
    assert whole.code == 0
    summary = whole.json
    assert summary["status"] == "finished"
    assert summary["stopped"] in whole.err
    assert summary["rounds"] < 4000
    assert summary["final"]["gap"] <= 1e-5
    with monkeypatch.context() as patch:
        patch.setattr(Stop, "heard", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        assert cli(*words, "--out", "r").code == 130
    assert cli("run", "--out", "r", "--resume", "--no-figures").code == 0
    for name in ("history.csv", "model.npy", "iterates.npy", "study.toml"):
        assert Path("r", name).read_bytes() == Path("whole", name).read_bytes()
    with np.load("r/clients.npz") as resumed, np.load("whole/clients.npz") as clients:
        assert clients["loss"].shape == (summary["rounds"] + 1, 4)
        assert all(np.array_equal(resumed[name], clients[name], equal_nan=True) for name in clients)
    assert "nothing to resume" in cli("run", "--out", "r", "--resume").err


def test_a_rule_about_a_column_that_is_not_there_is_refused_before_anything_is_written(cli):
    said = cli("run", "--method", "fedlin", "--problem", "figure1", "--stop", "accuracy=0.9", "--out", "r")
    assert said.code == 2
    assert "unknown column that a rule can stop at 'accuracy'" in said.err
    assert not Path("r").exists()


@pytest.mark.parametrize("eta", [[], ["--eta", "theorem"], ["--eta", "certified"]])
def test_what_was_chosen_and_promised_outlives_the_loss_of_the_summary(cli, eta):
    cli("run", "--method", "fedlin", *eta, *SMALL, "--out", "r", "--no-figures")
    before = json.loads(Path("r/summary.json").read_text())
    Path("r/summary.json").unlink()
    assert cli("run", "--out", "r", "--resume", "--no-figures").code == 0
    after = json.loads(Path("r/summary.json").read_text())
    assert before["chosen"]
    assert bool(before["theorem"]) == bool(eta)
    for changing in ("seconds", "command"):
        before.pop(changing)
        after.pop(changing)
    assert after == before


def test_a_chosen_value_that_somebody_changes_is_their_own(cli):
    cli("run", "--method", "fedlin", *SMALL, "--out", "r", "--no-figures")
    study = Path("r/study.toml").read_text()
    assert 'eta = "open"' in study
    Path("mine.toml").write_text(study.replace("eta = 0.0", "eta = 0.00"))
    said = cli("run", "mine.toml", "--out", "s", "--no-figures", "--json")
    assert said.code == 0
    assert said.json["chosen"] == {}
    assert "asked" not in Path("s/study.toml").read_text()


def test_only_parameters_that_are_there_can_have_been_chosen(cli):
    Path("study.toml").write_text(
        '[problem]\nname = "quadratic"\n[[method]]\nname = "fedlin"\neta = 0.1\nasked = { etta = "open" }\n'
    )
    said = cli("run", "study.toml", "--out", "r")
    assert said.code == 2
    assert "did you mean 'eta'" in said.err
