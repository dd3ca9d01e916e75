"""The gallery of reproduced figures, from the page of all results (reproduction.md) and the pictures beside it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from PIL import Image
from sphinx.application import Sphinx

ROW = re.compile(  # item, its page, what was asked, claims that hold, of how many, and how ("reduced")
    r"^\| \[([^\]]+)\]\((reproduction/[^)]+)\.md\) \| (.*?) \| \**(\d+) of (\d+)\**(?:, )?([^|]*?)\** \|", re.MULTILINE
)
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]+\.png)\)")
THUMBNAILS = "_thumbnails"
WIDTH = 480
PAPERS = {
    "fedlin": "FedLin",
    "fedtrack": "FedTrack",
    "ssl": "Sequential split learning",
    "fedavg": "FedAvg",
    "beyond": "Past the papers",
}


@dataclasses.dataclass(frozen=True)
class Shown:
    """An item with a picture."""

    name: str
    page: str
    title: str
    holding: int
    claims: int
    how: str
    picture: Path

    @property
    def verdict(self) -> str:
        return f"{self.holding} of {self.claims} claims hold{', ' + self.how if self.how else ''}"


def items(folder: Path) -> Iterator[Shown]:
    """What the page of all results lists and has a picture of."""
    for name, page, title, holding, claims, how in ROW.findall(
        (folder / "reproduction.md").read_text(encoding="utf-8")
    ):
        text = (folder / f"{page}.md").read_text(encoding="utf-8")
        if found := PICTURE.search(text):
            yield Shown(
                name, page, title, int(holding), int(claims), how.strip("* "), (folder / page).parent / found[1]
            )


def card(item: Shown) -> str:
    with Image.open(item.picture) as image:
        height = round(WIDTH * image.height / image.width)
    kind = "all" if item.holding == item.claims else "some"
    return (
        f'<a class="figure-card" href="{escape(item.page)}.html">'
        f'<img loading="lazy" src="{THUMBNAILS}/{escape(item.picture.name)}" width="{WIDTH}" height="{height}" alt="">'
        f'<span class="figure-verdict {kind}">{escape(item.verdict)}</span>'
        f"<strong>{escape(item.name)}</strong><span>{escape(item.title)}</span></a>"
    )


class Gallery(Directive):
    """Cards of all items, paper by paper."""

    def run(self) -> list[nodes.Node]:
        folder = Path(self.state.document.settings.env.srcdir)
        self.state.document.settings.env.note_dependency("reproduction.md")
        papers: dict[str, list[str]] = {}
        for item in items(folder):
            papers.setdefault(item.name.partition("/")[0], []).append(card(item))
        found: list[nodes.Node] = []
        for paper in sorted(papers, key=[*PAPERS, *papers].index):
            found.append(nodes.rubric("", PAPERS.get(paper, paper)))
            found.append(nodes.raw("", f'<div class="figure-grid">{"".join(papers[paper])}</div>', format="html"))
        return found


def out_of_the_menu(app: Sphinx, doctree: nodes.document) -> None:
    """The pages of the items are reached from the gallery and the table; sixty lines more would hide the rest of a menu."""
    if app.env.docname.startswith("reproduction/"):
        app.env.metadata[app.env.docname]["orphan"] = True


def thumbnails(app: Sphinx, failure: Exception | None) -> None:
    if failure is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir) / THUMBNAILS
    folder.mkdir(exist_ok=True)
    for item in items(Path(app.srcdir)):
        small = folder / item.picture.name
        if small.exists() and small.stat().st_mtime >= item.picture.stat().st_mtime:
            continue
        with Image.open(item.picture) as image:
            image.convert("RGB").resize((WIDTH, round(WIDTH * image.height / image.width))).quantize(64).save(small)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("reproduced-figures", Gallery)
    app.connect("doctree-read", out_of_the_menu)
    app.connect("build-finished", thumbnails)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
