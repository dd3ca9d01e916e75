"""A process that has imported everything and started nothing: from it commands start in a moment, by forking.

JAX must not be used before a fork, only imported; so every child is a fresh `undrift` without the seconds of importing.
The nursery is told on standard input what to start, one JSON object a line, and answers each with how it ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

from .disk import Disk

PATIENCE = 120.0  # seconds after which a command is taken to hang
HUNG = -1000


def serve() -> None:
    """Answer until the input ends."""
    warnings.simplefilter("ignore")  # JAX warns of forking, rightly, but it has not begun
    import undrift.cli
    import undrift.command.compare
    import undrift.command.run
    import undrift.report.figures
    import undrift.report.page.results
    import undrift.report.tables  # noqa: F401

    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(_start(json.loads(line))), flush=True)


def _start(order: dict[str, Any]) -> int:
    """How the command ended: its exit code, minus the signal that killed it, or HUNG."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os._exit(_play(order, writing))
        finally:
            os._exit(1)
    os.close(writing)
    os.read(reading, 1)  # it begins
    os.close(reading)
    for delay, number in order["signals"]:
        time.sleep(delay)
        os.kill(child, number)  # until it is waited for, its number is its own
    return _ended(child)


def _play(order: dict[str, Any], ready: int) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(order["folder"])
    for stream, number in (("out", 1), ("err", 2)):
        handle = os.open(order[stream], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, number)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    sys.argv = ["undrift", *order["words"]]
    from undrift.cli import main

    try:
        time.sleep(order["late"])
        os.write(ready, b".")
        with Disk(Path(order["root"]), order["at"], "sigkill"):
            code = main(order["words"])
    except BaseException as error:  # what Python itself would show at the end of a process
        traceback.print_exc()
        code = 130 if isinstance(error, KeyboardInterrupt) else 1
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
    return code


def _ended(child: int) -> int:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return HUNG
