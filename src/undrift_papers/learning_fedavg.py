"""FedAvg paper, figure 4: characters by their writers, against the same samples dealt out at random."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .data import Curves, Data
from .draw import curves_figure, page_figures
from .item import Claim, Decision, Item, Scale, Work, at_least, ours, paper, reduced
from .jobs import Job, finish
from .learning_costs import costs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BY_WRITER, BY_CLASS, IID = "by writer", "two classes a client", "iid"
PANEL = "FedAvg"
WITH_WRITERS: tuple[Scale, ...] = ("short", "paper")
WITHOUT_WRITERS: tuple[Scale, ...] = ("quick",)


def produce(work: Work) -> Data:
    """The same samples, clients and plan, shared out in two ways."""
    curves = Curves()
    ends = []
    for number, how in enumerate((IID, work["clients differ"])):
        job = _job(work, how)
        found = finish(job, work.jobs, work.observer(f"fedavg/fig4: {how}", number * job.rounds, 2 * job.rounds))
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
        partition=work["partitions"][how],
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
    how = data.setting["clients differ"]
    (_, iid), (_, apart) = _end(data, IID), _end(data, how)
    target, rounds = data.setting["target accuracy"], int(np.max(data["curves"]["round"]))
    said = f"{target:.0%} in round {iid} (iid) and {apart if apart >= 0 else f'not within {rounds}'} ({how})"
    if iid < 0:
        return Decision(False, said, 0.0, "neither reached the target in these rounds")
    later = apart if apart >= 0 else rounds
    why = "digits differ less from writer to writer than the 62 characters of FEMNIST"
    return at_least(later / iid, 1.1, said, why)


def _lower(data: Data) -> Decision:
    how = data.setting["clients differ"]
    (iid, _), (apart, _) = _end(data, IID), _end(data, how)
    return at_least(iid, apart, f"{iid:.2f} % (iid), {apart:.2f} % ({how})")


def _claims() -> tuple[Claim, ...]:
    claims = []
    for how, scales in ((BY_WRITER, WITH_WRITERS), (BY_CLASS, WITHOUT_WRITERS)):
        more = f"Clients that differ ({how}): FedAvg needs at least a tenth more rounds to the target"
        claims.append(Claim(more, _slower, "55 % more rounds to 79 % by writer", scales))
        lower = f"Clients that differ ({how}): FedAvg ends lower"
        claims.append(Claim(lower, _lower, "a lower final accuracy by writer", scales))
    return tuple(claims)


def _draw(data: Data) -> Figure:
    methods = {IID: "fedlin", data.setting["clients differ"]: "fedavg"}
    return curves_figure(data, y_label="test accuracy, %", methods=methods, log=False)


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
            paper("clients differ", BY_WRITER),
            ours("partitions", {IID: "iid", BY_WRITER: "by_group"}),
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
        _claims(),
        (
            reduced("data", "digits", "no writers are known: two classes a client stand in for them"),
            reduced("model", "mlp"),
            reduced("clients", 50),
            reduced("clients differ", BY_CLASS),
            reduced("partitions", {IID: "iid", BY_CLASS: "exdir:2,10"}),
            reduced("clients per round", 10),
            reduced("eta", 0.1),
            reduced("rounds", 60),
            reduced("target accuracy", 0.9),
        ),
        page_figures=_page,
        full="in full, on stand-in data",
    ),
)  # fmt: skip
