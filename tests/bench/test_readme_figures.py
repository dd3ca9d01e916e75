"""Figures on the pages are those of the results in the repository; nobody typed them."""

from __future__ import annotations

import pytest
from benchmarks import readme
from benchmarks.machine import ROOT
from benchmarks.results import read_all

import made_up

PAGE = "Before.\n<!-- measured: {} -->\nold\n<!-- /measured -->\nAfter 3×.\n"


@pytest.mark.parametrize("name", readme.PAGES)
def test_page_holds_the_figures_of_the_results(name):
    text = (ROOT / name).read_text()
    assert readme.MARKED.search(text), "there is a place for them"
    assert readme.rewritten(text, read_all()) == text, "stale: python -m benchmarks.readme"


def test_goals_are_a_table_and_the_rest_of_the_page_stays():
    page = readme.rewritten(PAGE.format("goals"), made_up.results())
    assert page.startswith("Before.\n<!-- measured: goals -->\n| work |")
    assert page.endswith("<!-- /measured -->\nAfter 3×.\n")
    assert "| a peer ÷ undrift | 2.5× (2.4–2.6) | ≥ 2 | `softmax`* |" in page
    assert "| peak memory | 3 GB | ≤ 2, missed | `softmax`* |" in page
    assert "largest difference" not in page
    assert "\\* disturbed" in page
    assert readme.rewritten(page, made_up.results()) == page


def test_times_stand_beside_each_other():
    page = readme.rewritten(PAGE.format("times"), made_up.results())
    row = "undrift: 2 ms / round (1.9–2.2) | a peer & more: 5 ms / round (4.8–5.5) | what is possible: 0.5 ms / round |"
    assert row in page


def test_arithmetic_follows_from_what_was_measured():
    crowds = readme.rewritten(PAGE.format("crowds"), made_up.results())
    assert "| 1e6 | 31.4 GB | 188 GB | file | 2.51 MB | 0.251 ms | 2.51 ms |" in crowds
    models = readme.rewritten(PAGE.format("models"), made_up.results())
    assert "| 1e9 | 4 GB | 16 GB | file | 80 GB | 4 min | 8 s |" in models


def test_what_was_not_measured_is_said():
    assert readme.NOT_YET in readme.rewritten(PAGE.format("crowds"), {})
    assert readme.NOT_YET in readme.rewritten(PAGE.format("p1"), {})


def test_unknown_section_is_refused():
    with pytest.raises(ValueError, match="no section is called 'p9'"):
        readme.rewritten(PAGE.format("p9"), {})
