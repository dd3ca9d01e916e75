"""What clipping and noise on the way up do to exactness: the floors that private methods end at, over random problems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import undrift as ud

from .data import Data
from .item import Claim, Decision, Item, Work, at_least, at_most, ours

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("FedSGD", "FedAvg", "SCAFFOLD")
WHERE = ("server", "client")
COLUMNS = ("seed", "method", "where", "noise", "clip", "floor", "growth", "predicted", "epsilon")


def _method(name: str, work: Work) -> Any:
    if name == "FedSGD":
        return ud.fedsgd(eta=work["eta"])
    return (ud.fedavg if name == "FedAvg" else ud.scaffold)(eta=work["local eta"])


def _problem(work: Work, seed: int) -> Any:
    """Quadratics with eigenvalues in [μ, 1] and minimisers 3·N(0, I): every client has its own."""
    rng = np.random.default_rng(seed)
    m, d = work["clients"], work["dim"]
    bases, _ = np.linalg.qr(rng.standard_normal((m, d, d)))
    H = (bases * rng.uniform(work["mu"], 1.0, (m, 1, d))) @ np.swapaxes(bases, 1, 2)
    return ud.problems.quadratic(H, (H @ (3 * rng.standard_normal((m, d, 1))))[..., 0]), H.mean(axis=0)


def _predicted(H: np.ndarray, eta: float, deviation: float) -> float:
    """E‖x_∞ − x*‖² of x ← x − η(∇f(x) + ξ), ξ ~ N(0, s² I): Σ_j η²s²/(1 − (1 − ηλ_j)²)."""
    return float(np.sum((eta * deviation) ** 2 / (1 - (1 - eta * np.linalg.eigvalsh(H)) ** 2)))


def _produce(work: Work) -> Data:
    rows = []
    grid = {"noise": work["noise"], "clip": work["clip"]}
    seeds, m = range(work["problems"]), work["clients"]
    for seed in seeds:
        problem, H = _problem(work, seed)
        for name in METHODS:
            for where in WHERE:

                def make(noise: float, clip: float, name: str = name, where: str = where) -> Any:
                    return ud.private(_method(name, work), clip=clip, noise=noise, where=where, delta=work["delta"])

                swept = ud.sweep(
                    make,
                    problem,
                    grid=grid,
                    seeds=[seed],
                    rounds=work["rounds"],
                    steps=1 if name == "FedSGD" else work["tau"],
                )
                ends = swept.history["sq_distance"][:, :, 0, -work["last"] :]
                earlier, later = (half.mean(axis=-1) for half in np.split(ends, 2, axis=-1))
                for (i, noise), (j, clip) in [
                    (a, b) for a in enumerate(grid["noise"]) for b in enumerate(grid["clip"])
                ]:
                    deviation = noise * clip / (m if where == "server" else np.sqrt(m))
                    known = _predicted(H, work["eta"], deviation) if name == "FedSGD" else np.nan
                    floor, growth = float(ends[i, j].mean()), float(later[i, j] / max(earlier[i, j], 1e-300))
                    epsilon = float(swept.history["epsilon"][i, j, 0, -1])
                    rows.append((seed, name, where, noise, clip, floor, growth, known, epsilon))
        work.progress(f"problem {seed}", seed + 1, len(seeds))
    return Data({"floors": dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))}, list(seeds))


def _floor(data: Data, method: str, where: str, noise: float, clip: float, column: str = "floor") -> np.ndarray:
    return data.where("floors", method=method, where=where, noise=noise, clip=clip)[column]


def _wide(data: Data) -> float:
    return float(max(data.setting["clip"]))


def _noises(data: Data) -> list[float]:
    return [noise for noise in data.setting["noise"] if noise > 0]


def _as_predicted(data: Data) -> Decision:
    ratios = []
    for noise in _noises(data):
        measured, known = (
            _floor(data, "FedSGD", "server", noise, _wide(data), column) for column in ("floor", "predicted")
        )
        ratios.append(float(np.median(measured / known)))
    off = max(abs(ratio - 1) for ratio in ratios)
    return at_most(off, 0.15, f"median of measured/predicted between {min(ratios):.3f} and {max(ratios):.3f}")


def _slope(data: Data, method: str) -> float:
    noises = _noises(data)
    floors = [float(np.median(_floor(data, method, "server", noise, _wide(data)))) for noise in noises]
    return float(np.polyfit(np.log(noises), np.log(floors), 1)[0])


def _quadratic_in_noise(data: Data) -> Decision:
    slopes = {method: _slope(data, method) for method in ("FedSGD", "SCAFFOLD")}
    off = max(abs(slope - 2) for slope in slopes.values())
    text = ", ".join(f"{method} σ^{slope:.3f}" for method, slope in slopes.items())
    return at_most(off, 0.1, f"with central noise they grow as {text}")


def _local_costs_m(data: Data) -> Decision:
    noise, m = min(_noises(data)), data.setting["clients"]
    pair = [_floor(data, "FedSGD", where, noise, _wide(data)) for where in ("client", "server")]
    ratio = float(np.median(pair[0] / pair[1])) / m
    return at_most(max(ratio, 1 / ratio), 1.25, f"median ratio of the floors {ratio * m:.1f}, m = {m}")


def _exactness_is_lost(data: Data) -> Decision:
    least = min(_noises(data))
    clean, noisy = (float(np.median(_floor(data, "SCAFFOLD", "server", n, _wide(data)))) for n in (0.0, least))
    text = f"‖x − x*‖² ends at {clean:.1e} without noise, at {noisy:.1e} with σ = {least:g}"
    return at_least(noisy / max(clean, 1e-300), 1e6, text)


def _stays(data: Data) -> Decision:
    least = min(_noises(data))
    growth = {
        m: float(np.median(_floor(data, m, "server", least, _wide(data), "growth"))) for m in ("FedSGD", "FedAvg")
    }
    text = ", ".join(f"{method} ×{factor:.2f}" for method, factor in growth.items())
    return at_most(max(max(factor, 1 / factor) for factor in growth.values()), 1.15, f"over the last 50 rounds: {text}")


def _walks(data: Data) -> Decision:
    growth = float(np.median(_floor(data, "SCAFFOLD", "server", min(_noises(data)), _wide(data), "growth")))
    return at_least(
        growth, 1.2, f"SCAFFOLD over the last 50 rounds against the 50 before: ×{growth:.2f} (a random walk: ×1.4)"
    )


def _clip_alone_biases(data: Data) -> Decision:
    small = min(data.setting["clip"])
    narrow, wide = (_floor(data, "FedSGD", "server", 0.0, clip) for clip in (small, _wide(data)))
    ends = f"at {np.median(narrow):.1e} with C = {small:g}, at {np.median(wide):.1e} with C = {_wide(data):g}"
    return at_least(float(np.min(narrow / np.maximum(wide, 1e-300))), 1e6, f"without noise it ends {ends}")


def _epsilon(data: Data) -> Decision:
    ends = {noise: _floor(data, "FedSGD", "server", noise, _wide(data), "epsilon")[0] for noise in _noises(data)}
    table = data["floors"]
    same = all(np.unique(table["epsilon"][table["noise"] == noise]).size == 1 for noise in data.setting["noise"])
    text = ", ".join(f"{epsilon:.3g} at σ = {noise:g}" for noise, epsilon in ends.items())
    return Decision(bool(same), f"ε at δ = {data.setting['delta']:g} at the end: {text}", 1.0 if same else 0.5)


def _draw(data: Data) -> Figure:
    from undrift.report.style import looks

    from .draw import dress, legend, panels

    clips = data.setting["clip"]
    figure, axes = panels(2, len(clips), sharey=True)
    styles = dict(zip(METHODS, looks(["fedsgd", "fedavg", "scaffold"]), strict=True))
    for row, where in enumerate(WHERE):
        for column, clip in enumerate(clips):
            axis = axes[row][column]
            for method, look in styles.items():
                _curve(axis, data, method, where, clip, look)
            across, up = (
                "noise multiplier σ (dots: σ = 0)" if row else "",
                r"$\|x - x^\star\|^2$" if column == 0 else "",
            )
            dress(axis, f"noise by {'the server' if where == 'server' else 'every client'}, C = {clip:g}", across, up)
            axis.set_xscale("log", base=2)
    axes[0][0].set_ylim(1e-8, 3 * float(np.max(data["floors"]["floor"])))
    legend(figure, axes)
    return figure


def _curve(axis: Any, data: Data, method: str, where: str, clip: float, look: Any) -> None:
    """The median over problems, with the middle eight tenths; dots where it ends without noise."""
    noises = _noises(data)
    floors = [_floor(data, method, where, noise, clip) for noise in noises]
    low, middle, high = ([float(np.quantile(one, q)) for one in floors] for q in (0.1, 0.5, 0.9))
    axis.plot(noises, middle, color=look.colour, linestyle=look.dash, linewidth=look.width, label=method)
    axis.fill_between(noises, low, high, color=look.colour, alpha=0.18, linewidth=0)
    clean = float(np.median(_floor(data, method, where, 0.0, clip)))
    axis.axhline(clean, color=look.colour, linewidth=0.9, linestyle=(0, (1.2, 1.4)))


ITEM = Item(
    name="beyond/private",
    title="Clipping and noise on the up-link: the floors of private methods",
    setting=(
        ours("problem", "quadratics, eigenvalues in [μ, 1], every client with its own minimiser 3·N(0, I)"),
        ours("problems", 50, "drawn anew, one seed each"),
        ours("clients", 50),
        ours("dim", 5),
        ours("mu", 0.4),
        ours("eta", 0.3, "of FedSGD"),
        ours("local eta", 0.1, "of FedAvg and SCAFFOLD"),
        ours("tau", 5),
        ours("rounds", 200),
        ours("last", 100, "rounds over which a floor is averaged"),
        ours("noise", [0.0, 1.0, 4.0, 16.0], "σ, the multiplier; all with the same draws"),
        ours("clip", [1.0, 20.0], "C; no message reaches the larger one without noise"),
        ours("delta", 1e-5),
    ),
    produce=_produce,
    draw=_draw,
    claims=(
        Claim("FedSGD with central noise ends where Σ_j η²s²/(1 − (1 − ηλ_j)²) says, s = σC/m, to 15 %", _as_predicted),
        Claim(
            "floors grow as σ² where the clip is idle (the same draws, scaled), to 0.1 in the exponent",
            _quadratic_in_noise,
        ),
        Claim("noise by every client costs m times the floor of central noise, to a quarter", _local_costs_m),
        Claim(
            "noise takes SCAFFOLD's exactness away: a million times the error without noise already with the least σ",
            _exactness_is_lost,
        ),
        Claim("FedSGD and FedAvg stay at their floor, to 15 %", _stays),
        Claim(
            "SCAFFOLD has no floor: the server's c sums up all noise, which the clients' c_i never hear of, so that "
            "the error of c − mean c_i is a random walk",
            _walks,
        ),
        Claim("clipping alone biases FedSGD, whose messages do not vanish at x*, on every problem", _clip_alone_biases),
        Claim("ε depends on σ and the number of rounds alone, not on C, the method or the problem", _epsilon),
    ),
    quantity="‖x − x*‖²",
)
ITEMS = (ITEM,)
