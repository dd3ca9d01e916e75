"""Ctrl-C between two chunks of rounds, never inside one."""

from __future__ import annotations

import signal
import threading
from types import TracebackType
from typing import Any


class Deferred:
    """Holds Ctrl-C back until `check` is called.

    Inside a chunk the memory has been handed to the device and the records lag behind it: an interrupt there could save
    neither. Only Python's own handler is replaced, in the main thread, and only until the end of the run.
    """

    def __enter__(self) -> Deferred:
        self.asked, self.previous = False, None
        in_main_thread = threading.current_thread() is threading.main_thread()
        if in_main_thread and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self.previous = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.previous is not None:
            signal.signal(signal.SIGINT, self.previous)

    def check(self) -> None:
        """Raise the interrupt that came since the last time."""
        if self.asked:
            self.asked = False
            raise KeyboardInterrupt

    def _note(self, number: int, frame: Any) -> None:
        self.asked = True
