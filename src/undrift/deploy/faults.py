"""Places in the protocol where a test can strike: a no-op unless somebody armed one.

`UNDRIFT_DIE_AT="site:after-reply:3"` in the environment kills this process, as `kill -9` would, when it passes that place for
the third time. Inside a process, `armed` raises `Struck` there instead.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator

from ..errors import InputError

VARIABLE = "UNDRIFT_DIE_AT"
SITE = (
    "site:before-reply",  # an answer is computed, not sent
    "site:after-reply",
    "site:before-snapshot",  # told to keep its memory, nothing written
    "site:after-snapshot",  # the memory is on the disk, nobody knows
    "site:after-committed",
)
SERVER = (
    "server:after-last-answer",  # the sites have not been told to keep anything
    "server:after-commit",  # all sites have kept the round, the server has not
    "server:after-trace",  # the round is in the trace, not in the checkpoint
    "server:after-checkpoint",
)
POINTS = (*SITE, *SERVER)

Strike = Callable[[str], None]


class Struck(BaseException):
    """A process dies here, in a test that plays it in its own."""


def point(name: str) -> None:
    """A place of the protocol has been reached."""
    if _strike is not None:
        _strike(name)


@contextlib.contextmanager
def armed(strike: Strike) -> Iterator[None]:
    """Call `strike` at every point meanwhile; it may raise `Struck`."""
    global _strike
    before, _strike = _strike, strike
    try:
        yield
    finally:
        _strike = before


def at(name: str, count: int, act: Callable[[], None]) -> Strike:
    """A strike that acts once, when a point is passed for the so-many-th time.

    >>> passed = []
    >>> with armed(at("site:before-reply", 2, lambda: passed.append("struck"))):
    ...     for _ in range(3):
    ...         point("site:before-reply")
    >>> passed
    ['struck']
    """
    if name not in POINTS or count < 1:
        raise InputError(f"a fault is NAME:COUNT, count ≥ 1, with a name of {', '.join(POINTS)}; got {name}:{count}")
    left = count

    def strike(reached: str) -> None:
        nonlocal left
        if reached == name:
            left -= 1
            if left == 0:
                act()

    return strike


def from_environment(text: str) -> Strike | None:
    """What the variable asks for: "site:after-reply:3"."""
    if not text:
        return None
    name, _, count = text.rpartition(":")
    if not count.isdecimal():
        raise InputError(f'{VARIABLE} is NAME:COUNT such as "site:after-reply:3", got {text!r}')
    return at(name, int(count), lambda: os.kill(os.getpid(), signal.SIGKILL))


_strike: Strike | None = from_environment(os.environ.get(VARIABLE, ""))
