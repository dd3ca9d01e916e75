"""Pages on a telephone, 390 pixels wide: nothing sticks out, whatever things are called."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from page_cases import comparison, full_document, outcome

from undrift.cli import main
from undrift.report.page import write_page
from undrift.report.page.results import compare_document
from undrift.report.verdict_words import comparison_words
from undrift.resources import Resources
from undrift.studies.method import StudyMethod
from undrift.studies.study import Study

TELEPHONE = 390
LONG = "fedlin_with_a_very_long_name_without_any_space_in_it_↑top_k(1000,memory='difference')_and_so_on" * 2
# What is wider than the window and cannot be scrolled by itself
STICKING_OUT = """[...document.querySelectorAll('body *')]
    .filter(e => !e.closest('.scroll, svg, script, style') && e.getBoundingClientRect().right > innerWidth + 0.5
                 && getComputedStyle(e).display !== 'none')
    .map(e => `${e.tagName}.${e.className}: ${e.textContent.slice(0, 40)}`)"""


def long_names() -> dict:
    """A comparison whose methods, problem and command have no place to break."""
    outcomes = [
        dataclasses.replace(outcome(name, rate, 1), label=f"{name} {LONG}"[:200])
        for name, rate in (("fedlin", 0.01), ("fedavg", 0.9), ("gd", 0.5))
    ]
    methods = tuple(StudyMethod(one.name, {"eta": [0.1, 9.0]}, label=one.label) for one in outcomes)
    study = Study({"name": "quadratic", "what": "x" * 300}, methods=methods).with_run({"rounds": 12, "steps": [3] * 5})
    summary = {
        "status": "finished",
        "command": "undrift compare " + "x" * 300,
        "versions": {"undrift": "0.1.0+" + "d" * 90},
        "seeds": {"run": [0], "data": 0},
        "resources": str(Resources.of(4)),
        "verdict": comparison_words(outcomes)._asdict(),
    }
    return compare_document(study, outcomes, {}, summary, {})


@pytest.fixture(scope="module")
def of_a_run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("of-a-run") / "run"
    words = ["--problem", "quadratic:clients=4,dim=6", "--rounds", "12", "--steps", "3", "--eta", "theorem"]
    assert main(["run", "--method", "fedlin", *words, "--out", str(folder), "--quiet"]) == 0
    return folder / "page.html"


@pytest.fixture(params=["run", "comparison", "reproduction", "long names"])
def page(request, tmp_path, of_a_run) -> Path:
    if request.param == "run":
        return of_a_run
    made = {"comparison": comparison, "reproduction": lambda: full_document(tmp_path), "long names": long_names}
    return write_page(tmp_path / "page.html", made[request.param]())


def test_nothing_sticks_out(show, page):
    tab = show(page, TELEPHONE)
    tab.js("document.querySelectorAll('details').forEach(e => { e.open = true; })")
    tab.settle()
    assert tab.js(STICKING_OUT) == []
    assert tab.js("document.documentElement.scrollWidth") <= TELEPHONE


def test_the_page_of_a_run_begins_with_its_verdict_and_says_tau(show, of_a_run):
    tab = show(of_a_run, TELEPHONE)
    assert tab.js("document.querySelector('.verdict p').textContent").startswith("FedLin is ")
    tops = [tab.js(f"document.querySelector('{one}').getBoundingClientRect().top") for one in (".verdict", "h1")]
    assert tops[0] < tops[1]
    assert "τ = 3" in tab.js("document.querySelector('.subtitle').textContent")


@pytest.mark.parametrize("dark", [False, True])
def test_variants_of_a_method_share_its_colour_and_differ_in_their_dashes(show, tmp_path, dark):
    t = list(range(40))
    names = ["fedlin", "fedlin ↓top_k(16)", "fedlin ↑top_k(32)", "fedavg"]
    series = [{"label": name, "method": name.split()[0], "x": {"round": t}, "y": [0.9**s for s in t]} for name in names]
    document = {"title": "Variants", "figures": [{"title": "Gap", "series": series}]}
    tab = show(write_page(tmp_path / "page.html", document), dark=dark)
    line = "document.querySelector(`[data-figure='0'] g[data-series='%d'] path`).getAttribute('%s')"
    colours = [tab.js(line % (i, "stroke")) for i in range(4)]
    dashes = [tab.js(line % (i, "stroke-dasharray")) for i in range(4)]
    assert len(set(colours[:3])) == 1
    assert colours[3] != colours[0]
    assert len(set(dashes[:3])) == 3
    assert dashes[0] is None
    swatches = tab.js("[...document.querySelectorAll('.legend .swatch')].map(e => e.className)")
    assert swatches == ["swatch", "swatch dash-1", "swatch dash-2", "swatch"]
