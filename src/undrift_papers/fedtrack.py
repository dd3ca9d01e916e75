"""FedTrack: theorems 1–3 of Mitra, Jaafar, Pappas, Hassani (2021), held against runs on instances of our own.

The paper has no figures. Each theorem is run with the step it prescribes, for several numbers of local steps and orders of the
components, and the curve is compared with the guarantee at every round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import undrift as ud

from .data import Curves, Data
from .item import Claim, Decision, Item, Setting, Work, at_most, ours, paper
from .measures import straightness

if TYPE_CHECKING:
    from matplotlib.figure import Figure


COLOURS = {"bound": "fedsgd", "H = 1": "fedavg", "H = 5": "fednova", "H = 40": "fedtrack"}


class Instance(NamedTuple):
    """A problem and the constants that the theorem asks for, all in closed form."""

    problem: Any
    L: float  # of every component
    mu: float | None  # strong convexity of every f_i, or the PL constant of f


def _bound(name: str, case: Instance, H: int) -> Any:
    from undrift.theory import Constants, exact, fedtrack

    mu = None if case.mu is None else exact(case.mu)
    key = {"strongly_convex": "mu", "pl": "pl"}.get(name)
    known: dict[str, Any] = {} if key is None else {key: mu}
    constants = Constants(case.problem.clients, case.problem.dim, L_components=exact(case.L), **known)
    return getattr(fedtrack, name)(constants, steps=H)


def _series(H: int, order: str) -> str:
    return f"H = {H}, {order}"


def _produce(name: str, instance: Callable[[Work], Instance]) -> Callable[[Work], Data]:
    """Runs for every H and order, each with the verdict of its theorem."""

    def produce(work: Work) -> Data:
        from undrift.theory import check

        case = instance(work)
        curves, verdicts = Curves(), []
        cases = [(H, order) for order in work["orders"] for H in work["H"]]
        for number, (H, order) in enumerate(cases):
            bound = _bound(name, case, H)
            method = ud.fedtrack(eta=bound.numbers["eta"], order=order)
            result = ud.run(method, case.problem, rounds=work["rounds"], steps=H)
            verdict = check(result, bound)
            sharper = verdict.telescoped is not False
            slack = float(np.nanmin(verdict.promised[1:] / verdict.measured[1:]))  # at the start they are equal
            curves.add_run(_panel(order), f"H = {H}", verdict.measured, result.history)
            if number % len(work["H"]) == 0:
                curves.add(_panel(order), "bound", verdict.promised, kind="bound")
            spent = np.diff(result.history["component_gradients"])[1:]
            row = (H, order, verdict.holds and sharper, slack, verdict.rate or np.nan, verdict.promised_rate or np.nan)
            verdicts.append((*row, float(spent.mean()) / case.problem.clients, H * float(case.problem.sizes.mean())))
            work.progress(_series(H, order), number + 1, len(cases))
        names = ("H", "order", "holds", "slack", "rate", "promised rate", "components", "components of FedLin")
        return Data(
            {"curves": curves.table(), "verdicts": dict(zip(names, zip(*verdicts, strict=True), strict=True))}, [0]
        )

    return produce


def _panel(order: str) -> str:
    return f"{order} order of components"


def _holds(data: Data) -> Decision:
    table = data["verdicts"]
    fine = np.array([str(value) == "True" for value in table["holds"]])
    slack = float(np.min(table["slack"].astype(float)))
    text = f"{int(fine.sum())} of {len(fine)} runs; smallest promised/measured over all rounds: {slack:.3f}"
    return Decision(bool(fine.all()), text, slack if fine.all() else min(slack, 0.99))


def _linear(data: Data) -> Decision:
    """The rate is that of a straight line on a logarithmic axis, and at least as good as promised."""
    rates = data["verdicts"]["rate"].astype(float)
    promised = data["verdicts"]["promised rate"].astype(float)
    factor = float(np.min(np.log(rates) / np.log(promised)))
    curves = [row for p in data.panels for s in data.labels(p) if s != "bound" for row in data.curve(p, s)]
    line = min(straightness(curve, 1e-6, 0.1) for curve in curves)
    text = f"measured factors per round {rates.min():.4f} to {rates.max():.4f}, promised {promised[0]:.4f}"
    return Decision(
        factor >= 1 and line >= 0.99, f"{text}; R² of a line ≥ {line:.4f}", min(factor, 0.01 / max(1 - line, 1e-9))
    )


def _whatever_H(data: Data) -> Decision:
    """ln(rate) for the largest and the smallest number of local steps."""
    rates = np.log(data["verdicts"]["rate"].astype(float))
    spread = float(rates.min() / rates.max())
    return at_most(spread, 1.05, f"ln(rate) for H = 1, 5, 40 differs by the factor {spread:.4f} at most")


def _same_end(data: Data) -> Decision:
    """The last values of the curves of all H."""
    ends = [float(row[-1]) for p in data.panels for s in data.labels(p) if s != "bound" for row in data.curve(p, s)]
    spread = max(ends) / min(ends)
    return at_most(
        spread, 1.05, f"the smallest ‖∇f‖² of all rounds for H = 1, 5, 40 differs by the factor {spread:.4f} at most"
    )


def _draw(y_label: str) -> Callable[[Data], Figure]:
    def draw(data: Data) -> Figure:
        from .draw import curves_figure

        return curves_figure(data, y_label=y_label, methods=COLOURS, widths={"H = 1": 5.0, "H = 5": 3.0, "H = 40": 1.2})

    return draw


ETA = paper("eta", "1/(18LH)", "L of the components")
SAME_RATE = Claim("the rate of a round does not depend on H (within 5 %)", _whatever_H, "H is not in the rate")


def _common(rounds: int, orders: tuple[str, ...] = ("cyclic",)) -> tuple[Setting, ...]:
    return (
        ours("orders", list(orders), "of the components; the theorems allow any"),
        ours("clients", 10),
        ours("components", 20, "m_i, of every client"),
        ours("H", [1, 5, 40], "local steps"),
        ETA,
        ours("x_0", "0"),
        ours("rounds", rounds),
        ours("seed", 0, "of the instance"),
    )


# ---------------------------------------------------------------- theorem 1
def least_squares_of(seed: int, m: int, n: int, d: int) -> Instance:
    """m clients with n samples on a sphere in d dimensions, and with true models 3·N(0, I) of their own."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, n, d))
    A *= np.sqrt(d / n) / np.linalg.norm(A, axis=-1, keepdims=True)
    b = (A @ (3 * rng.standard_normal((m, d, 1))))[..., 0] + rng.standard_normal((m, n)) / np.sqrt(n)
    problem = ud.problems.least_squares(A, b)
    # f_i = (1/n) Σ_j f_ij with f_ij = (n/2)(a_jᵀx − b_j)², so L_ij = n‖a_j‖².
    return Instance(problem, float(n * np.max(np.sum(A**2, axis=-1))), problem.constants.mu)


def _least_squares(work: Work) -> Instance:
    return least_squares_of(work["seed"], work["clients"], work["components"], work["dim"])


THM1 = Item(
    revision=2,  # FedLin and FedTrack: two vectors down a round
    name="fedtrack/thm1",
    title="FedTrack, theorem 1: linear convergence on strongly convex losses",
    setting=(
        ours(
            "problem",
            "least squares, samples on a sphere, every client with its own true model 3·N(0, I)",
            "the paper has no experiments",
        ),
        ours("dim", 4),
        *_common(600, ("cyclic", "reshuffled")),
    ),
    quantity="f(x) − f*",
    produce=_produce("strongly_convex", _least_squares),
    draw=_draw(r"$f(\bar{x}_t) - f(x^\star)$"),
    claims=(
        Claim("f(x_T) − f* ≤ (1 − 1/(18κ))^T (f(x_0) − f*) at every round", _holds, "Theorem 1"),
        Claim("the measured rate is linear and at least as good as promised", _linear, "Theorem 1"),
        SAME_RATE,
    ),
)


# ---------------------------------------------------------------- theorem 2
def _robust_loss(x: Any, sample: Any) -> Any:
    """φ(aᵀx − b) with φ(z) = z²/(1 + z²): flat far out, so not convex; |φ''| ≤ 2."""
    z = sample["a"] @ x - sample["b"]
    return z**2 / (1 + z**2)


def _robust_samples(work: Work) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(work["seed"])
    m, n, d = work["clients"], work["components"], work["dim"]
    a = rng.standard_normal((m, n, d))
    a /= np.linalg.norm(a, axis=-1, keepdims=True)
    b = (a @ (rng.standard_normal(d) + 0.5 * rng.standard_normal((m, d)))[..., None])[..., 0]
    return a, b + np.where(rng.random((m, n)) < 0.2, 10.0, 0.1) * rng.standard_normal((m, n))


def _robust_regression(work: Work) -> Instance:
    a, b = _robust_samples(work)
    problem = ud.problems.custom(_robust_loss, {"a": a, "b": b}, dim=work["dim"], per_sample=True)
    return Instance(problem, float(2 * np.max(np.sum(a**2, axis=-1))), None)


def _is_not_convex(data: Data) -> Decision:
    least = float(data["curvature"]["smallest eigenvalue"].min())
    return Decision(least < 0, f"smallest eigenvalue of ∇²f at x_0 and 50 points ~ N(0, I): {least:.3f}", -least / 1e-3)


def _produce_2(work: Work) -> Data:
    data = _produce("nonconvex", _robust_regression)(work)
    a, b = (part.reshape(-1, *part.shape[2:]) for part in _robust_samples(work))
    grid = np.random.default_rng(1).standard_normal((50, work["dim"]))
    values = []
    for x in (np.zeros(work["dim"]), *grid):
        z = a @ x - b
        values.append(float(np.linalg.eigvalsh((a * ((2 - 6 * z**2) / (1 + z**2) ** 3)[:, None]).T @ a / len(a))[0]))
    return Data(
        {**data.tables, "curvature": {"point": np.arange(len(values)), "smallest eigenvalue": values}}, data.seeds
    )


THM2 = Item(
    revision=2,  # FedLin and FedTrack: two vectors down a round
    name="fedtrack/thm2",
    title="FedTrack, theorem 2: stationary points of losses that are not convex",
    setting=(
        ours(
            "problem",
            "robust regression, φ(aᵀx − b), φ(z) = z²/(1 + z²), ‖a‖ = 1, a fifth of the samples gross outliers",
        ),
        ours("dim", 5),
        *_common(1500),
    ),
    quantity="smallest ‖∇f‖² so far",
    produce=_produce_2,
    draw=_draw(r"$\min_{s<t} \|\nabla f(\bar{x}_s)\|^2$"),
    claims=(
        Claim("min_t ‖∇f(x_t)‖² ≤ (36L/T)(f(x_0) − f(x_T)) at every round", _holds, "Theorem 2"),
        Claim("f is not convex here", _is_not_convex, None),
        Claim("how far the gradient falls does not depend on H (within 5 %)", _same_end, "H is not in the bound"),
    ),
)


# ---------------------------------------------------------------- theorem 3
def _quadratic_loss(x: Any, sample: Any) -> Any:
    return 0.5 * x @ (sample["A"] @ x) - sample["b"] @ x


def _own(rng: np.random.Generator, clients: int, dim: int) -> np.ndarray:
    """A symmetric matrix for every client."""
    drawn = rng.standard_normal((clients, dim, dim))
    return (drawn + np.swapaxes(drawn, -1, -2)) / 2


def _pl_matrices(work: Work) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Components with indefinite A_ij whose mean is positive semidefinite and singular; b_ij with mean in its range."""
    rng = np.random.default_rng(work["seed"])
    m, n, d, rank = work["clients"], work["components"], work["dim"], work["rank"]
    basis, _ = np.linalg.qr(rng.standard_normal((d, d)))
    mean = (basis[:, :rank] * np.linspace(1.0, 2.0, rank)) @ basis[:, :rank].T
    noise = rng.standard_normal((m, n, d, d))
    noise = (noise + np.swapaxes(noise, -1, -2)) / 2 + work["spread"] * _own(rng, m, d)[:, None]
    shifts = rng.standard_normal((m, n, d))
    A = mean + noise - noise.mean(axis=(0, 1))
    b = mean @ rng.standard_normal(d) + shifts - shifts.mean(axis=(0, 1))
    return A, b, mean


def _pl_problem(work: Work) -> Instance:
    A, b, mean = _pl_matrices(work)
    linear = b.mean(axis=(0, 1))
    x = np.linalg.pinv(mean, hermitian=True, rcond=1e-10) @ linear
    optimum = (x, float(0.5 * x @ mean @ x - linear @ x))
    problem = ud.problems.custom(_quadratic_loss, {"A": A, "b": b}, dim=A.shape[-1], per_sample=True, optimum=optimum)
    # ‖∇f‖² = eᵀH²e ≥ λ⁺ eᵀHe = 2λ⁺(f − f*) with λ⁺ the least positive eigenvalue of the mean Hessian.
    return Instance(problem, float(np.max(np.abs(np.linalg.eigvalsh(A)))), 1.0)


def _produce_3(work: Work) -> Data:
    data = _produce("pl", _pl_problem)(work)
    A, _, mean = _pl_matrices(work)
    least = [float(np.linalg.eigvalsh(client)[0]) for client in A.mean(axis=1)]
    table = {"client": np.arange(len(least)), "smallest eigenvalue": least}
    spectrum = {"eigenvalue of the mean": np.linalg.eigvalsh(mean)}
    return Data({**data.tables, "clients": table, "mean": spectrum}, data.seeds)


def _clients_are_not_convex(data: Data) -> Decision:
    largest = float(data["clients"]["smallest eigenvalue"].max())
    zeros = int(np.sum(np.abs(data["mean"]["eigenvalue of the mean"]) < 1e-10))
    text = f"the smallest eigenvalue of every ∇²f_i is at most {largest:.3f}; f has a {zeros}-dimensional set of minimisers"
    return Decision(largest < 0 and zeros > 0, text, -largest / 1e-3)


THM3 = Item(
    revision=2,  # FedLin and FedTrack: two vectors down a round
    name="fedtrack/thm3",
    title="FedTrack, theorem 3: linear convergence under the Polyak-Łojasiewicz condition",
    setting=(
        ours("problem", "quadratic components ½xᵀA_ij x − b_ijᵀx with indefinite A_ij, singular mean"),
        ours("dim", 6),
        ours("spread", 0.7, "how far clients' Hessians lie apart"),
        ours("rank", 4, "of the mean Hessian; its positive eigenvalues go from 1 to 2, so μ = 1"),
        *_common(600),
    ),
    quantity="f(x) − f*",
    produce=_produce_3,
    draw=_draw(r"$f(\bar{x}_t) - f(x^\star)$"),
    claims=(
        Claim("f(x_T) − f* ≤ (1 − 1/(18κ))^T (f(x_0) − f*) at every round", _holds, "Theorem 3"),
        Claim("the measured rate is linear and at least as good as promised", _linear, "Theorem 3"),
        Claim("no client's loss is convex, and f has many minimisers", _clients_are_not_convex, None),
        SAME_RATE,
    ),
)
ITEMS = (THM1, THM2, THM3)
