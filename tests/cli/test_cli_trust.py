"""A study's own program runs only after somebody said yes to this very file."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest
from cli_helpers import SMALL

from undrift.studies import own

# Every test says yes to a program of its own: a yes holds for the whole process.
PROGRAM = """
from pathlib import Path
import undrift as ud

Path("ran").touch()  # {}

def factory(eta: float):
    return ud.fedsgd.function(eta=eta)
"""
STUDY = """
[problem]
name = "figure1"
[run]
rounds = 2
[[method]]
name = "x.py:factory"
eta = 0.1
"""
RUN = ("run", "study.toml", "--no-figures", "--quiet", "--out")


@pytest.fixture
def program(cli, monkeypatch, tmp_path, request):
    """A study and its program in the working directory; returns the program's hash."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("x.py").write_text(PROGRAM.format(request.node.name))
    Path("study.toml").write_text(STUDY)
    return hashlib.sha256(Path("x.py").read_bytes()).hexdigest()


class Terminal:
    """Somebody who types this answer."""

    def __init__(self, answer: str) -> None:
        self.answer = answer

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return self.answer


def test_without_a_terminal_nothing_is_run(cli, program):
    for words in (RUN, ("compare", *RUN[1:])):
        said = cli(*words, "r")
        assert said.code == 2
        for text in ("study.toml names a method in", str(Path("x.py").resolve()), program, "--trust"):
            assert text in said.err
    assert not Path("ran").exists()
    assert not Path("r").exists()
    assert not own.trusted_file().exists()


def test_trust_is_remembered_by_hash(cli, program):
    assert cli(*RUN, "a", "--trust").code == 0
    assert Path("ran").exists()
    assert own.trusted_file().read_text() == f"{program}  {Path('x.py').resolve()}\n"
    own._said_yes.clear()  # another process: what is remembered is in the file
    assert cli(*RUN, "b").code == 0
    Path("x.py").write_text(Path("x.py").read_text() + "\n# changed")
    Path("ran").unlink()
    said = cli(*RUN, "c")
    assert said.code == 2
    assert "--trust" in said.err
    assert not Path("ran").exists()


def test_a_flag_of_ones_own_is_a_yes_also_for_the_resume(cli, program):
    assert cli("run", "--method", "x.py:factory", *SMALL, "--eta", "0.1", "--out", "r", "--no-figures").code == 0
    own._said_yes.clear()
    assert cli("run", "--out", "r", "--resume").code == 0
    Path("x.py").write_text(Path("x.py").read_text() + "\n# changed")
    said = cli("run", "--out", "r", "--resume")
    assert said.code == 2
    assert "r/study.toml names a method in" in said.err


@pytest.mark.parametrize(("answer", "code"), [("yes\n", 0), ("y\n", 2), ("", 2)])
def test_a_question_on_a_terminal(cli, program, monkeypatch, answer, code):
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    said = cli(*RUN, "r")
    assert said.code == code
    assert f"SHA-256 {program}" in said.err
    assert "Type yes" in said.err
    assert Path("ran").exists() == (code == 0)
    assert own.trusted_file().exists() == (code == 0)


def test_where_nothing_can_be_remembered_a_yes_holds_for_the_process(cli, program, monkeypatch):
    Path("state").write_text("a file, not a directory")
    assert cli(*RUN, "a", "--trust").code == 0
    assert cli(*RUN, "b").code == 0


@pytest.mark.parametrize("body", ["import sys; sys.exit(0)", "1/0", "def f(:", "factory = 3"])
def test_programs_that_are_none(cli, body):
    Path("x.py").write_text(body)
    said = cli("run", "--method", "x.py:factory", *SMALL, "--out", "r")
    assert said.code == 2
    assert "Traceback" not in said.err
    assert "x.py" in said.err


def test_dataclasses_in_a_program(cli):
    Path("x.py").write_text(
        "from __future__ import annotations\nimport dataclasses\nimport undrift as ud\n"
        "@dataclasses.dataclass\nclass Options:\n    scale: float = 1.0\n"
        "def factory(eta: float):\n    return ud.fedsgd.function(eta=eta * Options().scale)\n"
    )
    assert cli("run", "--method", "x.py:factory", *SMALL, "--eta", "0.1", "--out", "r", "--no-figures").code == 0


def test_trust_holds_for_the_resume_of_a_directory_too(cli, program):
    assert cli("run", "--method", "x.py:factory", *SMALL, "--eta", "0.1", "--out", "r", "--no-figures").code == 0
    Path("x.py").write_text(Path("x.py").read_text() + "\n# changed, and read again")
    assert cli("run", "--out", "r", "--resume", "--trust").code == 0
    assert cli("run", "--out", "r", "--resume").code == 0
