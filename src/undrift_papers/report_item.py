"""The page of one item: picture, claims, tables, setting, command; a part for each size at which it was run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from undrift import files

from . import registry
from .item import Item
from .reproduce import Reproduction, size_of
from .store import FIGURE, Store

MARGIN = (
    "A margin is the factor by which what was measured clears the threshold of the predicate: a claim holds from 1 on."
)
SOURCES = {"paper": "paper", "ours": "our choice", "reduced": "reduced"}


def page_name(item: Item) -> str:
    """Its file in the folder of pages."""
    return f"{item.name.replace('/', '-')}.md"


def table_row(*cells: Any) -> str:
    """A row of a table in Markdown."""
    return f"| {' | '.join(str(cell).replace('|', chr(92) + '|').replace(chr(10), ' ') for cell in cells)} |"


def linked(text: str, folder: str = "") -> str:
    """The text with links to the pages of the items that it names, but in commands."""
    names = "|".join(sorted(registry.all_items(), key=len, reverse=True))
    return re.sub(rf"`[^`]*`|(?<![\w/])({names})(?![\w/-])", lambda found: _link(found, folder), text)


def _link(found: re.Match[str], folder: str) -> str:
    name = found[1]
    return f"[{name}]({folder}{name.replace('/', '-')}.md)" if name else found[0]


def item_page(made: Sequence[Reproduction], store: Store, folder: Path, home: str) -> str:
    """All that there is of an item, the largest size first; its pictures are put into the folder."""
    item = made[0].item
    lines = [f"# {item.name}", f"{item.title}. {MARGIN} [All results]({home})", ""]
    for one in made:
        lines += [f"## {size_of(item, one.scale).capitalize()}", *_section(one, store, folder)]
    return "\n".join(lines)


def _section(made: Reproduction, store: Store, folder: Path) -> list[str]:
    item = made.item
    picture = f"{item.name.replace('/', '-')}-{made.scale}.png"
    lines = []
    if made.claims:  # else it answers nothing
        files.write_bytes(folder / picture, (made.folder / f"{FIGURE}.png").read_bytes())
        lines = [f"![{item.title}]({picture})", ""]
    lines += [line for remark in made.remarks for line in (linked(remark), "")]
    lines += [line for table in item.tables(store.load(item, made.scale)) for line in _table(table)]
    return [*lines, *_claims(made.claims), *_details(made, store)]


def _table(table: dict[str, Any]) -> list[str]:
    return [f"**{table['title']}**", "", *_markdown(table["columns"], table["rows"]), "", table.get("note", ""), ""]


def _claims(claims: Sequence[dict[str, Any]]) -> list[str]:
    if not claims:
        return ["Nothing is claimed at this size.", ""]
    rows = [
        (
            claim["sentence"],
            "holds" if claim["holds"] else "**does not hold**",
            claim["measured"],
            claim["paper"] or "",
            _margin(claim["margin"]),
        )
        for claim in claims
    ]
    why = [f"\n*{claim['sentence']}*: {claim['explanation']}" for claim in claims if _explained(claim)]
    return [*_markdown(("claim", "verdict", "measured", "the paper", "margin"), rows), *why, ""]


def _details(made: Reproduction, store: Store) -> list[str]:
    result = store.result(made.item, made.scale)
    assert result is not None
    rows = [
        (row["key"], _plain(row["value"]), SOURCES[row["source"]], row["note"])
        for row in store.setting(made.item, made.scale)
    ]
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    seeds = ", ".join(map(str, result["seeds"]))
    return [
        *_markdown(("setting", "value", "from", "note"), rows),
        "",
        f"`{result['command']}` ({result['seconds']:.0f} s); seeds {seeds}; {versions}.",
        "",
    ]


def _markdown(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    return [table_row(*head), f"|{'---|' * len(head)}", *(table_row(*row) for row in rows)]


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _explained(claim: dict[str, Any]) -> bool:
    return not claim["holds"] and bool(claim["explanation"])


def _margin(margin: float) -> str:
    return f"{margin:.2f}" if margin < 100 else f"{margin:.0e}"
