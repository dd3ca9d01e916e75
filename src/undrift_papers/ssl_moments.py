"""E x² of FedAvg, SSL and mini-batch SGD on one-dimensional quadratics with noisy gradients, exactly: no runs, no seeds.

F_m(x) = (a_m/2)x² + c_m x with Σ c_m = 0, so that x* = 0, and gradients with noise of variance σ². K local steps of client m
map x to α_m x + β_m + ξ_m with α = (1 − ηa)^K, β = −ηc Σ_{j<K} (1 − ηa)^j and Var ξ = η²σ² Σ_{j<K} (1 − ηa)^{2j}. A round of
SSL is the composition of these maps in a random order, all M! of which are taken; E x and E x² then follow a linear recursion.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

FEDAVG, SSL, SGD = "FedAvg", "SSL", "mini-batch SGD"
ONE_ORDER = "SSL, always in one order"


class Pairs(NamedTuple):
    """M clients, half of them (a_1, ζ) and half (a_2, −ζ): a group of table 6 with each of its clients several times."""

    a: tuple[float, float]
    zeta: float
    clients: int = 2
    sigma: float = 0.0

    @property
    def curvatures(self) -> np.ndarray:
        return np.tile(self.a, self.clients // 2)

    @property
    def slopes(self) -> np.ndarray:
        return np.tile([self.zeta, -self.zeta], self.clients // 2)


class Round(NamedTuple):
    """What a round does to E x and E x²; every field has one entry for each step size."""

    first: np.ndarray  # E x' = first · E x + shift
    shift: np.ndarray
    second: np.ndarray  # E x'² = second · E x² + cross · E x + rest
    cross: np.ndarray
    rest: np.ndarray


def _geometric(ratio: np.ndarray, K: float) -> np.ndarray:
    """Σ_{j<K} ratio^j, also for K far beyond what could be summed."""
    near = np.abs(1 - ratio) < 1e-12
    safe = np.where(near, 0.5, ratio)
    return np.where(near, K, (1 - safe**K) / (1 - safe))


def _local(problem: Pairs, eta: np.ndarray, K: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """α, β and Var ξ, (M, step sizes)."""
    ratio = 1 - eta * problem.curvatures[:, None]
    beta = -eta * problem.slopes[:, None] * _geometric(ratio, K)
    return ratio**K, beta, (eta * problem.sigma) ** 2 * _geometric(ratio**2, K)


def _affine(alpha: np.ndarray, beta: np.ndarray, noise: np.ndarray) -> Round:
    """The mean over equally likely maps x ↦ αx + β + ξ, (maps, step sizes)."""
    return Round(
        alpha.mean(axis=0),
        beta.mean(axis=0),
        (alpha**2).mean(axis=0),
        2 * (alpha * beta).mean(axis=0),
        (beta**2 + noise).mean(axis=0),
    )


def fedavg_round(problem: Pairs, eta: np.ndarray, K: float) -> Round:
    """x' = mean_m (α_m x + β_m + ξ_m)."""
    alpha, beta, noise = _local(problem, eta, K)
    return _affine(alpha.mean(axis=0)[None], beta.mean(axis=0)[None], noise.mean(axis=0)[None] / problem.clients)


def ssl_round(problem: Pairs, eta: np.ndarray, K: float) -> Round:
    """The clients' maps one after the other, in every order."""
    return _in_orders(problem, eta, K, np.array(list(itertools.permutations(range(problem.clients)))))


def one_order_round(problem: Pairs, eta: np.ndarray, K: float) -> Round:
    """The clients' maps one after the other, in the order of their numbers."""
    return _in_orders(problem, eta, K, np.arange(problem.clients)[None])


def _in_orders(problem: Pairs, eta: np.ndarray, K: float, orders: np.ndarray) -> Round:
    alpha, beta, noise = _local(problem, eta, K)
    a, b, v = np.ones((len(orders), len(eta))), np.zeros((len(orders), len(eta))), np.zeros((len(orders), len(eta)))
    for m in orders.T:
        a, b, v = alpha[m] * a, alpha[m] * b + beta[m], alpha[m] ** 2 * v + noise[m]
    return _affine(a, b, v)


def sgd_round(problem: Pairs, eta: np.ndarray, K: float) -> Round:
    """One step along the mean of MK gradients, K of each client."""
    alpha = 1 - eta * problem.curvatures.mean()
    noise = (eta * problem.sigma) ** 2 / (problem.clients * K)
    return _affine(alpha[None], np.zeros_like(alpha)[None], noise[None])


ROUNDS = {FEDAVG: fedavg_round, SSL: ssl_round, ONE_ORDER: one_order_round, SGD: sgd_round}


def effective(method: str, problem: Pairs, K: float, steps: np.ndarray) -> np.ndarray:
    """η of an effective step η̃: η̃ = MKη for SSL, Kη for FedAvg, η for SGD, as the paper counts."""
    return steps / {SSL: problem.clients * K, ONE_ORDER: problem.clients * K, FEDAVG: K, SGD: 1}[method]


def gaps(method: str, problem: Pairs, K: float, eta: np.ndarray, start: float, after: list[int]) -> np.ndarray:
    """E F(x_R) − F* for every R of `after` (rising) and every step: (R, step sizes); infinite where it diverges.

    >>> found = gaps(SGD, Pairs((1.0, 1.0), 1.0), 1, np.array([0.5]), 4.0, [0, 1, 2])
    >>> found[:, 0].tolist()
    [8.0, 2.0, 0.5]
    """
    each = ROUNDS[method](problem, eta, K)
    mean, square = np.full(len(eta), start), np.full(len(eta), start**2)
    found = []
    with np.errstate(over="ignore", invalid="ignore"):
        for r in range(max(after) + 1):
            if r in after:
                found.append(np.where(np.isfinite(square), square, np.inf))
            square = each.second * square + each.cross * mean + each.rest
            mean = each.first * mean + each.shift
    return np.asarray(0.5 * problem.curvatures.mean() * np.stack(found))


def best(method: str, problem: Pairs, K: float, start: float, after: list[int], per_decade: int = 24) -> np.ndarray:
    """The least of it over effective steps from 1e-6 to 2, for every R."""
    steps = np.logspace(-6, np.log10(2.0), round(6.3 * per_decade) + 1)
    return np.asarray(gaps(method, problem, K, effective(method, problem, K, steps), start, after).min(axis=1))


def exponent(x: np.ndarray, y: np.ndarray) -> float:
    """The slope of log y over log x.

    >>> exponent(np.array([1.0, 10.0]), np.array([3.0, 0.03])).__round__(6)
    -2.0
    """
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
