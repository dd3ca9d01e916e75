"""Jobs dealt out to threads, and what they report heard in the caller's.

XLA lets programs that were started by different threads run at the same time, on one device of the CPU too: whatever plays
several runs keeps all cores busy this way, without several devices and without a word between them.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax

MOST_AT_ONCE = 32  # programs that JAX starts on one device of the CPU before it waits for one of them

Report = Callable[[Any], None]
Job = Callable[[Report], None]


def at_once() -> int:
    """How many programs are played side by side: one per core; an accelerator is kept busy by one."""
    if jax.default_backend() != "cpu":
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_AT_ONCE)


def in_threads(jobs: Sequence[Job], workers: int, scope: Callable[[], AbstractContextManager[Any]]) -> Iterator[Any]:
    """What the jobs report, one after the other; each is played in a thread, inside the scope.

    If a job fails, or the caller stops listening, the others end at their next report.

    >>> from contextlib import nullcontext
    >>> sorted(in_threads([lambda tell, k=k: tell(k * k) for k in range(4)], 2, nullcontext))
    [0, 1, 4, 9]
    """
    waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
    said: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    over = threading.Event()
    for job in jobs:
        waiting.put(job)

    def tell(report: Any) -> None:
        if over.is_set():
            raise _Over
        said.put(("report", report))

    def work() -> None:
        try:
            with scope():
                while not over.is_set():
                    waiting.get_nowait()(tell)
            said.put(("end", None))
        except (queue.Empty, _Over):
            said.put(("end", None))
        except BaseException as error:
            said.put(("error", error))

    threads = [threading.Thread(target=work, name=f"undrift-{k}", daemon=True) for k in range(min(workers, len(jobs)))]
    for thread in threads:
        thread.start()
    left = len(threads)
    try:
        while left:
            kind, what = said.get()
            if kind == "report":
                yield what
            elif kind == "error":
                raise what
            else:
                left -= 1
    finally:
        over.set()
        for thread in threads:
            thread.join()


class _Over(Exception):
    """Nobody listens any more."""
