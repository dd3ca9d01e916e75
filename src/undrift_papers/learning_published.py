"""SSL paper, its authors' program against ours: do the details that the paper does not mention change the outcome?

Their public code (liyipeng00/convergence, a later version) differs from what the paper's text alone gives in the samples of
ExDir (at least 10 a client, a cap, clients per class), the mini-batch that ends an epoch, FedAvg's weights, whose turn it is in
SSL, and the norms that are clipped there. Here all of them are changed together.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from .data import Data
from .draw import panels
from .item import Claim, Decision, Item, Scale, Setting, Work, at_least, at_most, ours, paper, reduced
from .jobs import ANEW, BY_SIZE, HALVES, SHORT, Job, finish
from .learning_table import Cell
from .ssl_settings import (
    COLOURS,
    IN_TURN,
    METHODS,
    PARALLEL,
    QUICK_STEPS,
    SEEDS,
    TABLE_7,
    digits_setting,
    image_setting,
    step_key,
    without,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IMAGES = ("mnist",)
STEPS = 10
ROUNDS, LAST = 400, 100  # accuracies are those of the last hundred rounds
OURS, THEIRS = "ours", "as published code"
LARGE_STEP = 0.1  # for FedAvg on one class a client, where table 7's is far too small
# What the published code does. {least} is a fifth of the mean number of clients that a class has.
DETAILS = {
    "partition": "exdir:{classes},10,min_size=10,min_clients={least},cap=true",
    "last_batch": SHORT,
    "FedAvg": {"weights": BY_SIZE},
    "SSL": {"turns": ANEW, "clipping": HALVES},
}


@dataclasses.dataclass(frozen=True)
class Row:
    """One method with one step on one partition; run twice, with our details and with theirs."""

    data: str
    classes: int
    method: str
    eta: float

    @property
    def label(self) -> str:
        return f"{self.data.upper()}, ExDir({self.classes}), {self.method}, η = {self.eta:g}"


def rows_of(values: dict[str, Any]) -> Iterator[Row]:
    """Everything that is run twice."""
    for data in values["data"]:
        for classes in values["classes per client"]:
            steps = values["step sizes"][step_key(data, classes, STEPS)]
            for method, etas in zip(METHODS, steps, strict=True):
                yield from (Row(data, classes, method, eta) for eta in etas)


def job_of(values: dict[str, Any], row: Row, code: str) -> Job:
    """The run of a row with our details, or with theirs."""
    (seed,) = values["seeds"]
    job = Job(
        data=row.data,
        model=values["model"],
        clients=values["clients"],
        partition=f"exdir:{row.classes},10",
        method=METHODS[row.method],
        eta=row.eta,
        steps=STEPS,
        rounds=values["rounds"],
        seed=seed,
        cohort=values["clients per round"],
        clip=values["clipping norm"].get(str(row.classes)),
        record_every=values["evaluated every"],
        batch=values["batch"],
        weight_decay=values["weight decay"],
        pixels=values["pixels"],
        images=values["images"],
    )
    if code == OURS:
        return job
    details = values["published code"]
    least = max(row.classes * job.clients // 10 // 5, 1)  # ten classes in all of these data
    differs = {**details[row.method], "last_batch": details["last_batch"]}
    if job.clip is None:
        differs.pop("clipping", None)
    return dataclasses.replace(job, partition=details["partition"].format(classes=row.classes, least=least), **differs)


def produce(work: Work) -> Data:
    """Mean and spread over the last rounds of every run."""
    names = ("data", "classes", "method", "eta", "code", "accuracy", "deviation", "evaluated")
    wanted = [(row, code) for row in rows_of(work.values) for code in (OURS, THEIRS)]
    table = []
    for number, (row, code) in enumerate(wanted):
        job = job_of(work.values, row, code)
        text = f"ssl/published-code: {row.label}, {code}"
        found = finish(job, work.jobs, work.observer(text, number * job.rounds, len(wanted) * job.rounds))
        last = 100 * found.last(work["last rounds"])
        table.append((*dataclasses.astuple(row), code, float(last.mean()), float(last.std()), last.size))
        work.progress(text, (number + 1) * job.rounds, len(wanted) * job.rounds)
    columns = {name: list(column) for name, column in zip(names, zip(*table, strict=True), strict=True)}
    return Data({"ends": columns}, work["seeds"], work.values)


def _end(data: Data, row: Row, code: str) -> tuple[float, float]:
    found = data.where("ends", **dataclasses.asdict(row), code=code)
    return float(found["accuracy"][0]), float(found["deviation"][0])


def _moves_little(row: Row, data: Data) -> Decision:
    """|theirs − ours| ≤ √(s² + s'²), s and s' the standard deviations over the last hundred rounds."""
    (own, spread), (their, other) = _end(data, row, OURS), _end(data, row, THEIRS)
    said = f"ours {own:.2f} ± {spread:.2f} %, theirs {their:.2f} ± {other:.2f} %"
    both = float(np.hypot(spread, other))
    why = f"their details move it by {their - own:+.2f} points, {abs(their - own) / both:.1f} of both spreads together"
    return at_most(abs(their - own), both, said, why)


def _same_winner(rows: tuple[Row, Row], data: Data) -> Decision:
    """The method that is ahead with our details is ahead with theirs."""
    (a, b), (c, d) = ([_end(data, row, code)[0] for row in rows] for code in (OURS, THEIRS))
    said = f"ours: FedAvg {a:.2f} %, SSL {b:.2f} %; theirs: FedAvg {c:.2f} %, SSL {d:.2f} %"
    ahead = (c / d if a > b else d / c) if min(c, d) > 0 else 0.0
    return at_least(ahead, 1.0, said, "another method is ahead with the authors' details")


def _steps(data: str, classes: int) -> list[list[float]]:
    """Of FedAvg and of SSL: table 7's, and where that starves FedAvg a larger one beside it."""
    fedavg, ssl = TABLE_7[data, classes, STEPS]
    return [[fedavg, LARGE_STEP] if classes == 1 else [fedavg], [ssl]]


def _claims(values: dict[str, Any], scales: tuple[Scale, ...]) -> tuple[Claim, ...]:
    said = "nothing of these details"
    claims = [
        Claim(
            f"{row.label}: the authors’ details together move the accuracy by no more than the spread over rounds",
            functools.partial(_moves_little, row),
            said,
            scales,
        )
        for row in rows_of(values)
    ]
    for data in values["data"]:
        for classes in values["classes per client"]:
            fedavg, ssl = values["step sizes"][step_key(data, classes, STEPS)]
            pair = Row(data, classes, PARALLEL, fedavg[-1]), Row(data, classes, IN_TURN, ssl[-1])
            sentence = f"{Cell(data, classes, STEPS).panel}: the same method is ahead with the authors’ details"
            claims.append(Claim(sentence, functools.partial(_same_winner, pair), said, scales))
    return tuple(claims)


def draw_rows(data: Data) -> Figure:
    """By how much their details move each run, in units of the spread over rounds; within the band, no more than that."""
    rows = [Row(*found) for found in dict.fromkeys(zip(*(data["ends"][k].tolist() for k in _KEYS), strict=True))]
    figure, axes = panels(1, 1, width=7.2, height=0.36 * len(rows) + 0.7)
    axis = axes[0, 0]
    axis.axvspan(-1, 1, color="#dddddd", alpha=0.6, linewidth=0)
    axis.axvline(0, color="#777777", linewidth=0.8)
    for number, row in enumerate(rows):
        (own, spread), (their, other) = _end(data, row, OURS), _end(data, row, THEIRS)
        axis.plot((their - own) / np.hypot(spread, other), number, "o", color=COLOURS[row.method], markersize=6.5)
        words = f"{own:.2f} → {their:.2f} %"
        axis.annotate(words, (1.02, number), xycoords=("axes fraction", "data"), va="center", fontsize=8.5)
    axis.set_yticks(range(len(rows)), [row.label for row in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    widest = max(2.0, 1.1 * max(abs(line) for line in np.ravel([axis.dataLim.x0, axis.dataLim.x1])))
    axis.set_xlim(-widest, widest)
    axis.set_xlabel(f"(as published code − ours) / spread over the last {data.setting['last rounds']} rounds of both")
    axis.grid(visible=True)
    axis.set_axisbelow(True)
    return figure


_KEYS = tuple(field.name for field in dataclasses.fields(Row))
_STEP_SIZES = {step_key(data, c, STEPS): _steps(data, c) for data in IMAGES for c in (1, 2)}
_QUICK_STEP_SIZES = {step_key("digits", 1, STEPS): [[eta] for eta in QUICK_STEPS[step_key("digits", 1, STEPS)]]}
_SETTING: tuple[Setting, ...] = (
    *without(image_setting(IMAGES), "step sizes", "seeds", "rounds", "local steps", "evaluated every"),
    paper("local steps", [STEPS]),
    reduced("rounds", ROUNDS, "the paper runs 1000 for ExDir(1)"),
    reduced("seeds", [SEEDS[0]]),
    ours("evaluated every", 12),
    ours("last rounds", LAST, "over which accuracies are averaged, and their spread taken"),
    ours("step sizes", _STEP_SIZES, "FedAvg, SSL: table 7; for FedAvg with ExDir(1) a larger one too"),
    ours(
        "published code", DETAILS, "read in liyipeng00/convergence; `least`: ⌊⌊C·M/10⌋/5⌋ clients that may hold a class"
    ),
)
_QUICK: tuple[Setting, ...] = (
    *without(digits_setting(), "rounds", "step sizes", "local steps"),
    reduced("classes per client", [1]),
    reduced("rounds", 100),
    reduced("last rounds", 50),
    reduced("evaluated every", 4),
    reduced("step sizes", _QUICK_STEP_SIZES, "FedAvg, SSL"),
    reduced("published code", {**DETAILS, "partition": "exdir:{classes},10,min_size=5,min_clients={least},cap=true"}),
)


def _values(settings: tuple[Setting, ...]) -> dict[str, Any]:
    return {setting.key: setting.value for setting in settings}


ITEMS = (
    Item(
        "ssl/published-code",
        "SSL: the details of the authors’ program that the paper does not mention, all together, beside ours",
        _SETTING,
        produce,
        draw_rows,
        (
            *_claims(_values(_SETTING), ("short", "paper")),
            *_claims(_values(_SETTING) | _values(_QUICK), ("quick",)),
        ),
        _QUICK,
        page_figures=lambda data: [],
    ),
)
