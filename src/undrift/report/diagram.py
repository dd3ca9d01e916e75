"""A round as a picture in letters: server left, client right, an arrow for every message."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from .protocol import Message, Protocol, Row

COLUMN = 20  # where explanations begin


def diagram(protocol: Protocol, width: int) -> list[str]:
    """The lines of the picture."""
    width = max(60, min(width, 100))
    lines = [f"  server{'client i':>{width - 10}}", "  " + "─" * (width - 4)]
    lines += _part("start, once, with all clients", protocol.start, width)
    lines += _part("round 1", protocol.first, width)
    lines += _part("every later round" if protocol.first else "every round", protocol.round, width)
    return lines


def _part(title: str, rows: Sequence[Row], width: int) -> list[str]:
    if not rows:
        return []
    lines = [f"  {title}"]
    for row in rows:
        indent = "  " + "  " * row.depth
        if row.is_block:
            lines.append(f"  {indent}{row.name}{':' if row.holds_rows else ''}")
            continue
        lines.append(f"  {indent}· {row.name}")
        if row.down is not None:
            lines += _arrow(row.down, indent, width, to_client=True)
        if row.gradients or row.gradients_if_absent:
            lines.append(f"{_gradients(row):>{width - 4}}  ")
        if row.up is not None:
            lines += _arrow(row.up, indent, width, to_client=False)
    return [line.rstrip() for line in lines] + [""]


def _gradients(row: Row) -> str:
    text = f"{row.gradients} gradient{'' if row.gradients == 1 else 's'}"
    if row.gradients_if_absent != row.gradients:
        text += f" ({row.gradients_if_absent} where clients may miss rounds)"
    return text


def _arrow(message: Message, indent: str, width: int, to_client: bool) -> list[str]:
    """An arrow with its contents on it; contents that are too long stand above it."""
    left = len(indent) + 4
    room = width - left - 4
    text = " + ".join(message.contents) or "nothing"
    size = f"{message.bytes:,} B{' from client to client' if message.link == 'peer' else ''}"
    label = f" {text} · {size} "
    above: list[str] = []
    if len(label) > room - 6:
        above = [" " * left + line for line in _wrapped(message.contents, room)]
        label = f" {size} "
    shaft = "─" * max(2, (room - len(label)) // 2)
    body = f"{shaft}{label}{'─' * max(2, room - len(label) - len(shaft))}"
    return [*above, " " * left + (f"{body[:-1]}▶" if to_client else f"◀{body[1:]}")]


def _wrapped(parts: Sequence[str], room: int) -> list[str]:
    lines = [""]
    for i, part in enumerate(parts):
        word = part + (" +" if i < len(parts) - 1 else "")
        if lines[-1] and len(lines[-1]) + 1 + len(word) > room:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def cost_lines(protocol: Protocol) -> list[str]:
    """What the start and a round cost one client."""
    lines = []
    for title, costs in (("start, per client", protocol.per_start), ("round, per client", protocol.per_round)):
        if title.startswith("start") and not protocol.start:
            continue
        links = [f"{costs[f'bytes_{link}']:,} B {link}" for link in ("down", "up", "peer") if costs[f"bytes_{link}"]]
        count = costs["gradients"]
        parts = [*(links or ["no messages"]), f"{count:,} gradient{'' if count == 1 else 's'}"]
        lines.append(f"{title:<{COLUMN}}{', '.join(parts)}")
    return lines


def memory_lines(protocol: Protocol, width: int) -> list[str]:
    """What is kept where between rounds."""
    lines = []
    for place, leaves in protocol.memory.items():
        total = sum(size for _, _, size in leaves)
        words = ", ".join(f"{name} ({what})" if name else what for name, what, _ in leaves) or "nothing"
        text = f"{place:<{COLUMN}}{words}{f' = {total:,} B' if leaves else ''}"
        lines += textwrap.wrap(text, width, subsequent_indent=" " * COLUMN, drop_whitespace=True)
    return lines


def prose_lines(text: str, width: int) -> list[str]:
    """Paragraphs and numbered lines, filled to the width (not beyond what reads well)."""
    blocks: list[str] = []
    for line in text.splitlines():
        fresh = not line.strip() or (line.startswith(" ") and line.strip()[0] in "123456789-•")
        if fresh or not blocks or not blocks[-1].strip():
            blocks.append(line)
        else:
            blocks[-1] += " " + line.strip()
    lines: list[str] = []
    for block in blocks:
        indent = " " * (len(block) - len(block.lstrip()) + 3) if block.startswith(" ") else ""
        lines += textwrap.wrap(block, min(width, 100), subsequent_indent=indent) or [""]
    return lines
