"""Signals that ask for an end: noted when they come, heard between two chunks of rounds."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)


class Stop:
    """Ctrl-C, SIGTERM and SIGHUP while something runs.

    The first one is noted, and `heard` raises it as KeyboardInterrupt between two chunks of rounds, where everything fits
    together. The second one raises at once, wherever it strikes: what is kept then is what was whole before. From there on
    signals do what they did before, so a third one ends the process.

    Only what has Python's own handler is listened to: a signal that is ignored (`nohup`) or that somebody else handles stays
    so. Outside the main thread, and inside another `Stop`, nothing is changed; there the outer one is asked.
    """

    def __init__(self, numbers: Sequence[int] = SIGNALS, say: Callable[[], None] | None = None) -> None:
        """`say`: called when the first signal was noted."""
        self.numbers, self.say = numbers, say
        self.asked: int | None = None  # the signal that was noted
        self._told = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in self.numbers:
            handler = signal.getsignal(number)
            outer = getattr(handler, "__self__", None)
            if isinstance(outer, Stop):
                return outer
            if handler in DEFAULTS:
                self._before[number] = handler
                signal.signal(number, self._note)  # from here on, if it is Ctrl-C, nothing can strike in between
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._give_back()
        if self.asked is not None and not self._told and kind is None:
            signal.raise_signal(self.asked)  # it came after the last look

    def heard(self) -> None:
        """Raise the interrupt that was noted."""
        if self.asked is not None:
            self._told = True
            raise KeyboardInterrupt

    def _note(self, number: int, frame: Any) -> None:
        if self.asked is not None:
            self._told = True
            self._give_back()
            raise KeyboardInterrupt
        self.asked = number
        if self.say is not None:
            self.say()

    def _give_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
