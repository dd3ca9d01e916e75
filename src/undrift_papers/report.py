"""The page of all results, one line for each item; made from the files that `undrift reproduce` has left, not by hand."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Sequence
from pathlib import Path

from undrift import files

from .item import SCALES, Item, Scale
from .report_item import item_page, linked, page_name, table_row
from .reproduce import Reproduction, reproduce, size_of
from .store import Store

HEADER = """# The papers, reproduced
Every figure, table and theorem that was run: what was asked, how many of our claims about it hold, and what came out. First
what does not hold. Behind each link: the picture, every claim with what was measured, the setting, the command. A claim is a
sentence of ours with a predicate that the data decide.

Made by `{command}` from result files, `{root}/ITEM-SCALE.zip` (scales: paper, short, quick) and `{root}/jobs.zip` (training
runs that items share): CSV and JSON with checksums (`sha256sum --check SHA256SUMS` where unpacked), verified when read.

**{kept} of {total} claims hold**, in {items} items.{missing}
"""
PAPERS = {
    "fedlin": "FedLin: Mitra, Jaafar, Pappas, Hassani, “Linear convergence in federated learning” (2021)",
    "ssl": "SSL: Li, Lyu, “Convergence analysis of sequential split learning on heterogeneous data” (2023)",
    "fedavg": "FedAvg paper: Dhasade, Kremer, Renard, FedAvg on heterogeneous data",
    "fedtrack": "FedTrack: Mitra, Jaafar, Pappas, Hassani, “Federated learning with incrementally aggregated gradients” (2021)",
    "beyond": "Past the papers: methods and variants that they do not have, against theirs ([beyond.md](beyond.md))",
}
FEW_WORDS = 120  # letters that a finding may take on the page


def write_report(file: Path, store: Store, items: Sequence[Item]) -> Path:
    """Markdown with a line for each item in the store, and a folder of the same name beside it with a page for each.

    Nothing is run; claims are decided on the data that are there, and figures drawn that are not.
    """
    found = [made for item in items if (made := _made(item, store))]
    pages = file.with_suffix("")
    pages.mkdir(parents=True, exist_ok=True)
    for made in found:
        files.write_text(pages / page_name(made[0].item), item_page(made, store, pages, home=f"../{file.name}"))
    files.write_text(file, _overview(file, store, items, [_shown(made) for made in found]))
    return file


def _made(item: Item, store: Store) -> list[Reproduction]:
    """What is there of an item, the largest scale first."""
    own: list[Scale] = [scale for scale in reversed(SCALES) if item.scale(scale) == scale]
    return [reproduce(item, store, scale) for scale in own if store.result(item, scale) is not None]


def _shown(made: Sequence[Reproduction]) -> Reproduction:
    """The one that the page of all results speaks of: the largest that decides something."""
    return next((one for one in made if one.claims), made[0])


def _overview(file: Path, store: Store, items: Sequence[Item], shown: Sequence[Reproduction]) -> str:
    missing = [item.name for item in items if all(item is not made.item for made in shown)]
    total, failed = sum(len(made.claims) for made in shown), sum(made.failed for made in shown)
    head = HEADER.format(
        command=shlex.join(["undrift", "reproduce", "--out", store.root.as_posix(), "--report", file.as_posix()]),
        root=store.root.as_posix(),
        kept=total - failed,
        total=total,
        items=len(shown),
        missing=f" Not run yet: {', '.join(missing)}." if missing else "",
    )
    parts = [head, *_section("## What does not hold", [made for made in shown if made.failed], file, store)]
    parts += _section("## Not decided yet", [made for made in shown if not made.claims], file, store)
    parts += ["## What holds"]
    for name in dict.fromkeys(made.item.paper for made in shown):
        whole = [made for made in shown if made.item.paper == name and made.claims and not made.failed]
        parts += _section(f"### {PAPERS.get(name, name)}", whole, file, store)
    return "\n".join(parts)


def _section(title: str, shown: Sequence[Reproduction], file: Path, store: Store) -> list[str]:
    if not shown:
        return []
    lines = [f"{title}\n", "| item | what was asked | claims that hold | what came out |", "|---|---|---|---|"]
    return [*lines, *(_line(made, file, store) for made in shown), ""]


def _line(made: Reproduction, file: Path, store: Store) -> str:
    link = f"[{made.item.name}]({file.stem}/{page_name(made.item)})"
    count = f"{len(made.claims) - made.failed} of {len(made.claims)}"
    size = "" if made.scale == "paper" and made.item.full is None else f", {size_of(made.item, made.scale)}"
    count = f"**{count}**{size}" if made.failed else f"{count}{size}"
    return table_row(link, made.item.title, count, linked(finding(made, store), f"{file.stem}/"))


def finding(made: Reproduction, store: Store) -> str:
    """What came out, in a few words: the item's own, else the claim that fails (or the first one) with what was measured."""
    if made.item.finding is not None and made.scale != "quick":
        return made.item.finding(store.load(made.item, made.scale))
    if not made.claims:
        return "nothing is claimed at this size"
    failed = [claim for claim in made.claims if not claim["holds"]]
    claim = (failed or made.claims)[0]
    follows = claim["sentence"].startswith("…")  # on a claim that is not shown here
    words = claim["measured"] if follows else f"{claim['sentence']}: {claim['measured']}"
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    return ("not so: " if failed else "") + textwrap.shorten(words, FEW_WORDS, placeholder=" …") + more
