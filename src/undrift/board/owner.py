"""Whether a run is going on: its directory says whose it is. The lock itself is never touched."""

from __future__ import annotations

import os
import re
import socket

from ..ownership import LOCK, OWNER
from .folder import Folder, Place

_WORDS = re.compile(r"process (\d{1,9}) on (\S{1,255}) since")


def is_owned(folder: Folder, place: Place) -> bool:
    """Whether a process that is alive owns the run; one on another machine is believed."""
    if folder.seen(place, LOCK) is None:
        return False
    words = folder.read(place, LOCK + OWNER, 2000) or b""
    found = _WORDS.match(words.decode("utf-8", "replace"))
    if found is None:
        return False
    return found[2] != socket.gethostname() or is_alive(int(found[1]))


def is_alive(process: int) -> bool:
    """Whether there is such a process here.

    >>> is_alive(os.getpid()), is_alive(0)
    (True, False)
    """
    if process < 1 or os.name != "posix":  # elsewhere there is no harmless question
        return process > 0
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # somebody else's
    return True
