"""A round as exact algebra: what a method computes, written as combinations of vectors that nobody knows.

Every position is told relative to x*, so that x* is the origin. A `Sketch` follows *one* client through a round. What all
clients share (the model, the mean gradient, …) are unknown vectors, and that such a vector s is the mean of the clients' v_i is
kept as "v_i − s has mean zero". Numbers are fractions: what is shown with a sketch is shown of the method, not of its rounding.

*All losses have their minimum at x*, without loss of generality.* Put f_i(y) − ⟨b_i, y⟩, b_i = ∇f_i(x*), for f_i. These b_i
have mean zero. FedLin, FedTrack, SCAFFOLD, Scaffnew and FedSplit do the same with these losses, if what they remember of
gradients (c_i, h_i; for FedSplit −z_i/s) is moved by b_i too, which is how their states are measured. So what drifts elsewhere,
they do not see. (FedAvg and FedProx do; they are sketched for clients that are alike, where all b_i are zero.)
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

Number = Fraction | int


class Vector:
    """A combination Σ c_k e_k of unknown vectors e_k.

    >>> a, b = Vector.unknown(0), Vector.unknown(1)
    >>> (a - Fraction(1, 2) * (b - a)).terms
    {0: Fraction(3, 2), 1: Fraction(-1, 2)}
    """

    __array_ufunc__ = None  # so that a NumPy number times a vector comes here
    __slots__ = ("terms",)

    def __init__(self, terms: dict[int, Fraction] | None = None) -> None:
        self.terms = {} if terms is None else terms

    @classmethod
    def unknown(cls, number: int) -> Vector:
        return cls({number: Fraction(1)})

    def __add__(self, other: Vector) -> Vector:
        terms = dict(self.terms)
        for key, value in other.terms.items():
            terms[key] = terms.get(key, Fraction(0)) + value
        return Vector({key: value for key, value in terms.items() if value})

    def __rmul__(self, factor: Number) -> Vector:
        return Vector({key: Fraction(factor) * value for key, value in self.terms.items() if factor})

    def __neg__(self) -> Vector:
        return -1 * self

    def __sub__(self, other: Vector) -> Vector:
        return self + -other

    def same(self, other: Vector) -> bool:
        return self.terms == other.terms


@dataclasses.dataclass
class Loss:
    """An unknown L-smooth, μ-strongly convex function: the points where somebody asked for its gradient."""

    sketch: Sketch
    points: list[tuple[Vector, Vector]] = dataclasses.field(default_factory=list)  # (position, gradient)

    def index(self, position: Vector) -> int:
        """The number of this point, asked for now if it was not before."""
        for number, (known, _) in enumerate(self.points):
            if known.same(position):
                return number
        self.points.append((position, self.sketch.unknown()))
        return len(self.points) - 1

    def gradient(self, position: Vector) -> Vector:
        return self.points[self.index(position)][1]

    def prox(self, centre: Vector, s: Number) -> Vector:
        """y with y + s∇f(y) = centre."""
        gradient = self.sketch.unknown()
        y = centre - s * gradient
        self.points.append((y, gradient))
        return y


@dataclasses.dataclass
class Client:
    """f_i = the mean of its components, and τ_i."""

    components: list[Any]  # Loss here; anything with a gradient elsewhere
    steps: int
    number: Callable[[Fraction], Any] = lambda fraction: fraction  # what the vectors can be multiplied with

    def gradient(self, position: Any) -> Any:
        return self.mean([loss.gradient(position) for loss in self.components])

    def mean(self, vectors: list[Any]) -> Any:
        """Of one vector for each component."""
        if len(vectors) == 1:
            return vectors[0]
        return self.number(Fraction(1, len(vectors))) * functools.reduce(operator.add, vectors)

    def prox(self, centre: Any, s: Any) -> Any:
        return self.components[0].prox(centre, s)


class Sketch:
    """One client's view of a round. `alike`: all clients have the same loss, so that what one does, all do."""

    def __init__(self, steps: int, components: int = 1, alike: bool = False) -> None:
        self.size = 0
        self.alike = alike
        self.losses = [Loss(self) for _ in range(components)]
        self.clients = [Client(list(self.losses), steps)]  # the one that stands for all
        self.common: list[Vector] = []
        self.centred: list[Vector] = []  # whose mean over the clients is zero
        self.at_most_zero: list[Form] = []
        self.origin = Vector()
        for loss in self.losses:  # point 0 of every loss is x*, and its gradient there is zero: see above
            loss.points.append((self.origin, Vector()))

    def unknown(self) -> Vector:
        self.size += 1
        return Vector.unknown(self.size - 1)

    def everyone(self) -> Vector:
        """A vector that all clients share."""
        made = self.unknown()
        self.common.append(made)
        return made

    def each(self) -> list[Vector]:
        """A vector of every client."""
        return [self.unknown()]

    def each_centred(self) -> list[Vector]:
        """A vector of every client; they have mean zero, and are zero where clients are alike."""
        if self.alike:
            return [Vector()]
        made = self.each()
        self.centred.extend(made)
        return made

    def mean(self, vectors: list[Vector]) -> Vector:
        if self.alike:
            return vectors[0]
        mean = self.everyone()
        self.centred.append(vectors[0] - mean)
        return mean

    def contracted(self, vector: Vector, delta: Number, shared: bool = True) -> Vector:
        """C(v) for a compressor with ‖C(v) − v‖² ≤ (1 − 1/δ)‖v‖²."""
        made = self.everyone() if shared else self.unknown()
        self.at_most_zero.append(square(made - vector) - (1 - 1 / Fraction(delta)) * square(vector))
        return made


@dataclasses.dataclass
class Form:
    """Σ c ⟨u, v⟩ over pairs of vectors, and Σ c f(point) over points of losses."""

    products: list[tuple[Fraction, Vector, Vector]] = dataclasses.field(default_factory=list)
    values: list[tuple[Fraction, int, int]] = dataclasses.field(default_factory=list)  # (c, loss, point)

    def __add__(self, other: Form) -> Form:
        return Form(self.products + other.products, self.values + other.values)

    def __rmul__(self, factor: Number) -> Form:
        factor = Fraction(factor)
        return Form(
            [(factor * c, u, v) for c, u, v in self.products],
            [(factor * c, loss, point) for c, loss, point in self.values],
        )

    def __sub__(self, other: Form) -> Form:
        return self + -1 * other

    def matrix(self, size: int) -> dict[tuple[int, int], Fraction]:
        """The symmetric matrix of the products, without its zeros."""
        entries: dict[tuple[int, int], Fraction] = {}
        for c, u, v in self.products:
            for i, a in u.terms.items():
                for j, b in v.terms.items():
                    half = c * a * b / 2
                    entries[i, j] = entries.get((i, j), Fraction(0)) + half
                    entries[j, i] = entries.get((j, i), Fraction(0)) + half
        return {key: value for key, value in entries.items() if value}


def inner(u: Vector, v: Vector) -> Form:
    """⟨u, v⟩."""
    return Form([(Fraction(1), u, v)])


def square(u: Vector) -> Form:
    """‖u‖²."""
    return inner(u, u)


def interpolation(loss: Loss, number: int, i: int, j: int, L: Fraction, mu: Fraction) -> Form:
    """What is at most zero for two points of one L-smooth, μ-strongly convex function (and suffices, for all pairs):

        f_j − f_i + ⟨g_j, x_i − x_j⟩ + (‖g_i − g_j‖²/L + μ‖x_i − x_j‖² − 2(μ/L)⟨g_i − g_j, x_i − x_j⟩) / (2(1 − μ/L)).

    Taylor, Hendrickx, Glineur, "Smooth strongly convex interpolation and exact worst-case performance of first-order methods"
    (2017), Theorem 4.
    """
    (x_i, g_i), (x_j, g_j) = loss.points[i], loss.points[j]
    x, g = x_i - x_j, g_i - g_j
    curved = Fraction(1) / L * square(g) + mu * square(x) - 2 * mu / L * inner(g, x)
    values = Form(values=[(Fraction(1), number, j), (Fraction(-1), number, i)])
    return values + inner(g_j, x) + 1 / (2 * (1 - mu / L)) * curved
