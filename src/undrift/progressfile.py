"""The file progress.jsonl of a run that is going on: what somebody who watches wants to know, appended as it happens.

Nothing depends on it: it is not needed to resume, it goes when the run has ended, and a disk that refuses it ends the file and
not the run. The first line says what run it is; every other one adds to it (`Line`). A run that is resumed writes it anew, from
what is certain. Readers leave out a last line that is not whole yet.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Annotated, Any

import msgspec

from . import files

NAME = "progress.jsonl"
FORMAT = 1
EVERY_ROUND = 8192  # rounds that are all written; of later ones every second, every fourth, …

Word = Annotated[str, msgspec.Meta(max_length=400)]
Prose = Annotated[str, msgspec.Meta(max_length=4000)]
Round = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Number = int | float | None
Few = Annotated[list[Word], msgspec.Meta(max_length=64)]


class Curve(msgspec.Struct, omit_defaults=True):
    """A method that is run, or what is promised of it (`of`: the label of the method)."""

    label: Word
    method: Word = ""  # its name, or the colour that it has
    of: Word | None = None
    thin: bool = False
    pooled: bool = False  # whether all data are in one place


class Claim(msgspec.Struct, omit_defaults=True):
    """What became of a guarantee so far."""

    sentence: Prose
    holds: bool
    measured: Prose | None = None
    margin: float | None = None


class Clients(msgspec.Struct, omit_defaults=True):
    """What is known of clients or sites since the line before; lists have one entry each, or none."""

    names: Few
    total: Round  # how many there are, of whom these are the first
    round: Round
    steps: list[Number] = []  # local steps, the mean of those rounds
    answered: list[Number] = []  # the share of the rounds they were asked in; None: in none
    drift: list[Number] = []  # ‖y_i − ȳ‖ in the last round
    loss: list[Number] = []
    seconds: list[Number] = []  # that an answer takes
    measured: bool = False  # whether those seconds are by the clock, else by the rates of the plan
    here: list[bool] = []  # connected now
    heard: list[Number] = []  # seconds since the last word
    received: list[Number] = []  # bytes
    sent: list[Number] = []
    said: list[Word] = []


class Head(msgspec.Struct, omit_defaults=True):
    """The first line."""

    format: int = msgspec.field(name="undrift progress")
    command: Word  # run, compare, serve
    began: float  # by the clock
    rounds: Round
    title: Word
    subtitle: Prose = ""
    line: Prose = ""  # the command line
    versions: dict[str, Word] = {}
    seeds: list[int] = []
    setting: list[dict[str, Any]] = []
    curves: Annotated[list[Curve], msgspec.Meta(max_length=64)] = []
    targets: dict[str, float] = {}  # column -> value at which a rule ends the run
    exchange: list[dict[str, Any]] = []  # the round as messages, see `report.exchanges`


class Line(msgspec.Struct, omit_defaults=True):
    """Any other line."""

    at: float  # by the clock
    curve: Word | None = None  # whose rounds these are
    round: list[Round] = []
    columns: dict[str, list[Number]] = {}
    played: Round | None = None  # rounds of this curve, where its numbers are not known yet
    bounds: Annotated[list[Curve], msgspec.Meta(max_length=64)] | None = None  # their values are columns: "bound 0", …
    claims: Annotated[list[Claim], msgspec.Meta(max_length=64)] | None = None
    clients: Clients | None = None


def stride(round: int) -> int:
    """Of how many rounds one is written, at this one: the file grows with the logarithm of a long run.

    >>> [stride(t) for t in (0, 8191, 16384, 100_000)]
    [1, 1, 4, 16]
    """
    return 1 << (round // EVERY_ROUND).bit_length()


class Writer:
    """Writes the file in a directory that belongs to this process, as a context."""

    def __init__(self, folder: Path, head: Head) -> None:
        self.path, self.head = folder / NAME, head
        self._handle: int | None = None
        self._refused = False

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: Any) -> None:
        self._close()

    def begin(self, lines: list[Line] | None = None) -> None:
        """Put the head and these lines in place of whatever is there."""
        self._close()
        with self._forgiving():
            content = b"".join(msgspec.json.encode(one) + b"\n" for one in [self.head, *(lines or [])])
            files.write_bytes(self.path, content)
            self._handle = os.open(self.path, os.O_WRONLY | os.O_APPEND)

    def add(self, **words: Any) -> None:
        """Append a line, which is not brought to the disk: whoever watches reads it from memory."""
        if self._handle is None or self._refused:
            return
        with self._forgiving():
            left = msgspec.json.encode(Line(time.time(), **words)) + b"\n"
            while left:
                left = left[os.write(self._handle, left) :]

    @contextlib.contextmanager
    def _forgiving(self) -> Any:
        """A refusal of the disk ends the file: half a line may stand there, and nothing comes behind it."""
        try:
            yield
        except OSError:
            self._refused = True
            self._close()

    def _close(self) -> None:
        if self._handle is not None:
            handle, self._handle = self._handle, None
            with contextlib.suppress(OSError):
                os.close(handle)
