"""Past the papers: what FedLin is worth in the worst case, by certificates; conjectures, and cases kept back to test them.

The rate of a round is the worst over all L-smooth, μ-strongly convex losses of the clients (`ud.theory.certify`), in units with
L = 1. The conjecture is that up to the best step the worst case is the plainest: f_i(x) = (μ/2)‖x‖² at all clients, where
‖x − x*‖² contracts by (1 − η̄μ/τ)^(2τ). It was read off τ = 2, 4, 8 at κ = 10 and 100; `kept back` has cases that were not
looked at before it was written down. Running this needs undrift[certify].
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from undrift.theory.certificates import table as shipped
from undrift.theory.certificates.closed_form import quadratic_rate

from .data import Data
from .item import Claim, Decision, Item, Work, at_least, at_most, ours, reduced

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {1: "#000000", 2: "#56B4E9", 4: "#0072B2", 8: "#D55E00"}
CURVE = (1 / 6, 0.5, 1.0, 1.5, 1.818, 1.95, 2.1, 2.5, 3.0, 3.5, 3.9, 4.1, 4.5, 5.0, 5.3, 5.6, 6.0, 6.5)
COLUMNS = ("question", "method", "tau", "kappa", "clients", "eta", "rate", "quadratic")


def produce(work: Work) -> Data:
    """Every question is a row: a certified rate beside that of the quadratics."""
    asked = list(_questions(work))
    rows = []
    for number, question in enumerate(asked):
        rows.append(_answer(*question))
        work.progress(f"beyond/certificates: {question[0]}", number + 1, len(asked))
    columns = {name: list(column) for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=True)}
    return Data({"rates": columns, "best": _best_steps()}, [0], work.values)


def _questions(work: Work) -> Iterator[tuple[str, str, Any, float, int, float]]:
    """(question, method, τ, κ, m, η̄); m = 0: any number of clients."""
    for tau in work["tau"]:
        for eta in work["eta"]:
            yield "curve", "fedlin", tau, 10.0, 0, eta
    for clients in work["clients"]:
        yield "clients", "fedlin", 3, 10.0, clients, 3.0
    for tau in work["kept back tau"]:
        for kappa in work["kept back kappa"]:
            for share in work["kept back share of the best step"]:
                yield "kept back", "fedlin", tau, kappa, 0, round(share * _near(tau, kappa), 4)
    for steps in work["spread"]:
        yield "spread", "fedlin", tuple(steps), 10.0, len(steps), work["spread at"]


def _near(tau: int, kappa: float) -> float:
    """The best step of the nearest solved case, by τ and then by κ."""
    rows = [row for row in shipped.rows() if row["method"] == "fedlin" and len(row["steps"]) == 1]
    close = min(rows, key=lambda row: (abs(math.log(row["steps"][0] / tau)), abs(math.log(row["kappa"] / kappa))))
    return float(close["eta"])


def _answer(question: str, method: str, tau: Any, kappa: float, clients: int, eta: float) -> tuple[Any, ...]:
    from undrift.theory.certificates.certify import rates_of
    from undrift.theory.certificates.finite import worst_case
    from undrift.theory.certificates.rounds import METHODS

    steps = list(tau) if isinstance(tau, tuple) else [tau]
    if question == "clients" or question == "spread":
        counts = steps if question == "spread" else steps * clients
        found = worst_case(
            METHODS[method],
            counts,
            [1 / len(counts)] * len(counts),
            eta,
            kappa,
            "sq_distance",
            {"down": None},
            np.ones((1, 1)),
            False,
        )
        rate = math.nan if found is None else found.value
        quadratic = float(np.mean([(1 - eta / kappa / one) ** one for one in counts]) ** 2)
    else:
        rate = rates_of(method, Fraction(str(kappa)), set(steps), {}).certified(Fraction(str(eta)), worst=False).rate
        quadratic = quadratic_rate(method, eta, kappa, steps)
    return question, method, "-".join(map(str, steps)), kappa, clients, eta, rate, quadratic


def _best_steps() -> dict[str, list[Any]]:
    """The shipped table: the best step and its rate."""
    rows = shipped.rows()
    return {
        "method": [row["method"] for row in rows],
        "tau": ["-".join(map(str, row["steps"])) for row in rows],
        "kappa": [float(row["kappa"]) for row in rows],
        "eta": [row["eta"] for row in rows],
        "rate": [row["rate"] for row in rows],
        "quadratic": [row["below"] for row in rows],
    }


def _best(data: Data, method: str, tau: int | str, kappa: float) -> dict[str, float]:
    rows = data.where("best", method=method, tau=str(tau), kappa=kappa)
    return {name: float(rows[name][0]) for name in ("eta", "rate", "quadratic")}


def _rounds(rate: float) -> int:
    """To a millionth."""
    return math.ceil(math.log(1e-6) / math.log(rate))


def _not_on_clients(data: Data) -> Decision:
    rows = data.where("rates", question="clients")
    spread = float(rows["rate"].max() - rows["rate"].min())
    each = [f"{rate:.7f} (m = {m})" for rate, m in zip(rows["rate"], rows["clients"], strict=True)]
    return at_most(max(spread, 1e-12), 1e-5, f"τ = 3, η̄ = 3/L, κ = 10: {', '.join(each)}")


def _quadratics_are_worst(longest: bool, data: Data) -> Decision:
    """On the cases kept back; without `longest` the longest step of each (τ, κ) is left out."""
    rows = data.where("rates", question="kept back")
    cases = list(zip(rows["tau"], rows["kappa"], strict=True))
    last = {case: max(eta for eta, other in zip(rows["eta"], cases, strict=True) if other == case) for case in cases}
    chosen = np.array(
        [
            longest or eta < last[case] or len(set(rows["eta"])) == 1
            for eta, case in zip(rows["eta"], cases, strict=True)
        ]
    )
    off = np.where(chosen, np.abs(rows["rate"] - rows["quadratic"]), 0.0)
    worst = int(np.argmax(off))
    where = f"τ = {rows['tau'][worst]}, κ = {rows['kappa'][worst]:g}, η̄ = {rows['eta'][worst]:g}/L"
    count = int(np.sum(off > 1e-4))
    why = f"{count} of {chosen.sum()} cases are further apart: in the worst of them the certified rate is "
    why += f"{rows['rate'][worst]:.6f}, that of the quadratics {rows['quadratic'][worst]:.6f}"
    return at_most(float(off.max()), 1e-4, f"{chosen.sum()} cases, at most {off.max():.1e} apart ({where})", why)


def _spread_by_the_mean(data: Data) -> Decision:
    rows = data.where("rates", question="spread")
    off = np.abs(rows["rate"] - rows["quadratic"])
    said = ", ".join(f"({t}) {r:.5f}" for t, r in zip(rows["tau"], rows["rate"], strict=True))
    return at_most(float(off.max()), 1e-4, f"{said}: at most {off.max():.1e} from (mean_i (1 − η̄μ/τ_i)^τ_i)²")


def _theorem_against(data: Data) -> Decision:
    ratios, words = [], []
    for kappa in (10.0, 100.0, 1000.0):
        theorem = math.ceil(math.log(1e-6) / math.log(1 - 1 / (6 * kappa)))
        certified = _rounds(_best(data, "fedlin", 4, kappa)["rate"])
        ratios.append(theorem / certified)
        words.append(f"κ = {kappa:g}: {theorem} by Theorem 1, {certified} certified")
    return at_least(min(ratios), 10.0, f"rounds to 1e-6, τ = 4: {'; '.join(words)}")


def _worth_of_local_steps(data: Data) -> Decision:
    pairs = [
        (_rounds(_best(data, "fedlin", 1, k)["rate"]), _rounds(_best(data, "fedlin", 8, k)["rate"]))
        for k in (10.0, 100.0, 1000.0)
    ]
    said = ", ".join(f"{a} and {b}" for a, b in pairs)
    return at_least(
        min(a / b for a, b in pairs), 2.0, f"certified rounds to 1e-6 with τ = 1 and 8 at κ = 10, 100, 1000: {said}"
    )


def _one_step_client_costs(data: Data) -> Decision:
    ratios = [
        _rounds(_best(data, "fedlin", "1-2-3-4-5", k)["rate"]) / _rounds(_best(data, "fedlin", 1, k)["rate"])
        for k in (10.0, 100.0)
    ]
    return at_most(
        max(ratios), 1.1, f"{', '.join(f'{r:.3f}' for r in ratios)} times the rounds of gradient descent at κ = 10, 100"
    )


def _scaffold_alike(data: Data) -> Decision:
    ratios = [
        _rounds(_best(data, "scaffold", tau, k)["rate"]) / _rounds(_best(data, "fedlin", tau, k)["rate"])
        for tau in (2, 4)
        for k in (10.0, 100.0)
    ]
    said = f"{', '.join(f'{r:.2f}' for r in ratios)} times FedLin's certified rounds (τ = 2, 4; κ = 10, 100)"
    return at_most(max(ratios), 1.25, said, "its memory is a round old, and its certificate allows smaller steps")


def draw(data: Data) -> Figure:
    """Certified rates over the step, τ = 1 being gradient descent."""
    from .draw import dress, panels

    figure, axes = panels(1, 1, width=5.4, height=3.4)
    axis = axes[0, 0]
    for tau, colour in COLOURS.items():
        rows = data.where("rates", question="curve", tau=str(tau))
        order = np.argsort(rows["eta"])
        eta, rate = rows["eta"][order], rows["rate"][order]
        label = "τ = 1: gradient descent" if tau == 1 else f"τ = {tau}"
        axis.plot(eta, rate, color=colour, linewidth=1.7, marker="o", markersize=3, label=label)
    axis.axvline(1 / 6, color="#888888", linestyle=":", linewidth=1.2)
    axis.annotate(
        "Theorem 1’s step", (1 / 6, 0.25), xytext=(4, 0), textcoords="offset points", color="#666666", fontsize=8
    )
    axis.set_ylim(0.2, 1.1)
    axis.axhline(1.0, color="#bbbbbb", linewidth=0.8)
    dress(axis, "FedLin, κ = 10, any number of clients", "η̄L", "certified contraction of ‖x − x*‖² a round")
    axis.set_yscale("linear")
    axis.legend(frameon=False, fontsize=8.5)
    return figure


ITEM = Item(
    name="beyond/certificates",
    title="Past the papers: what FedLin is worth in the worst case",
    setting=(
        ours("tau", [1, 2, 4, 8], "of the curves"),
        ours("eta", list(CURVE), "η̄L of the curves"),
        ours("clients", [2, 3, 4], "PEPit's programmes for so many clients"),
        ours("kept back tau", [3, 6, 7, 9], "not looked at before the conjecture was written"),
        ours("kept back kappa", [4.0, 33.0, 250.0]),
        ours("kept back share of the best step", [0.3, 0.7, 0.9], "of the nearest row of the table"),
        ours("spread", [[2, 4], [2, 2, 4], [1, 4], [3, 5]], "τ_i of the clients"),
        ours("spread at", 1.8, "η̄L"),
    ),
    reduced=(
        reduced("tau", [1, 2, 4, 8]),
        reduced("eta", [1.0, 1.8]),
        reduced("clients", [2, 3]),
        reduced("kept back tau", [3]),
        reduced("kept back kappa", [33.0]),
        reduced("kept back share of the best step", [0.7]),
        reduced("spread", [[2, 4]]),
    ),
    produce=produce,
    draw=draw,
    claims=(
        Claim("the worst case is the same for two, three and four clients", _not_on_clients),
        Claim(
            "conjecture: up to nine tenths of the best step the worst case is f_i = (μ/2)‖x‖²; on cases kept back",
            functools.partial(_quadratics_are_worst, True),
        ),
        Claim(
            "the same up to seven tenths (a bound that was chosen after nine tenths had failed in a corner)",
            functools.partial(_quadratics_are_worst, False),
            scales=("paper",),
        ),
        Claim(
            "conjecture: with different τ_i the rate is that of the mean contraction on f_i = (μ/2)‖x‖²",
            _spread_by_the_mean,
        ),
        Claim(
            "the certified step takes at most a tenth of the rounds that Theorem 1 promises",
            _theorem_against,
            "(1 − 1/(6κ))^T",
        ),
        Claim("local steps are worth something: eight take at most half the rounds of one", _worth_of_local_steps),
        Claim(
            "where one client takes a single step, up to five at the others cost at most a tenth of the rounds",
            _one_step_client_costs,
        ),
        Claim("SCAFFOLD with everyone needs at most a quarter more rounds than FedLin", _scaffold_alike),
    ),
    page_figures=lambda data: [],
)
ITEMS = (ITEM,)
