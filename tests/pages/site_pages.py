"""The site, built once for all tests that look at it: without notebooks, which have a test of their own."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@functools.cache
def built() -> Path:
    """The folder of HTML pages. Warnings are errors, and an error is shown in full."""
    folder = Path(tempfile.mkdtemp(prefix="undrift-site-"))
    words = [
        "-W",
        "--keep-going",
        "-n",
        "-q",
        "-b",
        "html",
        "-d",
        str(folder / "doctrees"),
        str(DOCS),
        str(folder / "html"),
    ]
    environment = {**os.environ, "UNDRIFT_DOCS": "quick"}
    done = subprocess.run([sys.executable, "-m", "sphinx", *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "html"


class Elements(HTMLParser):
    """What a page loads, links to, and can be linked to at."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.places |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a":
            self.links.append(found.get("href", ""))
        elif tag == "link" and found.get("rel") not in ("index", "search", "next", "prev", "author", "copyright"):
            self.loaded.append(found.get("href", ""))
        elif "src" in found:
            self.loaded.append(found["src"])


@functools.cache
def elements(page: Path) -> Elements:
    return Elements(page)


def is_elsewhere(address: str) -> bool:
    return re.match(r"(?:[a-z+]+:)?//", address) is not None
