"""Standard output and error that outlive their readers, and interrupts that are not lost.

A run does not depend on somebody reading what it says: where a pipe is closed (`undrift run … | head -1`), or a stream was
closed before the start (`>&-`), it goes on and says no more. A standard output that cannot be written for another reason
(a full disk) is reported at the end; by then all files of the run are there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

MOMENT = 0.02  # seconds
GONE = (errno.EPIPE, errno.EBADF)


class Patient:
    """A stream that swallows what cannot be written any more, and remembers why."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.refusal: OSError | None = None  # unless its reader has only gone away

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        with self._patience():
            try:
                self.stream.write(text)
            except UnicodeEncodeError:  # a terminal without Greek
                self.stream.write(text.encode(self.stream.encoding, "replace").decode(self.stream.encoding))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        with self._patience():
            self.stream.flush()

    @contextlib.contextmanager
    def _patience(self) -> Iterator[None]:
        try:
            yield
        except ValueError as error:  # it was closed in this process
            if "closed" not in str(error):
                raise
        except OSError as error:
            if error.errno not in GONE and self.refusal is None:
                self.refusal = error
            self._to_nowhere()

    def _to_nowhere(self) -> None:
        """What is still in the buffer, and whatever comes, goes nowhere, so that the interpreter's end is quiet too."""
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)


@contextlib.contextmanager
def patient_streams() -> Iterator[Patient]:
    """Patient standard streams for the length of a command; the one of the output."""
    _open_missing()
    before = sys.stdout, sys.stderr
    out, err = Patient(sys.stdout), Patient(sys.stderr)
    sys.stdout, sys.stderr = out, err
    try:
        yield out
        out.flush()
        err.flush()
    finally:
        sys.stdout, sys.stderr = before


@contextlib.contextmanager
def no_interrupt_is_lost() -> Iterator[None]:
    """A Ctrl-C that strikes where Python cannot raise it comes again a moment later, and nothing is said of the first.

    Such places are callbacks of the garbage collector, of which JAX has one: there Python shows a traceback and goes on.
    """
    before = sys.unraisablehook

    def hook(found: Any) -> None:
        if issubclass(found.exc_type, KeyboardInterrupt):
            again = threading.Timer(MOMENT, os.kill, (os.getpid(), signal.SIGINT))
            again.daemon = True
            again.start()
        else:
            before(found)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _open_missing() -> None:
    """A stream that was closed before the start: the next file to be opened would get its number, and its messages."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
        setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
