"""FedLin, Propositions 1 and 2: a larger step distorts the problem more that FedProx and FedNova really solve.

Figure 1's two clients over the whole range of steps. Where the rounds settle is known in closed form (the minimiser of the
surrogates (3) and (5)); runs are made beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import undrift as ud

from .data import Data
from .fedlin_quadratic import X_STAR
from .item import Claim, Decision, Item, Work, at_least, at_most, ours, paper, reduced
from .lines import Lines, draw_lines, page_lines, points

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROX, NOVA, LIN = "FedProx, H = 50, β = 5", "FedNova, τ = 50 and 30", "FedLin, τ = 50 and 30"
BASELINES = (PROX, NOVA)
COLOURS = {PROX: "#CC79A7", NOVA: "#0072B2"}


def _problem() -> Any:
    return ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))


def _surrogate(work: Work, name: str, eta: float) -> Any:
    if name == PROX:
        return ud.theory.surrogate.fedprox(_problem(), eta, [work["H"]] * 2, work["beta"])
    return ud.theory.surrogate.fednova(_problem(), eta, work["unequal steps"])


def _end(work: Work, name: str, eta: float) -> tuple[float, bool]:
    """Where a run ends, and whether its last rounds still moved."""
    steps = [work["H"]] * 2 if name == PROX else work["unequal steps"]
    eta_bar = eta * float(np.mean(steps))
    method = {PROX: ud.fedprox(eta=eta, beta=work["beta"]), NOVA: ud.fednova(eta=eta), LIN: ud.fedlin(eta=eta_bar)}[
        name
    ]
    run = ud.run(method, _problem(), rounds=work["rounds"], steps=steps, keep_iterates=True, on_divergence="continue")
    assert run.iterates is not None
    last, before = float(run.iterates[-1, 0]), float(run.iterates[-20, 0])
    return last, bool(abs(last - before) <= 1e-9 * X_STAR)


def _produce(work: Work) -> Data:
    lines, found, runs = Lines(), [], []
    low, high = work["eta"]
    etas = np.geomspace(low, high, work["grid"])
    for name in BASELINES:
        made = [_surrogate(work, name, float(eta)) for eta in etas]
        settles = np.array([one.settles for one in made])
        lines.add(name, etas[settles], [one.distance for one in made if one.settles])
        found += [(name, float(eta), one.distance, one.rate, one.settles) for eta, one in zip(etas, made, strict=True)]
    for number, name in enumerate((*BASELINES, LIN)):
        for eta in work["run at"]:
            end, still = _end(work, name, eta)
            predicted = X_STAR if name == LIN else float(_surrogate(work, name, eta).x[0])
            runs.append((name, eta, end, predicted, still))
        work.progress(name, number + 1, 3)
    tables = {
        "lines": lines.table(),
        "surrogates": _columns(("method", "eta", "distance", "rate", "settles"), found),
        "runs": _columns(("method", "eta", "end", "predicted", "settled"), runs),
    }
    return Data(tables, seeds=[0])


def _columns(names: tuple[str, ...], rows: list[Any]) -> dict[str, Any]:
    return dict(zip(names, zip(*rows, strict=True), strict=True))


def _true(column: np.ndarray) -> np.ndarray:
    """Truth values, as they are before and after they were a file."""
    return np.array([str(value) == "True" for value in column])


# ---------------------------------------------------------------- what is decided
def _grows(name: str) -> Callable[[Data], Decision]:
    """From each step of the grid to the next, over all steps with which the rounds settle; equal up to rounding is allowed."""

    def decide(data: Data) -> Decision:
        eta, distance = points(data, name)
        ratio = distance[1:] / distance[:-1]
        level = eta[1:][np.abs(ratio - 1) < 1e-6]
        text = f"from {distance[0]:.1e} at η = {eta[0]:.0e} to {distance[-1]:.2f} at η = {eta[-1]:.2g}"
        if level.size:
            text += f", level from η = {level.min():.2g} to {level.max():.2g}"
        return at_least(float(ratio.min()), 1 - 1e-12, text, _where_it_falls(eta, ratio))

    return decide


def _where_it_falls(eta: np.ndarray, ratio: np.ndarray) -> str:
    falls = eta[1:][ratio < 1 - 1e-12]
    return f"it falls between η = {falls.min():.2g} and {falls.max():.2g}" if falls.size else ""


def _vanishes(data: Data) -> Decision:
    """distance/η is the same for all small steps: the distortion is of first order in η."""
    worst, said = 1.0, []
    for name in BASELINES:
        eta, distance = points(data, name)
        slope = (distance / eta)[eta <= 1.0001e-4]
        worst = max(worst, float(slope.max() / slope.min()))
        said.append(f"{slope[0]:.1f} ({name})")
    return at_most(worst, 1.05, f"distance/η for η → 0: {', '.join(said)}; it varies by {worst - 1:.1%} up to η = 1e-4")


def _ends_there(data: Data) -> Decision:
    table = data["runs"]
    mine = _true(table["settled"]) & (table["method"] != LIN)
    off = float(np.max(np.abs(table["end"] - table["predicted"])[mine]))
    return at_most(
        off, 1e-6, f"{int(mine.sum())} runs that have settled end within {off:.0e} of the minimiser of (3) or (5)"
    )


def _fedlin(data: Data) -> Decision:
    rows = data.where("runs", method=LIN)
    off = np.nan_to_num(np.abs(rows["end"] - X_STAR), nan=np.inf)
    steps = ", ".join(f"{eta:g}" for eta in rows["eta"])
    far = ", ".join(f"{eta:g}" for eta in rows["eta"][off > 1e-6])
    return at_most(float(off.max()), 1e-6, f"{off.max():.0e} from x* or less at η = {steps}", f"not at η = {far}")


def _conflict(data: Data) -> Decision:
    """Over the steps at which both are possible, a smaller factor per round goes with a larger distance."""
    worst, said = np.inf, []
    for name in BASELINES:
        rows = data.where("surrogates", method=name)
        keep = (rows["eta"] <= data.setting["conflict up to"]) & _true(rows["settles"])
        rate, distance = rows["rate"][keep].astype(float), rows["distance"][keep].astype(float)
        rounds = 1 / -np.log(rate)
        worst = min(worst, float((rounds[:-1] / rounds[1:]).min()), float((distance[1:] / distance[:-1]).min()))
        said.append(
            f"{name}: {rounds[0]:.0f} to {rounds[-1]:.1f} rounds per factor e, {distance[0]:.1e} to {distance[-1]:.2f} off"
        )
    return at_least(worst, 1, "; ".join(said))


def _draw(data: Data) -> Figure:
    from .draw import dress, legend, panels

    figure, axes = panels(1, 1, width=5.4, height=3.4)
    axis = axes[0, 0]
    draw_lines(axis, data, COLOURS)
    table = data["runs"]
    for name in BASELINES:
        mine = (table["method"] == name) & _true(table["settled"])
        axis.plot(table["eta"][mine], np.abs(table["end"][mine] - X_STAR), "o", markersize=4, color=COLOURS[name])
    axis.set_xscale("log")
    dress(axis, "where the rounds settle (dots: runs)", "step η of a client", r"distance to $x^\star$")
    legend(figure, axes)
    return figure


def _page(data: Data) -> list[dict[str, Any]]:
    return page_lines(data, "Where the rounds settle", "η", "distance to x*")


AFTER_A_FIRST_RUN = (
    '"Never closer" allows equality up to rounding since a first run, in which the distance is level for large η.'
)

PROP1 = Item(
    name="fedlin/prop1",
    remarks=lambda data, elsewhere: (AFTER_A_FIRST_RUN,),
    title="FedLin, Propositions 1 and 2: the larger the step, the farther from x* FedProx and FedNova settle",
    setting=(
        paper("f_1, f_2", "(1/2)(x − 3)², (x − 50)²", "figure 1"),
        paper("H", 50, "local steps of both clients, FedProx"),
        paper("unequal steps", [50, 30], "FedNova and FedLin"),
        paper("beta", 5.0, "FedProx"),
        ours("eta", [1e-5, 1.0], "from, to; all steps between with which the rounds settle"),
        ours("grid", 400, "steps between them"),
        ours("run at", [1e-3, 3e-3, 0.01, 0.02, 0.05, 0.1, 0.2], "steps that are run as well"),
        ours("conflict up to", 0.02, "η"),
        ours("x_0", 0.0),
        ours("rounds", 2000),
    ),
    reduced=(reduced("run at", [0.01, 0.05]),),
    produce=_produce,
    draw=_draw,
    page_figures=_page,
    claims=(
        Claim(
            "a larger η never lets FedProx settle closer to x*", _grows(PROX), "a larger η introduces more distortion"
        ),
        Claim(
            "a larger η never lets FedNova settle closer to x*", _grows(NOVA), "a larger η introduces more distortion"
        ),
        Claim(
            "as η → 0 the distance vanishes in proportion to η (within 5 %)", _vanishes, "diminishing steps are needed"
        ),
        Claim("runs end where the propositions say", _ends_there, "Propositions 1 and 2"),
        Claim("up to η = 0.02 every faster step is a less accurate one", _conflict, "a speed-accuracy conflict"),
        Claim("FedLin ends at x* with every one of these steps", _fedlin, "linear convergence to the global minimum"),
    ),
)
ITEMS = (PROP1,)
