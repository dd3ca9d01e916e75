"""The page of the benchmarks in a real browser."""

from __future__ import annotations

import pytest
from benchmarks import page

import made_up

WIDTHS = "[...document.querySelectorAll('#softmax rect')].map(e => e.getBoundingClientRect().width)"
COLOURS = "[...document.querySelectorAll('#softmax rect')].map(e => getComputedStyle(e).fill)"


@pytest.mark.parametrize("width", [1200, 390])
def test_bars_are_as_long_as_the_numbers(show, tmp_path, width):
    tab = show(page.write(made_up.results(), tmp_path), width)
    ours, theirs, limit = tab.js(WIDTHS)
    assert ours / theirs == pytest.approx(2 / 5, abs=0.01)
    assert limit / theirs == pytest.approx(0.5 / 5, abs=0.01)
    assert len(set(tab.js(COLOURS))) == 3
    assert tab.js("document.documentElement.scrollWidth") <= width, "the page must not scroll sideways"
    assert tab.js("document.querySelector('#goals h2').textContent") == "2 of 3 goals met"
    assert "somebody compiled a kernel" in tab.js("document.querySelector('#softmax .reason').textContent")
    assert tab.js("document.querySelectorAll('#limits .reason').length") == 0


def test_dark_readers_get_a_dark_page(show, tmp_path):
    ground = "getComputedStyle(document.body).backgroundColor"
    file = page.write(made_up.results(), tmp_path)
    assert show(file).js(ground) != show(file, dark=True).js(ground)
