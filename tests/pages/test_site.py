"""The site is built without a warning, loads nothing from elsewhere, and its links lead somewhere."""

from __future__ import annotations

import re
import urllib.parse

import pytest
from site_pages import DOCS, elements, is_elsewhere

TO_BE_BUILT = pytest.mark.slow  # Sphinx takes a quarter of a minute


def sources():
    return [page for page in sorted(DOCS.rglob("*.md")) if "_build" not in page.parts]


def pages(html):
    return sorted(page for page in html.rglob("*.html") if "_repository" not in page.parts)


def test_links_between_the_sources_lead_somewhere():
    """Targets that Sphinx itself makes are left to the test of the built site."""
    missing = []
    for page in sources():
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for link in re.findall(r"\]\(<?([^)#>\s]+)", text):
            if not is_elsewhere(link) and not link.startswith("mailto:") and not (page.parent / link).exists():
                missing.append(f"{page.relative_to(DOCS)} -> {link}")
    assert missing == []


def test_every_item_of_the_gallery_has_its_source_and_picture():
    index = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[[^\]]+\]\(reproduction/([^)]+)\.md\)", index, re.MULTILINE)
    pages = [(DOCS / "reproduction" / f"{name}.md").read_text(encoding="utf-8") for name in listed]
    pictures = [name for page in pages for name in re.findall(r"\]\(([^)]+\.png)\)", page)]
    assert len(pictures) > 50
    assert [name for name in pictures if not (DOCS / "reproduction" / name).is_file()] == []


@TO_BE_BUILT
def test_every_page_of_docs_is_built(html):
    names = {page.relative_to(DOCS).as_posix().removesuffix(".md") for page in sources()}
    assert {name for name in names if not (html / f"{name}.html").is_file()} == set()
    assert len(names) > 90


@TO_BE_BUILT
def test_nothing_is_loaded_from_elsewhere(html):
    found = {(page.name, address) for page in pages(html) for address in elements(page).loaded if is_elsewhere(address)}
    assert found == set()
    for sheet in html.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8")), sheet


@TO_BE_BUILT
def test_what_a_page_loads_is_there(html):
    for page in pages(html):
        for address in elements(page).loaded:
            path = urllib.parse.unquote(address.partition("?")[0].partition("#")[0])
            assert not path or path.startswith("data:") or (page.parent / path).is_file(), (
                f"{page.name} loads {address}"
            )


@TO_BE_BUILT
def test_links_and_their_anchors_exist(html):
    missing = []
    for page in pages(html):
        for link in elements(page).links:
            path, _, anchor = urllib.parse.unquote(link).partition("#")
            if is_elsewhere(link) or path.startswith("mailto:"):
                continue
            target = (page.parent / path).resolve() if path else page
            if not target.is_file():
                missing.append(f"{page.relative_to(html)} -> {link}: no such file")
            elif anchor and target.suffix == ".html" and anchor not in elements(target).places:
                missing.append(f"{page.relative_to(html)} -> {link}: no such place")
    assert missing == []


@TO_BE_BUILT
def test_search_knows_the_pages(html):
    index = (html / "searchindex.js").read_text(encoding="utf-8")
    assert index.startswith("Search.setIndex(")
    assert '"sharp-bits"' in index
    assert "certif" in index


@TO_BE_BUILT
def test_gallery_shows_every_item_with_its_verdict(html):
    index = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| \[[^\]]+\]\(reproduction/([^)]+)\.md\)", index, re.MULTILINE))
    text = (html / "gallery.html").read_text(encoding="utf-8")
    shown = re.findall(r'class="figure-card" href="reproduction/([^"]+)\.html"><img loading="lazy" src="([^"]+)"', text)
    with_picture = {
        name for name in listed if ".png)" in (DOCS / "reproduction" / f"{name}.md").read_text(encoding="utf-8")
    }
    assert {name for name, _ in shown} == with_picture
    assert len(with_picture) > 50
    assert all((html / picture).is_file() for _, picture in shown)
    assert text.count(" claims hold") == len(shown)
    assert "claims hold, reduced</span>" in text


@TO_BE_BUILT
def test_formulas_are_drawn_by_the_browser(html):
    page = html / "tutorials" / "theory.html"
    assert "<math" in page.read_text(encoding="utf-8")
    assert [address for address in elements(page).loaded if "math" in address.lower()] == []
