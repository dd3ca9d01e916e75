"""Errors that say the rule, the value received and what to do."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable
from typing import Any

_REMEDIES = {
    errno.ENOSPC: "make room, or choose another place",
    errno.EDQUOT: "make room, or choose another place",
    errno.EACCES: "ask for the right to write there, or choose another place",
    errno.EPERM: "ask for the right to write there, or choose another place",
    errno.EROFS: "it is mounted read-only: choose another place",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOTDIR: "a part of the path is a file: choose another place",
    errno.EISDIR: "there is a directory of this name: choose another name",
    errno.ENOENT: "make the directory first, or choose another place",
}


class UndriftError(Exception):
    """Everything that undrift raises on purpose."""


class InputError(UndriftError, ValueError):
    """An argument breaks a rule; nothing has been computed."""


class WireError(InputError):
    """A message breaks a rule of the wire; nothing of it was used. `client`: who sent it, where that is known."""

    client: int | None = None


class NotFiniteError(WireError):
    """A message holds infinities or NaN: whoever sent it computes with numbers that overflow."""


class CheckpointError(UndriftError):
    """A checkpoint cannot be read, or belongs to another run."""


class StorageError(UndriftError, OSError):
    """A file or directory cannot be read or written; what was there before is still there.

    `result` keeps what a run had computed when its checkpoint could not be written.
    """

    result: Any = None

    @classmethod
    def of(cls, path: Any, error: OSError) -> StorageError:
        """The refusal of the system in words, with a remedy.

        >>> str(StorageError.of("runs", OSError(28, "No space left on device")))
        'runs cannot be written or read: No space left on device; make room, or choose another place'
        """
        reason = error.strerror or str(error) or type(error).__name__
        remedy = _REMEDIES.get(error.errno or 0, "choose another place")
        made = cls(f"{path} cannot be written or read: {reason}; {remedy}")
        made.errno = error.errno
        return made


class HostLostError(UndriftError):
    """Another process of a run on several hosts was killed, failed, or cannot be reached any more."""

    EXIT_CODE = 8  # of a process that ends for this reason


class DivergenceError(UndriftError, ArithmeticError):
    """The loss stopped being finite. `result` keeps every round up to `round`, the first in which that was seen.

    Where not every round is evaluated it may have happened before: `result.diverged_between` says since when.
    """

    def __init__(self, message: str, *, round: int, client: int | None, result: Any) -> None:
        super().__init__(message)
        self.round = round
        self.client = client
        self.result = result


class Interrupted(UndriftError):
    """Ctrl-C between two chunks of rounds. `result` keeps every finished round."""

    def __init__(self, message: str, *, result: Any) -> None:
        super().__init__(message)
        self.result = result


def nearest(word: str, valid: Iterable[str]) -> str:
    """A half sentence that names the closest valid word, then all of them.

    >>> nearest("fedlim", ["fedavg", "fedlin"])
    "did you mean 'fedlin'? (valid: fedavg, fedlin)"
    """
    names = sorted(valid)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    listing = f"(valid: {', '.join(names)})"
    return f"did you mean {close[0]!r}? {listing}" if close else listing


def unknown(kind: str, word: Any, valid: Iterable[str]) -> InputError:
    """The error for a name that does not exist.

    >>> raise unknown("method", "fedlim", ["fedlin"])
    Traceback (most recent call last):
    undrift.errors.InputError: unknown method 'fedlim': did you mean 'fedlin'? (valid: fedlin)
    """
    return InputError(f"unknown {kind} {word!r}: {nearest(word if isinstance(word, str) else '', valid)}")
