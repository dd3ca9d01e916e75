"""The FedAvg paper's Lemmas 2.2 (progress of a round) and 2.3 (client drift), on its toy and on random convex clients.

All clients take part and gradients are exact (σ = 0). With x̄^k = mean_i x_i^k over one round of τ local steps, η ≤ 1/(4L):

    2.2  (1/τ) Σ_{k=1}^τ F(x̄^k) − F* ≤ (‖x̄^0 − x*‖² − ‖x̄^τ − x*‖²)/(2ητ) + c/(Mτ) Σ_i Σ_{k<τ} ‖x_i^k − x̄^k‖²
    2.3  ‖x_i^k − x̄^k‖² ≤ 18τ²η²ζ²

The statement of 2.2 prints c = 1, its proof has c = L. For 2.3 with σ = 0, two lines give 4 in place of 18: a step of gradient
descent on a convex L-smooth F is no expansion, so ‖x_i^{k+1} − x_j^{k+1}‖ ≤ ‖x_i^k − x_j^k‖ + 2ηζ, and
‖x_i^k − x̄^k‖ ≤ mean_j ‖x_i^k − x_j^k‖ ≤ 2kηζ(1 − 1/M).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .data import Data
from .fedavg_toy_runs import TOY, toy_of
from .item import Claim, Decision, Item, Work, at_least, ours, paper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOY_NAME, LOGISTIC, QUADRATIC = "the toy", "random logistic clients", "random quadratic clients"
COLOURS = {TOY_NAME: "#D55E00", LOGISTIC: "#0072B2", QUADRATIC: "#009E73"}
COLUMNS = ("clients", "L", "tau", "eta", "left", "right, L", "right, 1", "drift / (τηζ)²", "M")


class Clients(NamedTuple):
    """Convex L-smooth clients with a known minimiser of their mean; points are (M, d)."""

    gradients: Callable[[np.ndarray], np.ndarray]  # ∇F_i(x_i), (M, d) -> (M, d)
    loss: Callable[[np.ndarray], float]  # F(x), (d,)
    best: np.ndarray
    L: float
    zeta: float  # sup_x max_i ‖∇F_i − ∇F‖; infinite where it is not bounded
    M: int


def logistic(sums: np.ndarray, labels: np.ndarray, scale: float) -> Clients:
    """F_i(b) = scale · mean_j [log(1 + exp(s_ij + b)) − y_ij b], one bias for all."""

    def gradients(b: np.ndarray) -> np.ndarray:
        return np.asarray(scale * np.mean(1 / (1 + np.exp(-(sums + b))) - labels, axis=1, keepdims=True))

    def loss(b: np.ndarray) -> float:
        z = sums + b[0]
        return float(scale * np.mean(np.logaddexp(0, z) - labels * z))

    low, high = -60.0, 60.0
    for _ in range(200):
        middle = (low + high) / 2
        slope = gradients(np.full((len(sums), 1), middle)).mean()
        low, high = (low, middle) if slope > 0 else (middle, high)
    grid = np.linspace(-40, 40, 4001)
    p = 1 / (1 + np.exp(-(sums[:, :, None] + grid)))
    own = scale * (p - labels[:, :, None]).mean(axis=1)
    L, zeta = scale * float((p * (1 - p)).mean(axis=1).max()), float(np.abs(own - own.mean(axis=0)).max())
    return Clients(gradients, loss, np.array([middle]), L, zeta, len(sums))


def quadratics(A: np.ndarray, b: np.ndarray) -> Clients:
    """F_i(x) = ½xᵀA_i x − b_iᵀx; ζ is not bounded unless all A_i are the same."""
    mean_A, mean_b = A.mean(axis=0), b.mean(axis=0)
    return Clients(
        lambda x: np.asarray(np.einsum("mij,mj->mi", A, x) - b),
        lambda x: float(0.5 * x @ mean_A @ x - mean_b @ x),
        np.linalg.solve(mean_A, mean_b),
        float(np.linalg.eigvalsh(A).max()),
        float("inf"),
        len(A),
    )


def sides(clients: Clients, x: np.ndarray, eta: float, tau: int) -> tuple[dict[str, float], np.ndarray]:
    """Both sides of both lemmas for one round from x, and where it ends."""
    local = np.tile(x, (clients.M, 1))
    gaps, drift, largest = [], 0.0, 0.0
    for k in range(tau):
        apart = ((local - local.mean(axis=0)) ** 2).sum(axis=1)
        drift, largest = drift + (float(apart.mean()) if k else 0.0), max(largest, float(apart.max()))
        local = local - eta * clients.gradients(local)
        gaps.append(clients.loss(local.mean(axis=0)) - clients.loss(clients.best))
    end = local.mean(axis=0)
    largest = max(largest, float(((local - end) ** 2).sum(axis=1).max()))
    progress = float(((x - clients.best) ** 2).sum() - ((end - clients.best) ** 2).sum()) / (2 * eta * tau)
    return {
        "left": float(np.mean(gaps)),
        "right, L": progress + clients.L * drift / tau,
        "right, 1": progress + drift / tau,
        "drift / (τηζ)²": largest / (tau * eta * clients.zeta) ** 2,
    }, end


def _random(kind: str, rng: np.random.Generator) -> Clients:
    """Clients of all sizes: 2 to 10 of them, L over six orders of magnitude."""
    M, scale = int(rng.integers(2, 11)), float(10 ** rng.uniform(-1.5, 2.5))
    if kind == LOGISTIC:
        sums = rng.normal(0, 3, (M, 6)) + rng.normal(0, 4, (M, 1))
        labels = (rng.uniform(size=(M, 6)) < rng.uniform(size=(M, 1))).astype(float)
        labels[0, :2] = 0.0, 1.0  # both are there, so a minimiser is
        return logistic(sums, labels, scale)
    d = int(rng.integers(1, 5))
    roots = rng.normal(size=(M, d, d)) * 10 ** rng.uniform(-1, 0.5, (M, 1, 1))
    return quadratics(scale * (roots @ roots.transpose(0, 2, 1)) + 1e-3 * np.eye(d), scale * rng.normal(size=(M, d)))


def _play(kind: str, clients: Clients, x: np.ndarray, eta: float, tau: int, rounds: int) -> list[tuple[Any, ...]]:
    rows = []
    for _ in range(rounds):
        found, x = sides(clients, x, eta, tau)
        rows.append((kind, clients.L, tau, eta, *found.values(), clients.M))
    return rows


@functools.lru_cache(maxsize=1)
def _table(count: int, rounds: int) -> dict[str, list[Any]]:
    """Random clients, from where F is smallest and from elsewhere, with the longest step that the lemmas allow and shorter."""
    rng, rows = np.random.default_rng(0), []
    for number in range(count):
        kind = (LOGISTIC, QUADRATIC)[number % 2]
        clients = _random(kind, rng)
        tau, share = int(rng.choice([1, 2, 5, 10, 30, 100])), float(rng.choice([1.0, 1.0, 0.3]))
        x = clients.best + rng.choice([0.0, 0.1, 3.0]) * rng.normal(size=clients.best.shape)
        rows += _play(kind, clients, x, share / (4 * clients.L), tau, rounds)
    return {name: list(column) for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=True)}


def produce(work: Work) -> Data:
    """The toy with its step, everyone taking part, and random clients."""
    rows = []
    for number, seed in enumerate(work["seeds"]):
        toy = toy_of(work, seed)
        clients = logistic(toy.sums, toy.labels, 1.0)
        for tau in work["tau"]:
            rows += _play(TOY_NAME, clients, np.array([float(work["b_0"])]), work["eta"], tau, work["rounds"])
        work.progress(f"the toy, seed {seed}", number + 1, len(work["seeds"]) + 1)
    table = {name: list(column) for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=True)}
    others = _table(work["random instances"], work["rounds"])
    return Data({"rounds": {name: table[name] + others[name] for name in COLUMNS}}, work["seeds"])


def _progress(column: str, why: str | None = None) -> Callable[[Data], Decision]:
    def decide(data: Data) -> Decision:
        rows = data["rounds"]
        moved = rows["left"] > 1e-13  # at the optimum both sides are rounding
        share = rows[column][moved] / rows["left"][moved]
        L = rows["L"][moved]
        said = f"right/left is {share.min():.3g} or more in {len(share)} rounds"
        if share.min() < 1:
            said += f"; below 1 in {np.mean(share < 1):.0%} of them, all with L ≥ {L[share < 1].min():.2f}"
        return at_least(max(float(share.min()), 1e-12), 1 - 1e-9, said, why)

    return decide


def _drift(constant: float) -> Callable[[Data], Decision]:
    def decide(data: Data) -> Decision:
        rows = data["rounds"]
        known = rows["clients"] != QUADRATIC  # whose ζ is not bounded
        limit = constant * (1 - 1 / rows["M"][known]) ** 2 if constant == 4 else constant
        share = rows["drift / (τηζ)²"][known] / limit
        worst = int(np.argmax(share))
        said = (
            f"the largest drift is {rows['drift / (τηζ)²'][known][worst]:.3f} (τηζ)², {share[worst]:.2g} of the bound"
        )
        return at_least(
            1 / float(share.max()), 1 - 1e-6, f"{said}, in {len(share)} rounds"
        )  # ζ is the largest on a grid

    return decide


def _scatter(title: str, x: str, y: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]], lines: dict[float, str],
             labels: tuple[str, str], log: bool) -> Callable[[Data], Figure]:  # fmt: skip
    def draw(data: Data) -> Figure:
        from .draw import dress, panels

        rows = data["rounds"]
        shown = y(rows)
        figure, axes = panels(1, len(shown), width=3.9, height=3.1, sharey=True)
        for axis, (name, values) in zip(axes[0], shown.items(), strict=True):
            for kind, colour in COLOURS.items():
                here = (rows["clients"] == kind) & np.isfinite(values) & (values > 0)
                if here.any():
                    axis.plot(rows[x][here], values[here], ".", markersize=3, alpha=0.6, color=colour, label=kind)
            for level, text in lines.items():
                axis.axhline(level, color="#333333", linewidth=1, linestyle="--")
                axis.text(0.02, level, text, transform=axis.get_yaxis_transform(), fontsize=7.5, va="bottom")
            axis.set_xscale("log")
            dress(axis, name or title, labels[0], labels[1] if axis is axes[0, 0] else "", log)
        handles, names = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=3, frameon=False, fontsize=8.5, markerscale=3)
        return figure

    return draw


def _shares(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    moved = rows["left"] > 1e-13
    names = {"with L before the drift, as in the proof": "right, L", "without it, as printed": "right, 1"}
    return {
        title: np.where(moved, np.clip(rows[column] / np.where(moved, rows["left"], 1), 1e-2, 1e4), np.nan)
        for title, column in names.items()
    }


RATIO = "right side / left side, kept in 0.01 … 10⁴"
SETTING = (
    *TOY,
    ours("participation", "everyone", "as the lemmas assume; the paper's runs do not"),
    ours("random instances", 600, "2 to 10 clients, L from 0.005 to 20,000, τ from 1 to 100, η = 1/(4L) or 0.3 of it"),
    ours("tau", [1, 10, 50, 300], "of the toy"),
    ours("rounds", 3, "from each start"),
    paper("η ≤", "1/(4L)"),
)
LOST = (
    "the proof ends with L before the drift, and Theorem 2.1 has it again; the statement of the lemma has lost it. Without it "
    "the sides do not scale alike: all F_i times c with η/c leave the iterates as they are and multiply all but the drift by c"
)
ITEMS = (
    Item(
        name="fedavg/lemma2.2",
        title="FedAvg paper, Lemma 2.2: the progress of a round",
        setting=SETTING,
        produce=produce,
        draw=_scatter("", "L", _shares, {1.0: "the two sides are equal"}, ("smoothness L", RATIO), True),
        page_figures=lambda data: [],
        claims=(
            Claim("Lemma 2.2 holds in every round, with the L of its proof before the drift", _progress("right, L"), "eq. (5)"),
            Claim("Lemma 2.2 holds as printed, without the L", _progress("right, 1", LOST), "eq. (5)"),
        ),
    ),
    Item(
        name="fedavg/lemma2.3",
        title="FedAvg paper, Lemma 2.3: how far clients drift apart in a round",
        setting=SETTING,
        produce=produce,
        draw=_scatter(
            "largest drift of a client in a round",
            "tau",
            lambda rows: {"": rows["drift / (τηζ)²"]},
            {18.0: "Lemma 2.3: 18", 4.0: "two lines of ours: 4"},
            ("local steps τ", r"$\max_{i,k} \|x_i^k - \bar x^k\|^2 / (\tau\eta\zeta)^2$"),
            True,
        ),
        page_figures=lambda data: [],
        claims=(
            Claim("Lemma 2.3 holds in every round: 18(τηζ)²", _drift(18), "eq. (6)"),
            Claim("for exact gradients 4(1 − 1/M)²(τηζ)² is enough, by the triangle inequality", _drift(4), None),
        ),
    ),
)  # fmt: skip
