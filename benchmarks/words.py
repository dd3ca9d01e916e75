"""Numbers as they are shown, in the terminal, on the page and in Markdown."""

from __future__ import annotations

from typing import Any

from .measure import Goal, Row


def number(value: float) -> str:
    """Three digits, or all of a whole number that is not large.

    >>> number(0.012345), number(1234.5), number(20.0), number(3.2e-9), number(0.0)
    ('0.0123', '1,234', '20', '3.2e-09', '0')
    """
    if value != 0 and (abs(value) < 1e-3 or abs(value) >= 1e7):
        return f"{value:.3g}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def spread(found: Row | Goal) -> str:
    """The quartiles.

    >>> spread(Row("x", 2.0, "ms", 1.5, 2.25)), spread(Row("x", 2.0, "ms"))
    ('1.5–2.25', '')
    """
    return "" if found.low is None or found.high is None else f"{number(found.low)}–{number(found.high)}"


def unit_words(unit: str) -> str:
    """The unit, and which way is better.

    >>> unit_words("ms / round"), unit_words("GFLOP/s")
    ('ms / round, less is better', 'GFLOP/s, more is better')
    """
    return f"{unit}, {'more' if unit.endswith('/s') else 'less'} is better"


def machine_words(machine: dict[str, Any]) -> str:
    """What was measured on, in a line."""
    versions = ", ".join(f"{name} {found}" for name, found in machine["versions"].items())
    kinds = " ".join(machine["instructions"])
    return (
        f"{machine['processor']}, {machine['cores']} cores ({kinds}), {machine['memory_gb']} GB, {machine['system']}; "
        f"Python {machine['python']}, {versions}; commit {machine['commit'] or 'unknown'}"
    )
