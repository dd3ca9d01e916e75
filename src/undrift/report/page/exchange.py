"""The round as messages between the server and a client, with their real sizes, as a page shows it. Nothing here needs JAX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .parts import text


def shown(exchanges: Sequence[Mapping[str, Any]]) -> str:
    """The diagrams; several are folded."""
    if len(exchanges) == 1:
        return f'<div class="card">{_diagram(exchanges[0])}</div>'
    return "".join(
        f'<details class="card"><summary><h3>{text(one["label"])}</h3> <span>{text("; ".join(one["costs"]))}</span>'
        f"</summary>{_diagram(one)}</details>"
        for one in exchanges
    )


def _diagram(exchange: Mapping[str, Any]) -> str:
    costs = "".join(f'<p class="note">{text(line)}</p>' for line in exchange["costs"])
    inside = "".join(
        f"<h4>{text(part['title'])}</h4><ol>{''.join(_row(row) for row in part['rows'])}</ol>"
        for part in exchange["parts"]
    )
    ends = '<div class="ends"><span>server</span><span>client</span></div>'
    return f'{costs}<div class="exchange">{ends}{inside}</div>'


def _row(row: Mapping[str, Any]) -> str:
    depth = min(int(row["depth"]), 4)
    if row["is_block"]:
        return f'<li class="block depth-{depth}">{text(row["name"])}{":" if row["holds_rows"] else ""}</li>'
    inside = f'<div class="step">{text(row["name"])}</div>'
    inside += _message(row["down"], "down") + _gradients(row) + _message(row["up"], "up")
    return f'<li class="depth-{depth}">{inside}</li>'


def _message(message: Mapping[str, Any] | None, way: str) -> str:
    if message is None:
        return ""
    peer = " from client to client" if message["link"] == "peer" else ""
    words = text(" + ".join(message["contents"]) or "nothing")
    return f'<div class="message {way}"><span>{words}</span><b>{int(message["bytes"]):,} B{peer}</b></div>'


def _gradients(row: Mapping[str, Any]) -> str:
    count = int(row["gradients"])
    return f'<div class="work">{count:,} gradient{"" if count == 1 else "s"}</div>' if count else ""
