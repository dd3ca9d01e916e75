"""Who is there in which round, from a file or an array.

Who is not there cannot be drawn into a cohort (`absent="undrawn"`), or is drawn and stays silent (`"silent"`). What either does
to means is in docs/participation.md.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..errors import InputError, unknown
from ..gate import shown
from .availability_file import Spans, read_spans

ABSENT = ("undrawn", "silent")
AFTER = ("repeat", "end")
MOST = 2**30  # entries of a table: rounds × clients


@dataclasses.dataclass(frozen=True, eq=False)
class Availability:
    """Who is there when; see `availability`. Bound to a number of clients (`among`) it is a table, one row a round."""

    given: Spans | np.ndarray
    absent: Literal["undrawn", "silent"] = "undrawn"
    after: Literal["repeat", "end"] | None = None
    names: tuple[str, ...] = ()

    @property
    def undrawn(self) -> bool:
        """Whether who is not there cannot be drawn; else it is drawn and stays silent."""
        return self.absent == "undrawn"

    @property
    def length(self) -> int:
        """How many rounds it speaks of."""
        return self.given.length if isinstance(self.given, Spans) else len(self.given)

    def among(self, clients: int) -> Availability:
        """The same as a table of these clients."""
        if isinstance(self.given, Spans):
            if self.length * clients > MOST:
                raise InputError(
                    f"{self.given.place(self.given.longest)}: a trace of {self.length} rounds and {clients} clients has more "
                    f"than {MOST} entries: cut it, and say after = 'repeat'"
                )
            table = self.given.table(clients, self.names)
        else:
            table = self.given
        if table.shape[1] != clients:
            raise InputError(
                f"the trace tells of {table.shape[1]} clients, the problem has {clients}: one column for each"
            )
        return dataclasses.replace(self, given=table)

    def rounds_of(self, asked: int) -> int:
        """How many of the rounds asked for are played; refused where the trace is too short and nobody said what then."""
        if asked <= self.length or self.after == "repeat":
            return asked
        if self.after == "end":
            return self.length
        raise InputError(
            f"the trace ends with round {self.length}, and {asked} rounds are to be played: ask for at most those, or say "
            "after = 'repeat' (it begins again) or after = 'end' (so does the run)"
        )

    @property
    def always(self) -> bool:
        """Whether everyone is there in every round."""
        return bool(self._table.all())

    @cached_property
    def _table(self) -> np.ndarray:
        assert isinstance(self.given, np.ndarray), "say among how many clients first"
        return self.given

    def rows(self, rounds: range) -> np.ndarray:
        """Who is there in these rounds, (rounds, m)."""
        return self._table[(np.asarray(rounds) - 1) % self.length]

    def there(self, rounds: range, members: np.ndarray) -> np.ndarray:
        """Whether these members are, one row of them for each round."""
        return np.take_along_axis(self.rows(rounds), np.asarray(members), axis=1)

    @cached_property
    def digest(self) -> str:
        """A hash of what it says, wherever that was written."""
        words = repr((self._table.shape, self.absent)).encode()
        return hashlib.sha256(words + np.packbits(self._table).tobytes()).hexdigest()

    def __str__(self) -> str:
        share = "" if isinstance(self.given, Spans) else f", {100 * float(self.given.mean()):.3g} % there"
        again = "" if self.after is None else f", then {self.after}"
        return f"trace of {self.length} rounds{share}, absent: {self.absent}{again}"


def availability(
    source: str | os.PathLike[str] | Any,
    absent: Literal["undrawn", "silent"] = "undrawn",
    after: Literal["repeat", "end"] | None = None,
    names: Sequence[str] = (),
) -> Availability:
    """Who is there in which round: a CSV file, or an array of truth values, one row a round and one column a client.

    The file has a header with the columns `round, client` (who is there), `round, client, available` (1 or 0; who is not listed
    is absent) or `client, from, to` (rounds, both ends included); or `round` and one column for each client, of 0 and 1; or it
    is a bare matrix of 0 and 1. Clients are numbers 0 … m − 1, or `names` in their order.

    absent: "undrawn", who is not there cannot be drawn into a cohort and is told nothing; "silent", it is drawn as ever, is
    told the round's first message and does not answer. after: what happens when the trace is over; "repeat", it begins again;
    "end", the run ends with it; without a word a longer run is refused.

    >>> import undrift as ud
    >>> p = ud.problems.quadratic(np.ones((3, 1, 1)), np.array([[0.0], [3.0], [6.0]]))
    >>> odd = availability([[1, 1, 0], [0, 1, 1]], after="repeat")
    >>> ud.run(ud.fedsgd(eta=1.0), p, rounds=3, availability=odd, keep_iterates=True).iterates[:, 0]
    array([0. , 1.5, 4.5, 1.5])
    """
    for name, word, valid in (("absent", absent, ABSENT), ("after", after, (None, *AFTER))):
        if word not in valid:
            raise unknown(f"word for {name} of a trace", word, [one for one in valid if one])
    given = read_spans(Path(source)) if isinstance(source, str | os.PathLike) else _table(source)
    twice = next((name for name in names if list(names).count(name) > 1), None)
    if twice is not None:
        raise InputError(f"clients have different names, got {twice!r} more than once: name each once")
    return Availability(given, absent, after, tuple(names))


def _table(source: Any) -> np.ndarray:
    try:
        table = np.asarray(source)
    except ValueError:
        table = np.asarray(None)
    numbers = table.dtype.kind in "biuf" and table.ndim == 2 and table.size
    if not numbers or not np.all((table == 0) | (table == 1)):
        raise InputError(
            "a trace is a file, or an array of 0 and 1 with a row for every round and a column for every client; got "
            f"{shown(source)}"
        )
    if table.size > MOST:
        raise InputError(f"a trace has at most {MOST} entries, got {table.shape[0]} rounds of {table.shape[1]} clients")
    return table.astype(bool)
