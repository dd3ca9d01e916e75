"""One bad input: how it is made, and what must be said of it. Tables of them stand in `table_*.py` beside this file."""

from __future__ import annotations

import dataclasses
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
