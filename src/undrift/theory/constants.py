"""The constants that theorems speak of, each with its provenance."""

from __future__ import annotations

import dataclasses
import time
from functools import partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import precision
from ..errors import InputError
from ..oracles import Full, MiniBatch, Noisy, Oracle
from ..problems.base import Optimum, Problem
from . import closed_form as closed
from . import curvature as spectra
from .quantity import Quantity, exact, measured

SEGMENT = 11  # points between x_0 and x* where no path is given
CURVATURE_POINTS = 5  # points of a path at which Hessians are looked at
COMPONENT_ENTRIES = 2**27  # entries of all component gradients of one point up to which the variance is a closed form
DRAWS = 64  # of the oracle at one point beyond that


@dataclasses.dataclass(frozen=True)
class Constants:
    """The constants of a problem, `None` where nobody knows them. Every number says how it was found: `.how`, `.where`.

    | field | meaning |
    |---|---|
    | L, mu | every f_i is L-smooth and μ-strongly convex: max_i L_i, min_i μ_i |
    | L_mean, mu_mean, pl | the same of f, and its Polyak-Łojasiewicz constant |
    | L_components | max_ij L_ij in FedTrack's scaling f_i = (1/m_i) Σ_j f_ij |
    | distance, start_gap | ‖x_0 − x*‖ and f(x_0) − f* |
    | sigma_sq | E‖G_i(x) − ∇f_i(x)‖² ≤ σ² |
    | zeta | max_i ‖∇f_i − ∇f‖ ≤ ζ |
    | zeta_star_sq | Σ w_i‖∇f_i(x*)‖² |
    | B_sq, zeta_sq | Σ w_i‖∇f_i − ∇f‖² ≤ B²‖∇f‖² + ζ² (SSL, Assumption 3) |
    | C, D | Σ w_i‖∇f_i‖² ≤ C‖∇f‖² + D (FedLin, Assumption 1): C = B² + 1, D = ζ² |
    """

    clients: int
    dim: int
    equal_weights: bool = True
    identical: bool = False  # all f_i are the same function
    L: Quantity | None = None
    mu: Quantity | None = None
    L_mean: Quantity | None = None
    mu_mean: Quantity | None = None
    pl: Quantity | None = None
    L_components: Quantity | None = None
    distance: Quantity | None = None
    start_gap: Quantity | None = None
    sigma_sq: Quantity | None = None
    zeta: Quantity | None = None
    zeta_star_sq: Quantity | None = None
    B_sq: Quantity | None = None
    zeta_sq: Quantity | None = None
    C: Quantity | None = None
    D: Quantity | None = None
    seconds: float = 0.0  # what finding them took
    gradients: int = 0  # gradients of some f_i, Hessian-vector products counted as two

    @property
    def kappa(self) -> float:
        """L/μ; ∞ where μ ≤ 0, NaN where either is unknown."""
        if self.L is None or self.mu is None:
            return float("nan")
        return float(self.L) / float(self.mu) if self.mu > 0 else float("inf")

    @property
    def quantities(self) -> dict[str, Quantity | None]:
        """The constants by name."""
        names = [field.name for field in dataclasses.fields(self) if "Quantity" in str(field.type)]
        return {name: getattr(self, name) for name in names}

    def table(self) -> str:
        """One line for each constant: name, value, how it was found."""
        lines = [f"{'constant':<14}{'value':>13}  found"]
        for name, value in self.quantities.items():
            number = "unknown" if value is None else f"{float(value):.6g}"
            how = "" if value is None else f"{value.how}{', ' + value.where if value.where else ''}"
            lines.append(f"{name:<14}{number:>13}  {how}".rstrip())
        return "\n".join(lines)

    def __str__(self) -> str:
        cost = f"found in {self.seconds:.2g} s with {self.gradients} gradients"
        return f"{self.clients} clients, d = {self.dim}; {cost}\n{self.table()}"


def constants(
    problem: Problem,
    path: Any = None,
    oracle: Oracle | None = None,
    x0: Any = None,
    *,
    curvature_points: int = CURVATURE_POINTS,
) -> Constants:
    """Everything a theorem asks of a problem.

    Closed forms are used where there are any (quadratics, least squares, logistic regression). The rest is measured along
    `path`, an array of models (T + 1, d) such as `run.iterates`; without one, on the segment from x_0 to x*, or at x_0 alone.
    For networks and custom problems L and μ come from Lanczos iteration at up to `curvature_points` points of the path. A
    theorem asks for such a constant everywhere, so a measured one is the largest value seen, and says so.

    >>> import undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> c = constants(p)
    >>> str(c.L), str(c.zeta_star_sq), c.zeta.how
    ('2 (exact max_i L_i)', '981.778 (exact at x*)', 'measured')
    """
    began = time.perf_counter()
    start = problem.initial(0) if x0 is None else np.asarray(x0, problem.dtype)
    optimum, known = known_optimum(problem), known_without_measuring(problem)
    points, where = _points(problem, path, start, optimum)
    more: dict[str, Any] = {}
    products = 0
    with precision.scope(problem.dtype):
        farthest, spread, slope = (np.asarray(part, np.float64) for part in _path_norms(problem, jnp.asarray(points)))
        if known.L is None:
            more, products = _lanczos(problem, points, where, curvature_points)
        if known.pl is None and optimum is not None:
            more["pl"] = _measured_pl(problem, points, slope, where)
        more["sigma_sq"], draws = _variance(problem, oracle or problem.default_oracle, points, where)
    if known.B_sq is None:
        B_sq, zeta_sq = (measured(part, f"fitted {where}") for part in line_above(slope, spread))
        more |= _dissimilarity(B_sq, zeta_sq)
    if optimum is not None and known.zeta_star_sq is not None:
        how, words = known.zeta_star_sq.how, f"x* by {optimum.how}"
        more["distance"] = Quantity(float(np.linalg.norm(start - optimum.x)), how, words)
        more["start_gap"] = Quantity(max(0.0, float(gaps_at(problem, start[None])[0])), how, words)
    alike = closed.all_hessians_equal(problem)
    zeta = float(farthest.max())
    return dataclasses.replace(
        known,
        zeta=exact(zeta, "all Hessians are equal") if alike else measured(zeta, where),
        **more,
        seconds=time.perf_counter() - began,
        gradients=(len(points) + (optimum is not None)) * problem.clients + 2 * products + draws,
    )


def known_without_measuring(problem: Problem) -> Constants:
    """What closed forms give at once: enough for most step sizes, no gradient is evaluated but those at x*."""
    optimum, weights = known_optimum(problem), np.asarray(problem.weights, np.float64)
    star = None if optimum is None else _at_optimum(problem, optimum)
    found = None if star is None else closed.quadratic_dissimilarity(problem, float(star))
    return Constants(
        clients=problem.clients,
        dim=problem.dim,
        equal_weights=bool(np.allclose(weights, weights.mean(), rtol=1e-6)),
        identical=problem.all_alike(),
        **closed.curvature(problem)._asdict(),
        L_components=closed.fedtrack_smoothness(problem),
        zeta_star_sq=star,
        **({} if found is None else _dissimilarity(*found)),
    )


def _dissimilarity(B_sq: Quantity, zeta_sq: Quantity) -> dict[str, Any]:
    """Both papers' constants for the same thing."""
    return {"B_sq": B_sq, "zeta_sq": zeta_sq, "C": Quantity(B_sq + 1, B_sq.how, B_sq.where), "D": zeta_sq}


def known_optimum(problem: Problem) -> Optimum | None:
    """x*, where it exists and can be had."""
    if problem.reference(asked=True) is None:
        return None
    return problem.optimum


def _points(problem: Problem, path: Any, start: np.ndarray, optimum: Optimum | None) -> tuple[np.ndarray, str]:
    if path is not None:
        points = np.asarray(path, problem.dtype)
        if points.ndim != 2 or points.shape[1] != problem.dim or not len(points):
            raise InputError(f"path must be an array of models (T + 1, d) with d = {problem.dim}, got {points.shape}")
        if not np.all(np.isfinite(points)):
            raise InputError("path must be finite: cut it off where the run diverged")
        return points, f"along {len(points)} iterates"
    if optimum is None:
        return start[None], "at x_0"
    share = np.linspace(0, 1, SEGMENT)[:, None]
    points = ((1 - share) * start + share * optimum.x).astype(problem.dtype)
    return points, f"at {SEGMENT} points from x_0 to x*"


@jax.jit
def _path_norms(problem: Any, points: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """For every point: max_i ‖∇f_i − ∇f‖, Σ w_i‖∇f_i − ∇f‖², ‖∇f‖²."""

    def one(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        gradients = problem.each(lambda f: f.gradient(x))
        mean = problem.weights @ gradients
        off = jnp.sum((gradients - mean[None]) ** 2, axis=1)
        return jnp.sqrt(jnp.max(off)), problem.weights @ off, mean @ mean

    return jax.lax.map(one, points)


def _lanczos(problem: Problem, points: np.ndarray, where: str, most: int) -> tuple[dict[str, Any], int]:
    """L and μ of the clients and of f at some of the points, and the Hessian-vector products of clients that they took."""
    chosen = _some(points, most)
    clients, mean = spectra.along(problem, chosen)
    seen = f"by Lanczos at {len(chosen)} points" if len(chosen) > 1 else f"by Lanczos {where}"
    values = {"L": clients.magnitude, "mu": clients.smallest, "L_mean": mean.magnitude, "mu_mean": mean.smallest}
    found = {name: measured(value, seen) for name, value in values.items()}
    return found, clients.products + mean.products * problem.clients


def _some(points: np.ndarray, most: int) -> np.ndarray:
    """At most so many of the points, evenly spaced."""
    return points[np.unique(np.linspace(0, len(points) - 1, min(most, len(points))).astype(int))]


def _measured_pl(problem: Problem, points: np.ndarray, slope: np.ndarray, where: str) -> Quantity | None:
    """The smallest ‖∇f‖²/(2(f − f*)) seen."""
    gaps = gaps_at(problem, points)
    off = gaps > 1e-12 * max(float(np.max(gaps)), np.finfo(float).tiny)
    return measured(float(np.min(slope[off] / (2 * gaps[off]))), where) if np.any(off) else None


@jax.jit
def _gaps(problem: Any, points: jax.Array, reference: Any) -> jax.Array:
    return jax.lax.map(lambda x: problem.evaluate(x, reference).columns["gap"], points, batch_size=32)


def gaps_at(problem: Problem, points: np.ndarray) -> np.ndarray:
    """f(x) − f* for every row of `points`."""
    reference = problem.reference(asked=True)
    if reference is None:
        raise InputError(f"f* of this {problem.name} problem is not known, so f(x) − f* cannot be measured")
    with precision.scope(problem.dtype):
        return np.asarray(_gaps(problem, jnp.asarray(points, problem.dtype), reference), np.float64)


def _at_optimum(problem: Problem, optimum: Optimum) -> Quantity:
    gradients = problem.gradients(optimum.x)
    value = float(np.asarray(problem.weights, np.float64) @ np.sum(gradients**2, axis=1))
    return Quantity(value, "given" if optimum.how == "given" else "exact", "at x*")


def line_above(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """(slope, intercept) ≥ 0 of the line above all points (x ≥ 0) whose distance to them is least in total.

    >>> line_above(np.array([0.0, 1.0, 3.0]), np.array([1.0, 2.0, 3.0]))
    (0.5, 1.5)
    """
    # Among lines above the points the best one touches their upper hull, so its slope is one of two points.
    order = np.argsort(x)
    x, y = np.asarray(x, float)[order], np.asarray(y, float)[order]
    hull: list[int] = []
    for k in range(len(x)):
        while len(hull) > 1 and _turns_left(x, y, hull[-2], hull[-1], k):
            hull.pop()
        hull.append(k)
    slopes = [0.0]
    slopes += [(y[b] - y[a]) / (x[b] - x[a]) for a, b in pairwise(hull) if x[b] > x[a]]
    slopes += [float(np.max(y[x > 0] / x[x > 0]))] if np.all(y[x == 0] <= 0) and np.any(x > 0) else []
    lines = [(max(s, 0.0), max(float(np.max(y - max(s, 0.0) * x)), 0.0)) for s in slopes]
    slope, intercept = min(lines, key=lambda line: float(np.sum(line[0] * x + line[1])))
    return float(slope), float(intercept)


def _turns_left(x: np.ndarray, y: np.ndarray, a: int, b: int, c: int) -> bool:
    return bool((x[b] - x[a]) * (y[c] - y[a]) >= (y[b] - y[a]) * (x[c] - x[a]))


def _variance(problem: Problem, oracle: Oracle, points: np.ndarray, where: str) -> tuple[Quantity | None, int]:
    """σ² and the gradients it took."""
    if isinstance(oracle, Full):
        return exact(0.0, "full gradients"), 0
    if isinstance(oracle, Noisy):
        return exact(oracle.variance, "the oracle's own"), 0
    if isinstance(oracle, MiniBatch):
        return _batch_variance(problem, oracle, points, where)
    return None, 0


def _batch_variance(problem: Problem, oracle: MiniBatch, points: np.ndarray, where: str) -> tuple[Quantity, int]:
    sizes = problem.sizes
    if int(sizes.max()) * problem.dim <= COMPONENT_ENTRIES:
        spread = np.asarray(_component_spread(problem, jnp.asarray(points), int(sizes.max())), np.float64)
        n, b = sizes.astype(float), oracle.smallest(sizes)
        factor = n**2 / b
        if not oracle.replace:  # a batch from a shuffled order, as the first of every epoch is
            factor = factor * np.where(b <= n, (n - b) / np.maximum(n - 1, 1), 1.0)
        return measured(float(np.max(spread * factor)), where), len(points) * problem.clients
    chosen = _some(points, CURVATURE_POINTS)
    drawn = np.asarray(_sampled_spread(problem, oracle, jnp.asarray(chosen)), np.float64)
    return measured(float(drawn.max()), f"from {DRAWS} batches {where}"), len(chosen) * problem.clients * DRAWS


def variance_at_optimum(problem: Problem) -> float:
    """E‖G(x*)‖² of one pooled sample, G = N w_i ∇f̂_ij with (i, j) uniform over all N samples: N Σ_ij w_i²‖∇f̂_ij(x*)‖²."""
    x = np.asarray(problem.optimum.x)
    sizes = problem.sizes.astype(float)
    with precision.scope(problem.dtype):
        spread = np.asarray(_component_spread(problem, jnp.asarray(x[None]), int(sizes.max())), np.float64)[0]
    gradients = problem.gradients(x)
    squares = sizes * spread + np.sum(gradients**2, axis=1) / sizes  # Σ_j ‖∇f̂_ij‖²
    return float(sizes.sum() * (np.asarray(problem.weights, np.float64) ** 2 @ squares))


@partial(jax.jit, static_argnums=2)
def _component_spread(problem: Any, points: jax.Array, capacity: int) -> jax.Array:
    """(points, m): the mean over samples of ‖∇f̂_j − mean_j ∇f̂_j‖²."""

    def one(x: jax.Array, i: jax.Array) -> jax.Array:
        loss = problem.loss_of(i)
        numbers, single = jnp.arange(capacity), jnp.ones((1,), x.dtype)
        place = jnp.minimum(numbers, loss.size - 1)
        rows = jax.vmap(lambda j: loss.partial_gradient(x, j[None], single))(place)
        present = (numbers < loss.size).astype(x.dtype)
        mean = present @ rows / loss.size
        return present @ jnp.sum((rows - mean[None]) ** 2, axis=1) / loss.size

    return jax.lax.map(lambda x: jax.lax.map(lambda i: one(x, i), jnp.arange(problem.clients)), points)


@partial(jax.jit, static_argnums=1)
def _sampled_spread(problem: Any, oracle: Oracle, points: jax.Array) -> jax.Array:
    """(points, m): the mean of ‖G_i − ∇f_i‖² over some draws of the oracle."""
    keys = jax.random.split(jax.random.key(0), DRAWS)

    def one(x: jax.Array, i: jax.Array) -> jax.Array:
        loss = problem.loss_of(i)
        full = loss.gradient(x)
        return jnp.mean(jax.lax.map(lambda k: jnp.sum((oracle.gradient(loss, x, k, 0) - full) ** 2), keys))

    return jax.lax.map(lambda x: jax.lax.map(lambda i: one(x, i), jnp.arange(problem.clients)), points)
