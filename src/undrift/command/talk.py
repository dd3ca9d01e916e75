"""What the user sees while something runs, and how Ctrl-C is heard."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..engine import interrupt

PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}


class Talk:
    """Notes and progress on standard error; results on standard output. Progress only where somebody watches."""

    def __init__(self, quiet: bool = False, json: bool = False) -> None:
        self.quiet = quiet
        # What users name things is shown as it is: brackets are no markup, colons no pictures.
        self.notes = Console(stderr=True, soft_wrap=True, **PLAIN)
        self.results = Console(**PLAIN)
        self.watched = self.notes.is_terminal and not quiet and not json

    def note(self, text: str) -> None:
        if not self.quiet:
            self.notes.print(text, markup=False)

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        console = Console(stderr=True, **PLAIN)
        with Progress(*columns, console=console, disable=not self.watched, expand=True, transient=True) as bar:
            yield bar


class Stop(interrupt.Stop):
    """What asks a command to end, with a word on how it is taken."""

    def __init__(self) -> None:
        super().__init__(say=_say_how)


def _say_how() -> None:
    # A handler may strike while something is printed: no stream of Python's can be used here.
    with contextlib.suppress(OSError):
        os.write(2, b"stopping after this chunk of rounds; once more to stop at once\n")
