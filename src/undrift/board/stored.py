"""The document inside a page.html, taken out again. A page may come from anywhere: everything in it is checked."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec

from ..progressfile import Number
from ..report.style import DASHES

LARGEST = 64 * 2**20  # bytes of a page
_DATA = re.compile(rb'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)

Colour = Annotated[str, msgspec.Meta(pattern="^#[0-9a-fA-F]{6}$")]
Uri = Annotated[str, msgspec.Meta(pattern=r"^data:image/(svg\+xml|png);base64,[A-Za-z0-9+/=]*$")]
Whole = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class Rule(msgspec.Struct):
    """A column with equal steps."""

    start: int = msgspec.field(name="from")
    step: int
    count: Annotated[int, msgspec.Meta(ge=0, le=10**7)]

    def values(self) -> list[Number]:
        return [self.start + i * self.step for i in range(self.count)]


Column = list[float | None] | Rule


class Series(msgspec.Struct):
    label: str
    x: Annotated[dict[str, Column], msgspec.Meta(min_length=1)]
    y: Column
    colour: tuple[Colour, Colour]
    kind: Literal["measured", "bound"] = "measured"
    low: Column | None = None
    high: Column | None = None
    of: int | None = None
    thin: bool = False
    dash: Annotated[str, msgspec.Meta(pattern="^[0-9. ]{0,60}$")] = ""
    variant: Annotated[int, msgspec.Meta(ge=0, lt=len(DASHES))] = 0


class Figure(msgspec.Struct):
    title: str
    series: Annotated[list[Series], msgspec.Meta(min_length=1, max_length=500)]
    note: str = ""
    y_label: str = ""
    y_scale: Literal["log", "linear"] = "log"
    x_scale: Literal["log", "linear"] | None = None
    floor: float | None = None


class Verdict(msgspec.Struct):
    headline: str = ""
    others: str = ""
    meaning: str = ""


class Lane(msgspec.Struct):
    """A client: its measures by the rounds in which they were recorded."""

    name: str
    rounds: Annotated[list[Whole], msgspec.Meta(min_length=1)]
    curves: Annotated[dict[str, list[Number]], msgspec.Meta(min_length=1)]
    mark: str = ""
    samples: Number = None
    steps: Number = None


class Lanes(msgspec.Struct):
    title: str
    lanes: Annotated[list[Lane], msgspec.Meta(min_length=1, max_length=500)]
    note: str = ""


class Setting(msgspec.Struct):
    key: str
    value: Any = None
    source: str = ""
    note: str = ""


class Claim(msgspec.Struct):
    sentence: str
    holds: bool
    measured: Any = None
    paper: Any = None
    margin: Any = None
    explanation: Any = None


class Table(msgspec.Struct):
    title: str
    columns: list[str]
    rows: list[list[Any]]
    note: str = ""


class Picture(msgspec.Struct):
    title: str
    uri: Uri
    note: str = ""


class Message(msgspec.Struct):
    contents: list[str]
    bytes: Whole
    link: str


class ExchangeRow(msgspec.Struct):
    depth: Whole
    name: str
    down: Message | None = None
    up: Message | None = None
    gradients: Whole = 0
    gradients_if_absent: Whole = 0
    is_block: bool = False
    holds_rows: bool = False


class Part(msgspec.Struct):
    title: str
    rows: list[ExchangeRow]


class Exchange(msgspec.Struct):
    label: str
    parts: list[Part]
    costs: list[str] = []


class Presence(msgspec.Struct):
    names: list[str]
    total: Whole
    round: Whole
    rounds: list[Whole]
    steps: list[list[Number]] = []
    answered: list[list[Number]] = []
    drift: list[Number] = []
    loss: list[Number] = []
    seconds: list[Number] = []
    measured: bool = False
    here: list[bool] = []
    heard: list[Number] = []
    received: list[Number] = []
    sent: list[Number] = []
    said: list[str] = []


class Document(msgspec.Struct):
    """A page as it was checked when it was written (`report.page.check`)."""

    title: str
    figures: list[Figure]
    verdict: Verdict = msgspec.field(default_factory=Verdict)
    subtitle: str = ""
    command: str = ""
    versions: dict[str, Any] = {}
    seeds: list[Any] = []
    setting: list[Setting] = []
    claims: list[Claim] = []
    lanes: list[Lanes] = []
    tables: list[Table] = []
    pictures: list[Picture] = []
    presence: Presence | None = None
    exchange: list[Exchange] = []


def document_in(page: bytes) -> dict[str, Any] | None:
    """The document of a page, as plain values; None where it is none of ours, or damaged."""
    found = _DATA.search(page)
    if found is None:
        return None
    try:
        document = msgspec.json.decode(found[1], type=Document)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if not all(_fits(series, figure) for figure in document.figures for series in figure.series):
        return None
    if not all(len(row) == len(table.columns) for table in document.tables for row in table.rows):
        return None
    if not all(_alike(lanes.lanes) for lanes in document.lanes):
        return None
    content: dict[str, Any] = msgspec.to_builtins(document)
    return content


def _fits(series: Series, figure: Figure) -> bool:
    """Whether columns are equally long, and a bound belongs to a curve that is there."""
    columns = [*series.x.values(), *(column for column in (series.low, series.high) if column is not None)]
    owner = series.of is None or 0 <= series.of < len(figure.series)
    return owner and all(_length(column) == _length(series.y) for column in columns)


def _alike(lanes: list[Lane]) -> bool:
    """Whether all lanes have the same measures, each as long as its rounds."""
    measures = list(lanes[0].curves)
    full = (len(column) == len(lane.rounds) for lane in lanes for column in lane.curves.values())
    return all(list(lane.curves) == measures for lane in lanes) and all(full)


def _length(column: Column) -> int:
    return column.count if isinstance(column, Rule) else len(column)


def values(column: Any) -> list[Number]:
    """A column of a plain document, written out."""
    if isinstance(column, dict):
        return Rule(column["from"], column["step"], column["count"]).values()
    return column
