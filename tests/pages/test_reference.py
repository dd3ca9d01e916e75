"""The reference has every public name; docstrings become what they say."""

from __future__ import annotations

import importlib
import re
import sys

import pytest
from site_pages import DOCS, elements

sys.path.insert(0, str(DOCS / "_ext"))
docstrings = importlib.import_module("docstrings")
public_api = importlib.import_module("public_api")
remaining = importlib.import_module("remaining")
sys.path.remove(str(DOCS / "_ext"))


def asked_for():
    """What the pages of the reference ask autodoc for, read from their sources: names, and modules."""
    names, modules = set(), set()
    for page in (DOCS / "reference").glob("*.rst"):
        for block in page.read_text(encoding="utf-8").split(".. public:: ")[1:]:
            module = importlib.import_module(block.split()[0])
            only = re.search(r":only:((?: +\S+|\n    +\S+)+)", block)
            if ":no-introduction:" not in block:
                modules.add(module.__name__)
            for name in only.group(1).split() if only else public_api.names_of(module):
                lines = "\n".join(public_api.lines_for(module, name))
                modules |= set(re.findall(r"automodule:: (\S+)", lines))
                names |= set(re.findall(r"auto(?:class|function|data):: (\S+)", lines))
                names |= {".".join(pair[::-1]) for pair in re.findall(r"py:data:: (\S+)\n +:module: (\S+)", lines)}
    return names, modules


def test_every_public_name_is_asked_for_by_the_reference():
    wanted = {name for name in public_api.addresses() if name not in public_api.modules()}
    assert len(wanted) > 150
    assert wanted - asked_for()[0] == set(), "put them on a page in docs/reference"


def test_every_public_module_is_asked_for_by_the_reference():
    assert {name for name in public_api.modules() if name != "undrift"} - asked_for()[1] == set()


@pytest.mark.slow
def test_every_public_name_is_in_the_reference(html):
    described = set().union(*(elements(page).places for page in (html / "reference").glob("*.html")))
    wanted = {name for name in public_api.addresses() if name not in public_api.modules()}
    assert len(wanted) > 150
    assert wanted - described == set(), "put them on a page in docs/reference (`:only:` names those of undrift itself)"


@pytest.mark.slow
def test_every_public_module_has_a_page(html):
    described = set().union(*(elements(page).places for page in (html / "reference").glob("*.html")))
    wanted = {name for name in public_api.modules() if name != "undrift"}
    assert {name for name in wanted if f"module-{name}" not in described} == set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f(x*) ≤ |x| and y_", r"f(x\*) ≤ \|x\| and y\_"),
        ("over *all* clients, x* and y*", r"over \ *all*\  clients, x\* and y\*"),
        ("see `run`s", r"see \ :py:obj:`run <undrift.run>`\ s"),
        ("see `ud.theory.check`", r"see \ :py:obj:`ud.theory.check <undrift.theory.check>`\ "),
        ("say `eta` here", r"say \ ``eta``\  here"),
        (">>> 1 * 2\n2", ">>> 1 * 2\n2"),
        ("   x ← x − η g", "::\n\n      x ← x − η g"),
        (" - one\n   and more\n - two_", "* one\n  and more\n* two\\_"),
        (
            "| a | b |\n|---|---|\n| c* | d |",
            ".. list-table::\n   :header-rows: 1\n\n   * - a\n     - b\n   * - c\\*\n     - d",
        ),
    ],
)
def test_plain_docstrings_become_restructured_text(text, expected):
    assert "\n".join(docstrings.convert(text.splitlines())).strip() == expected.strip()


def test_what_is_said_of_parameters_becomes_items():
    lines = docstrings.convert(["Play it. steps: τ, one. seed: of the", "draws."], ["steps", "seed"])
    assert lines[:4] == ["Play it. ", "", "* **steps**: τ, one.", "* **seed**: of the draws."]


def test_pages_that_no_toctree_names_appear_by_themselves(tmp_path):
    (tmp_path / "index.md").write_text("```{toctree}\nhow-to\nstart\n```\n")
    (tmp_path / "start.md").write_text("# Start\n")
    (tmp_path / "new.md").write_text("# New\n")
    (tmp_path / "extend").mkdir()
    (tmp_path / "extend" / "own.md").write_text("# Own\n")
    page = "```{toctree}\n:maxdepth: 1\n@extend/*\n@trackers*\n@remaining\n```\n"
    (tmp_path / "how-to.md").write_text(page)
    assert remaining.expanded(page, tmp_path) == "```{toctree}\n:maxdepth: 1\nextend/own\nnew\n```\n"
