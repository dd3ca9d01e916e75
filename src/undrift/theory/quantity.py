"""Numbers that remember where they come from."""

from __future__ import annotations

from typing import Literal

How = Literal["exact", "measured", "given"]


class Quantity(float):
    """A float with its provenance: `how` it was found and `where`.

    exact: a closed form of the problem. measured: the largest (or fitted) value seen along a path, which a theorem asks to hold
    everywhere. given: the user's word.

    >>> L = Quantity(2.0, "measured", "along 50 iterates")
    >>> L / 2, L.how, str(L)
    (1.0, 'measured', '2 (measured along 50 iterates)')
    """

    how: How
    where: str

    def __new__(cls, value: float, how: How, where: str) -> Quantity:
        made = super().__new__(cls, value)
        made.how, made.where = how, where
        return made

    def __str__(self) -> str:
        return f"{float(self):.6g} ({self.how}{' ' + self.where if self.where else ''})"

    def __repr__(self) -> str:
        return f"Quantity({float(self)!r}, {self.how!r}, {self.where!r})"

    def __reduce__(self) -> tuple[type[Quantity], tuple[float, How, str]]:
        return Quantity, (float(self), self.how, self.where)


def exact(value: float, where: str = "") -> Quantity:
    return Quantity(value, "exact", where)


def measured(value: float, where: str) -> Quantity:
    return Quantity(value, "measured", where)
