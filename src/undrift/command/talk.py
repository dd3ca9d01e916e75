"""What the user sees while something runs, and how Ctrl-C is heard."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ..engine import interrupt


class Talk:
    """Notes and progress on standard error; results on standard output. Progress only where somebody watches."""

    def __init__(self, quiet: bool = False, json: bool = False) -> None:
        self.quiet = quiet
        self.notes = Console(stderr=True, highlight=False, soft_wrap=True)
        self.results = Console(highlight=False)
        self.watched = self.notes.is_terminal and not quiet and not json

    def note(self, text: str) -> None:
        if not self.quiet:
            self.notes.print(text, markup=False)

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        console = Console(stderr=True, highlight=False)
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
