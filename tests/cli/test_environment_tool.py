"""What `make demo` shows while it installs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "environment.py"


@pytest.fixture
def tool():
    spec = importlib.util.spec_from_file_location("environment_tool", TOOL)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_a_stage_says_what_it_does_before_it_is_done(tool, capsys):
    times = iter((10.0, 52.4))
    with tool.stage("Installing undrift", clock=lambda: next(times)):
        assert capsys.readouterr().out == "Installing undrift …\n"
    assert capsys.readouterr().out == "  done in 42 s\n"


def test_large_downloads_are_named_and_all_else_is_silent(tool, capsys):
    lines = [
        "Collecting jax",
        "  Downloading jaxlib-0.10.2-cp311-x.whl (83.2 MB)",
        "Downloading rich-14.0-any.whl (243 kB)",
    ]
    tool.run([sys.executable, "-c", f"print({chr(10).join(lines)!r})"])
    assert capsys.readouterr().out == "  jaxlib (83 MB)\n"


def test_a_failure_shows_everything_that_was_said(tool, capsys):
    with pytest.raises(SystemExit) as ended:
        tool.run([sys.executable, "-c", "import sys; print('Collecting jax'); sys.exit('no room on the disk')"])
    assert ended.value.code == 1
    said = capsys.readouterr().out
    assert "Collecting jax\nno room on the disk\n" in said
    assert "this failed: " in said


def test_an_old_python_is_refused_with_a_remedy(tool, monkeypatch, tmp_path):
    monkeypatch.setattr(tool, "OLDEST", (99, 1))
    with pytest.raises(SystemExit, match=r"needs Python 99\.1 or newer.*make demo PYTHON="):
        tool.main(str(tmp_path / "venv"))
    assert not (tmp_path / "venv").exists()


def test_an_environment_that_was_begun_is_made_anew_and_one_that_is_there_is_extended(tool, monkeypatch, tmp_path):
    ran = []
    monkeypatch.setattr(tool, "run", ran.append)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    tool.main(str(tmp_path))
    assert [command[1:3] for command in ran] == [["-m", "venv"], ["-m", "pip"]], "pip is missing: somebody stopped it"
    (tmp_path / "bin" / "pip").touch()
    ran.clear()
    tool.main(str(tmp_path), "dev")
    (command,) = ran
    assert command[-2:] == ["--editable", ".[dev]"]
