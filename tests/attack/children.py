"""Real processes of `undrift`, several at a time."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from .disk import NEVER
from .tasks import Said

PARENT = Path(__file__).parents[1]
SCRIPT = (
    f"import sys; sys.path.insert(0, {str(PARENT)!r}); from {Path(__file__).parent.name}.nursery import serve; serve()"
)


class Nursery:
    """One process that starts commands, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers = itertools.count()
        self.process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answer()

    def play(
        self,
        words: Sequence[str],
        signals: Sequence[tuple[float, int]] = (),
        at: int = NEVER,
        folder: Path | None = None,
        late: float = 0.0,
    ) -> Said:
        """A command, begun `late`; `signals` come after the delays, and it is killed at its change of the disk number `at`."""
        stem = self.folder / f"said-{id(self)}-{next(self._numbers)}"
        out, err = stem.with_suffix(".out"), stem.with_suffix(".err")
        order: dict[str, Any] = {
            "words": list(words),
            "signals": list(signals),
            "at": at,
            "late": late,
            "root": str(self.folder),
        }
        order |= {"folder": str(folder or self.folder), "out": str(out), "err": str(err)}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        code = json.loads(self._answer())
        said = Said(code, out.read_text(errors="replace"), err.read_text(errors="replace"))
        out.unlink()
        err.unlink()
        return said

    def _answer(self) -> str:
        assert self.process.stdout is not None
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("the nursery has died")
        return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@contextmanager
def nurseries(number: int, folder: Path) -> Iterator[list[Nursery]]:
    """Several, started together and ended together."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack, ThreadPoolExecutor(number) as pool:
        made = list(pool.map(lambda _: Nursery(folder), range(number)))
        for nursery in made:
            stack.callback(nursery.close)
        yield made


def play_all(made: list[Nursery], orders: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], Said]]:
    """Every order (arguments of `Nursery.play`) with what was said, as many at a time as there are nurseries."""
    free: SimpleQueue[Nursery] = SimpleQueue()
    for nursery in made:
        free.put(nursery)

    def play(order: dict[str, Any]) -> tuple[dict[str, Any], Said]:
        nursery = free.get()
        try:
            return order, nursery.play(**order)
        finally:
            free.put(nursery)

    with ThreadPoolExecutor(len(made)) as pool:
        yield from pool.map(play, orders)
