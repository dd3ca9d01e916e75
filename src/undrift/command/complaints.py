"""The one place where errors become messages and exit codes."""

from __future__ import annotations

import os
import sys
import traceback

from ..errors import CheckpointError, DivergenceError, HostLostError, Interrupted, StorageError, UndriftError
from . import codes

EXTRAS = {"grpc": "grpc", "cryptography": "grpc", "flwr": "flower"}  # module -> what brings it
LONGEST = 600  # characters of what another library says
DEBUG = "UNDRIFT_DEBUG"  # set to anything, it shows where an error comes from

CODES: tuple[tuple[type[BaseException], int], ...] = (
    (Interrupted, codes.INTERRUPTED),
    (KeyboardInterrupt, codes.INTERRUPTED),
    (DivergenceError, codes.DIVERGED),
    (CheckpointError, codes.BAD_CHECKPOINT),
    (StorageError, codes.STORAGE),
    (HostLostError, codes.HOST_LOST),
)


def complain(error: BaseException) -> int:
    """Say what went wrong on standard error; the exit code."""
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    text, code = explained(error)
    print(f"undrift: {text}", file=sys.stderr)
    return code


def explained(error: BaseException) -> tuple[str, int]:
    """What to say of an error, and its exit code.

    >>> explained(OSError(28, "No space left on device", "runs/x/model.npy"))
    ('runs/x/model.npy cannot be written or read: No space left on device; make room, or choose another place', 7)
    >>> explained(ZeroDivisionError("division by zero"))[1]
    1
    >>> explained(ModuleNotFoundError("No module named 'grpc'", name="grpc"))
    ("this needs grpc, which is not installed: pip install 'undrift[grpc]'", 2)
    """
    if isinstance(error, UndriftError | KeyboardInterrupt):
        return str(error) or "interrupted", code_of(error)
    if isinstance(error, OSError):
        return explained(StorageError.of(error.filename or "a file", error))
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        why = str(error).partition("\n")[0] or "the system gives no more"
        return f"this does not fit into the memory ({why}): take fewer clients, samples or dimensions, or record less", \
            codes.BAD_INPUT  # fmt: skip
    if isinstance(error, ModuleNotFoundError) and (extra := EXTRAS.get((error.name or "").partition(".")[0])):
        return f"this needs {error.name}, which is not installed: pip install 'undrift[{extra}]'", codes.BAD_INPUT
    if isinstance(error, RecursionError):
        return "the input is nested too deeply: write it with fewer levels", codes.BAD_INPUT
    if where := _in_own_file(error):
        return (
            f"{where}: {type(error).__name__}: {_first_lines(error)}. It is in your program; docs/extend says what its "
            f"functions are given and return, {DEBUG}=1 in the environment shows how it was called"
        ), codes.BAD_INPUT
    return (
        f"a fault of undrift itself: {type(error).__name__}: {error}. Files written so far are kept. Please report it, with "
        f"what {DEBUG}=1 in the environment shows"
    ), codes.FAILED


def _in_own_file(error: BaseException) -> str:
    """The place in a user's own file that an error comes from; nothing where none was run."""
    own = sys.modules.get("undrift.studies.own")  # where no study was read, no such file was either
    return "" if own is None else str(own.line_of(error))


def _first_lines(error: BaseException) -> str:
    """What an error says, without the pages that JAX adds."""
    return " ".join(str(error).partition("\n\n")[0].splitlines()).rstrip(".")[:LONGEST]


def code_of(error: BaseException) -> int:
    """By its kind; bad input where nothing else is known."""
    known = next((code for kind, code in CODES if isinstance(error, kind)), None)
    if known is not None or "undrift.data" not in sys.modules:
        return codes.BAD_INPUT if known is None else known
    from ..data import DownloadError, MissingDataError

    return codes.MISSING_DATA if isinstance(error, MissingDataError | DownloadError) else codes.BAD_INPUT
