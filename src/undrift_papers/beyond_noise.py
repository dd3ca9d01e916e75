"""Past the papers: FedLin's variants with noisy gradients and mini-batches, beside Theorem 4.

Least squares with κ = 4. With a constant step the distance falls to a floor proportional to η̄, with η̄_t = O(1/t) it goes on
falling like 1/t. Theorem 4 speaks of the paper's rule with everyone; its curve is drawn beside the variants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import undrift as ud
from undrift.schedules import Inverse

from .beyond_draw import BLUE, EVERYONE, GREEN, PAPER, PURPLE, WINE
from .beyond_problems import CLIENTS, COHORT, KAPPA, Case, case
from .beyond_runs import short
from .data import Curves, Data
from .item import Claim, Decision, Item, Work, at_least, at_most, ours, reduced

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALL, ONE, SPARSE = "paper's rule, everyone", "one exchange, everyone", "TOP-2 (difference), everyone"
RULE, TABLE, ONE_OF_FEW = "paper's rule, 4 of 10", "table, 4 of 10", "table, one exchange, 4 of 10"
NOISE, BATCHES = "noisy gradients", "mini-batches"
LARGE, SMALL, FALLING = "η̄ = 1/(12L)", "η̄ = 1/(48L)", "η̄_t = 4/(μ(t + γ))"
COLOURS = {ALL: EVERYONE, ONE: GREEN, SPARSE: PURPLE, RULE: PAPER, TABLE: BLUE, ONE_OF_FEW: WINE}
KAPPA_HERE = KAPPA["quadratic"][0]
L, MU = 1.0, 1 / KAPPA_HERE
POINTS = 100


class Way(NamedTuple):
    """A variant and who takes part."""

    options: dict[str, Any]
    everyone: bool


WAYS = {
    ALL: Way({}, True),
    ONE: Way({"exchanges": 1}, True),
    SPARSE: Way({"up": ud.top_k(2, memory="difference")}, True),
    RULE: Way({}, False),
    TABLE: Way({"table": True}, False),
    ONE_OF_FEW: Way({"table": True, "exchanges": 1}, False),
}
WITH_BATCHES = (ALL, RULE, TABLE)


def _cases(work: Work) -> list[Case]:
    """Every third problem has this κ."""
    first = work["first problem"]
    assert first % len(KAPPA["quadratic"]) == 0
    return [case("quadratic", first + len(KAPPA["quadratic"]) * number) for number in range(work["problems"])]


def _oracles(work: Work) -> dict[str, Any]:
    return {NOISE: ud.oracles.noisy(work["variance"]), BATCHES: ud.oracles.minibatch(work["batch"])}


def _bounds(one: Case, oracle: Any) -> dict[str, Any]:
    """Theorem 4 for the three steps; σ² of mini-batches is measured between x_0 and x*."""
    from undrift.theory import Constants, constants, exact, fedlin

    found = constants(one.problem, oracle=oracle)
    known = Constants(CLIENTS, one.problem.dim, L=exact(L), mu=exact(MU), sigma_sq=found.sigma_sq)
    return {
        LARGE: fedlin.noisy(known, eta_bar=1 / (12 * L)),
        SMALL: fedlin.noisy(known, eta_bar=1 / (48 * L)),
        FALLING: fedlin.decreasing(known),
    }


def _produce(work: Work) -> Data:
    curves = Curves()
    every = max(1, work["rounds"] // POINTS)
    at = np.arange(0, work["rounds"] + 1, every)
    jobs = [(oracle, way) for oracle in (NOISE, BATCHES) for way in WAYS if oracle == NOISE or way in WITH_BATCHES]
    for number, (oracle, way) in enumerate(jobs):
        for place, one in enumerate(_cases(work), 1):
            for step, values in _means(work, one, WAYS[way], _oracles(work)[oracle], every).items():
                curves.add(_panel(oracle, step), way, short(values), seed=one.number, round=at)
            work.progress(f"{oracle}: {way}", number * work["problems"] + place, len(jobs) * work["problems"])
    for oracle in (NOISE, BATCHES):
        for one in _cases(work):
            start = float(np.sum(np.asarray(one.problem.optimum.x) ** 2))
            for step, bound in _bounds(one, _oracles(work)[oracle]).items():
                promised = bound.curve(work["rounds"], start)[at]
                curves.add(_panel(oracle, step), "Theorem 4", short(promised), seed=one.number, kind="bound", round=at)
    return means_over_problems(Data({"curves": curves.table()}, [one.number for one in _cases(work)]))


def means_over_problems(full: Data) -> Data:
    """What is kept: means over problems, and what share of its promise a problem uses up in the mean."""
    curves, shares = Curves(), Curves()
    for panel in full.panels:
        for name in full.labels(panel):
            rounds = full.curve(panel, name, "round")[0]
            curves.add(
                panel, name, short(full.curve(panel, name).mean(axis=0)), kind=full.kind(panel, name), round=rounds
            )
        used = full.curve(panel, ALL) / full.curve(panel, "Theorem 4")
        shares.add(panel, ALL, short(used.mean(axis=0)), round=full.curve(panel, ALL, "round")[0])
    return Data({"curves": curves.table(), "shares": shares.table()}, full.seeds)


def _panel(oracle: str, step: str) -> str:
    return f"{oracle}, {step}"


def _means(work: Work, one: Case, way: Way, oracle: Any, every: int) -> dict[str, np.ndarray]:
    """The mean over seeds of ‖x − x*‖², for the two constant steps and the one that falls."""
    common: dict[str, Any] = {
        "seeds": [one.number * 100 + s for s in range(work["seeds"])],
        "rounds": work["rounds"],
        "steps": [1 + i % work["longest"] for i in range(CLIENTS)],
        "participation": None if way.everyone else ud.plan.uniform(COHORT),
        "oracle": oracle,
        "record_every": every,
    }

    def make(eta: Any) -> Any:
        return ud.fedlin(eta, **way.options)

    constant = ud.sweep(make, one.problem, grid={"eta": [1 / (12 * L), 1 / (48 * L)]}, **common)
    falling = ud.sweep(make, one.problem, grid={"eta": [Inverse(4 / MU, 48 * L / MU)]}, **common)
    values = np.concatenate([constant.history["sq_distance"], falling.history["sq_distance"]])[..., ::every].mean(
        axis=1
    )
    return dict(zip((LARGE, SMALL, FALLING), values, strict=True))


# ---------------------------------------------------------------- claims
def _mean_curve(data: Data, panel: str, name: str) -> np.ndarray:
    return np.asarray(data.curve(panel, name).mean(axis=0))


def _level(data: Data, panel: str, name: str) -> float:
    """Where the mean over problems settles: over the last quarter."""
    curve = _mean_curve(data, panel, name)
    return float(curve[-len(curve) // 4 :].mean())


def _exponent(data: Data, oracle: str, name: str) -> float:
    """p where the mean over problems falls like (t + γ)^−p over the second half of the rounds."""
    panel = _panel(oracle, FALLING)
    curve, rounds = _mean_curve(data, panel, name), np.median(data.curve(panel, name, "round"), axis=0)
    half = len(curve) // 2
    slope, _ = np.polyfit(np.log(rounds[half:] + 48 * L / MU), np.log(curve[half:]), 1)
    return float(-slope)


def _theorem_holds(data: Data) -> Decision:
    """Mean over seeds and problems of measured/promised, at every recorded round after the first."""
    worst, where = 0.0, ""
    for oracle in (NOISE, BATCHES):
        for step in (LARGE, SMALL, FALLING):
            panel = _panel(oracle, step)
            shares = data.where("shares", panel=panel)["value"][1:]
            if shares.max() > worst:
                worst, where = float(shares.max()), panel
    return at_most(worst, 1.0, f"E‖x_t − x*‖² is at most {worst:.2g} of what is promised (largest with {where})")


def _floor_follows_the_step(data: Data) -> Decision:
    """Of steps whose ratio is 4; a floor of noise is proportional to η̄."""
    ratios = {
        name: _level(data, _panel(NOISE, LARGE), name) / _level(data, _panel(NOISE, SMALL), name)
        for name in (ALL, ONE, SPARSE, TABLE, ONE_OF_FEW)
    }
    off = max(max(r / 4, 4 / r) for r in ratios.values())
    said = ", ".join(f"{name} {r:.1f}" for name, r in ratios.items())
    return at_most(off, 2.0, f"floor at 1/(12L) over floor at 1/(48L): {said}")


def _falls_like_one_over_t(data: Data) -> Decision:
    names = [(NOISE, name) for name in WAYS] + [(BATCHES, name) for name in WITH_BATCHES]
    found = {pair: _exponent(data, *pair) for pair in names}
    said = ", ".join(f"{name} ({oracle}) {p:.2f}" for (oracle, name), p in found.items())
    return at_least(min(found.values()), 0.8, f"p in (t + γ)^−p over the second half of the rounds: {said}")


def _the_table_helps(data: Data) -> Decision:
    found = {
        oracle: _level(data, _panel(oracle, LARGE), RULE) / _level(data, _panel(oracle, LARGE), TABLE)
        for oracle in (NOISE, BATCHES)
    }
    said = ", ".join(f"{oracle} {factor:.1f}" for oracle, factor in found.items())
    levels = ", ".join(f"{name} {_level(data, _panel(BATCHES, LARGE), name):.1e}" for name in WITH_BATCHES)
    because = f"with mini-batches the noise sets the floor, which a table keeps as well (floors: {levels})"
    text = f"floor of the paper's rule over that of the table, 4 of 10: {said}"
    return at_least(min(found.values()), 3.0, text, because if found[NOISE] >= 3.0 else None)


def _not_far_from_everyone(data: Data) -> Decision:
    found = {name: _level(data, _panel(NOISE, LARGE), name) / _level(data, _panel(NOISE, LARGE), ALL) for name in WAYS}
    wanted = max(found[name] for name in (ONE, SPARSE, TABLE, ONE_OF_FEW))
    said = ", ".join(f"{name} {factor:.1f}" for name, factor in found.items())
    because = "a mean over 4 of 10 is noisier than one over everyone, and a kept gradient keeps its noise"
    text = f"floors over that of the paper's rule with everyone: {said}"
    return at_most(wanted, 5.0, text, because if max(found[ONE], found[SPARSE]) <= 5.0 else None)


def _draw(data: Data) -> Figure:
    from .draw import BOUND, dress, legend, panels

    figure, axes = panels(2, 2, width=4.2, height=2.6)
    for row, oracle in enumerate((NOISE, BATCHES)):
        for column, step in enumerate((LARGE, FALLING)):
            axis, panel = axes[row][column], _panel(oracle, step)
            for name in data.labels(panel):
                rounds = np.median(data.curve(panel, name, "round"), axis=0)
                bound = data.kind(panel, name) == "bound"
                dash = BOUND if bound else (0, (5, 1.6)) if name == RULE else "-"
                axis.plot(
                    rounds + (48 * L / MU if column else 0),
                    _mean_curve(data, panel, name),
                    color="#222222" if bound else COLOURS[name],
                    linestyle=dash,
                    linewidth=1.5,
                    label=name,
                )
            dress(
                axis,
                panel,
                "t + γ" if column and row else "communication rounds" if row else "",
                "" if column else "mean ‖x − x*‖²",
            )
            if column:
                axis.set_xscale("log")
    legend(figure, axes, columns=4)
    return figure


ITEM = Item(
    name="beyond/noise",
    title="Past the papers: the variants of FedLin with noisy gradients and mini-batches",
    setting=(
        ours("problem", "least squares with κ = 4, so μ = 1/4 and L = 1; every third of the other items' problems"),
        ours("problems", 50),
        ours("first problem", 1002, "thresholds were fixed before any run of this item"),
        ours("seeds", 2, "of every problem; means are over seeds and problems"),
        ours("clients, cohort", [CLIENTS, COHORT]),
        ours("longest", 5, "τ_i = 1 to 5 in turn"),
        ours("variance", 0.01, "E‖noise‖² of the noisy oracle"),
        ours("batch", 6, "of 24 samples"),
        ours("rounds", 800),
    ),
    reduced=(reduced("problems", 2), reduced("first problem", 0), reduced("rounds", 300)),
    quantity="‖x − x*‖²",
    produce=_produce,
    draw=_draw,
    claims=(
        Claim(
            "with everyone, Theorem 4 holds at every round, for constant steps and for O(1/t)",
            _theorem_holds,
            "Theorem 4",
        ),
        Claim(
            "with constant steps every variant without a floor of its own has one proportional to η̄ (within 2)",
            _floor_follows_the_step,
            "Theorem 4: 50η̄σ²/μ",
            scales=("paper",),
        ),
        Claim(
            "with η̄_t = O(1/t) all of them fall like 1/t, p ≥ 0.8",
            _falls_like_one_over_t,
            "Theorem 4 with η̄_t = O(1/t): O(1/T)",
            scales=("paper",),
        ),
        Claim(
            "with cohorts of 4 of 10 the table's floor is at least three times lower than the paper's rule's",
            _the_table_helps,
            scales=("paper",),
        ),
        Claim(
            "no variant's floor is more than five times that of the paper's rule with everyone",
            _not_far_from_everyone,
            scales=("paper",),
        ),
    ),
)
ITEMS = (ITEM,)
