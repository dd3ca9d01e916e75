"""Toctrees that grow by themselves. A line that begins with @ stands for pages that may be there or not:

    @board*        those that match; none is no mistake
    @remaining     all pages of this folder that no toctree names

Whoever adds a page need not edit another one; a better place can be found for it later.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

REST = "@remaining"
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.MULTILINE | re.DOTALL)
ENTRY = re.compile(r"^(?:.*<)?@?([\w./*-]+?)>?$")
MARKED = re.compile(r"^@(\S+)\n", re.MULTILINE)


def entries(body: str) -> list[str]:
    """What a toctree names: documents and patterns.

    >>> entries(":glob:\\nstart\\nThe board <board>\\n@extend/*\\n@remaining\\n")
    ['start', 'board', 'extend/*']
    """
    lines = [line.strip() for line in body.splitlines()]
    return [found[1] for line in lines if line != REST and not line.startswith(":") and (found := ENTRY.match(line))]


def matching(folder: Path, pattern: str) -> set[str]:
    """Pages of the folder, by the names that toctrees use."""
    files = [file for file in folder.glob(f"{pattern}.*") if file.suffix in (".md", ".rst")]
    return {file.relative_to(folder).with_suffix("").as_posix() for file in files}


def remaining(folder: Path) -> list[str]:
    """Pages that no toctree in this folder names, `index` excepted."""
    texts = [page.read_text(encoding="utf-8") for page in folder.glob("*.md")]
    named = [entry for text in texts for body in TOCTREE.findall(text) for entry in entries(body)]
    return sorted(matching(folder, "*").difference({"index"}, *(matching(folder, pattern) for pattern in named)))


def expanded(text: str, folder: Path) -> str:
    """A page with its marked lines replaced."""

    def pages(found: re.Match[str], besides: list[str]) -> str:
        names = remaining(folder) if found[0].strip() == REST else sorted(matching(folder, found[1]))
        return "".join(f"{name}\n" for name in names if name not in besides)

    def toctree(found: re.Match[str]) -> str:
        besides = entries(found[1])
        return MARKED.sub(lambda line: pages(line, besides), found[0])

    return TOCTREE.sub(toctree, text)


def put_in(app: Sphinx, docname: str, source: list[str]) -> None:
    source[0] = expanded(source[0], Path(app.srcdir))


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", put_in)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
