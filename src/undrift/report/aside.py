"""Figures drawn by a process of its own, which imports Matplotlib while this one imports JAX and computes.

`prepare` starts it, as early as possible; `figures` hands it what to draw, and waits. It touches no file: what it has drawn
comes back, and is written here, by the owner of the folder. Whatever goes wrong over there, the figures are drawn here instead,
which says what it was.
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

PATIENCE = 120.0  # seconds until it is done, from when it is told what to draw
ROOT = Path(__file__).parents[2]  # of the packages: it draws with this very undrift
_waiting: list[subprocess.Popen[bytes]] = []  # at most one


def prepare() -> None:
    """Start the process, unless this one has what it would wait for."""
    if "matplotlib" in sys.modules or "jax" in sys.modules or not sys.executable or _waiting:
        return
    order = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from {__name__} import serve; serve()"
    command = [sys.executable, *_isolation(), "-c", order]
    with contextlib.suppress(OSError):
        # A session of its own, so that Ctrl-C is heard here alone; it ends when its input does, or when it has drawn.
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
    drawn = _drawn_by(_waiting.pop(), drawing) if _waiting else None
    if drawn is None:
        from .figures import write_figures

        write_figures(drawing, folder)
        return
    from ..files import write_bytes

    for name, content in drawn:
        write_bytes(folder / name, content)


def _drawn_by(process: subprocess.Popen[bytes], drawing: Drawing) -> list[tuple[str, bytes]] | None:
    """The names and contents of the files; None where it did not come to its end."""
    import msgspec

    try:
        answer, _ = process.communicate(pickle.dumps(drawing), PATIENCE)
        return msgspec.msgpack.decode(answer, type=list[tuple[str, bytes]])
    except (OSError, subprocess.TimeoutExpired, msgspec.MsgspecError):
        return None
    finally:
        _end(process)


def _isolation() -> list[str]:
    """Nothing is imported from where this process would not import it, nor from the directory one happens to be in."""
    flags = {"-I": sys.flags.isolated, "-E": sys.flags.ignore_environment, "-s": sys.flags.no_user_site}
    return ["-P", *(flag for flag, given in flags.items() if given)]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def serve(given: IO[bytes] | None = None, answer: IO[bytes] | None = None) -> None:
    """The other process: import, wait, draw, hand over."""
    gc.disable()  # it will soon be gone
    import msgspec

    from .figures import drawn_figures

    drawn = list(drawn_figures(pickle.load(given or sys.stdin.buffer)))
    answer = answer or sys.stdout.buffer
    answer.write(msgspec.msgpack.encode(drawn))
    answer.flush()
