"""The tutorial "Four hospitals": its own commands in its own order, for real, on a free port, and its own Python."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
from test_hospitals import EXAMPLE, PATIENCE, ROOT, free_port

from undrift.cli import main
from undrift.command.parser import build_parser

PAGE = ROOT / "docs" / "tutorials" / "four-hospitals.md"
TUTORIAL = PAGE.read_text(encoding="utf-8")
COMMANDS = re.findall(r"```bash\n(.*?)\n```", TUTORIAL, re.DOTALL)
PROGRAM = "\n".join(re.findall(r"```python\n(.*?)```", TUTORIAL, re.DOTALL))
TABLE = re.findall(r"^ (\w+) +(\d+) +10 +(\S+) +(\S+) %", TUTORIAL, re.MULTILINE)
TOGETHER = ("serve", "join")


def test_links_of_the_tutorial_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)", TUTORIAL):
        assert (PAGE.parent / target).exists(), target


def test_the_commands_of_the_tutorial_are_understood():
    parsed = [build_parser().parse_args(shlex.split(command)[1:]) for command in COMMANDS]
    assert len(parsed) == 15
    assert [one.command for one in parsed if one.command in TOGETHER] == ["serve", *["join"] * 4]


@pytest.mark.slow  # every day the shorter tutorial in test_hospitals.py is played, by the same commands
def test_from_files_to_a_deployed_model(tmp_path, monkeypatch, capfd):
    """Server and hospitals in processes of their own, everything else in this one."""
    monkeypatch.chdir(shutil.copytree(EXAMPLE, tmp_path / "hospitals"))
    port, said = free_port(), {}
    commands = [command.replace("8443", str(port)) for command in COMMANDS]
    first = next(i for i, command in enumerate(commands) if command.split()[1] in TOGETHER)
    last = max(i for i, command in enumerate(commands) if command.split()[1] in TOGETHER)
    assert [command.split()[1] for command in commands[first : last + 1]] == ["serve", *["join"] * 4]
    for command in commands[:first]:
        said[command] = _said(command, capfd)
    _together(commands[first : last + 1])
    for command in commands[last + 1 :]:
        said[command] = _said(command, capfd)
    _check_results(said)


def _said(command: str, capfd: pytest.CaptureFixture[str]) -> str:
    program, *words = shlex.split(command)
    assert program == "undrift"
    capfd.readouterr()
    code = main(words)
    out, err = capfd.readouterr()
    assert code == 0, f"{command}\n{err}"
    return out + err


def _together(commands: list[str]) -> None:
    running = []
    try:
        for number, command in enumerate(commands):
            with Path(f"{number}.log").open("w") as log:
                words = [sys.executable, "-m", *shlex.split(command)]
                running.append(subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT))
        for number, process in enumerate(running):
            assert process.wait(PATIENCE) == 0, Path(f"{number}.log").read_text()
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
            process.wait()


def _check_results(said: dict[str, str]) -> None:
    summary, deployed = (json.loads(Path(f"runs/{name}/summary.json").read_text()) for name in ("heart", "deployed"))
    shown = {name: (int(size), loss, right) for name, size, loss, right in TABLE}
    assert list(shown) == ["va", "cleveland", "hungary", "switzerland"]
    for one in summary["clients"]["listed"]:
        assert shown[one["name"]] == (one["samples"], f"{one['loss_per_sample']:.3e}", f"{100 * one['accuracy']:.1f}")
    for here, there in zip(summary["clients"]["listed"], deployed["clients"]["listed"], strict=True):
        assert {key: here[key] for key in ("name", "samples", "steps")} == {
            key: there[key] for key in ("name", "samples", "steps")
        }
        assert here["loss"] == pytest.approx(there["loss"], rel=1e-9)
        assert here["accuracy"] == there["accuracy"]
    described = said["undrift data describe data --label disease"]
    assert re.search(r"switzerland +116 +8 +108", described)
    assert "csv:data,label=disease" in described
    resumed = said["undrift run --out runs/heart --resume"]
    assert "nothing to resume" in resumed
    early = json.loads(Path("runs/early/summary.json").read_text())
    assert early["stopped"] is not None
    assert early["best_round"]["kept"]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(PROGRAM, PAGE.name, "exec"), {})
    for line in out.getvalue().splitlines():
        name, right = line.split()[:2]
        assert right == f"{shown[name][2]}%"
    near, far = joblib.load("heart.joblib"), joblib.load("runs/deployed/model.joblib")
    np.testing.assert_allclose(far[-1].coef_, near[-1].coef_, atol=1e-10)
    card = Path("runs/deployed/model-card.md").read_text()
    assert "Deployed under the contract" in card
    assert "852 in all" in card
    assert "runs/advice" not in card
    assert Path("runs/advice/advice.md").exists()
