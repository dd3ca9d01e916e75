"""Files that several processes take turns with."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

STALE_SECONDS = 120.0  # a lock whose owner has not touched it for so long belongs to nobody
BEAT_SECONDS = 20.0  # how often its owner touches it
LOOK_SECONDS = 0.05  # how often somebody who waits looks again


@contextlib.contextmanager
def claim(lock: Path) -> Iterator[bool]:
    """Whether it is this process's turn; a lock that nobody touches any more is dead with its process."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        if time.time() - lock.stat().st_mtime > STALE_SECONDS:
            lock.unlink()
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        yield False
        return
    ended = threading.Event()

    def beat() -> None:  # a thread of its own: a single round may take longer than a lock lives
        while not ended.wait(BEAT_SECONDS):
            with contextlib.suppress(FileNotFoundError):
                os.utime(lock)

    threading.Thread(target=beat, daemon=True).start()
    try:
        yield True
    finally:
        ended.set()
        lock.unlink(missing_ok=True)


@contextlib.contextmanager
def hold(lock: Path) -> Iterator[None]:
    """Wait until it is this process's turn."""
    while True:
        with claim(lock) as mine:
            if mine:
                yield
                return
        time.sleep(LOOK_SECONDS)
