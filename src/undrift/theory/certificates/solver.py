"""Solving programmes, with cvxpy and Clarabel (`pip install 'undrift[certify]'`)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ...errors import InputError
from .programme import Programme, Solution, entries

LARGEST_P = (1e2, 1e4)  # bounds on the trace of P; the solver is surer of itself with small numbers


def cvxpy() -> Any:
    """The modelling language, if it is installed."""
    try:
        import clarabel  # noqa: F401
        import cvxpy
    except ImportError as missing:
        raise InputError(
            f"certificates are solved with cvxpy and Clarabel, and {missing.name} is not installed: "
            "pip install 'undrift[certify]'"
        ) from None
    return cvxpy


def contraction(programme: Programme, slack: float) -> Solution | None:
    """The smallest ρ for a state of one part, every matrix being at least slack·I; None where there is none."""
    cp = cvxpy()
    rho = cp.Variable()
    parts = _Parts(cp, programme)
    for number, kind in enumerate(programme.kinds):
        before, after = [pair[0] for pair in kind.states], [pair[1] for pair in kind.states]
        parts.add(number, rho * programme.dense(number, before)[:, 0] - programme.dense(number, after)[:, 0])
        parts.balance(number, rho * programme.values(number, before)[:, 0] - programme.values(number, after)[:, 0])
    return _solved(cp, cp.Problem(cp.Minimize(rho), parts.constraints(slack)), parts, rho, np.ones((1, 1)))


def lyapunov(programme: Programme, rate: float, slack: float) -> Solution | None:
    """P with which V contracts by `rate`, P ⪰ E_11; None where none was found."""
    return next((found for bound in LARGEST_P if (found := _lyapunov(programme, rate, slack, bound))), None)


def _lyapunov(programme: Programme, rate: float, slack: float, bound: float) -> Solution | None:
    cp = cvxpy()
    rank = programme.rank
    P = cp.Variable((rank, rank), symmetric=True)
    flat = cp.hstack([P[entry] for entry in entries(rank)])
    parts = _Parts(cp, programme)
    for number, kind in enumerate(programme.kinds):
        before, after = [pair[0] for pair in kind.states], [pair[1] for pair in kind.states]
        parts.add(number, (rate * programme.dense(number, before) - programme.dense(number, after)) @ flat)
    first = np.zeros((rank, rank))
    first[0, 0] = 1
    room = cp.Variable()
    bounds = [P - first >> slack * np.eye(rank), cp.trace(P) <= bound, room <= 1]
    problem = cp.Problem(cp.Maximize(room), parts.constraints(room) + bounds)
    solution = _solved(cp, problem, parts, room, P)
    if solution is None or solution.rate < slack:  # `rate` holds the room here
        return None
    return Solution(rate, solution.P, solution.couplings, solution.multipliers, solution.promised, solution.status)


class _Parts:
    """The variables that all programmes have, and their matrix inequalities."""

    def __init__(self, cp: Any, programme: Programme) -> None:
        self.cp, self.programme = cp, programme
        couplings = len(programme.kinds[0].couplings)
        self.couplings = cp.Variable(couplings) if couplings else None
        self.multipliers = [cp.Variable(len(kind.interpolations), nonneg=True) for kind in programme.kinds]
        self.promised = [
            cp.Variable(len(kind.promises), nonneg=True) if kind.promises else None for kind in programme.kinds
        ]
        self.matrices: list[Any] = []
        self.balances: list[Any] = [None] * len(programme.kinds)

    def add(self, number: int, state: Any) -> None:
        """The inequality of a kind: what its states give, and all the rest."""
        kind = self.programme.kinds[number]
        total = state + self.programme.dense(number, kind.interpolations) @ self.multipliers[number]
        if self.couplings is not None:
            total = total + self.programme.dense(number, kind.couplings) @ self.couplings
        if kind.promises:
            total = total + self.programme.dense(number, kind.promises) @ self.promised[number]
        self.matrices.append(total)

    def balance(self, number: int, of_states: Any) -> None:
        """No function value is left over."""
        self.balances[number] = of_states

    def constraints(self, slack: Any) -> list[Any]:
        cp, shares = self.cp, self.programme.shares
        sizes = self.programme.blocks_sizes()
        totals = self.matrices
        if shares is not None:
            totals = [sum(float(share) * matrix for share, matrix in zip(shares, self.matrices, strict=True))]
        found = []
        for size, total in zip(sizes, totals, strict=True):
            matrix = cp.reshape(total, (size, size), order="C")
            found.append((matrix + matrix.T) / 2 - slack * np.eye(size) >> 0)
        for number, kind in enumerate(self.programme.kinds):
            left = self.programme.values(number, kind.interpolations) @ self.multipliers[number]
            of_states = self.balances[number]
            found.append(left == 0 if of_states is None else left + of_states == 0)
        return found


def _solved(cp: Any, problem: Any, parts: _Parts, rate: Any, P: Any) -> Solution | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "may be inaccurate": what is found is checked anyway
        try:
            problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
        except cp.SolverError:
            return None
    if rate.value is None or problem.status not in ("optimal", "optimal_inaccurate"):
        return None

    def number(variable: Any) -> np.ndarray:
        return np.zeros(0) if variable is None else np.asarray(variable.value, float)

    return Solution(
        float(rate.value),
        np.asarray(P if isinstance(P, np.ndarray) else P.value, float),
        number(parts.couplings),
        [number(one) for one in parts.multipliers],
        [number(one) for one in parts.promised],
        problem.status,
    )
