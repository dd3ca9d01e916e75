"""Checking an inequality in whole numbers: no rounding, no tolerance."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from .programme import Kind, Programme, Solution, entries
from .sketch import Form

PLACES = 96  # binary places to which matrices are rounded before the last check, whose error is accounted for
Matrix = dict[tuple[int, int], Fraction]


def certified_rate(programme: Programme, solution: Solution, extra: float = 1e-9) -> Fraction | None:
    """A rate that the solution's multipliers prove, a little above the solver's; None where they prove nothing.

    The multipliers are taken as the fractions that they are in floating point, negative ones as zero; what function values are
    left over is put right by adding to multipliers that involve x*. Then the matrices are fractions, and definite or not.
    """
    rate = Fraction(solution.rate) + Fraction(extra)
    rank = programme.rank
    P = {entry: Fraction(float(solution.P[entry])) for entry in entries(rank)}
    if rank > 1 and not positive_definite(_without_first(P, rank), rank):
        return None
    matrices = [_matrix(programme, number, solution, P, rate) for number in range(len(programme.kinds))]
    if programme.shares is not None:
        total: Matrix = {}
        for share, matrix in zip(programme.shares, matrices, strict=True):
            _add(total, share, matrix)
        matrices = [total]
    sizes = programme.blocks_sizes()
    return rate if all(positive_definite(m, size) for m, size in zip(matrices, sizes, strict=True)) else None


def _without_first(P: Matrix, rank: int) -> Matrix:
    """P − E_11, whole."""
    whole = {(j, k): P[min(j, k), max(j, k)] for j in range(rank) for k in range(rank)}
    whole[0, 0] -= 1
    return whole


def _matrix(programme: Programme, number: int, solution: Solution, P: Matrix, rate: Fraction) -> Matrix:
    kind = programme.kinds[number]
    total = Form()
    for entry, (before, after) in zip(entries(programme.rank), kind.states, strict=True):
        total = total + P[entry] * (rate * before - after)
    multipliers = [max(Fraction(float(value)), Fraction(0)) for value in solution.multipliers[number]]
    multipliers = _balanced(kind, multipliers, total)
    parts: Matrix = {}
    places = programme.places(number)
    forms = [(Fraction(1), total)]
    forms += list(zip(multipliers, kind.interpolations, strict=True))
    forms += [(Fraction(float(c)), form) for c, form in zip(solution.couplings, kind.couplings, strict=True)]
    promised = solution.promised[number]
    forms += [(max(Fraction(float(c)), Fraction(0)), form) for c, form in zip(promised, kind.promises, strict=True)]
    for factor, form in forms:
        moved = {(places[i], places[j]): value for (i, j), value in form.matrix(kind.size).items()}
        _add(parts, factor, moved)
    return parts


def _balanced(kind: Kind, multipliers: list[Fraction], states: Form) -> list[Fraction]:
    """The same with more of those between x* (point 0 of every loss) and the others, so that no function value is left."""
    left: dict[tuple[int, int], Fraction] = {}
    place: dict[tuple[int, int, int], int] = {}
    for factor, form in [(Fraction(1), states), *zip(multipliers, kind.interpolations, strict=True)]:
        for c, loss, point in form.values:
            left[loss, point] = left.get((loss, point), Fraction(0)) + factor * c
    for k, form in enumerate(kind.interpolations):
        (_, loss, j), (_, _, i) = form.values
        place[loss, i, j] = k
    found = list(multipliers)
    for (loss, point), value in left.items():
        if point and value:
            i, j = (point, 0) if value > 0 else (0, point)  # λ_ij takes from f_i and gives to f_j
            found[place[loss, i, j]] += abs(value)
    return found


def _add(total: Matrix, factor: Fraction, matrix: Matrix) -> None:
    for key, value in matrix.items():
        total[key] = total.get(key, Fraction(0)) + factor * value


def positive_definite(matrix: Matrix, size: int) -> bool:
    """Whether a symmetric matrix is positive definite: Sylvester's criterion in whole numbers, by Bareiss's elimination.

    Entries are rounded to multiples of 2^−96 first. That moves no eigenvalue by more than size·2^−96, which is taken off.

    >>> positive_definite({(0, 0): Fraction(2), (0, 1): Fraction(1), (1, 0): Fraction(1), (1, 1): Fraction(1)}, 2)
    True
    >>> positive_definite({(0, 0): Fraction(1), (0, 1): Fraction(2), (1, 0): Fraction(2), (1, 1): Fraction(1)}, 2)
    False
    """
    scale = 1 << PLACES
    a = np.zeros((size, size), dtype=object)
    for (i, j), value in matrix.items():
        a[i, j] = value.numerator * scale // value.denominator
    for i in range(size):
        a[i, i] -= size
        for j in range(i):  # a fraction and its mirror are rounded alike, yet nothing should rest on it
            a[i, j] = a[j, i]
    before = 1
    for k in range(size):
        pivot = a[k, k]
        if pivot <= 0:
            return False
        rest = slice(k + 1, size)
        a[rest, rest] = (a[rest, rest] * pivot - np.outer(a[rest, k], a[k, rest])) // before
        before = pivot
    return True
