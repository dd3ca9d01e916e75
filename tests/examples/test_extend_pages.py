"""The pages about extending: their files are written down, their code and their commands run, as a reader would do it."""

from __future__ import annotations

import doctest
import re
import shlex
import sys
from pathlib import Path

import pytest

from undrift.cli import main

FOLDER = Path(__file__).parents[2] / "docs" / "extend"
PAGES = sorted(page.name for page in FOLDER.glob("*.md"))
WORKED = [name for name in PAGES if name != "index.md"]
FENCE = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def test_there_is_a_page_for_each_extension_point():
    assert {
        "index.md",
        "method.md",
        "problem.md",
        "compressor.md",
        "sampling.md",
        "steps-and-schedules.md",
        "observer.md",
    } == {*PAGES}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", (FOLDER / name).read_text()):
        assert (FOLDER / target).exists(), f"{name} points to {target}"


@pytest.mark.parametrize("name", WORKED)
def test_a_page_is_true(name, tmp_path, monkeypatch, capfd):
    text = (FOLDER / name).read_text()
    blocks = FENCE.findall(text)
    files = [code for kind, code in blocks if kind == "python" and not code.startswith(">>>")]
    studies, commands = ([code for kind, code in blocks if kind == wanted] for wanted in ("toml", "sh"))
    assert (len(files), len(studies)) == (1, 1)
    (tmp_path / "mine.py").write_text(files[0])
    (tmp_path / "study.toml").write_text(studies[0])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testfile(str(FOLDER / name), module_relative=False, optionflags=flags).failed == 0
    lines = [line for block in commands for line in block.splitlines() if line.strip()]
    assert len(lines) >= 2
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "undrift"
        more = [] if words[0] == "explain" else ["--no-figures", "--quiet"]
        assert main([*words, *more]) == 0, (line, capfd.readouterr().err)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
