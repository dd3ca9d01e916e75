"""Bad input, by one table: every case of every `table_*.py` is refused with the rule, the value and the remedy, and no trace.

All cases run in this process: input is refused before anything is compiled, so hundreds of them take seconds.
"""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path

import pytest
from hostile_case import Case, lay_out, snapshot

from undrift.cli import main
from undrift.errors import UndriftError

TABLES = {path.stem: path for path in sorted(Path(__file__).parent.glob("table_*.py"))}
CASES = [(stem.removeprefix("table_"), case) for stem in TABLES for case in importlib.import_module(stem).CASES]


def refusal(case: Case, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code and what was said; a call of the library has no exit code but that of its error."""
    if case.call is None:
        code = main(list(case.words))
        return code, capsys.readouterr().err
    with pytest.raises(UndriftError) as refused:
        case.call()
    return case.code, str(refused.value)


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{table}-{case.name}") for table, case in CASES])
def test_refused(case, capsys, monkeypatch, tmp_path):
    work, state = tmp_path / "work", tmp_path / "state"
    work.mkdir()
    state.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    lay_out(work, case)
    before = snapshot(tmp_path)
    code, said = refusal(case, capsys)
    assert "Traceback" not in said
    assert code == case.code, said
    for text in case.says:
        assert text in said
    assert snapshot(tmp_path) == before


def test_the_tables_are_large_and_every_case_says_something():
    """At least 400 cases, no two of one name, each with rule and value (or remedy)."""
    names = Counter((table, case.name) for table, case in CASES)
    assert [name for name, count in names.items() if count > 1] == []
    assert [case.name for _, case in CASES if len(case.says) < 2 or bool(case.words) == bool(case.call)] == []
    assert len(CASES) >= 400
