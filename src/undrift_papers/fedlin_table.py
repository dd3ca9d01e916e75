"""FedLin, table 1: which methods converge linearly to x* under objective heterogeneity, and with unequal local steps.

Decided on random strongly convex problems, by runs with one constant step and, over all steps, by the point at which the
rounds settle (in closed form, `ud.theory.round_map`). The column of lower bounds is about the literature (FedLin's own is
decided by fedlin/thm5), and so are the crosses of the column of compression.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import undrift as ud
from undrift.theory import round_map

from .beyond_problems import Case, case
from .data import Data
from .fedlin_quadratic import papers_choice
from .item import Claim, Decision, Item, Work, at_least, at_most, ours, reduced
from .measures import straightness

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EQUAL, UNEQUAL = "equal local steps", "unequal local steps"
SPLIT, EXACT_SPLIT, SPARSE = "FedSplit", "FedSplit, exact proximal steps", "FedLin, TOP-1 at the server"
BIASED, CORRECTED = ("FedAvg", "FedProx", "FedNova", SPLIT), ("SCAFFOLD", "FedLin")
BOTH_STEPS = ("FedAvg", "FedProx", "FedNova", "SCAFFOLD", "FedLin", SPARSE)  # FedSplit takes no notice of τ_i
ROWS = ("FedAvg", "FedProx", "FedNova", SPLIT, EXACT_SPLIT, "SCAFFOLD", "FedLin", SPARSE)


def _method(work: Work, name: str, one: Case, eta_bar: float, steps: Sequence[int]) -> Any:
    """At η̄ in units of 1/L: FedLin's clients take η̄/τ_i, those of the others η̄/max τ."""
    eta, s_alpha = eta_bar / (one.L * max(steps)), papers_choice(one.L, one.mu)
    make: dict[str, Callable[[], Any]] = {
        "FedAvg": lambda: ud.fedavg(eta=eta),
        "FedProx": lambda: ud.fedprox(eta=eta, beta=work["beta"] * one.L),
        "FedNova": lambda: ud.fednova(eta=eta),
        SPLIT: lambda: ud.fedsplit(s=s_alpha[0], inner_steps=work["e"], inner_eta=s_alpha[1]),
        EXACT_SPLIT: lambda: ud.fedsplit(s=s_alpha[0]),
        "SCAFFOLD": lambda: ud.scaffold(eta=eta),
        "FedLin": lambda: ud.fedlin(eta=eta_bar / one.L),
        SPARSE: lambda: ud.fedlin(eta=_sparse_bound(one, steps).numbers["eta"], down=ud.top_k(1, memory=False)),
    }
    return make[name]()


def _sparse_bound(one: Case, steps: Sequence[int]) -> Any:
    """Theorem 6 for TOP-1."""
    return ud.theory.fedlin.server_sparse(ud.theory.constants(one.problem), delta=one.problem.dim, steps=list(steps))


def _limit(work: Work, name: str, one: Case, eta_bar: float) -> float:
    """‖lim x_t − x*‖/‖x*‖ with the problem's unequal steps; NaN where the rounds do not settle."""
    eta, steps = eta_bar / (one.L * max(one.steps)), one.steps
    found = {
        "FedAvg": lambda: round_map.fedavg(one.problem, eta, steps),
        "FedProx": lambda: round_map.fedprox(one.problem, eta, steps, work["beta"] * one.L),
        "FedNova": lambda: round_map.fednova(one.problem, eta, steps),
        "SCAFFOLD": lambda: round_map.scaffold(one.problem, eta, steps),
        "FedLin": lambda: round_map.fedlin(one.problem, eta_bar / one.L, steps),
    }[name]()
    x = np.asarray(one.problem.optimum.x)
    return float(np.linalg.norm(found.limit - x) / np.linalg.norm(x)) if found.spectral_radius < 1 else np.nan


def _produce(work: Work) -> Data:
    runs, limits = [], []
    for number in range(work["problems"]):
        one = case("quadratic", number)
        plans = {EQUAL: [work["H"]] * one.problem.clients, UNEQUAL: one.steps}
        for name in ROWS:
            for plan, steps in plans.items():
                if plan == UNEQUAL and name not in BOTH_STEPS:
                    continue
                method = _method(work, name, one, work["eta"], steps)
                rounds = work["rounds of TOP-1"] if name == SPARSE else work["rounds"]
                run = ud.run(method, one.problem, rounds=rounds, steps=steps)
                kept = ud.theory.check(run, _sparse_bound(one, steps)).holds if name == SPARSE else True
                curve = run.history["sq_distance"]
                late = float(curve[-1] / curve[len(curve) * 3 // 4])
                line = straightness(curve, 1e-18, 1e-3)
                runs.append((number, name, plan, float(curve[-1] / curve[0]), late, line, kept))
        for name in BOTH_STEPS[:-1]:
            limits += [(number, name, eta, _limit(work, name, one, eta)) for eta in work["limits at"]]
        work.progress("problems", number + 1, work["problems"])
    run_names = ("problem", "method", "steps", "end", "last quarter", "straight", "bound holds")
    tables = {"runs": _columns(run_names, runs), "limits": _columns(("problem", "method", "eta", "distance"), limits)}
    return Data(tables, seeds=range(work["problems"]))


def _columns(names: tuple[str, ...], rows: list[Any]) -> dict[str, Any]:
    return dict(zip(names, zip(*rows, strict=True), strict=True))


# ---------------------------------------------------------------- what is decided
GOAL, LINE = 1e-18, 0.95  # of the squared distance at the start; R² of a line through its logarithm
MOVES = 1.01  # factor by which ‖x − x*‖² may change in the last quarter of the rounds if it has stopped


def _linear(name: str, plan: str = EQUAL) -> Callable[[Data], Decision]:
    """✓: every run falls to rounding, along a line."""

    def decide(data: Data) -> Decision:
        rows = data.where("runs", method=name, steps=plan)
        worst, line = float(rows["end"].max()), float(np.nan_to_num(rows["straight"].astype(float)).min())
        text = f"‖x − x*‖² falls to {worst:.0e} of its start or less in {len(rows['end'])} problems, R² of a line ≥ {line:.3f}"
        return Decision(worst <= GOAL and line >= LINE, text, min(GOAL / worst, (1 - LINE) / max(1 - line, 1e-9)))

    return decide


def _elsewhere(data: Data) -> Decision:
    """✗: every run stops, away from x*."""
    said, ends, moved = [], [], []
    for name in BIASED:
        rows = data.where("runs", method=name, steps=EQUAL)
        ends.append(float(rows["end"].min()))
        moved.append(float(np.max(np.exp(np.abs(np.log(rows["last quarter"]))))))
        said.append(f"{name} {rows['end'].min():.0e} to {rows['end'].max():.0e}")
    text = f"‖x − x*‖² stops at these shares of its start: {', '.join(said)}; "
    text += f"in the last quarter it changes by {max(moved) - 1:.1%} at most"
    return Decision(min(ends) > GOAL and max(moved) <= MOVES, text, min(min(ends) / GOAL, MOVES / max(moved)))


def _vanishing(data: Data, name: str) -> tuple[float, float]:
    """The distance of the limit to x*: the largest at the smallest step, and the largest at the largest one."""
    rows = data.where("limits", method=name)
    small, large = rows["eta"].min(), rows["eta"].max()
    return float(rows["distance"][rows["eta"] == small].max()), float(rows["distance"][rows["eta"] == large].max())


ALLOWED = 0.01  # ‖lim x_t − x*‖/‖x*‖ at η̄ = 1e-3/L


def _copes(*names: str) -> Callable[[Data], Decision]:
    """✓ in the third column: with unequal τ_i the limit tends to x* as η → 0."""

    def decide(data: Data) -> Decision:
        far = {name: _vanishing(data, name)[0] for name in names}
        said = ", ".join(f"{name} {value:.1e}" for name, value in far.items())
        return at_most(max(far.values()), ALLOWED, f"‖lim x_t − x*‖/‖x*‖ at η̄ = 1e-3/L: {said}")

    return decide


def _copes_not(*names: str) -> Callable[[Data], Decision]:
    """✗ in the third column: it does not."""

    def decide(data: Data) -> Decision:
        far = {name: _vanishing(data, name)[0] for name in names}
        said = ", ".join(f"{name} {value:.1e}" for name, value in far.items())
        why = (
            "the cross says that SCAFFOLD's paper has no analysis of it. The method itself copes: its corrections vanish at x* "
            "for any τ_i, and its runs with unequal steps end "
            f"at {data.where('runs', method='SCAFFOLD', steps=UNEQUAL)['end'].max():.0e} of the start or less."
        )
        return at_least(min(far.values()), ALLOWED, f"‖lim x_t − x*‖/‖x*‖ at η̄ = 1e-3/L: {said}", why)

    return decide


def _sparse(data: Data) -> Decision:
    rows = data.where("runs", method=SPARSE)
    kept = np.array([str(value) == "True" for value in rows["bound holds"]])
    worst, line = float(rows["end"].max()), float(rows["straight"].astype(float).min())
    text = (
        f"‖x − x*‖² falls to {worst:.0e} of its start or less, R² of a line ≥ {line:.3f}; Theorem 6's bound holds in "
    )
    text += f"{int(kept.sum())} of {len(kept)} runs"
    fine = worst <= GOAL and line >= LINE and bool(kept.all())
    return Decision(fine, text, min(GOAL / worst, (1 - LINE) / max(1 - line, 1e-9)) if kept.all() else 0.0)


def _draw(data: Data) -> Figure:
    from .draw import panels

    figure, axes = panels(1, 1, width=5.6, height=3.2)
    axis, table = axes[0, 0], data["runs"]
    for plan, colour, shift in ((EQUAL, "#0072B2", -0.13), (UNEQUAL, "#D55E00", 0.13)):
        mine = table["steps"] == plan
        y = np.array([ROWS.index(name) for name in table["method"][mine]]) + shift
        axis.plot(np.maximum(table["end"][mine], 1e-32), y, "o", markersize=4, alpha=0.6, color=colour, label=plan)
    axis.set_xscale("log")
    axis.set_yticks(range(len(ROWS)), ROWS)
    axis.invert_yaxis()
    axis.set_xlabel(r"end of $\|x - x^\star\|^2$, of its start (a dot for each problem)")
    axis.grid(visible=True, axis="x")
    axis.set_axisbelow(True)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8.5)
    return figure


AFTER_A_FIRST_RUN = (
    "That a cross means an error above 1e-18 was set after a first run with 1e-6: it is the accuracy that "
    "a tick asks for."
)

TABLE1 = Item(
    name="fedlin/table1",
    remarks=lambda data, elsewhere: (AFTER_A_FIRST_RUN,),
    title="FedLin, table 1: who converges linearly to x* with a constant step",
    setting=(
        ours("problem", "least squares, 10 clients with minimisers 2·N(0, I), d = 8", "the first ones of beyond/…"),
        ours("problems", 12, "draws, κ = 4, 12, 36 in turn, every second one with unequal weights"),
        ours("H", 10, "equal local steps; unequal: τ_i uniform on [1, 20]"),
        ours("eta", 0.5, "η̄ in units of 1/L; FedLin's clients take η̄/τ_i, others η̄/max τ"),
        ours("limits at", [1e-3, 1e-2, 0.1, 0.5], "η̄ at which the limits are computed, unequal steps"),
        ours("beta", 1.0, "of FedProx, in units of L"),
        ours("e", 10, "gradient steps for a proximal step of FedSplit; s and their size as its paper has them"),
        ours("rounds", 4000),
        ours("rounds of TOP-1", 12000, "FedLin with Theorem 6's step, k = 1 of 8, no memory"),
        ours("x_0", "0"),
    ),
    reduced=(reduced("problems", 1), reduced("rounds of TOP-1", 5000)),
    produce=_produce,
    draw=_draw,
    page_figures=lambda data: [],
    claims=(
        Claim(
            "FedAvg, FedProx, FedNova and FedSplit stop before 1e-18 of the squared distance, which the others must reach",
            _elsewhere,
            "✗ ✗ ✗ ✗ for linear convergence to x*",
        ),
        Claim("SCAFFOLD converges linearly to x*", _linear("SCAFFOLD"), "✓"),
        Claim("FedLin converges linearly to x*", _linear("FedLin"), "✓"),
        Claim(
            "FedLin does so with unequal local steps, too", _linear("FedLin", UNEQUAL), "✓ for variable client speeds"
        ),
        Claim(
            "with unequal local steps FedNova's and FedLin's limits tend to x* as η → 0",
            _copes("FedNova", "FedLin"),
            "✓ ✓ for variable client speeds",
        ),
        Claim("those of FedAvg and FedProx do not", _copes_not("FedAvg", "FedProx"), "✗ ✗ for variable client speeds"),
        Claim("that of SCAFFOLD does not", _copes_not("SCAFFOLD"), "✗ for variable client speeds"),
        Claim("with TOP-1 at the server FedLin still converges linearly to x*", _sparse, "✓ for compression"),
        Claim(
            "with exact proximal steps FedSplit, too, converges linearly to x*",
            _linear(EXACT_SPLIT),
            "✗: to a neighbourhood only",
        ),
    ),
)
ITEMS = (TABLE1,)
