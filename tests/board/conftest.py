"""Boards of tests look often at their runs, so that nobody waits for the next look."""

from __future__ import annotations

import pytest

from undrift.board import app


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "LOOK", 0.03)
