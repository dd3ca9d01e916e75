"""FedLin, Theorem 5: the lower bound, and the even numbers of local steps for which it fails.

On the theorem's instance a round is diag(λ_1, λ_2), λ_1 = ((1 − η)^H + (1 − ηL)^H/L)(L + 1)/4 − (L − 1)²/(4L), λ_2 = (1 − η)^H.
The proof (58) replaces (1 − ηL)^H by (1 − η)^H. For odd H that is right: λ_1 falls with η for good, so below −1 it never comes
back. For even H the derivative of λ_1 changes its sign at η = 2/(L + 1), and from there λ_1 grows without bound: it crosses
(−1, 1) once more, and there the rounds are stable again, at steps close to 2/L whatever H.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import undrift as ud
from undrift.theory.stability import theorem5_eigenvalues, theorem5_instance

from .data import Data
from .item import Claim, Decision, Item, Work, at_least, at_most, ours, paper, reduced
from .lines import Lines, draw_lines, page_lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#999999", "#D55E00", "#0072B2")
SCAN = 4000  # steps η tried in each case, up to where client 2 alone blows up


class Steps(NamedTuple):
    """Stable steps η of a case: the end of the first interval, the second one, and the best step of each."""

    end: float
    again: tuple[float, float] | None  # None: there is no second interval
    best: float
    best_again: float


def radius(eta: Any, H: int, L: float) -> np.ndarray:
    """The spectral radius of a round of FedLin on the instance, as a function of the client's step η."""
    first, second = theorem5_eigenvalues(eta, H, L)
    return np.maximum(np.abs(first), np.abs(second))


def _crossing(of: Callable[[float], float], low: float, high: float) -> float:
    """Where `of` changes its sign, by bisection to the last bit."""
    rising = of(low) < 0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if (of(middle) < 0) == rising else (low, middle)
    return low


def stable_steps(H: int, L: float) -> Steps:
    """All of them, from the shape of λ_1: falling to η = 2/(L + 1), rising afterwards if H is even, falling if it is odd.

    >>> found = stable_steps(10, 14.0)
    >>> tuple(round(eta, 3) for eta in found.again)
    (0.155, 0.163)
    >>> stable_steps(9, 14.0).again is None
    True
    """

    def first(eta: float) -> float:
        return float(theorem5_eigenvalues(eta, H, L)[0])

    turn, far = 2 / (L + 1), 4 / L
    odd, deep = H % 2 == 1, first(turn) < -1
    if not odd and not deep:  # λ_1 never leaves (−1, 1) downwards: one interval, up to λ_1 = 1
        end = _crossing(lambda eta: first(eta) - 1, turn, far)
        return Steps(end, None, _best(0.0, end, H, L), np.nan)
    end = _crossing(lambda eta: first(eta) + 1, 0.0, far if odd else turn)
    if odd:
        return Steps(end, None, _best(0.0, end, H, L), np.nan)
    again = (_crossing(lambda eta: first(eta) + 1, turn, far), _crossing(lambda eta: first(eta) - 1, turn, far))
    return Steps(end, again, _best(0.0, end, H, L), _best(*again, H, L))


def _best(low: float, high: float, H: int, L: float) -> float:
    """The step of the smallest radius, on a grid."""
    grid = np.linspace(low, high, SCAN + 2)[1:-1]
    return float(grid[np.argmin(radius(grid, H, L))])


def shrinks(eta: float, H: int, L: float, rounds: int) -> tuple[float, float]:
    """‖x_1‖²/‖x_0‖² of a run from (0, 1), the theorem's x_0, and ‖x_T‖²/‖x_0‖² of one from (1, 1)."""
    problem = theorem5_instance(L)
    ends = []
    for x0, count in ((np.array([0.0, 1.0]), 1), (np.array([1.0, 1.0]), rounds)):
        history = ud.run(
            ud.fedlin(eta=H * eta), problem, rounds=count, steps=H, x0=x0, on_divergence="continue"
        ).history
        ends.append(float(history["sq_distance"][-1] / history["sq_distance"][0]))
    return ends[0], ends[1]


def _produce(work: Work) -> Data:
    lines, rows, runs = Lines(), [], []
    for H in work["H shown"]:
        etas = np.linspace(0, work["shown up to"] / work["L shown"], SCAN)[1:]
        lines.add(f"H = {H}", etas, radius(etas, H, work["L shown"]))
    cases = [(L, H) for L in work["L"] for H in range(2, int(work["longest H"] * L) + 1)]
    for L, H in cases:
        found = stable_steps(H, L)
        low, high = found.again or (np.nan, np.nan)
        best_again = float(radius(found.best_again, H, L)) if found.again else np.nan
        last = found.end if found.again is None else found.again[1]
        rows.append((L, H, found.end, low, high, last, float(radius(found.best, H, L)), best_again, found.best_again))
    for number, (L, H) in enumerate(work["run"]):
        found = stable_steps(H, L)
        for part, eta in (("first", 0.999 * found.end), ("second", found.best_again)):
            if np.isfinite(eta):
                runs.append((L, H, part, eta, float(radius(eta, H, L)), *shrinks(eta, H, L, work["rounds"])))
        work.progress(f"L = {L:g}, H = {H}", number + 1, len(work["run"]))
    names = ("L", "H", "end", "from", "to", "last", "best radius", "best radius again", "best again")
    run_names = ("L", "H", "interval", "eta", "radius", "a round from (0, 1)", "all rounds from (1, 1)")
    tables = {"lines": lines.table(), "cases": _columns(names, rows), "runs": _columns(run_names, runs)}
    return Data(tables, seeds=[0])


def _columns(names: tuple[str, ...], rows: list[Any]) -> dict[str, Any]:
    return dict(zip(names, zip(*rows, strict=True), strict=True))


# ---------------------------------------------------------------- what is decided
def _below_one_over_H(parity: int) -> Callable[[Data], Decision]:
    """(58): every stable η is below 1/H."""

    def decide(data: Data) -> Decision:
        table = data["cases"]
        of = table["H"] % 2 == parity
        scaled = (table["last"] * table["H"])[of]
        bad = scaled >= 1
        text = f"the largest stable ηH is {scaled.max():.2f}; beyond 1 in {int(bad.sum())} of {len(bad)} cases (L, H)"
        return at_most(float(scaled.max()), 1, text, _why(data, bad, of))

    return decide


def _why(data: Data, bad: np.ndarray, of: np.ndarray) -> str:
    table = data["cases"]
    here = {L: table["H"][of][bad & (table["L"][of] == L)] for L in data.setting["L"]}
    least = [f"H = {int(H.min())} for L = {L:g}" for L, H in here.items() if H.size]
    return (
        "the proof replaces (1 − ηL)^H by (1 − η)^H, which is wrong for even H and η > 2/(L + 1): there λ_1 rises again and "
        f"crosses (−1, 1) a second time. The first cases are {', '.join(least)}."
    )


def _lower_bound(parity: int) -> Callable[[Data], Decision]:
    """(10): ‖x_{t+1}‖² ≥ e⁻⁴‖x_t‖² from (0, β), that is λ_2² ≥ e⁻⁴ at every stable η; λ_2 falls with η."""

    def decide(data: Data) -> Decision:
        table = data["cases"]
        of = table["H"] % 2 == parity
        least = ((1 - table["last"]) ** (2 * table["H"]))[of]
        bad = least < np.exp(-4)
        text = f"the smallest ‖x_1‖²/‖x_0‖² at a stable step is {least.min():.1e}, e⁻⁴ = {np.exp(-4):.1e}; "
        return at_least(
            float(least.min()), np.exp(-4), text + f"{int(bad.sum())} of {len(bad)} cases", _why(data, bad, of)
        )

    return decide


def _first_interval(data: Data) -> Decision:
    """Both, up to the end of the first interval, for all H."""
    table = data["cases"]
    scaled = float((table["end"] * table["H"]).max())
    least = float(((1 - table["end"]) ** (2 * table["H"])).min())
    text = f"largest ηH: {scaled:.3f}; smallest ‖x_1‖²/‖x_0‖²: {least:.3f} (e⁻⁴ = {np.exp(-4):.3f}), {len(table['H'])} cases"
    return Decision(scaled < 1 and least >= np.exp(-4), text, min(1 / scaled, least / np.exp(-4)))


def _pays(data: Data) -> Decision:
    table = data["cases"]
    there = np.isfinite(table["best radius again"]) & (table["H"] >= table["L"])
    gain = np.log(table["best radius again"][there]) / np.log(table["best radius"][there])
    at = int(np.argmax(gain))
    L, H = table["L"][there][at], int(table["H"][there][at])
    text = f"ln(radius) is larger by the factor {gain.min():.1f} to {gain.max():.1f} (L = {L:g}, H = {H}), {len(gain)} cases"
    return at_least(float(gain.min()), 2, text)


def _runs_agree(data: Data) -> Decision:
    """Runs in both intervals converge from (1, 1), those of the second faster than the theorem allows from (0, 1)."""
    table = data["runs"]
    second = table["interval"] == "second"
    far = float(table["all rounds from (1, 1)"].max())
    beaten = float(table["a round from (0, 1)"][second].max())
    text = f"{len(second)} runs end at {far:.0e} of the start or less; in the second interval a round shrinks ‖x‖² to "
    text += f"{beaten:.1e} or less from (0, 1)"
    fine = far < 1e-2 and beaten < np.exp(-4)
    return Decision(fine, text, min(1e-2 / far, np.exp(-4) / beaten))


def _draw(data: Data) -> Figure:
    from .draw import dress, legend, panels

    figure, axes = panels(1, 1, width=5.4, height=3.4)
    axis = axes[0, 0]
    colours = {f"H = {H}": colour for H, colour in zip(data.setting["H shown"], COLOURS, strict=False)}
    draw_lines(axis, data, colours)
    for H in data.setting["H shown"]:
        axis.axvline(1 / H, color=colours[f"H = {H}"], linewidth=0.8, linestyle=":")
    axis.axhline(1, color="#444444", linewidth=0.8)
    axis.set_ylim(0, 2)
    axis.set_xlim(0, None)
    title = (
        f"stable below 1; dotted: η = 1/H, where Theorem 5 says that stability ends (L = {data.setting['L shown']:g})"
    )
    dress(axis, title, "step η of a client", "spectral radius of a round", log=False)
    legend(figure, axes)
    return figure


def _page(data: Data) -> list[dict[str, Any]]:
    return page_lines(data, "Stable below 1", "η", "spectral radius of a round", x_scale="linear", y_scale="linear")


THM5 = Item(
    name="fedlin/thm5",
    title="FedLin, Theorem 5: the lower bound holds for odd numbers of local steps, not for even ones",
    setting=(
        paper("instance", "f_1 = ½‖x‖² + bᵀx, f_2 = ½xᵀdiag(L, 1)x − bᵀx", "appendix E"),
        paper("x_0", "(0, β)", "of the lower bound"),
        ours("L", [14.0, 30.0, 100.0], "the theorem has L ≥ 14"),
        ours("longest H", 3.0, "times L: every H from 2 to it; the theorem has H ≥ 2"),
        ours("run", [[14.0, 20], [14.0, 21], [14.0, 40], [30.0, 60], [30.0, 61]], "(L, H) that are run as well"),
        ours("rounds", 2000, "of the runs from (1, 1)"),
        ours("L shown", 14.0),
        ours("H shown", [19, 20, 40]),
        ours("shown up to", 2.6, "η, times 1/L"),
    ),
    reduced=(reduced("L", [14.0, 30.0]), reduced("run", [[14.0, 20], [14.0, 21]])),
    produce=_produce,
    draw=_draw,
    page_figures=_page,
    claims=(
        Claim("for odd H every stable step is below 1/H", _below_one_over_H(1), "(58): η < 1/H is necessary"),
        Claim("for even H every stable step is below 1/H", _below_one_over_H(0), "(58): η < 1/H is necessary"),
        Claim("for odd H ‖x_T‖² ≥ exp(−4T)‖x_0‖² at every stable step", _lower_bound(1), "Theorem 5, (10)"),
        Claim("for even H ‖x_T‖² ≥ exp(−4T)‖x_0‖² at every stable step", _lower_bound(0), "Theorem 5, (10)"),
        Claim("up to the end of the first interval of stable steps both hold, whatever H", _first_interval, None),
        Claim("runs in the second interval converge, and faster than the theorem allows", _runs_agree, None),
        Claim("there a round is worth at least two of the best ones below 1/H (even H ≥ L)", _pays, None),
    ),
)
ITEMS = (THM5,)
