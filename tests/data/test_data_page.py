"""The examples of the data page run."""

from __future__ import annotations

import doctest
from pathlib import Path

import undrift.data  # noqa: F401  (the page reaches it as ud.data)


def test_examples_of_the_page() -> None:
    page = Path(__file__).parents[2] / "docs" / "data.md"
    outcome = doctest.testfile(str(page), module_relative=False)
    assert outcome.attempted > 8
    assert outcome.failed == 0
