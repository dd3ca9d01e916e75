"""Beyond the papers: sequential FL with control variates on random problems, and the steps at which it contracts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

import undrift as ud

from .beyond_sequence import CORRECTED, LOOKS, PLAIN, SCAFFOLD, swept
from .data import Data
from .item import Claim, Decision, Item, Work, at_least, ours, reduced

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUADRATIC, LOGISTIC, NETWORK = "quadratic", "logistic regression", "network, not convex"
LABELS = (PLAIN, SCAFFOLD, CORRECTED)


def _quadratic(rng: np.random.Generator, m: int) -> Any:
    d = 5
    B = rng.standard_normal((m, d, d))
    A = B @ np.swapaxes(B, 1, 2) / d + 0.1 * np.eye(d)
    return ud.problems.quadratic(A, 3 * rng.standard_normal((m, d)), spectral=True)


def _logistic(rng: np.random.Generator, m: int) -> Any:
    n, d = 20, 5
    A = rng.standard_normal((m, n, d))
    own = 2 * rng.standard_normal((m, d, 1))  # every client has its own truth
    labels = np.where((A @ own)[..., 0] + rng.logistic(size=(m, n)) > 0, 1, -1)
    return ud.problems.logistic(A / np.sqrt(n), labels, l2=0.1)


def _network_loss(x: Any, sample: Any) -> Any:
    """(a hidden layer of four tanh − b)²/2 and a little decay: smooth, not convex."""
    W, shift, out, last = x[:8].reshape(4, 2), x[8:12], x[12:16], x[16]
    hidden = jnp.tanh(sample["a"] @ W.T + shift)
    return 0.5 * (hidden @ out + last - sample["b"]) ** 2 + 0.005 * jnp.sum(x**2)


def _network(rng: np.random.Generator, m: int) -> Any:
    n = 15
    a = rng.standard_normal((m, n, 2)) + rng.standard_normal((m, 1, 2))  # every client looks elsewhere
    b = np.sin(a[..., 0]) * a[..., 1] + 0.5 * rng.standard_normal((m, 1))
    return ud.problems.custom(_network_loss, {"a": a, "b": b}, dim=17, per_sample=True)


KINDS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    QUADRATIC: _quadratic,
    LOGISTIC: _logistic,
    NETWORK: _network,
}


def _smoothness(kind: str, problem: Any, x0: np.ndarray) -> float:
    """L of the clients where it is known; for networks steps are measured in units of 1."""
    return 1.0 if kind == NETWORK else float(problem.constants.L)


def _produce(work: Work) -> Data:
    rows: list[tuple[Any, ...]] = []
    tau, counts = work["K"], work["problems"]
    for i, (kind, make) in enumerate(KINDS.items()):
        for number in range(counts):
            rng = np.random.default_rng([number, i])
            problem = make(rng, work["clients"])
            x0 = 0.5 * rng.standard_normal(problem.dim)
            grid = [2.0**k / (_smoothness(kind, problem, x0) * tau) for k in work["exponents"]]
            for label in LABELS:
                history = swept(label, problem, grid, seeds=[number], rounds=work["rounds"][kind], steps=tau, x0=x0)
                column = history["grad_norm"][:, 0]
                share = np.where(np.isfinite(column[:, -1]), column[:, -1] / column[:, 0], np.inf)
                rows += [(kind, number, label, k, float(end)) for k, end in zip(work["exponents"], share, strict=True)]
            work.progress(kind, i * counts + number + 1, len(KINDS) * counts)
    names = ("kind", "problem", "series", "exponent", "gradient")
    return Data({"ends": dict(zip(names, zip(*rows, strict=True), strict=True))}, seeds=range(counts))


def _ends(data: Data, kind: str, label: str) -> np.ndarray:
    """‖∇f‖ at the end over that at the beginning, (problems, step sizes)."""
    rows = data.where("ends", kind=kind, series=label)["gradient"].astype(float)
    return rows.reshape(-1, len(data.setting["exponents"]))


def _contracts(kind: str, close: float) -> Callable[[Data], Decision]:
    def decide(data: Data) -> Decision:
        ends = _ends(data, kind, CORRECTED)
        fine, exponents = ends <= close, np.asarray(data.setting["exponents"])
        everywhere, stable = (exponents[each.all(axis=0)].tolist() for each in (fine, ends < 1))
        said = (
            f"{int(fine.any(axis=1).sum())} of {len(ends)} problems; all of them with η = 2^k/(LK) for k in {everywhere}; "
            f"the gradient falls in all of them for k in {stable}"
        )
        return at_least(float(fine.any(axis=1).mean()), 1.0, said)

    return decide


def _beats_plain(kind: str, factor: float, least: float) -> Callable[[Data], Decision]:
    def decide(data: Data) -> Decision:
        own, plain = (np.maximum(_ends(data, kind, label), 1e-16).min(axis=1) for label in (CORRECTED, PLAIN))
        ratios = plain / own
        share = float(np.mean(ratios >= factor))
        said = f"by {factor:g} or more in {share:.0%} of {len(ratios)} problems; median factor {np.median(ratios):.2g}"
        return at_least(share, least, said)

    return decide


def _beside_scaffold(data: Data) -> Decision:
    """Where neither has arrived: the same rounds, each with its best step."""
    parts = []
    for kind in KINDS:
        own, other = (np.maximum(_ends(data, kind, label), 1e-12).min(axis=1) for label in (CORRECTED, SCAFFOLD))
        parts.append((kind, float(np.mean(own <= 1.5 * other))))
    said = ", ".join(f"{share:.0%} ({kind})" for kind, share in parts)
    return at_least(min(share for _, share in parts), 0.9, f"as near after the same rounds, or nearer, in {said}")


def _draw(data: Data) -> Figure:
    from undrift.report.style import looks

    from .draw import dress, legend, panels

    figure, axes = panels(1, len(KINDS), sharey=True)
    styles = dict(zip(LABELS, looks([LOOKS[label] for label in LABELS]), strict=True))
    for axis, kind in zip(axes[0], KINDS, strict=True):
        for label in LABELS:
            ends = np.clip(_ends(data, kind, label), 1e-16, 1e2)
            low, middle, high = (np.quantile(ends, share, axis=0) for share in (0.0, 0.5, 1.0))
            x = 2.0 ** np.asarray(data.setting["exponents"], float)
            axis.plot(x, middle, color=styles[label].colour, linestyle=styles[label].dash, label=label)
            axis.fill_between(x, low, high, color=styles[label].colour, alpha=0.15, linewidth=0)
        dress(axis, kind, r"$\eta K$" if kind == NETWORK else r"$\eta K L$", r"$\|\nabla f\|$, end / start")
        axis.set_xscale("log", base=2)
        axis.set_ylim(1e-16, 1e2)
    legend(figure, axes)
    return figure


ITEM = Item(
    name="beyond/sequence-random",
    title="Beyond: sequential FL with control variates on random problems",
    setting=(
        ours("problems", 50, "of each kind: quadratic, logistic regression, a small network"),
        ours("clients", 8),
        ours("K", 5, "local steps"),
        ours("exponents", list(range(-4, 6)), "η = 2^k/(LK), L of the clients' losses; of the network η = 2^k/K"),
        ours("rounds", {QUADRATIC: 300, LOGISTIC: 300, NETWORK: 600}),
        ours("x_0", "½N(0, I)"),
    ),
    reduced=(
        reduced("problems", 4),
        reduced("rounds", {QUADRATIC: 300, LOGISTIC: 300, NETWORK: 200}),
    ),
    produce=_produce,
    draw=_draw,
    page_figures=lambda data: [],
    claims=(
        Claim("to rounding on every quadratic", _contracts(QUADRATIC, 1e-10), None),
        Claim("to rounding in every logistic regression", _contracts(LOGISTIC, 1e-10), None),
        Claim("nearer than without correction, quadratics", _beats_plain(QUADRATIC, 100, 1.0), None),
        Claim("nearer than without correction, logistic regression", _beats_plain(LOGISTIC, 100, 1.0), None),
        Claim("nearer than without correction, networks", _beats_plain(NETWORK, 10, 0.9), None),
        Claim("as near as SCAFFOLD after the same number of rounds", _beside_scaffold, None),
    ),
)
ITEMS = (ITEM,)
