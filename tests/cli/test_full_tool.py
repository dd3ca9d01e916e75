"""`make full`: what it repeats, what it remembers, and how it ends when the time is up."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "full.py"
ENDLESS = "import time; print('begun', flush=True); time.sleep(600)"


@pytest.fixture
def tool(monkeypatch, tmp_path):
    """The tool with three parts that note that they were played; it keeps its state in an empty folder."""
    spec = importlib.util.spec_from_file_location("full_tool", TOOL)
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "full_tool", made)
    spec.loader.exec_module(made)
    monkeypatch.setattr(made, "STATE", tmp_path / "state")
    monkeypatch.setattr(made, "state_of_files", lambda: "0" * 8)
    monkeypatch.setattr(made, "GRACE", 60.0)
    played = tmp_path / "played"

    def noting(name: str, code: int) -> tuple[str, ...]:
        program = f"import sys; open({str(played)!r}, 'a').write({name!r}); sys.exit({code})"
        return (sys.executable, "-c", program)

    made.every = {name: made.Part(name, noting(name, 0), f"part {name}") for name in "abc"}
    made.failing = made.Part("b", noting("b", 3), "part b")
    made.endless = made.Part("b", (sys.executable, "-c", ENDLESS), "part b")
    made.played = lambda: played.read_text() if played.exists() else ""
    monkeypatch.setattr(made, "parts", lambda: list(made.every.values()))
    return made


def test_what_passed_is_not_played_again_and_what_failed_is(tool, capsys):
    tool.every["b"] = tool.failing
    assert tool.main() == 1
    assert tool.played() == "abc"
    assert "b              failed" in capsys.readouterr().out
    assert tool.main() == 1
    assert tool.played() == "abcb"
    assert "a              passed before" in capsys.readouterr().out


def test_other_files_are_played_anew(tool, monkeypatch):
    assert tool.main() == 0
    monkeypatch.setattr(tool, "state_of_files", lambda: "1" * 8)
    assert tool.main() == 0
    assert tool.played() == "abcabc"


def test_a_part_that_passed_elsewhere_counts(tool):
    assert tool.main(passed="b") == 0
    assert tool.main() == 0
    assert tool.played() == "ac"


def test_when_the_time_is_up_it_ends_as_it_stands(tool, monkeypatch, capsys):
    """The part that runs is ended, the table names it and what was not reached, and that is no failure."""
    monkeypatch.setattr(tool, "turned", lambda todo, *_: todo)
    tool.every["b"] = tool.endless
    clock = iter([0.0, 0.0, 0.0, 1.0])  # the limit; a; its beginning and end; then it is late
    monkeypatch.setattr(tool.time, "monotonic", lambda: next(clock, 59.9))
    assert tool.main(minutes=1) == 0
    said = capsys.readouterr().out
    assert "b              not finished" in said
    assert tool.played().startswith("a")


def test_a_part_that_is_unknown_is_refused_with_the_names(tool):
    with pytest.raises(SystemExit, match="no such part: z; there are a, b, c"):
        tool.main(only=["z"])


def test_tests_are_counted_and_reasons_kept(tool, tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase/><testcase><skipped message="no browser"/></testcase></testsuite></testsuites>'
    )
    assert tool.counted(report) == (1, {"no browser": 1})
    assert tool.counted(tmp_path / "missing.xml") == (0, {})


def test_the_real_parts_have_names_of_their_own(tool):
    spec = importlib.util.spec_from_file_location("real_full_tool", TOOL)
    real = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(real)
    names = [part.name for part in real.parts()]
    assert len(set(names)) == len(names)
    folders = {word for part in real.parts() for word in part.command if word.startswith("tests/")}
    with_tests = {f"tests/{path.parent.name}" for path in TOOL.parents[1].glob("tests/*/test_*.py")}
    assert folders >= with_tests - {"tests/bench", "tests/golden", "tests/hostile"}, "nobody plays these slow tests"
