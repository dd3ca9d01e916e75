"""The same rounds for finitely many clients, by PEPit: worst cases from below, with the functions that attain them.

A certificate bounds from above, for any number of clients. PEPit solves the primal programme for as many as are named here; a
gap between the two would say that the certificate is not tight. Two clients of a kind stand for any larger number of them: the
worst case is a concave programme that does not change when clients of a kind are exchanged, so it has a solution in which they
are alike, and what matters of m alike clients is the Gram matrix of their mean and that of the deviations from it, which two
clients attain as well.

Goujaud, Moucer, Glineur, Hendrickx, Taylor, Dieuleveut, "PEPit: computer-assisted worst-case analyses of first-order
optimization methods in Python" (2022).
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import warnings
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import InputError
from .certificate import Measure
from .programme import entries
from .rounds import Method, Played
from .sketch import Client


@dataclasses.dataclass(frozen=True)
class Interpolant:
    """The smallest function of the class through these points: x_k with gradients g_k and values f_k, all (points, d).

    With ℓ = L − μ, s_k = g_k − μx_k and h_k = f_k − μ‖x_k‖²/2 it is

        f(y) = μ‖y‖²/2 + max over α ≥ 0, Σα_k = 1 of Σ α_k (h_k + ⟨s_k, y − x_k⟩ + ‖s_k‖²/(2ℓ)) − ‖Σ α_k s_k‖²/(2ℓ).

    Taylor, Hendrickx, Glineur (2017), by conjugation.

    >>> two = Interpolant(np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]]), np.array([0.0, 0.5]), L=1.0, mu=0.1)
    >>> value, gradient = two(np.array([0.5]))
    >>> bool(abs(value - 0.125) < 1e-6), bool(abs(gradient[0] - 0.5) < 1e-6)
    (True, True)
    """

    x: np.ndarray
    g: np.ndarray
    f: np.ndarray
    L: float
    mu: float

    def __call__(self, y: np.ndarray) -> tuple[float, np.ndarray]:
        """f(y) and ∇f(y)."""
        smooth = self.L - self.mu
        s = self.g - self.mu * self.x
        h = self.f - self.mu / 2 * np.sum(self.x**2, axis=1)
        heights = h + np.sum(s * (y - self.x), axis=1) + np.sum(s**2, axis=1) / (2 * smooth)
        alpha = _best_mixture(heights, s, smooth)
        slope = alpha @ s
        value = self.mu / 2 * float(y @ y) + float(alpha @ heights) - float(slope @ slope) / (2 * smooth)
        return value, slope + self.mu * y

    def gradient(self, y: np.ndarray) -> np.ndarray:
        return self(y)[1]


def _best_mixture(heights: np.ndarray, s: np.ndarray, smooth: float) -> np.ndarray:
    """argmax of α·heights − ‖αs‖²/(2ℓ) over the simplex, as nonnegative least squares with a heavy last row."""
    from scipy.optimize import minimize

    count = len(heights)
    scale = max(1.0, float(np.abs(heights).max()))
    found = minimize(
        lambda a: (np.sum((a @ s) ** 2) / (2 * smooth) - a @ heights) / scale,
        np.full(count, 1 / count),
        jac=lambda a: (s @ (a @ s) / smooth - heights) / scale,
        bounds=[(0, 1)] * count,
        constraints=[{"type": "eq", "fun": lambda a: a.sum() - 1, "jac": lambda a: np.ones(count)}],
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    return np.asarray(found.x)


@dataclasses.dataclass(frozen=True)
class WorstCase:
    """A worst case from below: `value` is V after a round from V = 1, attained by these losses from these states."""

    value: float
    losses: list[list[Interpolant]]  # of every client, its components
    steps: tuple[int, ...]
    weights: tuple[float, ...]
    states: list[tuple[np.ndarray, ...]]  # of every client before the round, relative to x* and what memory tends to


class _Points:
    """A world of PEPit's points."""

    def __init__(self, pep: Any, functions: list[list[Any]], steps: Sequence[int], weights: Sequence[float]) -> None:
        from PEPit import Point

        self.pep, self.weights = pep, weights
        self.origin = Point(is_leaf=False, decomposition_dict={})
        self.clients = [Client(own, tau, float) for own, tau in zip(functions, steps, strict=True)]

    def everyone(self) -> Any:
        from PEPit import Point

        return Point()

    def each(self) -> list[Any]:
        return [self.everyone() for _ in self.clients]

    def each_centred(self) -> list[Any]:
        made = self.each()
        return [own - self.mean(made) for own in made]

    def mean(self, vectors: list[Any]) -> Any:
        return functools.reduce(operator.add, (w * v for w, v in zip(self.weights, vectors, strict=True)))

    def contracted(self, vector: Any, delta: float, shared: bool = True) -> Any:
        made = self.everyone()
        self.pep.add_constraint((made - vector) ** 2 <= (1 - 1 / float(delta)) * vector**2)
        return made


def pepit() -> Any:
    """PEPit, if it is installed."""
    try:
        import PEPit
    except ImportError:
        raise InputError(
            "worst cases are found with PEPit, which is not installed: pip install 'undrift[certify]'"
        ) from None
    return PEPit


def worst_case(
    method: Method,
    steps: Sequence[int],
    weights: Sequence[float],
    eta: float,
    kappa: float,
    measure: Measure,
    settings: Mapping[str, Any],
    P: np.ndarray,
    alike: bool,
) -> WorstCase | None:
    """V after a round, at most, from V = 1, for these very clients; L = 1, μ = 1/κ. None where the solver fails."""
    pepit()
    import cvxpy
    from PEPit import PEP, Expression, Point
    from PEPit.functions import SmoothStronglyConvexFunction

    pep = PEP()
    origin = Point(is_leaf=False, decomposition_dict={})

    def function() -> Any:
        made = pep.declare_function(SmoothStronglyConvexFunction, mu=1 / kappa, L=1.0)
        made.add_point((origin, origin, Expression(is_leaf=False, decomposition_dict={1: 0.0})))
        return made

    components = int(settings.get("components", 1))
    own = [[_Prox(function()) for _ in range(components)] for _ in (steps[:1] if alike else steps)]
    functions = own * len(steps) if alike else own
    world = _Points(pep, functions, steps, weights)
    numbers = {key: float(value) if isinstance(value, Fraction) else value for key, value in settings.items()}
    played = method.play(world, eta, numbers)
    before, after = _measured(world, played, measure, P)
    pep.set_initial_condition(before <= 1)
    pep.set_performance_metric(after)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = pep.solve(wrapper="cvxpy", solver="CLARABEL", verbose=0)
        except cvxpy.SolverError:
            return None
    losses = [[component.found(1 / kappa) for component in client] for client in own]
    states = [tuple(part.eval() for part in state) for state in played.before]
    return WorstCase(float(value), losses, tuple(steps), tuple(weights), states)


class _Prox:
    """A function of PEPit with the same words as a loss of a sketch."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def gradient(self, x: Any) -> Any:
        return self.function.gradient(x)

    def prox(self, centre: Any, s: float) -> Any:
        from PEPit.primitive_steps import proximal_step

        return proximal_step(centre, self.function, s)[0]

    def found(self, mu: float) -> Interpolant:
        points = [(x.eval(), g.eval(), f.eval()) for x, g, f in self.function.list_of_points]
        x, g, f = (np.array([point[k] for point in points], float) for k in range(3))
        return Interpolant(x, g, f, 1.0, mu)


def _measured(world: _Points, played: Played, measure: Measure, P: np.ndarray) -> tuple[Any, Any]:
    """V before and after, as PEPit's expressions."""
    if measure == "gap":
        return tuple(world.mean([_value(client, x) for client in world.clients]) for x in (played.x, played.x_after))
    if measure == "sq_gradient":
        return tuple(
            world.mean([client.gradient(x) for client in world.clients]) ** 2 for x in (played.x, played.x_after)
        )
    before = _quadratic(world, played.before, P)
    after = functools.reduce(operator.add, (float(c) * _quadratic(world, states, P) for c, states in played.after))
    return before, after


def _value(client: Client, x: Any) -> Any:
    values = [component.function(x) for component in client.components]
    return client.mean(values)


def _quadratic(world: _Points, states: list[tuple[Any, ...]], P: np.ndarray) -> Any:
    states = states if len(states) == len(world.clients) else states * len(world.clients)
    forms = []
    for state in states:
        terms = [(1 if j == k else 2) * float(P[j, k]) * (state[j] * state[k]) for j, k in entries(len(state))]
        forms.append(functools.reduce(operator.add, terms))
    return world.mean(forms)
