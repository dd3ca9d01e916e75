"""Docstrings are written to be read in a terminal: plain words, Unicode formulas, `code` in single backticks, doctests.

Here they become reStructuredText: characters that mean something there are escaped, indented lines stay as they are, doctests
are code, public names become links, and what is said of a parameter ("steps: …") becomes an item of its own.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from typing import Any

from public_api import address
from sphinx.application import Sphinx

SPECIAL = re.compile(r"([\\*|_`])")
CODE = re.compile(r"(`[^`]+`)")
STRESSED = re.compile(r"(?<![\w*)])\*([^\W\d_][\w ]*)\*(?![\w*])")
NAME = r"[a-z][a-z0-9_]*"
ITEM = re.compile(r"^(\s*)([-*•]|\d+\.) +(.*)$")


def convert(lines: Iterable[str], parameters: Iterable[str] = ()) -> list[str]:
    """Plain text as reStructuredText.

    >>> convert(["f(x*) ≤ |x|, see `run`:", "", "    x ← x − η g", "", ">>> 1 + 1", "2"])[0]
    'f(x\\\\*) ≤ \\\\|x\\\\|, see \\\\ :py:obj:`run <undrift.run>`\\\\ :'
    """
    result: list[str] = []
    for block in _blocks(lines):
        result += [*_block(block, list(parameters)), ""]
    return result


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line.rstrip())
        elif block:
            yield block
            block = []


def _block(block: list[str], parameters: list[str]) -> list[str]:
    if block[0].lstrip().startswith(">>>"):
        return block
    if all(line.startswith("|") for line in block):
        return _table(block)
    result: list[str] = []
    for kind, lines in _runs(block):
        if kind == "prose":
            result += _paragraph(lines, parameters)
        elif kind == "items":
            result += ["", *_items(lines), ""]
        else:
            result += ["", "::", "", *(f"   {line}" for line in lines), ""]
    return result


def _table(block: list[str]) -> list[str]:
    """A table as Markdown has it."""
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in block]
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in [rows[0], *rows[2:]]:
        cells = [_inline(cell.strip()) for cell in row]
        lines += [f"   * - {cells[0]}", *(f"     - {cell}" for cell in cells[1:])]
    return lines


def _runs(block: list[str]) -> Iterator[tuple[str, list[str]]]:
    """A block as stretches of prose, of items and of lines that are to stay as they are."""
    kind, run = "", list[str]()
    for line in block:
        now = _kind(line, kind)
        if now != kind and run:
            yield kind, run
            run = []
        kind = now
        run.append(line)
    if run:
        yield kind, run


def _kind(line: str, before: str) -> str:
    if ITEM.match(line):
        return "items"
    if not line.startswith(" "):
        return "prose"
    return before if before == "items" else "verbatim"


def _items(lines: list[str]) -> list[str]:
    """Items with their continuation lines; all on one level."""
    result: list[str] = []
    for line in lines:
        if found := ITEM.match(line):
            result.append(f"* {_inline(found[3])}" if found[2] in "-*•" else f"{found[2]} {_inline(found[3])}")
        else:
            indent = " " * (2 if result[-1].startswith(("* ", "  ")) and not result[-1][:1].isdigit() else 3)
            result.append(f"{indent}{_inline(line.strip())}")
    return _even(result)


def _even(items: list[str]) -> list[str]:
    """Continuation lines under the text of their item."""
    result, width = [], 2
    for line in items:
        if not line.startswith(" "):
            width = len(line) - len(line.partition(" ")[2])
            result.append(line)
        else:
            result.append(" " * width + line.strip())
    return result


def _paragraph(lines: list[str], parameters: list[str]) -> list[str]:
    """Prose; from the first parameter on that is explained at the beginning of a sentence, a list of them."""
    text = " ".join(lines)
    if not parameters:
        return [_inline(text)]
    names = "|".join(parameters)
    starts = re.compile(rf"(?:^|(?<=[.;] ))`?({names})`?(, `?(?:{names})`?)*: ")
    cuts = [found.start() for found in starts.finditer(text)]
    if len(cuts) < 2:
        return [_inline(text)]
    head, parts = text[: cuts[0]], [text[a:b].strip() for a, b in zip(cuts, [*cuts[1:], len(text)], strict=True)]
    pairs = (part.partition(": ") for part in parts)
    items = [f"* **{_escaped(name.replace('`', ''))}**: {_inline(words)}" for name, _, words in pairs]
    return [*([_inline(head), ""] if head.strip() else []), *items]


def _inline(text: str) -> str:
    """`code` as code, or as a link where it is a public name; everything else as it stands."""
    return "".join(_code(part[1:-1]) if CODE.fullmatch(part) else _escaped(part) for part in CODE.split(text))


def _escaped(text: str) -> str:
    """Everything as it stands, but for *words* that are stressed."""
    parts = STRESSED.split(text)
    return "".join(rf"\ *{part}*\ " if place % 2 else SPECIAL.sub(r"\\\1", part) for place, part in enumerate(parts))


def _code(text: str) -> str:
    found = address(text)
    inside = f":py:obj:`{text} <{found}>`" if found is not None else f"``{text.strip()}``"
    return rf"\ {inside}\ "  # letters may follow at once


def _parameters(thing: Any) -> list[str]:
    """Patterns of their names; where further ones are taken by name (**arguments), any name may be explained."""
    try:
        found = inspect.signature(thing).parameters
    except (TypeError, ValueError):
        return []
    more = any(parameter.kind is parameter.VAR_KEYWORD for parameter in found.values())
    return [NAME] if more else [re.escape(name) for name in found]


def process(app: Sphinx, kind: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    lines[:] = convert(lines, _parameters(thing))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
