"""Beyond the papers: does the correction help sequential FL on images, with mini-batches? A reduced setting of the SSL paper's.

Mini-batches make c_i a noisy estimate, and a network has no single x*: neither is covered by what holds for exact gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import undrift as ud

from .beyond_sequence import CORRECTED, LOOKS, PLAIN
from .data import Curves, Data
from .item import Claim, Decision, Item, Work, at_least, ours, paper, reduced
from .jobs import STANDARD, UNIT, Job, build_problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTINGS: dict[str, dict[str, Any]] = {PLAIN: {}, CORRECTED: {"corrected": True}}
POINT = 0.01  # of accuracy


def _problem(work: Work, classes: int, seed: int) -> Any:
    # Only what a problem depends on; the method and its numbers are this item's own.
    job = Job(
        work["data"], work["model"], work["clients"], f"exdir:{classes},{work['alpha']}", "sequential_fl", 1.0, 1, 1,
        seed, batch=work["batch"], pixels=work["pixels"],
    )  # fmt: skip
    return build_problem(job)


def _panel(classes: int) -> str:
    return f"{classes} class{'es' if classes > 1 else ''} a client"


def _produce(work: Work) -> Data:
    curves, ends = Curves(), []
    cases = [(c, s, label, eta) for c in work["C"] for s in work["seeds"] for label in SETTINGS for eta in work["eta"]]
    problems: dict[tuple[int, int], Any] = {}
    for number, (classes, seed, label, eta) in enumerate(cases):
        if (classes, seed) not in problems:
            problems = {(classes, seed): _problem(work, classes, seed)}
        result = ud.run(
            ud.sequential_fl(eta=eta, **SETTINGS[label]),
            problems[classes, seed],
            rounds=work["rounds"],
            steps=work["K"],
            participation=ud.plan.permuted(work["clients per round"]),
            seed=seed,
            record_every=work["evaluated every"],
            on_divergence="continue",
        )
        accuracy = result.history["accuracy"]
        seen = np.flatnonzero(np.isfinite(accuracy))
        last = float(np.mean(accuracy[seen[seen > work["rounds"] - work["last"]]]))
        ends.append((classes, seed, label, eta, last))
        curves.add(_panel(classes), f"{label}, η = {eta:g}", accuracy[seen], seed=seed, round=seen)
        work.progress(f"C = {classes}, {label}, η = {eta:g}", number + 1, len(cases))
    names = ("C", "seed", "series", "eta", "accuracy")
    return Data(
        {"curves": curves.table(), "ends": dict(zip(names, zip(*ends, strict=True), strict=True))}, seeds=work["seeds"]
    )


def _best(data: Data, classes: int, label: str) -> tuple[float, float]:
    """(mean accuracy over seeds, step) at its best step."""
    rows = data.where("ends", C=classes, series=label)
    means = {eta: float(np.mean(rows["accuracy"][rows["eta"] == eta])) for eta in np.unique(rows["eta"]).tolist()}
    eta = max(means, key=lambda eta: means[eta])
    return means[eta], eta


def _helps(classes: int) -> Callable[[Data], Decision]:
    def decide(data: Data) -> Decision:
        (own, step), (plain, other) = (_best(data, classes, label) for label in (CORRECTED, PLAIN))
        same = []
        for eta in data.setting["eta"]:
            pair = [np.mean(data.where("ends", C=classes, series=s, eta=eta)["accuracy"]) for s in (CORRECTED, PLAIN)]
            same.append(f"{pair[0]:.1%} against {pair[1]:.1%} at η = {eta:g}")
        said = (
            f"{own:.1%} (η = {step:g}) against {plain:.1%} (η = {other:g}), each at its best; {', '.join(same)}; "
            f"{len(data.seeds)} seed(s)"
        )
        return at_least(max(own - plain, 1e-9), POINT, said, "the difference is below a point, or has the other sign")

    return decide


def _does_no_harm(data: Data) -> Decision:
    worst = min(_best(data, c, CORRECTED)[0] - _best(data, c, PLAIN)[0] for c in data.setting["C"])
    return at_least(1 + worst, 1 - POINT, f"the largest loss of accuracy at the best step is {max(-worst, 0):.1%}")


def _draw(data: Data) -> Figure:
    from .draw import curves_figure

    looks = {f"{label}, η = {eta:g}": LOOKS[label] for label in SETTINGS for eta in data.setting["eta"]}
    return curves_figure(data, y_label="test accuracy", methods=looks, log=False)


ITEM = Item(
    name="beyond/sequence-images",
    title="Beyond: sequential FL with control variates on MNIST, mini-batches and few classes a client",
    setting=(
        paper("data", "mnist", "SSL paper, table 3"),
        paper("model", "lenet5"),
        reduced("clients", 50, "the paper has 500"),
        paper("clients per round", 10, "one permutation of all clients over five rounds"),
        ours("C", [1, 2, 5], "classes a client, ExDir(C, α)"),
        paper("alpha", 10),
        paper("K", 10, "local steps"),
        paper("batch", 20),
        ours("pixels", STANDARD),
        ours("weight decay", 0, "the paper has 1e-4"),
        ours("eta", [0.01, 0.03], "grid of step sizes"),
        reduced("rounds", 60, "the paper has 400 to 1000"),
        reduced("seeds", [0], "the paper has three"),
        ours("evaluated every", 4),
        ours("last", 20, "accuracies are means over the evaluated ones of so many last rounds"),
    ),
    reduced=(
        reduced("data", "digits"),
        reduced("model", "mlp"),
        reduced("clients", 20),
        reduced("clients per round", 5),
        reduced("pixels", UNIT),
        reduced("eta", [0.1, 0.3]),
        reduced("rounds", 80),
        reduced("seeds", [0, 1, 2]),
    ),
    quantity="test accuracy",
    log=False,
    produce=_produce,
    draw=_draw,
    claims=(
        *(Claim(f"the correction gains a point of accuracy, {_panel(c)}", _helps(c), None) for c in (1, 2, 5)),
        Claim("the correction costs no point of accuracy", _does_no_harm, None),
    ),
)
ITEMS = (ITEM,)
