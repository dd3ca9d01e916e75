"""How much memory there is, and errors that say what something would need before it is tried."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from .errors import InputError

_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def installed() -> int | None:
    """Bytes of memory of this machine, or of the container that this process runs in; None where nobody says."""
    found = [limit for limit in map(_number_in, _CONTAINER_LIMITS) if limit is not None]
    with suppress(AttributeError, ValueError, OSError):  # not on every system
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(found, default=None)


def require(needed: int, what: str, remedy: str) -> None:
    """Refuse what cannot fit into the memory of this machine.

    >>> require(10**18, "a table of 10**17 rows", "take fewer rows")
    Traceback (most recent call last):
    undrift.errors.InputError: a table of 10**17 rows needs about 1 EB of memory, this machine has ...: take fewer rows
    """
    room = installed()
    if room is not None and needed > room:
        raise InputError(f"{what} needs about {words(needed)} of memory, this machine has {words(room)}: {remedy}")


def words(count: int) -> str:
    """A number of bytes in a unit that suits it.

    >>> words(1_500), words(8 * 10**13), words(10**40)
    ('1.5 kB', '80 TB', '1e+22 EB')
    """
    units = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")
    power = min((len(str(count)) - 1) // 3, len(units) - 1)
    return f"{count / 1000**power:.3g} {units[power]}"


def _number_in(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):  # no such limit, or "max"
        return None
