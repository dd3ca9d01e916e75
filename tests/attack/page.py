"""docs/reliability.md, made from docs/reliability.json."""

from __future__ import annotations

import json
from pathlib import Path
from string import Template
from typing import Any

from .counts import ATTACKS
from .memory import BYTES_PER_ROUND, BYTES_PER_RUN

DOCS = Path(__file__).parents[2] / "docs"
COUNTS, PAGE = DOCS / "reliability.json", DOCS / "reliability.md"
TEMPLATE = Path(__file__).with_name("reliability.template.md")


def page(counts: dict[str, Any]) -> str:
    """The text of the page."""
    attacks = {name: counts[name] for name in ATTACKS if name in counts}
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        table=_table(attacks),
        parts=_parts(attacks),
        memory=_memory(attacks.get("memory")),
        made=_made(attacks),
        missing=_missing(attacks),
        minutes=f"{sum(found['seconds'] for found in attacks.values()) / 60:.0f}",
    )


def write_page() -> None:
    PAGE.write_text(page(json.loads(COUNTS.read_text(encoding="utf-8"))), encoding="utf-8")


def _table(attacks: dict[str, Any]) -> str:
    rows = ["| attack | attempts | lost | wrong | tracebacks |", "|---|---:|---:|---:|---:|"]
    for name, found in attacks.items():
        numbers = " | ".join(f"{found[key]:,}" for key in ("attempts", "lost", "wrong", "tracebacks"))
        rows.append(f"| {ATTACKS[name].title} | {numbers} |")
    return "\n".join(rows)


def _parts(attacks: dict[str, Any]) -> str:
    lines = []
    for name, found in attacks.items():
        if found.get("parts"):
            parts = ", ".join(f"{part} {number:,}" for part, number in found["parts"].items())
            lines.append(f"- *{name}* ({found['seconds']:.0f} s): {parts}.")
    return "\n".join(lines)


def _memory(found: dict[str, Any] | None) -> str:
    if found is None:
        return "Memory was not measured."
    return (
        f"Over {found['rounds']:,} rounds of one run resident memory grew by {found['bytes_per_round']:g} bytes a round; the "
        f"records themselves take {found['bytes_per_round_of_records']} (8 bytes a column). The bound, fixed beforehand, is "
        f"{BYTES_PER_ROUND:g} bytes a round beside the records.\nOver {found['runs']} runs in a row in one process, with fresh "
        f"Optax solvers, factories made anew and a file of one's own methods, it grew by "
        f"{found['bytes_per_run'] / 1e3:,.1f} KB a run after the first third; the bound is {BYTES_PER_RUN / 1e3:g} KB."
    )


def _made(attacks: dict[str, Any]) -> str:
    surroundings = sorted({f"{found['date']} on {found['on']}" for found in attacks.values()})
    return "Measured " + "; ".join(surroundings) + "."


def _missing(attacks: dict[str, Any]) -> str:
    absent = [ATTACKS[name].title for name in ATTACKS if name not in attacks]
    return f"\nNot measured yet: {'; '.join(absent)}.\n" if absent else ""
