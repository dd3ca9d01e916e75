"""FedLin, Theorem 7 against Theorem 6: what memory (error feedback) buys where the server sparsifies.

Theorem 6, without memory: rate 1 − 1/(2δ(2 + √δ)κ). Theorem 7, with it: 2κ(1 − 1/(96δκ))^T. The paper's message is that memory
"leads to a faster convergence rate by improving the dependence of the rate on δ_s", from δ^{3/2} to δ. Held against each other
are the guarantees themselves, runs at the theorems' own steps, runs at equal steps, and runs at each one's best step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import undrift as ud
from undrift.theory import fedlin as theorems

from .data import Data
from .item import Claim, Decision, Item, Work, at_least, ours, paper, reduced
from .lines import Lines, draw_lines, page_lines
from .measures import rounds_to

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GOAL = 1e-6  # of the gap at the start
WORDS = {False: "without memory", True: "with memory"}
BLUE, ORANGE = "#0072B2", "#D55E00"
PROMISED = {False: "Theorem 6, without", True: "Theorem 7, with memory"}
OWN = {False: "run at Theorem 6's step", True: "run at Theorem 7's step"}
BEST = {False: "best step, without", True: "best step, with memory"}
COLOURS = {words[memory]: (BLUE, ORANGE)[memory] for words in (PROMISED, OWN, BEST) for memory in (False, True)}


def instance(seed: int, kappa: float, dim: int, clients: int) -> Any:
    """Quadratics ½(x − c_i)ᵀA_i(x − c_i), eigenvalues of A_i from 1/κ to 1 in a basis of the client's own, c_i ~ N(0, 4 I)."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((clients, dim, dim)))[0]
    inner = np.exp(-np.log(kappa) * rng.uniform(size=(clients, dim - 2)))
    values = np.concatenate([np.ones((clients, 1)), inner, np.full((clients, 1), 1 / kappa)], axis=1)
    A = (basis * values[:, None, :]) @ np.swapaxes(basis, 1, 2)
    return ud.problems.quadratic(A, np.einsum("ijk,ik->ij", A, 2 * rng.standard_normal((clients, dim))))


def guarantee(memory: bool, delta: float, kappa: float) -> tuple[float, float]:
    """(front, rate) of f(x_T) − f* ≤ front·rate^T (f(x_0) − f*), by Theorem 7 or 6."""
    constants = ud.theory.Constants(1, 1, L=ud.theory.exact(kappa), mu=ud.theory.exact(1.0))
    bound = (theorems.server_sparse_memory if memory else theorems.server_sparse)(constants, delta)
    assert bound.rate is not None
    return float(bound.curve(1, start=1.0)[1]) / bound.rate, bound.rate


def promised_rounds(memory: bool, delta: float, kappa: float) -> float:
    """Rounds until the guarantee is below `GOAL`.

    >>> promised_rounds(False, 4.0, 10.0) < promised_rounds(True, 4.0, 10.0)
    True
    """
    front, rate = guarantee(memory, delta, kappa)
    return math.ceil(math.log(GOAL / front) / math.log(rate))


def first_delta_that_pays(kappa: float, most: float = 1e8) -> float:
    """The δ from which on Theorem 7 promises fewer rounds than Theorem 6, by bisection; infinity if there is none."""
    low, high = 1.0, most
    if promised_rounds(True, high, kappa) >= promised_rounds(False, high, kappa):
        return math.inf
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        ahead = promised_rounds(True, middle, kappa) < promised_rounds(False, middle, kappa)
        low, high = (low, middle) if ahead else (middle, high)
    return high


def _own_step(work: Work, problem: Any, memory: bool, delta: int, steps: list[int]) -> tuple[float, bool]:
    """Rounds to the goal at the theorem's step, and whether its bound holds throughout."""
    make = theorems.server_sparse_memory if memory else theorems.server_sparse
    bound = make(ud.theory.constants(problem), delta, steps)
    method = ud.fedlin(eta=bound.numbers["eta"], down=ud.top_k(work["dim"] // delta, memory=memory))
    run = ud.run(method, problem, rounds=work["long rounds"] * delta if memory else work["rounds"], steps=steps)
    return rounds_to(run.history["gap"], GOAL), bool(ud.theory.check(run, bound).holds)


def _grid(work: Work, problem: Any, memory: bool, delta: int, steps: list[int]) -> list[float]:
    """Rounds to the goal for every step of the grid."""
    compressor = ud.top_k(work["dim"] // delta, memory=memory)
    grid: dict[str, Any] = {"eta": work["eta"], "down": [compressor]}
    found = ud.sweep(ud.fedlin, problem, grid=grid, rounds=work["rounds"], steps=steps)
    gaps = np.asarray(found.history["gap"]).reshape(len(work["eta"]), -1)
    return [rounds_to(curve, GOAL) for curve in gaps]


def _produce(work: Work) -> Data:
    own, grid, lines = [], [], Lines()
    cases = [(memory, delta, seed) for memory in WORDS for delta in work["delta"] for seed in work["seeds"]]
    steps = work["steps"]
    for number, (memory, delta, seed) in enumerate(cases):
        problem = instance(seed, work["kappa"], work["dim"], len(steps))
        own.append((memory, delta, seed, *_own_step(work, problem, memory, delta, steps)))
        found = _grid(work, problem, memory, delta, steps)
        grid += [(memory, delta, seed, eta, rounds) for eta, rounds in zip(work["eta"], found, strict=True)]
        work.progress(f"δ = {delta}, {WORDS[memory]}", number + 1, len(cases))
    tables = {
        "own": _columns(("memory", "delta", "seed", "rounds", "bound holds"), own),
        "grid": _columns(("memory", "delta", "seed", "eta", "rounds"), grid),
    }
    data = Data(tables, work["seeds"], work.values)
    for memory in WORDS:
        promised = [promised_rounds(memory, d, work["kappa"]) for d in work["delta"]]
        lines.add(PROMISED[memory], work["delta"], promised, kind="bound")
        lines.add(OWN[memory], work["delta"], [_own(data, memory, d) for d in work["delta"]])
        lines.add(BEST[memory], work["delta"], [_best(data, memory, d)[0] for d in work["delta"]])
    return Data({**tables, "lines": lines.table()}, work["seeds"])


def _columns(names: tuple[str, ...], rows: list[Any]) -> dict[str, Any]:
    return {
        name: [str(v) if isinstance(v, bool) else v for v in c]
        for name, c in zip(names, zip(*rows, strict=True), strict=True)
    }


def _own(data: Data, memory: bool, delta: int) -> float:
    """Median over seeds."""
    return float(np.median(data.where("own", memory=str(memory), delta=delta)["rounds"].astype(float)))


def _at(data: Data, memory: bool, delta: int) -> dict[float, float]:
    """Step -> median over seeds."""
    rows = data.where("grid", memory=str(memory), delta=delta)
    return {
        float(eta): float(np.median(rows["rounds"][rows["eta"] == eta].astype(float))) for eta in np.unique(rows["eta"])
    }


def _best(data: Data, memory: bool, delta: int) -> tuple[float, float]:
    """(rounds, step) of the step with the fewest rounds."""
    return min((rounds, eta) for eta, rounds in _at(data, memory, delta).items())


# ---------------------------------------------------------------- what is decided
def _guarantee_is_better(data: Data) -> Decision:
    kappa, d = data.setting["kappa"], data.setting["d of the paper"]
    ratios = {
        delta: promised_rounds(False, delta, kappa) / promised_rounds(True, delta, kappa) for delta in range(1, d + 1)
    }
    best = max(ratios, key=lambda delta: ratios[delta])
    said = ", ".join(
        f"{promised_rounds(False, x, kappa):.0f} and {promised_rounds(True, x, kappa):.0f} at δ = {x}"
        for x in (2, 4, d)
    )
    pays = first_delta_that_pays(kappa)
    why = (
        "the constants outweigh the power of δ: 96 against 2(2 + √δ), and 2κ in front. Theorem 7 promises fewer rounds from "
        f"δ = {pays:.0f} on (κ = {kappa:g}); without the 2κ it would be (96/2 − 2)² = 2116."
    )
    text = f"rounds to 1e-6 that Theorems 6 and 7 promise: {said}; best for 7 at δ = {best}: {ratios[best]:.2f} times faster"
    return at_least(ratios[best], 1, text, why)


def _bounds_hold(data: Data) -> Decision:
    fine = data["own"]["bound holds"] == "True"
    worst = min(
        promised_rounds(memory, d, data.setting["kappa"]) / _own(data, memory, d)
        for memory in WORDS
        for d in data.setting["delta"]
    )
    text = f"{int(fine.sum())} of {len(fine)} runs; they take at least {worst:.1f} times fewer rounds than promised"
    return Decision(bool(fine.all()), text, worst if fine.all() else 0.0)


def _faster(of: Callable[[Data, bool, int], float]) -> Callable[[Data], Decision]:
    """Fewer rounds with memory, for every δ."""

    def decide(data: Data) -> Decision:
        pairs = {d: (of(data, False, d), of(data, True, d)) for d in data.setting["delta"]}
        said = ", ".join(f"{a:.0f} and {b:.0f} at δ = {d}" for d, (a, b) in pairs.items())
        least = min(a / b for a, b in pairs.values())
        return at_least(least, 1, f"rounds to 1e-6 without and with memory: {said}", _explain(data))

    return decide


def _explain(data: Data) -> str:
    d = max(data.setting["delta"])
    with_, without = _best(data, True, d), _best(data, False, d)
    edge = ", the largest tried" if without[1] == max(data.setting["eta"]) else ""
    return (
        f"it is the steps that decide: at δ = {d} the theorems take η̄L = {1 / (2 * (2 + math.sqrt(d))):.3f} without and "
        f"{1 / (72 * d):.1e} with memory, while the best ones are {without[1]:g} ({without[0]:.0f} rounds{edge}) "
        f"and {with_[1]:g} ({with_[0]:.0f} rounds)."
    )


def _power(data: Data, memory: bool) -> float:
    """p of rounds ∝ δ^p, least squares through the logarithms."""
    deltas = data.setting["delta"]
    return float(np.polyfit(np.log(deltas), np.log([_own(data, memory, d) for d in deltas]), 1)[0])


def _weaker_in_delta(data: Data) -> Decision:
    without, with_ = _power(data, False), _power(data, True)
    why = "at its own, much smaller step FedLin with memory follows gradient descent, whose rounds grow as 1/η̄ ∝ δ; without "
    why += f"memory TOP-k keeps more of the gradient than the share 1/δ of Theorem 6, and the rounds grow as δ^{without:.2f}."
    return at_least(
        without / with_,
        1,
        f"rounds at the theorems' steps grow as δ^{without:.2f} without, δ^{with_:.2f} with memory",
        why,
    )


def _at_equal_steps(data: Data) -> Decision:
    """At the smallest step of the grid, for every δ, by the factor that the paper's powers promise.

    A run without memory that did not reach the goal counts with all its rounds, which is too few.
    """
    eta, most = min(data.setting["eta"]), float(data.setting["rounds"])
    ratios = {d: min(_at(data, False, d)[eta], most) / _at(data, True, d)[eta] for d in data.setting["delta"]}
    said = ", ".join(f"{ratio:.1f} at δ = {d}" for d, ratio in ratios.items())
    least = min(ratio / math.sqrt(d) for d, ratio in ratios.items())
    return at_least(least, 1, f"at η̄ = {eta:g}/L memory takes fewer rounds by the factor {said} (or more)")


def _draw(data: Data) -> Figure:
    from .draw import dress, legend, panels

    figure, axes = panels(1, 1, width=5.4, height=3.6)
    axis = axes[0, 0]
    draw_lines(axis, data, COLOURS, marker="o", dashes=dict.fromkeys(OWN.values(), (0, (5, 1.6))))
    axis.set_xscale("log", base=2)
    axis.set_xticks(data.setting["delta"], [str(d) for d in data.setting["delta"]])
    dress(axis, "what memory at the server buys", "δ = d/k of TOP-k at the server", "rounds to 1e-6 of the gap")
    legend(figure, axes, columns=2)
    return figure


def _page(data: Data) -> list[dict[str, Any]]:
    return page_lines(data, "What memory at the server buys", "δ", "rounds to 1e-6 of the gap")


AFTER_A_FIRST_RUN = (
    "The grid of steps ended at η̄L = 1 at first, and memory looked better there at each one's best step; "
    "the wider grid reversed that. Without memory the best step at the largest δ is still the largest one "
    "tried. Two seeds and few δ, for time."
)

THM7 = Item(
    name="fedlin/thm7",
    remarks=lambda data, elsewhere: (AFTER_A_FIRST_RUN,),
    title="FedLin, Theorem 7 against Theorem 6: what memory at the server buys",
    setting=(
        ours("problem", "½(x − c_i)ᵀA_i(x − c_i), eigenvalues from 1/κ to 1 in random bases, c_i ~ N(0, 4 I)", "L = 1"),
        ours("kappa", 10.0),
        ours("dim", 32),
        ours("steps", [1, 2, 3, 5, 8], "τ_i of the five clients"),
        ours("delta", [2, 8, 32], "k = 16, 4, 1 of 32"),
        ours(
            "eta",
            [0.05, 0.1, 0.14, 0.2, 0.28, 0.4, 0.56, 0.8, 1.1, 1.6, 2.2, 3.0, 4.2],
            "η̄L tried, besides the theorems' 1/(2(2 + √δ)) and 1/(72δ)",
        ),
        paper("d of the paper", 100, "so δ ≤ 100 in its experiments, where it has 2 and 4"),
        ours("seeds", [0, 1], "draws of the problem"),
        ours("rounds", 12000, "at most"),
        ours("long rounds", 2500, "times δ: at Theorem 7's step, at most"),
        ours("x_0", "0"),
    ),
    reduced=(
        reduced("delta", [2, 8]),
        reduced("seeds", [0]),
        reduced("rounds", 3000),
    ),
    produce=_produce,
    draw=_draw,
    page_figures=_page,
    claims=(
        Claim(
            "for some δ up to 100 Theorem 7 promises fewer rounds to 1e-6 than Theorem 6",
            _guarantee_is_better,
            "faster with memory",
        ),
        Claim("both theorems hold in all runs at their steps", _bounds_hold, "Theorems 6 and 7"),
        Claim(
            "at the theorems' own steps runs with memory take fewer rounds, for every δ",
            _faster(_own),
            "a faster convergence rate",
        ),
        Claim(
            "there the rounds grow more slowly with δ if there is memory", _weaker_in_delta, "as δ instead of δ^(3/2)"
        ),
        Claim(
            "at the same small step memory saves a factor √δ of the rounds or more, for every δ",
            _at_equal_steps,
            "δ instead of δ^(3/2)",
        ),
        Claim(
            "with each at its best step memory takes fewer rounds, for every δ",
            _faster(lambda data, memory, delta: _best(data, memory, delta)[0]),
            "a faster convergence rate",
        ),
    ),
)
ITEMS = (THM7,)
