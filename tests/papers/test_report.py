"""The page of all results is short, and everything it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from undrift_papers.registry import all_items
from undrift_papers.report_item import linked
from undrift_papers.reproduce import size_of

DOCS = Path(__file__).parents[2] / "docs"
LINES = 150  # what can be read in five minutes


def test_the_page_is_short_and_its_links_lead_somewhere() -> None:
    text = (DOCS / "reproduction.md").read_text()
    assert len(text.splitlines()) <= LINES
    links = re.findall(r"\]\((reproduction/[^)]+)\)", text)
    assert len(links) > 30
    assert [link for link in links if not (DOCS / link).is_file()] == []


def test_the_pages_of_the_items_have_their_pictures() -> None:
    for page in (DOCS / "reproduction").glob("*.md"):
        for link in re.findall(r"\]\(([^)]+\.(?:png|md))\)", page.read_text()):
            assert (page.parent / link).is_file(), f"{page.name} names {link}"


def test_items_are_linked_but_not_in_commands() -> None:
    text = "see ssl/table3-variants, ssl/table3 and `undrift reproduce ssl/table3`; not ssl/table3x"
    assert linked(text, "pages/") == (
        "see [ssl/table3-variants](pages/ssl-table3-variants.md), [ssl/table3](pages/ssl-table3.md) and "
        "`undrift reproduce ssl/table3`; not ssl/table3x"
    )


@pytest.mark.parametrize(
    ("name", "scale", "size"),
    [
        ("fedlin/fig2", "paper", "the paper’s size"),
        ("ssl/table7", "paper", "in full"),  # at a tenth of the rounds
        ("ssl/cifar-small", "paper", "in full"),
        ("beyond/table", "paper", "in full"),
        ("ssl/fig2", "short", "shortened"),
        ("ssl/fig2", "quick", "reduced"),
    ],
)
def test_the_papers_size_is_claimed_only_where_it_is(name: str, scale: str, size: str) -> None:
    assert size_of(all_items()[name], scale) == size
