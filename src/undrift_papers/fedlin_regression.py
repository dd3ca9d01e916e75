"""FedLin on least squares: figures 2 and 3 (compression), 4 (SCAFFOLD) and 8 (noise)."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import undrift as ud

from .data import Curves, Data
from .item import Claim, Decision, Item, Work, at_least, at_most, ours, paper
from .measures import floor, rounds_to, straightness

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GAP = r"$f(\bar{x}_t) - f(x^\star)$"
NONE = "no compression"
COMPRESSION = {NONE: "fedlin", "TOP-75": "scaffold", "TOP-50": "fedsplit", "TOP-25": "fednova"}  # colours
PROBLEM = (
    paper("problem", "f_i(x) = ½‖A_i x − b_i‖², b_i = A_i x_i + ε_i", "problem (14): no 1/n"),
    paper("clients", 20),
    paper("A_i", "500 × 100, entries N(0, 1)"),
    paper("x_i, u_i, ε_i", "entries N(u_i, 1), u_i ~ N(0, α), N(0, 0.5 I)", "α and 0.5 are variances"),
)
STEPS = (
    paper("steps", [2, 100], "τ_i uniform on this range"),
    ours("draw of steps", "once for each client", "the theorems allow τ_i to change by round, too"),
)
SEEDS = (ours("seeds", [0, 1, 2], "three draws of data and steps; the paper shows one"), ours("x_0", "0"))


@functools.lru_cache(maxsize=6)
def problem_14(alpha: float, seed: int) -> Any:
    """The least-squares problem with this draw of its data."""
    from undrift.studies.catalogue import least_squares

    return least_squares(alpha=alpha, data_seed=seed)


def draw_steps(span: Sequence[int], clients: int, seed: int) -> list[int]:
    """τ_i uniform on [low, high], once for each client.

    >>> draw_steps([2, 4], 5, seed=0)
    [4, 3, 3, 2, 2]
    """
    low, high = span
    return [int(tau) for tau in np.random.default_rng(seed).integers(low, high + 1, clients)]


def _compression_runs(work: Work, where: str, memory: bool) -> Data:
    """FedLin with TOP-k at one end, for every α, k and seed."""
    curves = Curves()
    cases = [(alpha, k, seed) for alpha in work["alpha"] for k in (None, *work["k"]) for seed in work["seeds"]]
    for number, (alpha, k, seed) in enumerate(cases):
        compressor = {} if k is None else {where: ud.top_k(k, memory=memory)}
        result = ud.run(
            ud.fedlin(eta=work["eta"], **compressor),
            problem_14(alpha, seed),
            rounds=work["rounds"],
            steps=draw_steps(work["steps"], 20, seed),
            seed=seed,
        )
        curves.add_run(_panel(alpha), _label(k), result.history["gap"], result.history, seed=seed)
        work.progress(f"α = {alpha}, {_label(k)}", number + 1, len(cases))
    return Data({"curves": curves.table()}, seeds=work["seeds"])


def _panel(alpha: float) -> str:
    return f"α = {alpha}"


def _label(k: int | None) -> str:
    return NONE if k is None else f"TOP-{k}"


def _everything(data: Data) -> list[tuple[str, str, np.ndarray]]:
    """(panel, series, curve) for every curve of every seed."""
    return [(p, s, row) for p in data.panels for s in data.labels(p) for row in data.curve(p, s)]


# ---------------------------------------------------------------- figure 2
def _all_fall(data: Data) -> Decision:
    worst = max(float(curve[-1] / curve[0]) for _, _, curve in _everything(data))
    return at_most(
        worst, 1e-25, f"f − f* falls to {worst:.0e} of its start or less in all {len(_everything(data))} runs"
    )


def _linear(low: float, least: float) -> Callable[[Data], Decision]:
    def decide(data: Data) -> Decision:
        worst = min(straightness(curve, low) for _, _, curve in _everything(data))
        text = f"R² of a line through log(f − f*) is {worst:.4f} or more"
        return Decision(worst >= least, text, (1 - least) / max(1 - worst, 1e-12))

    return decide


def _speed(data: Data, panel: str, series: str, share: float = 1e-20) -> float:
    return float(np.median([rounds_to(curve, share) for curve in data.curve(panel, series)]))


def _alpha_does_not_matter(data: Data) -> Decision:
    pairs = {s: [_speed(data, p, s) for p in data.panels] for s in data.labels(data.panels[0])}
    worst = max(max(pair) / min(pair) for pair in pairs.values())
    said = "; ".join(f"{s} {' and '.join(f'{n:.0f}' for n in pair)}" for s, pair in pairs.items())
    return at_most(worst, 1.15, f"rounds to 1e-20 of the start at α = 10 and α = 50: {said}")


def _compression_costs_rounds(data: Data) -> Decision:
    orders = [[_speed(data, p, s) for s in data.labels(p)] for p in data.panels]
    least = min(later / former for order in orders for former, later in itertools.pairwise(order))
    said = "; ".join(" < ".join(f"{n:.0f}" for n in order) for order in orders)
    return at_least(least, 1.2, f"rounds to 1e-20 with δ_s = 1, 2, 4: {said}")


def _compression_figure(bottom: float) -> Callable[[Data], Figure]:
    def draw(data: Data) -> Figure:
        from .draw import curves_figure

        return curves_figure(data, y_label=GAP, bottom=bottom, methods=COMPRESSION)

    return draw


FIG2 = Item(
    revision=2,  # FedLin and FedTrack: two vectors down a round
    name="fedlin/fig2",
    title="FedLin, figure 2: TOP-k at the server keeps linear convergence to the minimiser",
    setting=(
        *PROBLEM,
        paper("alpha", [10, 50], "left, right"),
        paper("k", [50, 25], "δ_s = 2, 4; without error feedback"),
        paper("eta", 1e-2, "η̄"),
        *STEPS,
        *SEEDS,
        ours("rounds", 120),
    ),
    quantity="f(x) − f*",
    produce=lambda work: _compression_runs(work, "down", memory=False),
    draw=_compression_figure(1e-27),
    claims=(
        Claim(
            "FedLin reaches the minimiser to rounding for every δ_s and α", _all_fall, "converges to the true minimum"
        ),
        Claim(
            "it falls linearly for every δ_s and α", _linear(1e-20, 0.97), "linear convergence, confirming Theorem 6"
        ),
        Claim(
            "the speed does not depend on the heterogeneity α (within 15 %)",
            _alpha_does_not_matter,
            "speed and accuracy remain unaffected",
        ),
        Claim("more compression costs more rounds", _compression_costs_rounds, "Theorem 6: the rate falls with δ_s"),
    ),
)


# ---------------------------------------------------------------- figure 3
LAST = 100


def _floors(data: Data) -> dict[tuple[str, str], float]:
    """Median over seeds of where each compressed curve ends."""
    return {
        (p, s): float(np.median([floor(curve, LAST) for curve in data.curve(p, s)]))
        for p in data.panels
        for s in data.labels(p)
        if s != NONE
    }


def _uncompressed_falls(limit: float) -> Callable[[Data], Decision]:
    def decide(data: Data) -> Decision:
        worst = max(float(c[-1] / c[0]) for p in data.panels for c in data.curve(p, NONE))
        return at_most(worst, limit, f"falls to {worst:.0e} of its start")

    return decide


def _stops(data: Data) -> Decision:
    """The mean over the last rounds equals that over the rounds before them, far above rounding."""
    moved = [abs(np.log(floor(c, LAST) / floor(c[:-LAST], LAST))) for p, s, c in _everything(data) if s != NONE]
    change = float(np.exp(max(moved)))
    return at_most(change, 1.25, f"the mean of the last {LAST} rounds is within {change - 1:.0%} of the {LAST} before")


def _grows_with_delta(data: Data) -> Decision:
    floors = _floors(data)
    series = [s for s in data.labels(data.panels[0]) if s != NONE]
    ratios = [floors[p, series[1]] / floors[p, series[0]] for p in data.panels]
    said = ", ".join(f"{r:.1f}" for r in ratios)
    return at_least(min(ratios), 1.5, f"{series[1]} ends higher than {series[0]} by the factors {said}")


def _grows_with_alpha(data: Data) -> Decision:
    floors = _floors(data)
    low, high = data.panels
    ratios = [floors[high, s] / floors[low, s] for s in data.labels(low) if s != NONE]
    said = ", ".join(f"{r:.1f}" for r in ratios)
    return at_least(min(ratios), 1.5, f"at {high} the floors are higher than at {low} by the factors {said}")


FIG3 = Item(
    revision=2,  # FedLin and FedTrack: two vectors down a round
    name="fedlin/fig3",
    title="FedLin, figure 3: TOP-k at the clients stops at a floor",
    setting=(
        *PROBLEM,
        paper("alpha", [1, 10], "left, right"),
        paper("k", [75, 50], "δ_c = 4/3, 2; with error feedback"),
        paper("eta", 5e-4, "η̄"),
        *STEPS,
        *SEEDS,
        ours("rounds", 300),
    ),
    quantity="f(x) − f*",
    produce=lambda work: _compression_runs(work, "up", memory=True),
    draw=_compression_figure(1e-26),
    claims=(
        Claim("without compression FedLin reaches the minimiser to rounding", _uncompressed_falls(1e-25), None),
        Claim("with TOP-k at the clients it stops at a floor", _stops, "converges, but with a non-vanishing error"),
        Claim("the floor grows with δ_c", _grows_with_delta, "increases as δ_c increases"),
        Claim("the floor grows with the heterogeneity α", _grows_with_alpha, "higher heterogeneity, larger error"),
    ),
)


# ---------------------------------------------------------------- figure 4
EXACT, NOISY, TUNED = "exact gradients", "noisy gradients, variance 0.1", "each at its best step (ours)"


def _figure_4(work: Work) -> Data:
    curves, tuned = Curves(), []
    H, eta, rounds = work["H"], work["eta"], work["rounds"]
    makers: dict[str, Callable[[float], Any]] = {
        "FedLin": lambda step: ud.fedlin(eta=step * H),
        "SCAFFOLD": lambda step: ud.scaffold(eta=step, option=work["option of SCAFFOLD"]),
    }
    oracles = {EXACT: ud.oracles.full(), NOISY: ud.oracles.noisy(work["noise"] * 100)}
    count, total = 0, len(makers) * (2 * len(work["seeds"]) + len(work["grid"]))
    for seed in work["seeds"]:
        problem = problem_14(work["alpha"], seed)
        common: dict[str, Any] = {"rounds": rounds, "steps": H, "seed": seed, "on_divergence": "continue"}
        for name, make in makers.items():
            for panel, oracle in oracles.items():
                history = ud.run(make(eta), problem, oracle=oracle, **common).history
                curves.add_run(panel, name, history["gap"], history, seed=seed)
                count += 1
                work.progress(f"{name}, {panel}", count, total)
            if seed != work["seeds"][0]:
                continue
            best: tuple[float, float, Any] = (np.inf, np.nan, None)
            for step in work["grid"]:
                history = ud.run(make(step), problem, **common).history
                needed = rounds_to(history["gap"], 1e-20)
                tuned.append((seed, name, step, needed))
                best = min(best, (needed, step, history), key=lambda case: case[0])
                count += 1
                work.progress(f"{name}, step {step:g}", count, total)
            curves.add_run(TUNED, name, best[2]["gap"], best[2], seed=seed)
    names = ("seed", "method", "step", "rounds to 1e-20")
    return Data(
        {"curves": curves.table(), "steps": dict(zip(names, zip(*tuned, strict=True), strict=True))}, work["seeds"]
    )


def _ahead(panel: str, share: float, least: float) -> Callable[[Data], Decision]:
    def decide(data: Data) -> Decision:
        needed = {name: _speed(data, panel, name, share) for name in ("FedLin", "SCAFFOLD")}
        ratio = needed["SCAFFOLD"] / needed["FedLin"]
        said = ", ".join(f"{name} {n:.0f}" for name, n in needed.items())
        return at_least(ratio, least, f"rounds to {share:g} of the starting gap: {said}")

    return decide


def _printed_step_is_best(name: str) -> Callable[[Data], Decision]:
    """The paper takes 1e-3 for both, "tuned to get best results"."""

    def decide(data: Data) -> Decision:
        rows = data.where("steps", method=name)
        needed = dict(zip(rows["step"].tolist(), rows["rounds to 1e-20"].astype(float), strict=True))
        printed, best = needed[data.setting["eta"]], min(needed, key=lambda step: needed[step])
        shown = f"{printed:.0f}" if np.isfinite(printed) else f"more than {data.setting['rounds']}"
        text = f"rounds to 1e-20: {shown} at 1e-3, {needed[best]:.0f} at {best:g}"
        why = f"of the steps tried {best:g} is the best one; the paper compares {name} at a step that suits it less."
        return at_most(printed, needed[best], text, why)

    return decide


def _draw_4(data: Data) -> Figure:
    from .draw import curves_figure

    return curves_figure(data, y_label=GAP, bottom=1e-26, methods={"FedLin": "fedlin", "SCAFFOLD": "scaffold"})


FIG4 = Item(
    revision=2,  # FedLin and FedTrack: two vectors down a round
    name="fedlin/fig4",
    title="FedLin, figure 4: FedLin is ahead of SCAFFOLD",
    setting=(
        *PROBLEM,
        paper("alpha", 10),
        paper("H", 20, "local steps of all clients"),
        paper("eta", 1e-3, "of every local step, for both; so η̄ = H·η = 0.02 for FedLin"),
        paper("option of SCAFFOLD", 2),
        paper("noise", 0.1, "variance of Gaussian noise on the gradients, right; taken as that of every entry"),
        ours(
            "grid", [1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 2e-3], "steps tried for the third panel, exact gradients, first seed"
        ),
        *SEEDS,
        ours("rounds", 250),
    ),
    quantity="f(x) − f*",
    produce=_figure_4,
    draw=_draw_4,
    claims=(
        Claim("with exact gradients FedLin is at least three times as fast", _ahead(EXACT, 1e-10, 3), "much faster"),
        Claim(
            "with noisy gradients FedLin is at least three times as fast", _ahead(NOISY, 1e-6, 3), "the trend persists"
        ),
        Claim("with each at its best step FedLin is still ahead", _ahead(TUNED, 1e-20, 1.05), None),
        Claim(
            "1e-3 is the best step of the grid for FedLin", _printed_step_is_best("FedLin"), "tuned to get best results"
        ),
        Claim(
            "1e-3 is the best step of the grid for SCAFFOLD",
            _printed_step_is_best("SCAFFOLD"),
            "tuned to get best results",
        ),
    ),
)


# ---------------------------------------------------------------- figure 8
PANEL_8 = "noisy gradients, α = 10"


def _figure_8(work: Work) -> Data:
    curves = Curves()
    cases = [(variance, seed) for variance in work["noise"] for seed in work["seeds"]]
    for number, (variance, seed) in enumerate(cases):
        history = ud.run(
            ud.fedlin(eta=work["eta"]),
            problem_14(work["alpha"], seed),
            rounds=work["rounds"],
            steps=draw_steps(work["steps"], 20, seed),
            oracle=ud.oracles.noisy(variance * 100),
            seed=1000 * number + seed,  # noise of its own: the same one scaled would give the same curve scaled
        ).history
        curves.add_run(PANEL_8, f"σ² = {variance:g}", history["gap"], history, seed=seed)
        work.progress(f"σ² = {variance:g}", number + 1, len(cases))
    return Data({"curves": curves.table()}, work["seeds"])


def _noise_floors(data: Data) -> list[float]:
    return [float(np.median([floor(c, 30) for c in data.curve(PANEL_8, s)])) for s in data.labels(PANEL_8)]


def _floor_grows(data: Data) -> Decision:
    floors = _noise_floors(data)
    least = min(high / low for low, high in itertools.pairwise(floors))
    return at_least(least, 10, f"floors of f − f*: {', '.join(f'{f:.1e}' for f in floors)}")


def _floor_is_proportional(data: Data) -> Decision:
    floors = _noise_floors(data)
    scaled = [f / v for f, v in zip(floors, data.setting["noise"], strict=True)]
    off = max(scaled) / min(scaled)
    return at_most(off, 1.2, f"floor/σ² differs by the factor {off:.3f} at most")


def _falls_linearly(data: Data) -> Decision:
    worst = min(straightness(c, 10 * floor(c, 30) / c[0]) for s in data.labels(PANEL_8) for c in data.curve(PANEL_8, s))
    return Decision(
        worst >= 0.95, f"R² of a line down to ten times the floor is {worst:.4f} or more", 0.05 / (1 - worst)
    )


def _draw_8(data: Data) -> Figure:
    from .draw import curves_figure

    figure = curves_figure(data, y_label=GAP)
    figure.set_size_inches(5.4, 3.7)
    return figure


FIG8 = Item(
    revision=3,  # noise of its own in every run, three draws
    name="fedlin/fig8",
    title="FedLin, figure 8: with noisy gradients a ball around the minimiser, larger with more noise",
    setting=(
        *PROBLEM,
        paper("alpha", 10),
        paper("noise", [1e-5, 1e-3, 1e-1], "σ²; taken as the variance of every entry"),
        paper("eta", 1e-2, "η̄; larger than Theorem 4 allows"),
        *STEPS,
        ours("seeds", [0, 1, 2], "draws of data and steps; every run has noise of its own"),
        ours("x_0", "0"),
        ours("rounds", 60),
    ),
    quantity="f(x) − f*",
    produce=_figure_8,
    draw=_draw_8,
    claims=(
        Claim("FedLin first falls linearly", _falls_linearly, "linear convergence to a ball, Theorem 4"),
        Claim(
            "the floor grows with the variance of the noise", _floor_grows, "error floor increases with the variance"
        ),
        Claim("the floor is proportional to the variance (within 20 %)", _floor_is_proportional, "Theorem 4: 25η̄²σ²"),
    ),
)
