"""The round as messages between the server and a client, with their real sizes: data for a page."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..engine.description import Run
from .diagram import cost_lines
from .protocol import Protocol, protocol_of


def exchange_of(label: str, run: Run) -> dict[str, Any]:
    """The messages of a run's method, for the document of a page."""
    protocol = protocol_of(run)
    return {
        "label": label,
        "parts": _parts(protocol),
        "costs": [" ".join(line.split()) for line in cost_lines(protocol)],
    }


def _parts(protocol: Protocol) -> list[dict[str, Any]]:
    later = "every later round" if protocol.first else "every round"
    named = (("once, with all clients", protocol.start), ("round 1", protocol.first), (later, protocol.round))
    return [{"title": title, "rows": [dataclasses.asdict(row) for row in rows]} for title, rows in named if rows]
