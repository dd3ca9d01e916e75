"""The page of all results, made from the files that `undrift reproduce` has left; nothing in it is written by hand."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .item import SCALES, Item, Scale
from .store import CLAIMS, FIGURE, SETTING, Store, read_json

HEADER = """# The papers, reproduced
This page is made by `{command}` from result files: what was run, what the papers say, what came out, and whether the
claims hold. A claim is a sentence of ours with a predicate that the data decide. Its margin is the factor by which the
measured quantity clears the threshold of the predicate; it holds from 1 on. A claim that does not hold is listed as such.

{summary}
"""
PAPERS = {
    "fedlin": "FedLin: Mitra, Jaafar, Pappas, Hassani, “Linear convergence in federated learning” (2021)",
    "ssl": "SSL: Li, Lyu, “Convergence analysis of sequential split learning on heterogeneous data” (2023)",
    "fedavg": "FedAvg paper: Dhasade, Kremer, Renard, FedAvg on heterogeneous data",
    "fedtrack": "FedTrack: Mitra, Jaafar, Pappas, Hassani, “Federated learning with incrementally aggregated gradients” (2021)",
}
SOURCES = {"paper": "paper", "ours": "our choice", "reduced": "reduced"}


def write_report(file: Path, store: Store, items: Sequence[Item]) -> Path:
    """Markdown with all results in the store, and their figures in a folder of the same name beside it."""
    found = [(item, scale) for item in items for scale in _scales(item) if _finished(item, scale, store)]
    missing = [item.name for item in items if not any(item is other for other, _ in found)]
    pictures = file.with_suffix("")
    pictures.mkdir(parents=True, exist_ok=True)
    summary = "\n".join(_summary(found, store, missing))
    parts = [HEADER.format(command=f"undrift reproduce --report {file}", summary=summary)]
    for name in dict.fromkeys(item.paper for item, _ in found):
        parts.append(f"## {PAPERS.get(name, name)}\n")
        parts += [_section(item, scale, store, file, pictures) for item, scale in found if item.paper == name]
    file.write_text("\n".join(parts), encoding="utf-8")
    return file


def _scales(item: Item) -> tuple[Scale, ...]:
    """Those at which the item is really something of its own."""
    return tuple(scale for scale in SCALES if item.scale(scale) == scale)


def _finished(item: Item, scale: Scale, store: Store) -> bool:
    folder = store.folder(item, scale)
    return store.result(item, scale) is not None and (folder / CLAIMS).exists()


def _summary(found: Sequence[tuple[Item, Scale]], store: Store, missing: list[str]) -> list[str]:
    """One line for each item, and what is not there."""
    lines = ["| item | size | claims that hold | of | |", "|---|---|---|---|---|"]
    for item, scale in found:
        claims = read_json(store.folder(item, scale) / CLAIMS)
        good = sum(claim["holds"] for claim in claims)
        mark = "" if good == len(claims) else "**not all**"
        lines.append(f"| [{item.name}](#{_anchor(item, scale)}) | {_size(scale)} | {good} | {len(claims)} | {mark} |")
    if missing:
        lines += ["", f"Not run yet: {', '.join(missing)}."]
    return lines


def _size(scale: Scale) -> str:
    return {"paper": "the paper’s", "short": "shortened", "quick": "reduced"}[scale]


def _heading(item: Item, scale: Scale) -> str:
    return item.name if scale == "paper" else f"{item.name}, {_size(scale)}"


def _anchor(item: Item, scale: Scale) -> str:
    """As GitHub makes them from headings."""
    return "".join(c for c in _heading(item, scale).lower().replace(" ", "-") if c.isalnum() or c in "-_")


def _section(item: Item, scale: Scale, store: Store, file: Path, pictures: Path) -> str:
    folder, result = store.folder(item, scale), store.result(item, scale)
    assert result is not None
    lines = [f"### {_heading(item, scale)}", f"{item.title}.", ""]
    if (folder / f"{FIGURE}.png").exists():
        name = f"{item.name.replace('/', '-')}-{scale}.png"
        shutil.copyfile(folder / f"{FIGURE}.png", pictures / name)
        lines += [f"![{item.title}]({pictures.relative_to(file.parent).as_posix()}/{name})", ""]
    lines += ["| claim | verdict | measured | the paper | margin |", "|---|---|---|---|---|"]
    claims = read_json(folder / CLAIMS)
    for claim in claims:
        verdict = "holds" if claim["holds"] else "**does not hold**"
        cells = (claim["sentence"], verdict, claim["measured"], claim["paper"] or "", _margin(claim["margin"]))
        lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    lines += [f"\n*{claim['sentence']}*: {claim['explanation']}" for claim in claims if _explained(claim)]
    lines += ["", "<details><summary>setting, command, versions</summary>", ""]
    lines += ["| setting | value | from | note |", "|---|---|---|---|"]
    for setting in read_json(folder / SETTING):
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
