"""What the user sees while something runs, and how Ctrl-C is heard."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

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


class Stop:
    """The first Ctrl-C asks for an end after the present chunk of rounds, so that what is saved fits together.

    The second one ends at once. `heard` is called between chunks.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._listen)
        return self

    def __exit__(self, *error: Any) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _listen(self, number: int, frame: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        print("stopping after this chunk of rounds; once more to stop at once", file=sys.stderr, flush=True)

    def heard(self) -> None:
        if self.asked:
            raise KeyboardInterrupt
