"""Several processes that play one run: how they find each other, decide together, and learn that one is gone.

JAX connects them (`jax.distributed`) and carries what they compute together (gloo on CPUs). All run the same program on the
same plan; only what a clock, a user or a disk decides could differ between them, and that is agreed on between two chunks of
rounds (`agree`), where process 0 has the say.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import jax
import numpy as np

from ..errors import DivergenceError, HostLostError, InputError, Interrupted, UndriftError

HEARTBEAT_SECONDS = 10  # after so long without a sign of life a process counts as dead, also where no connection broke
PATIENCE_SECONDS = 300  # how long processes wait for each other at the start
LOOKS, BETWEEN_LOOKS = 10, 0.01  # for the network thread, and seconds
# How the errors begin or end that say that another process is gone
SIGNS = ("Gloo", "gloo", "Connection closed by peer", "Connection reset by peer", "heartbeat", "coordination service")

LOSS = (
    "{} has lost another one, which was killed, failed, or cannot be reached any more: see what that one said, then start all "
    "again with --resume (resume=True)"
)


class Wishes(NamedTuple):
    """What a process would like to do after a chunk of rounds."""

    size: int  # rounds in the next one
    enough: bool  # the observer asked for an end
    save: bool  # a checkpoint is due
    end: bool  # a signal asked for an end


def connect(address: str | None = None, count: int | None = None, index: int | None = None) -> None:
    """Join the other processes; what is not said is found out from the launcher (SLURM, Open MPI) or JAX's variables.

    Call it before JAX computes anything, in every process: `connect("host0:9911", 2, 0)` in one, `connect("host0:9911", 2, 1)`
    in the other. `ud.run(…, mesh=True)` then plays on the devices of all of them; `ud.use_devices` comes before.
    """
    if index is None and "JAX_PROCESS_ID" in os.environ:
        index = _whole("JAX_PROCESS_ID")
    if count is None and "JAX_NUM_PROCESSES" in os.environ:
        count = _whole("JAX_NUM_PROCESSES")
    try:
        jax.distributed.initialize(
            address,
            count,
            index,
            initialization_timeout=PATIENCE_SECONDS,
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
        )
    except (ValueError, TypeError) as error:
        raise InputError(
            f"the processes of this run cannot be connected ({error}): start them with srun or mpirun, or say --hosts "
            "HOST:PORT --host-count N --host-index I for each"
        ) from None
    except RuntimeError as error:  # too late, twice, or nobody answered
        raise InputError(f"the processes of this run cannot be connected: {error}") from None
    _explain_aborts()
    _start_devices()


def count() -> int:
    """How many processes there are."""
    return jax.process_count()


def is_first() -> bool:
    """Whether this process is the one that shows, writes and decides."""
    return jax.process_index() == 0


def agree(mine: Wishes) -> Wishes:
    """What is done: as process 0 would like it; if any of them was asked to end, all do."""
    if count() == 1:
        return mine
    all_ = gathered(np.asarray(mine, np.int32))
    return Wishes(int(all_[0, 0]), bool(all_[0, 1]), bool(all_[0, 2]), bool(all_[:, 3].any()))


def gathered(mine: np.ndarray) -> np.ndarray:
    """Everyone's array of this shape, one after the other; nobody goes on before all are here."""
    from jax.experimental import multihost_utils

    if count() == 1:
        return mine[None]
    found: np.ndarray = multihost_utils.process_allgather(mine)
    return found


def gathered_texts(mine: str | None) -> list[str | None]:
    """Everyone's text, in the order of the processes; None where one has nothing to say."""
    content = b"" if mine is None else mine.encode()
    lengths = gathered(np.asarray([-1 if mine is None else len(content)], np.int32))[:, 0]
    padded = np.frombuffer(content.ljust(max(int(lengths.max()), 1), b"\0"), np.uint8)
    rows = gathered(padded)
    return [None if n < 0 else row[:n].tobytes().decode() for row, n in zip(rows, lengths, strict=True)]


@contextmanager
def together(on_mesh: bool) -> Iterator[None]:
    """While processes play together: if another is gone, say so; if this one fails, do not keep the others waiting."""
    try:
        yield
    except (DivergenceError, Interrupted):  # of all processes alike
        raise
    except BaseException as error:
        if not on_mesh or count() == 1:
            raise
        if not _is_loss(error):
            _end_without_farewell(1)
            raise
        _end_without_farewell(HostLostError.EXIT_CODE)
        raise HostLostError(LOSS.format(f"process {jax.process_index()} of {count()}")) from error


def _start_devices() -> None:
    """Start JAX's devices, and gloo with them, whose network thread then no longer interrupts the computation.

    That thread wakes up while the computing thread still holds the lock of their connection, in the middle of sending, and asks
    for the lock again and again. If both are bound to one core it does so until its slice of time is over, and a collective
    takes 3 ms in place of 0.1 ms. Under SCHED_BATCH a thread that wakes up waits for the one that runs. (For other threads that
    would be a loss: those that compute hand work to each other.)
    """
    earlier = _threads()
    jax.local_devices()
    for _ in range(LOOKS):  # a thread that has just been made does not wait for the network yet
        for thread in _threads() - earlier:
            with suppress(OSError):  # it has ended, or a sandbox forbids it: all is as right, and may be slower
                if "poll" in Path(f"/proc/self/task/{thread}/wchan").read_text():
                    os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))
        time.sleep(BETWEEN_LOOKS)


def _threads() -> set[int]:
    """Those of this process, where Linux tells."""
    tasks = Path("/proc/self/task")
    return {int(task.name) for task in tasks.iterdir()} if tasks.is_dir() else set()


def _explain_aborts() -> None:
    """JAX aborts a process that hears outside a collective that another is gone: say so, and end with the code for it.

    The handler is called by the thread that aborts, which no Python handler of a signal is.
    """
    if os.name != "posix":
        return
    said = (
        f"undrift: if nothing above says otherwise, {LOSS.format('this process')}\n".encode()
    )  # which one it is JAX knows when its devices are set up

    def end(number: int) -> None:
        os.write(2, said)
        os._exit(HostLostError.EXIT_CODE)

    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(end)
    _kept.append(handler)  # it must outlive this function
    ctypes.CDLL(None).signal(signal.SIGABRT, handler)


_kept: list[Any] = []


def _is_loss(error: BaseException) -> bool:
    return any(sign in str(error) for sign in SIGNS) and not isinstance(error, UndriftError)


def _end_without_farewell(code: int) -> None:
    """At its end JAX would wait for a process that is gone, or that waits for this one, and then abort."""

    atexit.register(leave, code)  # the last to be registered is the first to be called


def leave(code: int) -> NoReturn:
    """End this process at once, so that the others hear of it."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def begin(refusal: str | None) -> dict[int, str]:
    """Wait until all have read their input; what those that do not begin say instead."""
    return {index: text for index, text in enumerate(gathered_texts(refusal)) if text is not None}


def _whole(variable: str) -> int:
    try:
        return int(os.environ[variable])
    except ValueError:
        raise InputError(f"{variable} must be a whole number, got {os.environ[variable]!r}") from None
