"""The worst case of a round as a semidefinite programme, and its answer as an inequality that can be checked.

Let V be what is measured. If for every client, whatever its loss,

    ρ V_before − V_after + Σ c_sz ⟨s, z⟩ + Σ λ_ij Q_ij + Σ ν_k K_k  ⪰  0        as a quadratic form in the unknown vectors

with λ, ν ≥ 0 and no function value left over, then V_after ≤ ρ V_before: Q_ij ≤ 0 are the interpolation inequalities of its
loss, K_k ≤ 0 what a compressor promises, and ⟨s, z⟩, s shared by all clients and z with mean zero over them, vanishes in the
mean. Nothing in it depends on the number of clients or on their weights, so neither does ρ. Clients with different numbers of
steps have one inequality each with the same c_sz ("any": every mixture, which may change by round), or one for all of them
together, where the proportions are fixed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ...errors import InputError
from .certificate import Measure
from .rounds import Method, Played
from .sketch import Form, Sketch, Vector, inner, interpolation, square

LARGEST = 130  # unknown vectors of one inequality; beyond it a solution takes many minutes and gigabytes


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of clients: all terms of its inequality. `states`: (before, after) as forms, for each entry of P."""

    size: int
    couplings: list[Form]
    interpolations: list[Form]
    promises: list[Form]  # K_k
    states: list[tuple[Form, Form]]
    points: int  # of all its losses together
    offsets: list[int]  # where the points of each loss begin
    common: list[Vector]  # what all clients share


def entries(rank: int) -> list[tuple[int, int]]:
    """The entries (j, k), j ≤ k, of P."""
    return [(j, k) for j in range(rank) for k in range(j, rank)]


def kind(
    method: Method,
    steps: int,
    eta: Fraction,
    kappa: Fraction,
    measure: Measure,
    settings: Mapping[str, Any],
    alike: bool,
) -> Kind:
    """The terms for clients with so many local steps; L = 1, μ = 1/κ."""
    sketch = Sketch(steps, settings.get("components", 1), alike)
    played = method.play(sketch, eta, settings)
    states = _states(sketch, played, measure)
    _refuse_beyond(sketch.size, sum(len(loss.points) * (len(loss.points) - 1) for loss in sketch.losses))
    L, mu = Fraction(1), 1 / kappa
    pairs = [
        interpolation(loss, number, i, j, L, mu)
        for number, loss in enumerate(sketch.losses)
        for i in range(len(loss.points))
        for j in range(len(loss.points))
        if i != j
    ]
    couplings = [inner(s, z) for s in sketch.common for z in sketch.centred]
    counts = [len(loss.points) for loss in sketch.losses]
    offsets = [sum(counts[:k]) for k in range(len(counts))]
    return Kind(sketch.size, couplings, pairs, sketch.at_most_zero, states, sum(counts), offsets, sketch.common)


def _refuse_beyond(size: int, multipliers: int) -> None:
    """Say how large a programme is that is too large."""
    if size > LARGEST:
        raise InputError(
            f"this programme has a matrix inequality in {size} vectors, with {multipliers} multipliers; what is solved here "
            f"goes to {LARGEST} vectors: take fewer local steps, or fewer different numbers of them"
        )


def _states(sketch: Sketch, played: Played, measure: Measure) -> list[tuple[Form, Form]]:
    """V before and after, for each entry of P."""
    if measure == "sq_distance":
        rank = len(played.before[0])
        return [(_entry(played.before[0], j, k), _mean(played, j, k)) for j, k in entries(rank)]
    if played.x is None:
        raise InputError(
            f"a method with memory is certified by a Lyapunov function of distances: use 'sq_distance', got {measure!r}"
        )
    if measure == "gap":
        return [(_gap(sketch, played.x), _gap(sketch, played.x_after))]
    slopes = [sketch.mean([sketch.clients[0].gradient(x)]) for x in (played.x, played.x_after)]
    return [(square(slopes[0]), square(slopes[1]))]


def _entry(state: Sequence[Vector], j: int, k: int) -> Form:
    return inner(state[j], state[k]) if j == k else 2 * inner(state[j], state[k])


def _mean(played: Played, j: int, k: int) -> Form:
    total = Form()
    for chance, states in played.after:
        total = total + chance * _entry(states[0], j, k)
    return total


def _gap(sketch: Sketch, x: Vector) -> Form:
    """f_i(x) − f_i(x*), whose mean is the gap."""
    share = Fraction(1, len(sketch.losses))
    values = []
    for number, loss in enumerate(sketch.losses):
        values += [(share, number, loss.index(x)), (-share, number, loss.index(sketch.origin))]
    return Form(values=values)


@dataclasses.dataclass(frozen=True)
class Solution:
    """The numbers of a solved programme, in floating point: ρ, P, and for each kind c (common to all), λ and ν."""

    rate: float
    P: np.ndarray
    couplings: np.ndarray
    multipliers: list[np.ndarray]
    promised: list[np.ndarray]
    status: str


@dataclasses.dataclass(frozen=True)
class Programme:
    """All kinds of clients of a federation; `shares`: their proportions, or None for any mixture of them."""

    kinds: list[Kind]
    shares: list[Fraction] | None = None

    def __post_init__(self) -> None:
        _refuse_beyond(self.size, sum(len(kind.interpolations) for kind in self.kinds))

    @property
    def size(self) -> int:
        """Vectors of the largest matrix inequality."""
        return max(self.blocks_sizes())

    def blocks_sizes(self) -> list[int]:
        if self.shares is None:
            return [kind.size for kind in self.kinds]
        common = len(self.kinds[0].common)
        return [common + sum(kind.size - common for kind in self.kinds)]

    def places(self, number: int) -> list[int]:
        """Where the vectors of a kind stand in its matrix inequality: the shared ones in front where it is one for all."""
        kind = self.kinds[number]
        if self.shares is None:
            return list(range(kind.size))
        common = [next(iter(vector.terms)) for vector in kind.common]
        own = [k for k in range(kind.size) if k not in common]
        begin = len(common) + sum(other.size - len(common) for other in self.kinds[:number])
        where = {vector: place for place, vector in enumerate(common)}
        where |= {vector: begin + place for place, vector in enumerate(own)}
        return [where[k] for k in range(kind.size)]

    @property
    def rank(self) -> int:
        """The number of parts of a state."""
        found = len(self.kinds[0].states)
        return next(r for r in range(1, found + 1) if r * (r + 1) // 2 == found)

    def dense(self, number: int, forms: list[Form]) -> np.ndarray:
        """(n², len(forms)): the matrices of these forms of a kind, as columns."""
        size = self.blocks_sizes()[number if self.shares is None else 0]
        places = self.places(number)
        columns = np.zeros((size * size, len(forms)))
        for column, form in enumerate(forms):
            for (i, j), value in form.matrix(size).items():
                columns[places[i] * size + places[j], column] += float(value)
        return columns

    def values(self, number: int, forms: list[Form]) -> np.ndarray:
        """(points, len(forms)): the function values in these forms."""
        kind = self.kinds[number]
        columns = np.zeros((kind.points, len(forms)))
        for column, form in enumerate(forms):
            for c, loss, point in form.values:
                columns[kind.offsets[loss] + point, column] += float(c)
        return columns
