"""FedAvg paper, figure 4: characters by their writers, against the same samples dealt out at random."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .data import Curves, Data
from .draw import curves_figure, page_figures
from .item import Claim, Decision, Item, Work, at_least, ours, paper, reduced
from .jobs import Job, finish
from .learning_costs import costs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BY_WRITER, IID = "by writer", "iid"
PANEL = "FedAvg"


def produce(work: Work) -> Data:
    """The same samples, clients and plan, shared out in two ways."""
    curves = Curves()
    ends = []
    for number, how in enumerate((IID, BY_WRITER)):
        job = _job(work, how)
        found = finish(job, work.jobs, work.reporter(f"fedavg/fig4: {how}", number * job.rounds, 2 * job.rounds))
        curves.add(PANEL, how, 100 * found.accuracy, seed=job.seed, round=found.rounds, **costs(found))
        ends.append((how, float(100 * found.last(10).mean()), found.rounds_to(work["target accuracy"]) or -1))
    names = ("partition", "accuracy", "rounds_to")
    table = {name: list(column) for name, column in zip(names, zip(*ends, strict=True), strict=True)}
    return Data({"curves": curves.table(), "ends": table}, work["seeds"], work.values)


def _job(work: Work, how: str) -> Job:
    (seed,) = work["seeds"]
    return Job(
        data=work["data"],
        model=work["model"],
        clients=work["clients"],
        partition=work[f"partition {how}"],
        method="fedavg",
        eta=work["eta"],
        steps=work["local steps"],
        rounds=work["rounds"],
        seed=seed,
        cohort=work["clients per round"],
        record_every=work["evaluated every"],
        batch=work["batch"],
        weight_decay=0.0,
    )


def _end(data: Data, how: str) -> tuple[float, int]:
    row = data.where("ends", partition=how)
    return float(row["accuracy"][0]), int(row["rounds_to"][0])


def _slower(data: Data) -> Decision:
    (_, iid), (_, writers) = _end(data, IID), _end(data, BY_WRITER)
    target, rounds = data.setting["target accuracy"], int(np.max(data["curves"]["round"]))
    said = f"{target:.0%} in round {iid} (iid) and {writers if writers >= 0 else f'not within {rounds}'} (by writer)"
    if iid < 0:
        return Decision(False, said, 0.0, "neither reached the target in these rounds")
    later = writers if writers >= 0 else rounds
    why = "digits differ less from writer to writer than the 62 characters of FEMNIST"
    return at_least(later / iid, 1.1, said, why)


def _lower(data: Data) -> Decision:
    (iid, _), (writers, _) = _end(data, IID), _end(data, BY_WRITER)
    return at_least(iid, writers, f"{iid:.2f} % (iid), {writers:.2f} % (by writer)")


def _draw(data: Data) -> Figure:
    return curves_figure(data, y_label="test accuracy, %", methods={IID: "fedlin", BY_WRITER: "fedavg"}, log=False)


def _page(data: Data) -> list[dict[str, Any]]:
    return page_figures(data, "std", "test accuracy, %", log=False)


ITEMS = (
    Item(
        "fedavg/fig4",
        "FedAvg paper, figure 4: images by writer against the same images iid",
        (
            ours("data", "mnist-writers", "where FEMNIST is not at hand: MNIST's digits with their true writers"),
            paper("model", "femnist_cnn"),
            ours("clients", 539, "the writers of MNIST's training images"),
            ours("partition iid", "iid"),
            ours("partition by writer", "by_group"),
            paper("clients per round", 20),
            paper("local steps", 25),
            paper("eta", 0.02),
            ours("batch", 20),
            ours("rounds", 20, "the paper shows a few hundred; digits are learnt sooner than 62 characters"),
            ours("seeds", [0]),
            ours("evaluated every", 1),
            paper("target accuracy", 0.79, "of 62 classes there, of 10 here"),
        ),
        produce,
        _draw,
        (
            Claim("By writer, FedAvg needs at least a tenth more rounds to the target", _slower, "55 % more rounds to 79 %"),
            Claim("By writer, FedAvg ends lower", _lower, "a lower final accuracy"),
        ),
        (
            reduced("data", "digits", "no writers are known: two classes a client stand in for them"),
            reduced("model", "mlp"),
            reduced("clients", 50),
            reduced("partition by writer", "exdir:2,10"),
            reduced("clients per round", 10),
            reduced("eta", 0.1),
            reduced("rounds", 60),
            reduced("target accuracy", 0.9),
        ),
        page_figures=_page,
        minutes=60,
    ),
)  # fmt: skip
