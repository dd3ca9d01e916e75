"""What `make demo` shows while it installs."""

from __future__ import annotations

import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
TOOL, LOCKS = ROOT / "tools" / "environment.py", ROOT / "locks"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


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
    assert ran[0][1:3] == ["-m", "venv"], "pip is missing: somebody stopped it"
    assert "demo.txt" in ran[1][-1]
    (tmp_path / "bin" / "pip").touch()
    ran.clear()
    tool.main(str(tmp_path), "dev")
    locked, own = ran
    assert "--require-hashes" in locked
    assert locked[-1].endswith("dev.txt")
    assert own[-2:] == ["--editable", "."]
    ran.clear()
    tool.main(str(tmp_path), "dev", newest=True)
    (command,) = ran
    assert command[-2:] == ["--editable", ".[dev]"]


def pinned(lock):
    """name: the versions that a lock has for it, for one Python or another."""
    found = {}
    for line in (LOCKS / lock).read_text().splitlines():
        if line[:1].isalnum():
            requirement = Requirement(line.removesuffix("\\"))
            found.setdefault(requirement.name, []).append(requirement)
    return found


@pytest.mark.parametrize(("lock", "extras"), [("demo", []), ("dev", ["dev"]), ("flower", ["flower"])])
def test_a_lock_has_what_the_project_asks_for(lock, extras):
    """A dependency that was added or raised in pyproject.toml needs `make lock`."""
    locked = pinned(f"{lock}.txt")
    asked = PROJECT["project"]["dependencies"] + [
        line for extra in extras for line in PROJECT["project"]["optional-dependencies"][extra]
    ]
    for requirement in map(Requirement, asked):
        for name in requirement.extras if requirement.name == "undrift" else ():
            asked += PROJECT["project"]["optional-dependencies"][name]
    for requirement in map(Requirement, asked):
        if requirement.name != "undrift":
            versions = [entry for one in locked[canonicalize_name(requirement.name)] for entry in one.specifier]
            assert all(requirement.specifier.contains(entry.version) for entry in versions), requirement
    text = (LOCKS / f"{lock}.txt").read_text()
    assert text.count("--hash=sha256:") >= len(locked)
    assert "://" not in text, "a lock names packages, not the index that they came from"


def test_the_demo_and_the_tests_are_locked_to_the_same_versions():
    demo, dev = pinned("demo.txt"), pinned("dev.txt")
    assert demo.items() <= dev.items()
