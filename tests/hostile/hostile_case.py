"""One bad input: how it is made, and what must be said of it. Tables of them stand in `table_*.py` beside this file."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


@dataclasses.dataclass(frozen=True)
class Case:
    """A command line, or a call of the library, that must be refused.

    `words`: the arguments of `undrift`; or `call`: a function that is called. `files`: what lies in the (otherwise empty)
    working directory, by name: text, bytes, or a function of the path that makes the file. The complaint must hold
    every one of `says`: the rule, the value received, the remedy.
    """

    name: str
    says: tuple[str, ...]
    words: tuple[str, ...] = ()
    call: Callable[[], Any] | None = None
    files: dict[str, str | bytes | Callable[[Path], Any]] = dataclasses.field(default_factory=dict)
    code: int = 2


def lay_out(folder: Path, case: Case) -> None:
    """The files of a case."""
    for name, content in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below a folder: names, when a file was touched, content. A lock may come and go in a directory."""
    found = {}
    for path in sorted(folder.rglob("*")):
        content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(folder))] = (0 if path.is_dir() else path.lstat().st_mtime_ns, content)
    return found
