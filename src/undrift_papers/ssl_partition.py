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


def _by_seed(data: Data, C: int, alpha: float) -> np.ndarray:
    """The mean total variation between two clients' labels, for every seed."""
    found = []
    for seed in data.seeds:
        counts = _counts(data, C, alpha, seed)
        shares = counts / counts.sum(axis=1, keepdims=True)
        found.append(np.mean([0.5 * np.abs(p - q).sum() for p, q in itertools.combinations(shares, 2)]))
    return np.array(found)


def _errors_apart(less: np.ndarray, more: np.ndarray, paired: bool = False) -> float:
    """By how many standard errors the mean of `more` lies above that of `less`.

    `paired`: of the differences seed by seed, where partitions of one seed share which classes a client has.
    """
    spread = (more - less).std(ddof=1) if paired else np.hypot(less.std(ddof=1), more.std(ddof=1))
    return float((more.mean() - less.mean()) / max(spread / np.sqrt(len(less)), 1e-12))


def _one_label_each(data: Data) -> Decision:
    held = [
        (_counts(data, 1, alpha, seed) > 0).sum(axis=axis).max()
        for alpha, seed, axis in itertools.product(data.setting["alpha"], data.seeds, (0, 1))
    ]
    return at_most(
        int(max(held)), 1, f"at C = 1 a client has {max(held)} label and a label {max(held)} client, for every α"
    )


def _left_to_right(data: Data) -> Decision:
    alphas = data.setting["alpha"]
    rows = {C: [_by_seed(data, C, alpha) for alpha in alphas] for C in data.setting["C"] if C > 1}
    pairs = [pair for row in rows.values() for pair in itertools.pairwise(row)]
    least, alone = (min(_errors_apart(*pair, paired) for pair in pairs) for paired in (True, False))
    said = "; ".join(f"C = {C}: {', '.join(f'{d.mean():.3f}' for d in row)}" for C, row in rows.items())
    text = f"mean distance of two clients' labels, left to right: {said}; {least:.1f} standard errors ({alone:.1f} unpaired)"
    return at_least(max(least, 0.0), 2, text, "neighbouring values of α differ by less than the draws of the partition")


def _top_to_bottom(data: Data) -> Decision:
    Cs, alphas = data.setting["C"], data.setting["alpha"]
    pairs = [(a, C, D) for a in alphas for C, D in itertools.pairwise(Cs)]
    least = min(_errors_apart(_by_seed(data, D, a), _by_seed(data, C, a)) for a, C, D in pairs)
    said = f"from each C to the next the distance falls by {least:.1f} standard errors or more"
    return at_least(max(least, 0.0), 2, said, "neighbouring values of C differ by less than the draws of the partition")


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
        Claim(
            "with C = 1 there is only one result: a label for each client",
            _one_label_each,
            "these partitions are the same",
        ),
        Claim(
            "heterogeneity grows as α falls, for C > 1, by two standard errors (paired by seed)",
            _left_to_right,
            "increases from left to right",
        ),
        Claim("heterogeneity falls as C grows, by two standard errors", _top_to_bottom, None),
    ),
)
ITEMS = (FIG5,)
