"""What can be reproduced: a setting, a run, a figure, and claims that the data decide."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from undrift.errors import unknown

from .data import Data
from .flags import SCALES as SCALES
from .flags import Scale as Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Source = Literal["paper", "ours", "reduced"]
BEYOND = "beyond"  # in place of a paper's name: items of our own, past the papers
LARGEST_MARGIN = 1e99  # files know no infinity
Elsewhere = Callable[[str], Data | None]  # the data of another item at full size, if they are there


@dataclasses.dataclass(frozen=True)
class Setting:
    """One number (or word, or list of them) that a run depends on, and who chose it.

    paper: the paper's text says so. ours: the paper is silent. reduced: the paper says otherwise, and this is less.
    """

    key: str
    value: Any
    source: Source
    note: str = ""

    def words(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class Decision:
    """What the data say of a claim.

    `margin` is the factor by which the measured quantity clears its threshold: the claim holds where it is at least 1.
    """

    holds: bool
    measured: str
    margin: float
    explanation: str | None = None  # why it fails, if it does; itself decided on the data


@dataclasses.dataclass(frozen=True)
class Claim:
    """A sentence in our own words, the predicate that decides it, and what the paper says or shows.

    `scales`: where it can be decided; a comparison with the paper's own figures needs the paper's own data. `ready`: whether
    all that it needs was run; until then it is not decided at all.
    """

    sentence: str
    decide: Callable[[Data], Decision]
    paper: str | None = None
    scales: tuple[Scale, ...] = SCALES
    ready: Callable[[Data], bool] = lambda data: True

    def verdict(self, data: Data) -> dict[str, Any]:
        """The decision in words, for files and pages."""
        decision = self.decide(data)
        return {
            "sentence": self.sentence,
            "holds": bool(decision.holds),
            "measured": decision.measured,
            "paper": self.paper,
            "margin": min(float(np.nan_to_num(decision.margin)), LARGEST_MARGIN),
            "explanation": decision.explanation,
        }


class Work:
    """What an item is given to work with: the values of its setting, a folder of its own, and somebody to report to."""

    def __init__(
        self,
        item: Item,
        scale: Scale,
        folder: Path,
        progress: Callable[[str, int, int], None] | None = None,
        jobs: Path | None = None,
        train: bool = True,
    ) -> None:
        self.scale: Scale = scale
        self.train = train  # else an item that can do with part of its training runs takes those that are finished
        self.jobs = folder / "jobs" if jobs is None else jobs  # training runs that several items share
        self.values = {setting.key: setting.value for setting in item.settings(scale)}
        self._folder, self._progress = folder, progress

    def __getitem__(self, key: str) -> Any:
        """The value of a setting: what is said to be run is what is run."""
        if key not in self.values:
            raise KeyError(str(unknown("setting", key, self.values)))
        return self.values[key]

    @property
    def folder(self) -> Path:
        """For what is half done: kept when the run is interrupted, removed when it is finished."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder

    def progress(self, text: str, done: int, total: int) -> None:
        """Say how far it is; also where Ctrl-C is heard."""
        if self._progress is not None:
            self._progress(text, done, total)

    def observer(self, text: str, before: int, total: int) -> Callable[[Mapping[str, Any]], None]:
        """`observe` for `ud.run`: its rounds are counted from `before`, out of `total` in all."""
        return lambda history: self.progress(text, before + len(history["loss"]) - 1, total)


@dataclasses.dataclass(frozen=True)
class Item:
    """A figure, a table or a theorem of a paper.

    `setting` is the paper's; `reduced` replaces some of it (by key) at quick scale, `short` at short scale: the paper's data
    and model with fewer rounds or seeds. An item without such a replacement is run at full size, and once. `revision` goes up
    whenever the code of `produce` changes what it computes.
    """

    name: str  # "fedlin/fig2"
    title: str
    setting: tuple[Setting, ...]
    produce: Callable[[Work], Data]
    draw: Callable[[Data], Figure]
    claims: tuple[Claim, ...]
    reduced: tuple[Setting, ...] = ()
    short: tuple[Setting, ...] = ()
    revision: int = 1
    page_figures: Callable[[Data], list[dict[str, Any]]] | None = None  # for the page; by default made from "curves"
    quantity: str = ""  # what the curves show, for the page
    log: bool = True  # … on a logarithmic axis
    finding: Callable[[Data], str] | None = None  # what came out, in a few words; by default made from the claims
    tables: Callable[[Data], list[dict[str, Any]]] = lambda data: []  # {title, note, columns, rows}, for the pages
    remarks: Callable[[Data, Elsewhere], Sequence[str]] = lambda data, elsewhere: ()  # sentences beside the claims
    full: str | None = None  # what the scale "paper" is called where it is not the paper's: other data, say

    @property
    def paper(self) -> str:
        return self.name.partition("/")[0]

    def scale(self, asked: Scale) -> Scale:
        """The scale at which it is really run."""
        return asked if self._instead(asked) else "paper"

    def _instead(self, scale: Scale) -> tuple[Setting, ...]:
        return {"quick": self.reduced, "short": self.short, "paper": ()}[scale]

    def settings(self, scale: Scale) -> tuple[Setting, ...]:
        """All settings at this scale."""
        instead = {setting.key: setting for setting in self._instead(scale)}
        known = [instead.pop(setting.key, setting) for setting in self.setting]
        return (*known, *instead.values())

    def key(self, scale: Scale) -> str:
        """Changes whenever the result may: with the setting, the scale or the revision."""
        values = {setting.key: setting.value for setting in self.settings(scale)}
        words = json.dumps([self.name, self.scale(scale), self.revision, values], sort_keys=True)
        return hashlib.sha256(words.encode()).hexdigest()[:16]


def paper(key: str, value: Any, note: str = "") -> Setting:
    """A setting that stands in the paper."""
    return Setting(key, value, "paper", note)


def ours(key: str, value: Any, note: str = "") -> Setting:
    """A setting on which the paper is silent."""
    return Setting(key, value, "ours", note)


def reduced(key: str, value: Any, note: str = "") -> Setting:
    """Less than the paper's, for quick runs."""
    return Setting(key, value, "reduced", note)


def at_most(value: float, limit: float, measured: str, explanation: str | None = None) -> Decision:
    """Holds if value ≤ limit (both positive).

    >>> at_most(2.0, 8.0, "gap 2").margin
    4.0
    """
    margin = float("inf") if value == 0 else limit / value
    return Decision(bool(value <= limit), measured, margin, None if value <= limit else explanation)


def at_least(value: float, limit: float, measured: str, explanation: str | None = None) -> Decision:
    """Holds if value ≥ limit (both positive).

    >>> at_least(2.0, 8.0, "ratio 2").holds
    False
    """
    margin = float("inf") if limit == 0 else value / limit
    return Decision(bool(value >= limit), measured, margin, None if value >= limit else explanation)
