"""Pages for the browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from page_cases import comparison, full_document

from browser import Browser, Tab
from undrift.report.page import write_page


@pytest.fixture(scope="session")
def full_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    return write_page(folder / "page.html", full_document(folder))


@pytest.fixture
def show(browser: Browser) -> Iterator[Callable[..., Tab]]:
    """Open a page. In the end nobody may have complained, and nothing but the page may have been asked for."""
    tabs: list[tuple[Tab, Path]] = []

    def open_page(page: Path, width: int = 1200, height: int = 900, dark: bool = False) -> Tab:
        tabs.append((browser.open(page, width, height, dark), page))
        return tabs[-1][0]

    yield open_page
    for tab, page in tabs:
        complaints, requests = tab.complaints(), tab.requests()
        tab.close()
        assert complaints == []
        assert requests == [page.resolve().as_uri()]


@pytest.fixture(scope="session")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a comparison."""
    return write_page(tmp_path_factory.mktemp("compared") / "page.html", comparison())
