"""The command line as a fixture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import Said
from matplotlib.figure import Figure

from undrift.cli import main


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Said]:
    """The command line in this process, in an empty directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")

    def call(*words: Any) -> Said:
        capfd.readouterr()
        code = main([str(word) for word in words])
        captured = capfd.readouterr()
        return Said(code, captured.out, captured.err)

    return call


@pytest.fixture
def quick_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are drawn in no time: what they show is not the matter here."""
    monkeypatch.setattr("undrift.report.figures._panels", lambda *_: lambda: Figure(figsize=(1, 1)))
