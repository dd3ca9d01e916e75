"""Figures drawn by a process of its own, which imports Matplotlib while this one imports JAX and computes.

`prepare` starts it, as early as possible; `figures` hands it what to draw, and waits. Whatever goes wrong over there, the
figures are drawn here instead, which says what it was.
"""

from __future__ import annotations

import contextlib
import gc
import pickle
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:  # the other process is started before anything else is imported
    from .curves import Drawing

DONE = b"drawn"
_waiting: list[subprocess.Popen[bytes]] = []  # at most one


def prepare() -> None:
    """Start the process, unless this one has what it would wait for."""
    if "matplotlib" in sys.modules or "jax" in sys.modules or not sys.executable or _waiting:
        return
    command = [sys.executable, "-P", "-m", __name__]  # -P: nothing is imported from the directory one happens to be in
    with contextlib.suppress(OSError):
        # A session of its own, so that Ctrl-C is heard here alone; it ends when its input does.
        _waiting.append(
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )


def dismiss() -> None:
    """End the process, if it is still waiting for something to draw."""
    while _waiting:
        _end(_waiting.pop())


def figures(drawing: Drawing, folder: Path) -> None:
    """The figures in this folder, drawn by the other process if there is one."""
    if _waiting and _drawn_by(_waiting.pop(), drawing, folder):
        return
    from .figures import write_figures

    write_figures(drawing, folder)


def _drawn_by(process: subprocess.Popen[bytes], drawing: Drawing, folder: Path) -> bool:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(pickle.dumps((drawing, folder.absolute())))
        process.stdin.close()
        return process.stdout.read(len(DONE)) == DONE
    except OSError:  # it is no more
        return False
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _serve(given: IO[bytes], answer: IO[bytes]) -> None:
    """The other process: import, wait, draw."""
    gc.disable()  # it will soon be gone
    from .figures import write_figures

    write_figures(*pickle.load(given))
    answer.write(DONE)
    answer.flush()  # nobody need wait for this process to end


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
