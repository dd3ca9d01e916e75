"""Processes that tests start, signal and end: none outlives its test, and no clock decides what a test sees."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 300.0  # seconds after which a process is taken to hang


# A background job or `nohup` ignores Ctrl-C and SIGHUP, and so does what it starts: here every process hears them.
LISTENING = """import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
"""


@contextmanager
def process(script: str, arguments: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Python with this script, its three streams open; it is killed where the test leaves it running."""
    made = subprocess.Popen(
        [sys.executable, "-c", LISTENING + script, *arguments],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield made
    finally:
        made.kill()
        made.communicate()


def wait_for_line(made: subprocess.Popen[str], wanted: str) -> None:
    """Read its output up to the line that is wanted; what it said on its error stream if that never comes."""
    assert made.stdout is not None
    overdue = threading.Timer(PATIENCE, made.kill)
    overdue.start()
    try:
        for line in made.stdout:
            if line.strip() == wanted:
                return
    finally:
        overdue.cancel()
    raise AssertionError(f"{wanted!r} was never said: {made.communicate()[1]}")


def go_on(made: subprocess.Popen[str]) -> None:
    """Let a process that waits for a line of input continue."""
    assert made.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended: `ended` will say why
        made.stdin.write("\n")
        made.stdin.flush()


def ended(made: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit code and what it said on its error stream."""
    _, errors = made.communicate(timeout=PATIENCE)
    return made.returncode, errors
