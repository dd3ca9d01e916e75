"""The page of all results, made from the files that `undrift reproduce` has left; nothing in it is written by hand."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from undrift import files

from .item import BEYOND, SCALES, Item, Scale
from .reproduce import Reproduction, reproduce
from .store import FIGURE, Store

HEADER = """# The papers, reproduced
This page is made by `{command}` from result files: what was run, what the papers say, what came out, and whether the
claims hold. A claim is a sentence of ours with a predicate that the data decide. Its margin is the factor by which the
measured quantity clears the threshold of the predicate; it holds from 1 on. A claim that does not hold is listed as such.
Results are `{root}/ITEM-SCALE.zip` (the scales are paper, short and quick), and `{root}/jobs.zip` has the training runs that
items share: CSV and JSON with checksums (`sha256sum --check SHA256SUMS` where they are unpacked), verified when they are read.

{summary}
"""
PAPERS = {
    "fedlin": "FedLin: Mitra, Jaafar, Pappas, Hassani, “Linear convergence in federated learning” (2021)",
    "ssl": "SSL: Li, Lyu, “Convergence analysis of sequential split learning on heterogeneous data” (2023)",
    "fedavg": "FedAvg paper: Dhasade, Kremer, Renard, FedAvg on heterogeneous data",
    "fedtrack": "FedTrack: Mitra, Jaafar, Pappas, Hassani, “Federated learning with incrementally aggregated gradients” (2021)",
    "beyond": "Past the papers: methods and variants that they do not have, against theirs ([beyond.md](beyond.md))",
}
SOURCES = {"paper": "paper", "ours": "our choice", "reduced": "reduced"}


def write_report(file: Path, store: Store, items: Sequence[Item]) -> Path:
    """Markdown with all results in the store, and their figures in a folder of the same name beside it.

    Nothing is run; claims are decided on the data that are there, and figures drawn that are not.
    """
    there = [(item, scale) for item in items for scale in _scales(item) if store.result(item, scale) is not None]
    found = [reproduce(item, store, scale) for item, scale in there]
    missing = [item.name for item in items if not any(item is made.item for made in found)]
    pictures = file.with_suffix("")
    pictures.mkdir(parents=True, exist_ok=True)
    summary = "\n".join(_summary(found, missing))
    command = shlex.join(["undrift", "reproduce", "--out", store.root.as_posix(), "--report", file.as_posix()])
    parts = [HEADER.format(command=command, root=store.root.as_posix(), summary=summary)]
    for name in dict.fromkeys(made.item.paper for made in found):
        parts.append(f"## {PAPERS.get(name, name)}\n")
        parts += [_section(made, store, file, pictures) for made in found if made.item.paper == name]
    files.write_text(file, "\n".join(parts))
    return file


def _scales(item: Item) -> tuple[Scale, ...]:
    """Those at which the item is really something of its own."""
    return tuple(scale for scale in SCALES if item.scale(scale) == scale)


def _summary(found: Sequence[Reproduction], missing: list[str]) -> list[str]:
    """One line for each item, and what is not there."""
    lines = ["| item | size | claims that hold | of | |", "|---|---|---|---|---|"]
    for made in found:
        total = len(made.claims)
        words = (f"[{made.item.name}](#{_anchor(made)})", _size(made), total - made.failed, total)
        lines.append(f"| {' | '.join(map(str, words))} | {'**not all**' if made.failed else ''} |")
    if missing:
        lines += ["", f"Not run yet: {', '.join(missing)}."]
    return lines


def _size(made: Reproduction) -> str:
    whole = made.item.full or ("in full" if made.item.paper == BEYOND else "the paper’s")
    return {"paper": whole, "short": "shortened", "quick": "reduced"}[made.scale]


def _heading(made: Reproduction) -> str:
    return made.item.name if made.scale == "paper" else f"{made.item.name}, {_size(made)}"


def _anchor(made: Reproduction) -> str:
    """As GitHub makes them from headings."""
    return "".join(c for c in _heading(made).lower().replace(" ", "-") if c.isalnum() or c in "-_")


def _section(made: Reproduction, store: Store, file: Path, pictures: Path) -> str:
    item, claims, result = made.item, made.claims, store.result(made.item, made.scale)
    assert result is not None
    picture = f"{item.name.replace('/', '-')}-{made.scale}.png"
    files.write_bytes(pictures / picture, (made.folder / f"{FIGURE}.png").read_bytes())
    lines = [f"### {_heading(made)}", f"{item.title}.", ""]
    lines += [f"![{item.title}]({pictures.relative_to(file.parent).as_posix()}/{picture})", ""]
    lines += ["| claim | verdict | measured | the paper | margin |", "|---|---|---|---|---|"]
    for claim in claims:
        verdict = "holds" if claim["holds"] else "**does not hold**"
        cells = (claim["sentence"], verdict, claim["measured"], claim["paper"] or "", _margin(claim["margin"]))
        lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    lines += [f"\n*{claim['sentence']}*: {claim['explanation']}" for claim in claims if _explained(claim)]
    lines += ["", "<details><summary>setting, command, versions</summary>", ""]
    lines += ["| setting | value | from | note |", "|---|---|---|---|"]
    for setting in store.setting(item, made.scale):
        value = ", ".join(map(str, setting["value"])) if isinstance(setting["value"], list) else str(setting["value"])
        words = (setting["key"], value, SOURCES[setting["source"]], setting["note"])
        lines.append(f"| {' | '.join(_cell(word) for word in words)} |")
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    seeds = ", ".join(map(str, result["seeds"]))
    lines += [
        "",
        f"`{result['command']}` ({result['seconds']:.0f} s); seeds {seeds}; {versions}.",
        "",
        "</details>",
        "",
    ]
    return "\n".join(lines)


def _explained(claim: dict[str, Any]) -> bool:
    return not claim["holds"] and bool(claim["explanation"])


def _margin(margin: float) -> str:
    return f"{margin:.2f}" if margin < 100 else f"{margin:.0e}"


def _cell(text: str) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")
