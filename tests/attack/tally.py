"""What an attack counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MOST_NOTES = 6  # of one kind in one part of an attack: failures repeat themselves


class Tally:
    """Attempts, and what was found: results lost, results wrong, tracebacks shown; with a note on how to repeat each.

    >>> tally = Tally()
    >>> with tally.attempt("kill before write 3"):
    ...     tally.lost("model.npy is missing")
    >>> tally.counts()["lost"], tally.counts()["failures"][0]
    (1, 'lost: kill before write 3: model.npy is missing')
    """

    def __init__(self) -> None:
        self.attempts, self.parts, self.found = 0, Counter[str](), Counter[str]()
        self.failures: list[str] = []
        self._now, self._part, self._seen, self._noted = "", "", set[str](), Counter[tuple[str, str]]()

    @contextmanager
    def attempt(self, what: str, part: str = "") -> Iterator[None]:
        """One attack; whatever is found inside belongs to it, and each kind of finding counts once."""
        self.attempts += 1
        self.parts[part] += 1
        self._now, self._part, self._seen = what, part, set()
        yield

    def lost(self, why: str) -> None:
        """Something that was computed, or that the uninterrupted command would leave, is not there."""
        self._note("lost", why)

    def wrong(self, why: str) -> None:
        """Other numbers, files that do not belong together, an exit code that says something else than is true."""
        self._note("wrong", why)

    def traceback(self, text: str) -> None:
        """An exception reached the user."""
        self._note("tracebacks", text.strip().splitlines()[-1])

    def _note(self, kind: str, why: str) -> None:
        if kind not in self._seen:
            self.found[kind] += 1
            self._seen.add(kind)
        self._noted[kind, self._part] += 1
        if self._noted[kind, self._part] <= MOST_NOTES:
            self.failures.append(f"{kind}: {self._now}: {why}")

    def counts(self, **more: Any) -> dict[str, Any]:
        """For the report."""
        found = {kind: self.found[kind] for kind in ("lost", "wrong", "tracebacks")}
        parts = {name: number for name, number in self.parts.items() if name}
        return {"attempts": self.attempts, **found, "parts": parts, **more, "failures": self.failures}
