"""Runs that are killed or interrupted, and what continues them."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pandas as pd
import pytest
from cli_helpers import start_process

LONG = [
    *("run", "--method", "scaffold", "--problem", "quadratic:clients=6,dim=10", "--steps", "2..9", "--eta", "0.01"),
    *("--participation", "uniform:4", "--oracle", "noisy:0.1", "--rounds", "30000", "--no-figures"),
]


def wait_for(path: Path, process, seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not path.exists():
        assert process.poll() is None, f"the run ended too early: {process.communicate()[1]}"
        assert time.monotonic() < until, f"{path} did not appear"
        time.sleep(0.02)


def test_a_run_killed_by_kill_9_ends_with_the_same_bits(cli, tmp_path):
    process = start_process([*LONG, "--out", "killed", "--checkpoint-seconds", "0.01"], tmp_path)
    wait_for(tmp_path / "killed" / "checkpoint.npz", process)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not Path("killed/history.csv").exists()
    said = cli("run", "--out", "killed", "--resume", "--no-figures")
    assert said.code == 0, said.err
    assert cli(*LONG, "--out", "whole").code == 0
    for name in ("history.csv", "model.npy"):
        assert Path("killed", name).read_bytes() == Path("whole", name).read_bytes()
    assert not Path("killed/checkpoint.npz").exists()


def test_ctrl_c_leaves_a_usable_directory(cli, tmp_path):
    words = [*LONG, "--rounds", "3000000", "--out", "stopped", "--checkpoint-seconds", "0.01"]
    process = start_process(words, tmp_path)
    wait_for(tmp_path / "stopped" / "checkpoint.npz", process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "--resume" in err
    summary = json.loads(Path("stopped/summary.json").read_text())
    assert summary["status"] == "interrupted"
    history = pd.read_csv("stopped/history.csv")
    assert len(history) == summary["rounds"] + 1 < 3_000_001
    assert Path("stopped/checkpoint.npz").exists()


@pytest.fixture
def interrupted(cli, monkeypatch):
    """A small run, interrupted after its first chunk of rounds."""
    from undrift.command.talk import Stop

    words = ["run", "--method", "fedlin", "--problem", "quadratic", "--rounds", "400", "--eta", "0.01", "--no-figures"]
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
