"""FedLin's two examples in closed form: figure 1 (surrogates) and figure 5 (FedSplit)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import undrift as ud
from undrift.theory.methods.fedsplit import inner_step, prox_step

from .data import Curves, Data
from .item import Claim, Decision, Item, Work, at_least, at_most, ours, paper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EQUAL, UNEQUAL = "equal local steps, H = 50", "50 and 30 local steps"
BASELINE = {EQUAL: "FedProx", UNEQUAL: "FedNova"}
X_STAR = 103 / 3


def _figure_1(work: Work) -> Data:
    A, b = np.array([1.0, 2.0]), np.array([3.0, 100.0])
    problem = ud.problems.quadratic(A[:, None, None], b[:, None])
    eta, beta, rounds = work["eta"], work["beta"], work["rounds"]
    same, different = [work["H"]] * 2, work["unequal steps"]
    cases = {
        EQUAL: ((ud.fedprox(eta=eta, beta=beta), same), (ud.fedlin(eta=eta * work["H"]), same)),
        UNEQUAL: ((ud.fednova(eta=eta), different), (ud.fedlin(eta=eta * work["H"]), different)),
    }
    curves, ends = Curves(), []
    for number, (panel, (baseline, fedlin)) in enumerate(cases.items()):
        for series, (method, steps) in ((BASELINE[panel], baseline), ("FedLin", fedlin)):
            result = ud.run(method, problem, rounds=rounds, steps=steps, keep_iterates=True)
            assert result.iterates is not None
            curves.add_run(panel, series, np.abs(result.iterates[:, 0] - X_STAR), result.history)
            predicted = X_STAR
            if series != "FedLin":
                fedprox, fednova = ud.theory.surrogate.fedprox, ud.theory.surrogate.fednova
                surrogate = fedprox(problem, eta, steps, beta) if panel == EQUAL else fednova(problem, eta, steps)
                predicted = float(surrogate.x[0])
            ends.append((panel, series, float(result.x[0]), predicted))
        work.progress("fedlin/fig1", number + 1, len(cases))
    names = ("panel", "series", "end", "predicted")
    return Data({"curves": curves.table(), "ends": dict(zip(names, zip(*ends, strict=True), strict=True))}, seeds=[0])


def _end(data: Data, panel: str, series: str) -> tuple[float, float]:
    row = data.where("ends", panel=panel, series=series)
    return float(row["end"][0]), float(row["predicted"][0])


def _settles_at_surrogate(panel: str) -> Any:
    def decide(data: Data) -> Decision:
        end, predicted = _end(data, panel, BASELINE[panel])
        off = abs(end - predicted)
        return at_most(off, 1e-9, f"ends at {end:.6f}, the surrogate's minimiser is {predicted:.6f} ({off:.0e} apart)")

    return decide


def _misses(panel: str) -> Any:
    def decide(data: Data) -> Decision:
        end, _ = _end(data, panel, BASELINE[panel])
        return at_least(abs(end - X_STAR), 0.1, f"ends at {end:.4f}, {abs(end - X_STAR):.3f} from x* = {X_STAR:.4f}")

    return decide


def _finds(panel: str) -> Any:
    def decide(data: Data) -> Decision:
        end, _ = _end(data, panel, "FedLin")
        off = abs(end - X_STAR)
        return at_most(off, 1e-12, f"ends {off:.0e} from 103/3")

    return decide


def _draw_1(data: Data) -> Figure:
    from .draw import curves_figure

    methods = {"FedProx": "fedprox", "FedNova": "fednova", "FedLin": "fedlin"}
    return curves_figure(data, y_label=r"$|\bar{x}_t - x^\star|$", methods=methods, bottom=1e-14)


FIG1 = Item(
    revision=2,  # FedLin and FedTrack: two vectors down a round
    name="fedlin/fig1",
    title="FedLin, figure 1: FedProx and FedNova settle elsewhere, FedLin finds the minimiser",
    setting=(
        paper("f_1, f_2", "(1/2)(x − 3)², (x − 50)²"),
        paper("H", 50, "local steps of both clients, left"),
        paper("unequal steps", [50, 30], "right"),
        paper("beta", 5.0, "FedProx"),
        ours("eta", 0.01, "step of FedProx, FedNova and, as η̄ = ηH, of FedLin; the paper does not say"),
        ours("x_0", 0.0),
        ours("rounds", 120),
    ),
    quantity="distance to x*",
    produce=_figure_1,
    draw=_draw_1,
    claims=(
        Claim("FedProx settles at the minimiser of its surrogate (3)", _settles_at_surrogate(EQUAL), "Proposition 1"),
        Claim("FedNova settles at the minimiser of its surrogate (5)", _settles_at_surrogate(UNEQUAL), "Proposition 2"),
        Claim("FedProx does not find x* = 103/3", _misses(EQUAL), "does not converge to x*"),
        Claim("FedNova does not find x* = 103/3", _misses(UNEQUAL), "does not converge to x*"),
        Claim("FedLin finds x* = 103/3 with equal steps", _finds(EQUAL), "converges to x*"),
        Claim("FedLin finds x* = 103/3 with unequal steps", _finds(UNEQUAL), "converges to x*"),
    ),
)

ODD, EVEN = (1, 41), (2, 40)


def _figure_5(work: Work) -> Data:
    L, mu, rounds = work["L"], work["mu"], work["rounds"]
    A = np.array([[[L, 0.0], [0.0, mu]], [[mu, 0.0], [0.0, mu]]])
    problem = ud.problems.quadratic(A, np.array([[1.0, 1.0], [-1.0, 2.0]]))
    s, alpha = papers_choice(L, mu)
    curves = Curves()
    shown = work["e shown"]
    for number, e in enumerate(shown):
        panel = PANELS_5[e % 2]
        method = ud.fedsplit(s=s, inner_steps=e, inner_eta=alpha)
        history = ud.run(method, problem, rounds=rounds, on_divergence="continue").history
        curves.add_run(panel, f"e = {e}", np.sqrt(history["sq_distance"]), history, every=work["record every"])
        work.progress("fedlin/fig5", number + 1, len(shown))
    radii = {start: [spectral_radius(L, mu, e, start) for e in work["e"]] for start in ("prox-point", "model")}
    table = {"e": work["e"], "radius": radii["prox-point"], "radius started at x": radii["model"]}
    return Data({"curves": curves.table(), "radii": table}, seeds=[0])


PANELS_5 = ("even e: settles near x*", "odd e: diverges")


def papers_choice(L: float, mu: float) -> tuple[float, float]:
    """FedSplit's s and the size of its inner steps, as its paper takes them."""
    s = prox_step(L, mu)
    return s, inner_step(L, mu, s)


def spectral_radius(L: float, mu: float, e: int, start: str = "prox-point") -> float:
    """Of a round of FedSplit on the example, as the linear map of (z_1, z_2) in the coordinate with curvatures L and μ.

    y = p + r^e (y_0 − p) with p = u/(1 + s a) and r = 1 − α(a + 1/s), for curvature a; the round diverges where it exceeds 1.

    >>> spectral_radius(1000.0, 1.0, 1) > 1, spectral_radius(1000.0, 1.0, 2) > 1
    (True, False)
    """
    s, alpha = papers_choice(L, mu)
    x, step = np.array([0.5, 0.5]), np.zeros((2, 2))
    for i, curvature in enumerate((L, mu)):
        own = np.eye(2)[i]
        u = 2 * x - own
        prox = u / (1 + s * curvature)
        y = prox + (1 - alpha * (curvature + 1 / s)) ** e * ((u if start == "prox-point" else x) - prox)
        step[i] = own + 2 * (y - x)
    return float(np.max(np.abs(np.linalg.eigvals(step))))


def _odd_diverge(data: Data) -> Decision:
    grown = []
    for e in ODD:
        curve = data.curve(PANELS_5[1], f"e = {e}")[0]
        last = curve[-1] if np.isfinite(curve[-1]) else np.inf
        grown.append(last / curve[0])
    return at_least(min(grown), 1e3, f"‖x − x*‖ grew by the factor {min(grown):.1e} or more")


def _even_settle(data: Data) -> Decision:
    left = [data.curve(PANELS_5[0], f"e = {e}")[0] for e in EVEN]
    share = max(float(curve[-1] / curve[0]) for curve in left)
    return at_most(share, 0.5, f"‖x − x*‖ falls to {share:.2%} of its start or less")


def _all_odd(data: Data) -> Decision:
    e, radius = data["radii"]["e"], data["radii"]["radius"]
    odd, even = radius[e % 2 == 1], radius[e % 2 == 0]
    wrong = [int(k) for k, r in zip(e, radius, strict=True) if (r > 1) != (k % 2 == 1)]
    text = f"smallest radius at odd e: {odd.min():.4f}; largest at even e: {even.max():.6f}"
    return Decision(not wrong, text, float(min(odd.min(), 1 / even.max())))


def _other_start(data: Data) -> Decision:
    largest = float(np.max(data["radii"]["radius started at x"]))
    return Decision(largest < 1, f"largest radius for e = 1 … 41: {largest:.6f}", 1 / largest)


def _draw_5(data: Data) -> Figure:
    from .draw import curves_figure

    colours = {"e = 1": "fedlin", "e = 2": "scaffold", "e = 40": "fedsplit", "e = 41": "fedprox"}
    return curves_figure(data, y_label=r"$\|\bar{x}_t - x^\star\|$", methods=colours, bottom=1e-3, top=1e6)


FIG5 = Item(
    name="fedlin/fig5",
    title="FedLin, figure 5: FedSplit diverges for odd numbers of inner steps",
    setting=(
        paper("L", 1000.0),
        paper("mu", 1.0),
        paper("A_1, A_2", "diag(L, μ), diag(μ, μ)"),
        paper("B_1, B_2", "(1, 1), (−1, 2)"),
        paper("e shown", [2, 40, 1, 41], "gradient steps per proximal step"),
        paper("e", list(range(1, 42)), "decided by the spectral radius of a round"),
        paper("s, alpha", "1/√(Lμ), 2/(L + μ + 2/s)", "as in Corollary 1 of the FedSplit paper"),
        ours(
            "start of the inner steps", "u = 2x − z_i", "the point whose proximal step is taken; the paper does not say"
        ),
        ours("x_0", [0.0, 0.0]),
        ours("rounds", 2000),
        ours("record every", 1),
    ),
    quantity="distance to x*",
    produce=_figure_5,
    draw=_draw_5,
    claims=(
        Claim("FedSplit diverges for e = 1 and e = 41", _odd_diverge, "diverged for all odd e between 1 and 41"),
        Claim("FedSplit settles near x* for e = 2 and e = 40", _even_settle, "converged for some even e"),
        Claim("it diverges for every odd e from 1 to 41 and for no even one", _all_odd, "diverged for all odd e"),
        Claim("started at y = x instead, it converges for every e from 1 to 41", _other_start, None),
    ),
)
