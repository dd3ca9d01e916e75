"""Errors that say the rule, the value received and what to do."""

from __future__ import annotations

import difflib
import errno
import operator
from collections.abc import Iterable
from typing import Any

MOST = 2**31 - 1  # a device counts rounds, steps and samples in 32 bits
LONG = 120  # characters of a value that an error repeats

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
    """A message breaks a rule of the wire; nothing of it was used."""


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


def whole(what: str, value: Any, least: int, most: int = MOST) -> int:
    """A whole number in this range, or the error that says so.

    >>> whole("rounds must be a whole number", 2**40, 0)
    Traceback (most recent call last):
    undrift.errors.InputError: rounds must be a whole number ≥ 0 and ≤ 2147483647, got 1099511627776
    """
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise InputError(f"{what} ≥ {least}, got {shown(value)}")
    if number > most:
        raise InputError(f"{what} ≥ {least} and ≤ {most}, got {shown(value)}")
    return number


def shown(value: Any) -> str:
    """A value as it is written, cut off where that is long; Python refuses to write numbers of 5,000 digits at all.

    >>> shown(10**30), shown("a")
    ('1000000000000000000000000000000', "'a'")
    """
    try:
        text = repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= LONG else f"{text[:LONG]} …"


def nearest(word: str, valid: Iterable[str]) -> str:
    """A half sentence that names the closest valid word, then all of them.

    >>> nearest("fedlim", ["fedavg", "fedlin"])
    "did you mean 'fedlin'? (valid: fedavg, fedlin)"
    """
    names = sorted(valid)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.5)
    listing = f"(valid: {', '.join(names)})"
    return f"did you mean {close[0]!r}? {listing}" if close else listing


def unknown(kind: str, word: str, valid: Iterable[str]) -> InputError:
    """The error for a name that does not exist.

    >>> raise unknown("method", "fedlim", ["fedlin"])
    Traceback (most recent call last):
    undrift.errors.InputError: unknown method 'fedlim': did you mean 'fedlin'? (valid: fedlin)
    """
    return InputError(f"unknown {kind} {word!r}: {nearest(word, valid)}")
