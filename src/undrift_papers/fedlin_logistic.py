"""FedLin on logistic regression, appendix K: figures 6 and 7."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import undrift as ud

from .data import Curves, Data
from .fedlin_regression import COMPRESSION, NONE, draw_steps
from .item import Claim, Decision, Item, Work, at_least, at_most, ours, paper
from .measures import floor, straightness

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DISTANCE = r"$\|\bar{x}_t - x^\star\|^2$"
PANEL = "logistic regression, 10 clients"
PROBLEM = (
    paper("problem", "f_i(x) = Σ_j log(1 + exp(−b_j a_jᵀx))", "problem (156): no 1/n"),
    paper("clients", 10),
    paper("A_i", "500 × 100, entries N(0, 1)"),
    paper("labels", "drawn by the model (155)", "one true x for all, entries N(0, 1)"),
    paper("steps", [2, 50], "τ_i uniform on this range"),
    ours("draw of steps", "once for each client"),
    ours("seed", 0, "of data and steps"),
    ours("x_0", "0"),
)


def _problem(seed: int) -> Any:
    from undrift.studies.catalogue import logistic_synthetic

    return logistic_synthetic(data_seed=seed)


def _runs(work: Work, where: str, memory: bool, jobs: int) -> Curves:
    problem, curves = _problem(work["seed"]), Curves()
    for number, k in enumerate((None, *work["k"])):
        compressor = {} if k is None else {where: ud.top_k(k, memory=memory)}
        label = NONE if k is None else f"TOP-{k}"
        history = ud.run(
            ud.fedlin(eta=work["eta"], **compressor),
            problem,
            rounds=work["rounds"],
            steps=draw_steps(work["steps"], 10, work["seed"]),
            observe=work.observer(label, number * work["rounds"], jobs * work["rounds"]),
        ).history
        curves.add_run(PANEL, label, history["sq_distance"], history)
    return curves


def _draw(data: Data) -> Figure:
    from .draw import curves_figure

    figure = curves_figure(data, y_label=DISTANCE, methods={**COMPRESSION, "TOP-80": "scaffold", "TOP-60": "fedprox"})
    figure.set_size_inches(5.4, 3.7)
    return figure


# ---------------------------------------------------------------- figure 6
def round_factor(hessians: np.ndarray, steps: list[int], eta: float, spectra: Any = None) -> float:
    """How fast a round of FedLin contracts (or expands) errors near x*: ρ(I − mean_i(η_i P_i) H), P_i = Σ_ℓ (I − η_i H_i)^ℓ.

    Near x* FedLin is the linear map e ↦ e − mean_i(η_i P_i H) e with η_i = η̄/τ_i and the Hessians H_i at x*. `spectra`: their
    eigenvalues and eigenvectors, where they are known.

    >>> round(round_factor(np.array([[[2.0]]]), [1], 0.25), 6)
    0.5
    """
    d = hessians.shape[1]
    mean = np.zeros((d, d))
    for values, vectors, tau in zip(*(spectra or np.linalg.eigh(hessians)), steps, strict=True):
        sums = (eta / tau) * np.sum((1 - (eta / tau) * values[None, :]) ** np.arange(tau)[:, None], axis=0)
        mean += (vectors * sums) @ vectors.T / len(hessians)
    return float(np.max(np.abs(np.linalg.eigvals(np.eye(d) - mean @ hessians.mean(axis=0)))))


def _figure_6(work: Work) -> Data:
    checked = work["draws run"]
    curves = _runs(work, "down", memory=False, jobs=4)
    problem = _problem(work["seed"])
    hessians = problem.hessians(problem.optimum.x)
    spectra = np.linalg.eigh(hessians)
    table: list[tuple[int, float, float]] = []
    for seed in range(work["draws of steps"]):
        steps = draw_steps(work["steps"], 10, seed)
        factor, last = round_factor(hessians, steps, work["eta"], spectra), np.nan
        if seed < checked:
            history = ud.run(ud.fedlin(eta=work["eta"]), problem, rounds=80, steps=steps).history
            last = float(history["sq_distance"][-1] / history["sq_distance"][40])
        table.append((seed, factor, last))
        work.progress("draws of steps", 3 * work["rounds"] + (seed + 1) * work["rounds"] // 40, 4 * work["rounds"])
    names = ("seed", "factor of a round near x*", "shrinks in 40 rounds by")
    columns = dict(zip(names, zip(*table, strict=True), strict=True))
    return Data({"curves": curves.table(), "stability": columns}, seeds=[work["seed"]])


def _converge(data: Data) -> Decision:
    worst = max(float(data.curve(PANEL, s)[0, -1] / data.curve(PANEL, s)[0, 0]) for s in data.labels(PANEL))
    return at_most(worst, 1e-8, f"‖x − x*‖² falls to {worst:.0e} of its start or less")


def _linearly(data: Data) -> Decision:
    worst = min(straightness(data.curve(PANEL, s)[0], 1e-8, 1e-3) for s in data.labels(PANEL))
    return Decision(worst >= 0.99, f"R² of a line below 1e-3 of the start is {worst:.5f} or more", 0.01 / (1 - worst))


def _not_every_draw(data: Data) -> Decision:
    table = data["stability"]
    factor, shrink = table["factor of a round near x*"], table["shrinks in 40 rounds by"]
    stable = factor < 1
    ran = np.isfinite(shrink)
    agree = (shrink[ran] < 0.1) == (factor[ran] ** 80 < 0.1)
    share = float(np.mean(stable))
    text = (
        f"near x* a round contracts for {share:.0%} of {len(factor)} draws of τ (largest factor {factor.max():.2f}); "
        f"runs agree with it in {int(np.sum(agree))} of {len(agree)} draws, {int(np.sum(~stable[ran]))} of them unstable"
    )
    return Decision(bool(0.5 <= share < 1 and np.all(agree)), text, share / 0.5 if np.all(agree) else 0.0)


FIG6 = Item(
    revision=2,  # FedLin and FedTrack: two vectors down a round
    name="fedlin/fig6",
    title="FedLin, figure 6: logistic regression with TOP-k at the server",
    setting=(
        *PROBLEM,
        paper("k", [50, 25], "δ_s = 2, 4; without error feedback"),
        paper("eta", 0.15, "η̄"),
        ours("rounds", 250),
        ours("draws of steps", 40, "for how many draws of τ the printed step is stable near x*"),
        ours("draws run", 4, "of them run, to see that the linearisation is right"),
    ),
    quantity="‖x − x*‖²",
    produce=_figure_6,
    draw=_draw,
    claims=(
        Claim(
            "FedLin converges to the minimiser for δ_s = 1, 2, 4", _converge, "always converges to the true minimiser"
        ),
        Claim("once near x* it falls linearly", _linearly, None),
        Claim("the printed step is stable for most draws of τ, not for all", _not_every_draw, None),
    ),
)


# ---------------------------------------------------------------- figure 7
def _figure_7(work: Work) -> Data:
    return Data({"curves": _runs(work, "up", memory=True, jobs=3).table()}, seeds=[work["seed"]])


def _uncompressed(data: Data) -> Decision:
    curve = data.curve(PANEL, NONE)[0]
    share = float(curve[-1] / curve[0])
    return at_most(share, 1e-8, f"‖x − x*‖² falls to {share:.0e} of its start")


def _stops(data: Data) -> Decision:
    moved = [
        abs(np.log(floor(c, 50) / floor(c[:-50], 50)))
        for c in (data.curve(PANEL, s)[0] for s in data.labels(PANEL) if s != NONE)
    ]
    change = float(np.exp(max(moved)))
    return at_most(change, 1.25, f"the mean of the last 50 rounds is within {change - 1:.0%} of the 50 before")


def _grows(data: Data) -> Decision:
    floors = {s: floor(data.curve(PANEL, s)[0], 50) for s in data.labels(PANEL) if s != NONE}
    (mild, low), (strong, high) = floors.items()
    return at_least(high / low, 1.5, f"‖x − x*‖² ends at {low:.2g} with {mild} and at {high:.2g} with {strong}")


FIG7 = Item(
    revision=2,  # FedLin and FedTrack: two vectors down a round
    name="fedlin/fig7",
    title="FedLin, figure 7: logistic regression with TOP-k at the clients",
    setting=(
        *PROBLEM,
        paper("k", [80, 60], "δ_c = 1.25, 1.67; with error feedback"),
        paper("eta", 0.1, "η̄"),
        ours("rounds", 250),
    ),
    quantity="‖x − x*‖²",
    produce=_figure_7,
    draw=_draw,
    claims=(
        Claim("without compression FedLin converges to the minimiser", _uncompressed, None),
        Claim("with TOP-k at the clients it stops at a floor", _stops, "a non-vanishing convergence error"),
        Claim("the floor grows with δ_c", _grows, "increases as δ_c increases"),
    ),
)
