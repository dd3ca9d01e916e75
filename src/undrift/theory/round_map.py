"""One round of a method on quadratics is an affine map: s⁺ = M s + v, exactly.

With f_i(x) = ½xᵀH_i x − c_iᵀx, τ local steps of size η along p + (H_i + βI)(y − x), y_0 = x, end at

    x − η S_i p,     S_i = Σ_{ℓ<τ_i} (I − η(H_i + βI))^ℓ,

so that FedAvg, FedProx, FedNova, FedSGD and GD map x to x − Σ w_i Q_i ∇f_i(x) with Q_i that commute with H_i, and FedLin
maps x to x − (Σ w_i η_i S_i) ∇f(x). Methods with memory act on a longer state: (x, c_1, …, c_m) for SCAFFOLD,
(x, λ_1, …, λ_m) for FedDyn, (x, s) for MimeLite, (z_1, …, z_m) for FedSplit. S_i comes from the eigenvalues of H_i: the price
does not depend on τ_i.

Reference: FedLin (Mitra et al. 2021), appendices B and E.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import InputError, unknown
from .diagonal import Diagonal
from .quadratics import Quadratics, geometric_sum

RECURSION = 4096  # rounds that `rounds_to` plays one by one where there is no diagonal form; then the rate decides
STATE_LIMIT = 2500  # entries of a state up to which M is formed
ORDERS_BY_SUBSETS = 12  # clients up to which the mean over all orders is exact


@dataclasses.dataclass(frozen=True)
class RoundMap:
    """The affine map of one round. `step` takes a state (n,) or columns of states (n, k)."""

    method: str
    family: Quadratics
    size: int  # n, entries of a state
    apply: Callable[[np.ndarray], np.ndarray]  # columns -> columns
    start: Callable[[np.ndarray], np.ndarray] = lambda x0: x0  # x_0 -> first state
    model: Callable[[np.ndarray], np.ndarray] = lambda states: states  # columns of states -> columns of models
    diagonal: Diagonal | None = None  # of maps on x alone that have one with real rates
    surrogate: tuple[np.ndarray, np.ndarray] | None = None  # K and k, where a round is x⁺ = x − (Kx − k)

    def step(self, state: np.ndarray) -> np.ndarray:
        """One round."""
        state = np.asarray(state, float)
        return self.apply(state) if state.ndim == 2 else self.apply(state[:, None])[:, 0]

    @cached_property
    def offset(self) -> np.ndarray:
        """v"""
        return self.step(np.zeros(self.size))

    @cached_property
    def matrix(self) -> np.ndarray:
        """M"""
        if self.size > STATE_LIMIT:
            raise InputError(
                f"the state of {self.method} has {self.size} entries here; M is formed up to {STATE_LIMIT}: use `predict`"
            )
        return self.step(np.eye(self.size)) - self.offset[:, None]

    @cached_property
    def spectral_radius(self) -> float:
        """max |eigenvalue of M|: below 1 the rounds converge from everywhere, at this rate."""
        if self.diagonal is not None:
            return float(np.max(np.abs(self.diagonal.rates), initial=0.0))
        return float(np.max(np.abs(np.linalg.eigvals(self.matrix))))

    @cached_property
    def fixed_point(self) -> np.ndarray:
        """The state that a round leaves as it is (the nearest to the start of all, if there are many)."""
        return np.linalg.lstsq(np.eye(self.size) - self.matrix, self.offset, rcond=None)[0]

    @cached_property
    def limit(self) -> np.ndarray:
        """The model where the rounds come to rest, if they do."""
        if self.diagonal is not None:
            return self.diagonal.limit
        return self.model(self.fixed_point[:, None])[:, 0]

    def iterates(self, x0: Any, rounds: int) -> np.ndarray:
        """x_0, …, x_T: (T + 1, d)."""
        x0 = np.asarray(x0, float)
        states = [self.start(x0)]
        dense = self.size <= STATE_LIMIT // 4
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(rounds):
                states.append(self.matrix @ states[-1] + self.offset if dense else self.step(states[-1]))
        found = self.model(np.stack(states, axis=1)).T
        found[0] = x0
        return found

    def predict(self, x0: Any, rounds: int) -> np.ndarray:
        """f(x_t) − f* for t = 0, …, T."""
        x0 = np.asarray(x0, float)
        if self.diagonal is not None:
            return self.diagonal.gaps(np.arange(rounds + 1), x0)
        return self.family.gap(self.iterates(x0, rounds).T)

    def rounds_to(self, target: float, x0: Any, at_most: int = 10**7) -> int | None:
        """The first round from which on f(x_t) − f* ≤ target; None if that never comes, or not within `at_most` rounds.

        Exact where the map has a diagonal form, and elsewhere up to 4096 rounds; beyond that the spectral radius extrapolates.
        """
        x0 = np.asarray(x0, float)
        if self.diagonal is not None:
            return self.diagonal.rounds_to(target, x0, at_most)
        if not (self.spectral_radius < 1 and self.family.gap(self.limit) <= target):
            return None
        gaps = self.predict(x0, min(RECURSION, at_most))
        above = np.flatnonzero(~(gaps <= target))
        if not above.size or above[-1] < len(gaps) - 1:
            return int(above[-1]) + 1 if above.size else 0
        more = math.log(gaps[-1] / target) / (-2 * math.log(self.spectral_radius))
        total = len(gaps) - 1 + math.ceil(more)
        return total if total <= at_most else None


def fedsgd(problem: Any, eta: float) -> RoundMap:
    """x⁺ = x − η ∇f(x): M = I − ηH.

    >>> import undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> round(fedsgd(p, 0.5).spectral_radius, 12)
    0.25
    """
    q = Quadratics.of(problem)
    eigenvalues, _ = q.spectrum
    return _towards_optimum("fedsgd", q, lambda g: eta * g, _spectral(q, np.full_like(eigenvalues, eta)))


def gd(problem: Any, eta: float, steps: Any = 1) -> RoundMap:
    """τ steps of gradient descent on f; the mean of the τ_i, rounded, as the method does it."""
    q = Quadratics.of(problem)
    eigenvalues, vectors = q.spectrum
    count = np.asarray(round(float(np.mean(steps))))
    sums = eta * geometric_sum(1 - eta * eigenvalues, count)
    return _towards_optimum("gd", q, lambda g: vectors @ (sums[:, None] * (vectors.T @ g)), _spectral(q, sums))


def fedlin(problem: Any, eta: float, steps: Any = 1) -> RoundMap:
    """x⁺ = x − Q ∇f(x), Q = Σ w_i η_i S_i with η_i = η̄/τ_i and no compression (FedLin, appendix E).

    >>> import undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> fedlin(p, 0.1, [50, 30]).limit.round(6)
    array([34.333333])
    """
    q = Quadratics.of(problem)
    local = LocalSteps.of(q, np.asarray(eta, float) / per_client(steps, q.clients)[:, None, None], steps)
    return _towards_optimum("fedlin", q, lambda g: q.mean(local.apply(g[None])), q.mean(local.matrices()))


def fedlin_one_exchange(problem: Any, eta: Any, steps: Any = 1, fresh: bool = False) -> RoundMap:
    """State (x, G_1, …, G_m), g = Σ w_i G_i: y_i = x − η_iS_i(∇f_i(x) − G_i + g), or −η_iS_i g (`fresh`); G_i⁺ = ∇f_i(x).

    SCAFFOLD's option 1 with η_i = η̄/τ_i, begun with G_i = ∇f_i(x_0).
    """
    q = Quadratics.of(problem)
    m, d = q.clients, q.dim
    local = LocalSteps.of(q, np.asarray(eta, float) / per_client(steps, m)[:, None, None], steps)

    def apply(state: np.ndarray) -> np.ndarray:
        x, own = state[:d], state[d:].reshape(m, d, -1)
        common, gradients = q.mean(own), q.gradients(x)
        back = local.apply(np.broadcast_to(common, own.shape) if fresh else gradients - own + common)  # x − y_i
        return np.concatenate([x - q.mean(back), gradients.reshape(m * d, -1)])

    def start(x0: np.ndarray) -> np.ndarray:
        return np.concatenate([x0, q.gradients(x0[:, None])[:, :, 0].ravel()])

    return RoundMap("fedlin", q, (m + 1) * d, apply, start, lambda states: states[:d])


def fedavg(problem: Any, eta: float, steps: Any = 1, server_eta: float = 1.0) -> RoundMap:
    """x⁺ = x − η_s Σ w_i ηS_i ∇f_i(x) (FedLin, Proposition 1 with β = 0)."""
    return dataclasses.replace(fedprox(problem, eta, steps, 0.0, server_eta), method="fedavg")


def fedprox(problem: Any, eta: float, steps: Any = 1, beta: float = 0.0, server_eta: float = 1.0) -> RoundMap:
    """As FedAvg, with S_i = Σ_{ℓ<τ_i} (I − η(H_i + βI))^ℓ (FedLin, Proposition 1)."""
    q = Quadratics.of(problem)
    local = LocalSteps.of(q, eta, steps, beta)
    return _averaging("fedprox", q, local, np.full(q.clients, server_eta))


def fednova(problem: Any, eta: float, steps: Any = 1) -> RoundMap:
    """x⁺ = x − τ_eff Σ w_i (η/τ_i) S_i ∇f_i(x), τ_eff = Σ w_i τ_i (FedLin, Proposition 2)."""
    q = Quadratics.of(problem)
    counts = per_client(steps, q.clients)
    return _averaging("fednova", q, LocalSteps.of(q, eta, steps), float(q.weights @ counts) / counts)


def scaffold(problem: Any, eta: Any, steps: Any = 1, option: int = 2, server_eta: float = 1.0) -> RoundMap:
    """State (x, c_1, …, c_m): y_i = x − ηS_i(∇f_i(x) − c_i + c), c = Σ w_i c_i; x⁺ = x + η_s Σ w_i (y_i − x).

    c_i⁺ = ∇f_i(x) (option 1) or c_i − c + (x − y_i)/(τ_i η) (option 2).
    """
    if option not in (1, 2):
        raise InputError(f"SCAFFOLD has the options 1 and 2, got {option!r}")
    q = Quadratics.of(problem)
    m, d = q.clients, q.dim
    local = LocalSteps.of(q, eta, steps)
    counts = per_client(steps, m)[:, None, None]

    def apply(state: np.ndarray) -> np.ndarray:
        x, own = state[:d], state[d:].reshape(m, d, -1)
        common = q.mean(own)
        gradients = q.gradients(x)
        back = local.apply(gradients - own + common)  # x − y_i
        new = gradients if option == 1 else own - common + back / (counts * local.eta)
        return np.concatenate([x - server_eta * q.mean(back), new.reshape(m * d, -1)])

    def start(x0: np.ndarray) -> np.ndarray:
        return np.concatenate([x0, np.zeros(m * d)])

    return RoundMap("scaffold", q, (m + 1) * d, apply, start, lambda states: states[:d])


def feddyn(problem: Any, eta: Any, steps: Any = 1, alpha: Any = 1.0) -> RoundMap:
    """State (x, λ_1, …, λ_m): x − y_i = ηS_i(∇f_i(x) − λ_i), S_i with the pull α.

    λ_i⁺ = λ_i + α(x − y_i); x⁺ = Σ w_i(y_i − λ_i⁺/α).
    """
    q = Quadratics.of(problem)
    m, d = q.clients, q.dim
    local = LocalSteps.of(q, eta, steps, alpha)

    def apply(state: np.ndarray) -> np.ndarray:
        x, own = state[:d], state[d:].reshape(m, d, -1)
        back = local.apply(q.gradients(x) - own)
        new = own + alpha * back
        return np.concatenate([x - q.mean(back) - q.mean(new) / alpha, new.reshape(m * d, -1)])

    def start(x0: np.ndarray) -> np.ndarray:
        return np.concatenate([x0, np.zeros(m * d)])

    return RoundMap("feddyn", q, (m + 1) * d, apply, start, lambda states: states[:d])


def mimelite(
    problem: Any, eta: Any, steps: Any = 1, beta: Any = 0.9, server_eta: Any = 1.0, correction: bool = False
) -> RoundMap:
    """State (x, s): x − y_i = ηS_i((1 − β)p_i + βs), S_i = Σ_{ℓ<τ_i} (I − η(1 − β)H_i)^ℓ; x⁺ = x − η_s Σ w_i(x − y_i);
    s⁺ = (1 − β)∇f(x) + βs. p_i = ∇f_i(x), or with the correction ∇f(x).
    """
    q = Quadratics.of(problem)
    d, share = q.dim, 1 - np.asarray(beta, float)
    local = LocalSteps.of(q, eta * share, steps)

    def apply(state: np.ndarray) -> np.ndarray:
        x, s = state[:d], state[d:]
        gradients = q.gradients(x)
        mean = q.mean(gradients)
        back = local.apply((mean[None] if correction else gradients) + beta / share * s)
        return np.concatenate([x - server_eta * q.mean(back), share * mean + beta * s])

    return RoundMap("mimelite", q, 2 * d, apply, lambda x0: np.append(x0, np.zeros(d)), lambda states: states[:d])


def fedsplit(
    problem: Any, s: Any, inner_steps: int | None = None, inner_eta: Any = None, start: str = "prox-point"
) -> RoundMap:
    """State (z_1, …, z_m), x = Σ w_i z_i: y_i ≈ prox_{s f_i}(2x − z_i), z_i⁺ = z_i + 2(y_i − x).

    The proximal step is exact, or `inner_steps` gradient steps of size `inner_eta` from 2x − z_i or (start="model") from x.
    """
    if start not in ("prox-point", "model"):
        raise unknown("start of fedsplit", start, ("prox-point", "model"))
    q = Quadratics.of(problem)
    m, d = q.clients, q.dim
    eigenvalues, vectors = q.spectra
    local = None if inner_steps is None else LocalSteps.of(q, inner_eta, inner_steps, 1 / np.asarray(s))

    def prox(centre: np.ndarray, x: np.ndarray) -> np.ndarray:
        if local is None:
            inside = np.swapaxes(vectors, 1, 2) @ (centre + s * q.linear[:, :, None])
            return vectors @ (inside / (1 + s * eigenvalues[:, :, None]))
        begin = centre if start == "prox-point" else np.broadcast_to(x, centre.shape)
        slope = q.hessians @ begin - q.linear[:, :, None] + (begin - centre) / s
        return begin - local.apply(slope)

    def apply(state: np.ndarray) -> np.ndarray:
        z = state.reshape(m, d, -1)
        x = q.mean(z)
        return (z + 2 * (prox(2 * x - z, x) - x)).reshape(m * d, -1)

    def model(states: np.ndarray) -> np.ndarray:
        return q.mean(states.reshape(m, d, -1))

    return RoundMap("fedsplit", q, m * d, apply, lambda x0: np.tile(x0, m), model)


def sequential_fl(problem: Any, eta: float, steps: Any = 1, order: Sequence[int] | None = None) -> RoundMap:
    """The clients' maps x ↦ x − η_iS_i ∇f_i(x) one after the other, in this order; η_i = m·w_i·η.

    order=None: the mean of the map over all orders, E[M_{i_m} ⋯ M_{i_1}], which carries the mean iterate of fresh random
    orders. It is summed over subsets of clients, E_S = (1/|S|) Σ_{i∈S} (first i, then E_{S∖i}), for at most 12 clients.
    """
    q = Quadratics.of(problem)
    local = LocalSteps.of(q, in_turn(q, eta), steps)

    def turn(i: int, x: np.ndarray) -> np.ndarray:
        return x - local.one(i, q.hessians[i] @ x - q.linear[i][:, None])

    if order is not None:
        if sorted(order) != list(range(q.clients)):
            raise InputError(f"an order names every client 0 … {q.clients - 1} once, got {list(order)}")

        def apply(x: np.ndarray) -> np.ndarray:
            for i in order:
                x = turn(i, x)
            return x

        return RoundMap("sequential_fl", q, q.dim, apply)
    if q.clients > ORDERS_BY_SUBSETS:
        raise InputError(
            f"the mean over all orders is summed over subsets, for at most {ORDERS_BY_SUBSETS} clients; here there are "
            f"{q.clients}: give an order"
        )
    M, v = _mean_over_orders(q, turn)
    return RoundMap("sequential_fl", q, q.dim, lambda x: M @ x + v[:, None])


def in_turn(q: Quadratics, eta: Any) -> Any:
    """The clients' step sizes where they play one after the other: m·w_i·η, (m, 1, 1 or k)."""
    equal = bool(np.all(q.weights == q.weights[0]))
    return eta if equal else q.clients * q.weights[:, None, None] * np.asarray(eta, float)


@dataclasses.dataclass(frozen=True)
class LocalSteps:
    """η S_i in the eigenbases. `eta`: one number, (k,) for a grid with one column each, or (m, 1, 1) by client."""

    vectors: np.ndarray  # (m, d, d)
    sums: np.ndarray  # (m, d, 1 or k): the eigenvalues of ηS_i
    eta: np.ndarray

    @classmethod
    def of(cls, q: Quadratics, eta: Any, steps: Any, pull: Any = 0.0) -> LocalSteps:
        eigenvalues, vectors = q.spectra
        eta = np.asarray(eta, float)
        counts = per_client(steps, q.clients)[:, None, None]
        return cls(vectors, eta * geometric_sum(1 - eta * (eigenvalues[:, :, None] + pull), counts), eta)

    def apply(self, slopes: np.ndarray) -> np.ndarray:
        """ηS_i p_i for every client: (m or 1, d, k) -> (m, d, k)."""
        return self.vectors @ (self.sums * (np.swapaxes(self.vectors, 1, 2) @ slopes))

    def one(self, i: int, slope: np.ndarray) -> np.ndarray:
        """The same for client i alone: (d, k) -> (d, k)."""
        return self.vectors[i] @ (self.sums[i] * (self.vectors[i].T @ slope))

    def matrices(self, factors: np.ndarray | float = 1.0) -> np.ndarray:
        """V_i diag(factors·eigenvalues of ηS_i) V_iᵀ, for a single step size."""
        return (self.vectors * np.swapaxes(factors * self.sums, 1, 2)) @ np.swapaxes(self.vectors, 1, 2)


def per_client(steps: Any, clients: int) -> np.ndarray:
    """τ as one whole number per client."""
    counts = np.asarray(steps)
    if counts.shape not in ((), (clients,)):
        raise InputError(f"local steps must be one number or one per client ({clients}), got shape {counts.shape}")
    if np.any(counts != np.floor(counts)) or np.any(counts < 1):
        raise InputError(f"local steps must be whole numbers ≥ 1, got {counts}")
    return np.broadcast_to(counts.astype(np.int64), (clients,))


def _towards_optimum(name: str, q: Quadratics, descent: Callable[[np.ndarray], np.ndarray], Q: np.ndarray) -> RoundMap:
    """x⁺ = x − Q∇f(x) with a symmetric Q: in z = H^½(x − x*) it is z⁺ = (I − H^½QH^½)z, with real rates."""

    def apply(x: np.ndarray) -> np.ndarray:
        return x - descent(q.hessian @ (x - q.x[:, None]))

    return RoundMap(name, q, q.dim, apply, diagonal=Diagonal.towards_optimum(q, Q))


def _averaging(name: str, q: Quadratics, local: LocalSteps, factors: np.ndarray) -> RoundMap:
    """x⁺ = x − Σ w_i factor_i ηS_i ∇f_i(x): gradient descent on the surrogate of Propositions 1 and 2."""

    def apply(x: np.ndarray) -> np.ndarray:
        return x - q.mean(factors[:, None, None] * local.apply(q.gradients(x)))

    terms = _surrogate(q, local, factors)
    return RoundMap(name, q, q.dim, apply, diagonal=Diagonal.surrogate(q, *terms), surrogate=terms)


def _surrogate(q: Quadratics, local: LocalSteps, factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Hessian and linear term of Σ w_i factor_i ½‖(ηS_i H_i)^½(x − x_i*)‖², ∇f_i's own part: (d, d) and (d,)."""
    scale = factors[:, None, None]
    eigenvalues, _ = q.spectra
    hessian = q.mean(local.matrices(scale * eigenvalues[:, :, None]))
    return (hessian + hessian.T) / 2, q.mean(scale * local.apply(q.linear[:, :, None]))[:, 0]


def _spectral(q: Quadratics, eigenvalues: np.ndarray) -> np.ndarray:
    """The matrix with H's eigenvectors and these eigenvalues."""
    _, vectors = q.spectrum
    return (vectors * eigenvalues) @ vectors.T


def _mean_over_orders(q: Quadratics, turn: Callable[[int, np.ndarray], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(M, v) of the mean map. E_S applied to [I | 0], where the last column carries the offset."""
    m, d = q.clients, q.dim
    # Affine maps as (d + 1)×(d + 1) matrices, so that composition is a product.
    single = np.zeros((m, d + 1, d + 1))
    for i in range(m):
        shift = turn(i, np.zeros((d, 1)))
        single[i, :d, :d] = turn(i, np.eye(d)) - shift
        single[i, :d, d] = shift[:, 0]
        single[i, d, d] = 1
    means: dict[frozenset[int], np.ndarray] = {frozenset(): np.eye(d + 1)}
    for size in range(1, m + 1):
        for members in itertools.combinations(range(m), size):
            chosen = frozenset(members)
            means[chosen] = np.sum([means[chosen - {i}] @ single[i] for i in members], axis=0) / size
        means = {chosen: found for chosen, found in means.items() if len(chosen) == size}
    whole = means[frozenset(range(m))]
    return whole[:d, :d], whole[:d, d]
