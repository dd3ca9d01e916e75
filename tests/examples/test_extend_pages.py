"""The pages about extending: their files are written down, their code and their commands run, as a reader would do it."""

from __future__ import annotations

import doctest
import re
import shlex
import sys
from pathlib import Path

import pytest

from everyday import only, share
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


class Page:
    """What is written on a page: one file, one study, commands."""

    def __init__(self, name):
        self.path = FOLDER / name
        blocks = FENCE.findall(self.path.read_text())
        self.files = [code for kind, code in blocks if kind == "python" and not code.startswith(">>>")]
        self.studies = [code for kind, code in blocks if kind == "toml"]
        commands = [code for kind, code in blocks if kind == "sh"]
        self.lines = [line for block in commands for line in block.splitlines() if line.strip()]


@pytest.mark.parametrize("name", WORKED)
def test_a_page_shows_a_file_a_study_and_commands(name):
    page = Page(name)
    assert (len(page.files), len(page.studies)) == (1, 1)
    assert len(page.lines) >= 2
    assert all(shlex.split(line)[0] == "undrift" for line in page.lines)


@pytest.fixture
def followed(tmp_path, monkeypatch):
    """A reader's folder, with the file and the study of a page."""

    def follow(page):
        (tmp_path / "mine.py").write_text(page.files[0])
        (tmp_path / "study.toml").write_text(page.studies[0])

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    yield follow
    monkeypatch.delitem(sys.modules, "mine", raising=False)


# Every day the code of one half of the pages is run, and the commands of the other half.
@pytest.mark.parametrize("name", only(WORKED, list(WORKED)[:1]))
def test_code_of_a_page_is_true(name, followed):
    page = Page(name)
    followed(page)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testfile(str(page.path), module_relative=False, optionflags=flags).failed == 0


@pytest.mark.parametrize("name", share(WORKED, 3, of=4))
def test_commands_of_a_page_run(name, followed, capfd):
    page = Page(name)
    followed(page)
    for line in page.lines:
        _, *words = shlex.split(line)
        more = [] if words[0] == "explain" else ["--no-figures", "--quiet"]
        assert main([*words, *more]) == 0, (line, capfd.readouterr().err)
