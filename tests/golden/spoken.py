"""The command line in this process, in surroundings that are the same everywhere, and what it said."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from unittest import mock

from undrift.cli import main

WIDTHS = (60, 80, 120)
# Whatever the surroundings say of colours, sizes and places of files
SILENT = ("FORCE_COLOR", "NO_COLOR", "TERM", "COLORTERM", "PYTHON_COLORS", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "LINES",
          "UNDRIFT_DATA", "UNDRIFT_CACHE", "UNDRIFT_MIRROR", "UNDRIFT_DEBUG", "UNDRIFT_COMPILED")  # fmt: skip


class Said(NamedTuple):
    code: int
    out: str
    err: str


@contextlib.contextmanager
def surroundings(columns: int, **more: str) -> Iterator[None]:
    """An empty directory, a width, and nothing else that output could depend on."""
    kept = {key: entry for key, entry in os.environ.items() if key not in SILENT}
    before = os.getcwd()
    environment = mock.patch.dict(os.environ, {**kept, "COLUMNS": str(columns), **more}, clear=True)
    with environment, tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def ask(*words: str, columns: int = 80, **more: str) -> Said:
    """What `undrift` says to these words."""
    out, err = io.StringIO(), io.StringIO()
    with surroundings(columns, **more), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words))
    return Said(code, normal(out.getvalue()), normal(err.getvalue()))


def printed(show: Callable[[], Any], columns: int = 80, **more: str) -> str:
    """What a function prints."""
    out = io.StringIO()
    with surroundings(columns, **more), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        show()
    return trimmed(out.getvalue())


def at_widths(speak: Callable[[int], str]) -> str:
    """The same at all widths, one below the other."""
    return "\n".join(f"===== {width} columns =====\n{speak(width)}" for width in WIDTHS)


def normal(text: str) -> str:
    """Without what Python's versions do differently: how usage is wrapped, and quotes around choices."""
    text = re.sub(r"^usage: .*?(?=\n\n|\n\S|\Z)", _in_one_line, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\(choose from [^)]*\)", lambda found: found[0].replace("'", ""), text)
    return trimmed(text)


def _in_one_line(found: re.Match[str]) -> str:
    return re.sub(r"\s+", " ", found[0])


def trimmed(text: str) -> str:
    """Without blanks at the ends of lines."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def masked(content: Any) -> Any:
    """JSON with its keys and words, and without numbers: what a CPU may round differently is not asked here."""
    if isinstance(content, Mapping):
        return {key: masked(entry) for key, entry in content.items()}
    if isinstance(content, list):
        found = [masked(entry) for entry in content]
        return found[:1] if found and all(entry == found[0] for entry in found) else found
    if isinstance(content, bool) or content is None:
        return content
    if isinstance(content, int | float):
        return "<number>"
    return re.sub(r"-?\b\d+(\.\d+)?(e[-+]?\d+)?\b", "<n>", content)
