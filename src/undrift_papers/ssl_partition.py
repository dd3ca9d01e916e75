"""SSL, figure 5: what ExDir(C, α) makes of MNIST with ten clients. Nothing is trained."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

import undrift as ud

from .data import Data
from .item import Claim, Decision, Item, Work, at_least, at_most, ours, paper, reduced

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _produce(work: Work) -> Data:
    labels = np.asarray(ud.data.load(work["data"]).train.y)
    cells: list[tuple[int, float, int, int, int, int]] = []
    measures = []
    cases = [(C, alpha) for C in work["C"] for alpha in work["alpha"]]
    for number, (C, alpha) in enumerate(cases):
        spread = []
        for seed in work["seeds"]:
            parts = ud.data.exdir(labels, clients=work["clients"], classes=C, alpha=alpha, seed=seed)
            found = ud.data.describe(parts, labels)
            spread.append(float(found.pairwise))
            cells += [
                (C, alpha, seed, client, label, int(count))
                for client, row in enumerate(found.counts)
                for label, count in enumerate(row)
            ]
        measures.append((C, alpha, float(np.mean(spread)), float(np.min(spread)), float(np.max(spread))))
        work.progress(f"ExDir({C}, {alpha:g})", number + 1, len(cases))
    counts = dict(zip(("C", "alpha", "seed", "client", "label", "samples"), zip(*cells, strict=True), strict=True))
    table = dict(zip(("C", "alpha", "distance", "least", "most"), zip(*measures, strict=True), strict=True))
    sizes = {"label": np.arange(labels.max() + 1), "samples": np.bincount(labels)}
    return Data({"counts": counts, "heterogeneity": table, "labels": sizes}, seeds=work["seeds"])


def _counts(data: Data, C: int, alpha: float, seed: int) -> np.ndarray:
    """(clients, labels)."""
    rows = data.where("counts", C=C, alpha=alpha, seed=seed)
    return np.asarray(rows["samples"]).reshape(data.setting["clients"], -1)


def _distances(data: Data, C: int) -> np.ndarray:
    return np.array([float(data.where("heterogeneity", C=C, alpha=a)["distance"][0]) for a in data.setting["alpha"]])


def _every_sample_once(data: Data) -> Decision:
    off = 0
    for C, alpha, seed in itertools.product(data.setting["C"], data.setting["alpha"], data.seeds):
        off = max(off, int(np.abs(_counts(data, C, alpha, seed).sum(axis=0) - data["labels"]["samples"]).max()))
    return at_most(off, 0, f"in every partition each label's samples are shared out whole (largest difference {off})")


def _one_label_each(data: Data) -> Decision:
    held = [
        (_counts(data, 1, alpha, seed) > 0).sum(axis=axis).max()
        for alpha, seed, axis in itertools.product(data.setting["alpha"], data.seeds, (0, 1))
    ]
    return at_most(
        int(max(held)), 1, f"at C = 1 a client has {max(held)} label and a label {max(held)} client, for every α"
    )


def _left_to_right(data: Data) -> Decision:
    rows = {C: _distances(data, C) for C in data.setting["C"] if C > 1}
    factor = min(float(np.min(row[1:] / row[:-1])) for row in rows.values())
    said = "; ".join(f"C = {C}: {', '.join(f'{d:.3f}' for d in row)}" for C, row in rows.items())
    return at_least(factor, 1.001, f"mean distance of two clients' label distributions, left to right: {said}")


def _top_to_bottom(data: Data) -> Decision:
    columns = np.stack([_distances(data, C) for C in data.setting["C"]])
    factor = float(np.min(columns[:-1] / columns[1:]))
    return at_least(factor, 1.01, f"from each C to the next the distance falls by the factor {factor:.2f} or more")


def _draw(data: Data) -> Figure:
    from .draw import panels

    Cs, alphas, seed = data.setting["C"], data.setting["alpha"], data.seeds[0]
    figure, axes = panels(len(Cs), len(alphas), width=3.1, height=2.6, sharex=True, sharey=True)
    top = int(data["labels"]["samples"].max())
    for (C, alpha), axis in zip(itertools.product(Cs, alphas), axes.flat, strict=True):
        counts = _counts(data, C, alpha, seed).T
        axis.imshow(counts, cmap="Blues", vmin=0, vmax=top, origin="lower", aspect="auto")
        for (label, client), count in np.ndenumerate(counts):
            ink = "white" if count > 0.55 * top else "#22313f" if count else "#C4CCD4"
            axis.text(client, label, int(count), ha="center", va="center", fontsize=4.6, color=ink)
        axis.set_title(f"ExDir({C}, {alpha:g})", color="#333333")
        axis.set_xticks(range(counts.shape[1]))
        axis.set_yticks(range(counts.shape[0]))
    figure.supxlabel("client", fontsize=9)
    figure.supylabel("label", fontsize=9)
    return figure


def _page(data: Data) -> list[dict[str, Any]]:
    order = np.argsort(data.setting["alpha"])
    x = {"alpha": [float(data.setting["alpha"][i]) for i in order]}
    series = [
        {
            "label": f"C = {C}",
            "kind": "measured",
            "x": x,
            "y": _distances(data, C)[order].tolist(),
            "low": None,
            "high": None,
        }
        for C in data.setting["C"]
    ]
    title, y_label = "How far two clients' labels lie apart", "mean total variation"
    return [{"title": title, "note": "", "y_label": y_label, "y_scale": "linear", "x_scale": "log", "series": series}]


FIG5 = Item(
    name="ssl/fig5",
    title="SSL, figure 5: partitions by ExDir(C, α) on ten clients",
    setting=(
        paper("data", "mnist"),
        paper("clients", 10),
        ours("C", [1, 2, 5, 10], "rows; the picture's labels are not in our copy, the first row is C = 1"),
        ours("alpha", [100.0, 10.0, 1.0], "columns"),
        ours("seeds", list(range(10)), "of the partition; the first is drawn, the measures are means"),
    ),
    reduced=(reduced("data", "digits", "embedded, 1,437 samples"),),
    produce=_produce,
    draw=_draw,
    page_figures=_page,
    claims=(
        Claim("every sample goes to exactly one client", _every_sample_once, None),
        Claim(
            "with C = 1 there is only one result: a label for each client",
            _one_label_each,
            "these partitions are the same",
        ),
        Claim("heterogeneity grows as α falls, for C > 1", _left_to_right, "increases from left to right"),
        Claim("heterogeneity falls as C grows", _top_to_bottom, None),
    ),
)
ITEMS = (FIG5,)
