"""Numbers that change by round, beside those of Optax."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from .errors import InputError
from .gate import LARGEST, NotNegative, Positive, check_value, shown, whole


@dataclasses.dataclass(frozen=True)
class Inverse:
    """scale/(t + offset), t = 0 in the first round: step sizes that fall like 1/t, under which noise averages out.

    >>> import undrift as ud
    >>> print(ud.fedlin(eta=Inverse(scale=2.0, offset=10.0)))
    fedlin(eta=2/(t + 10))
    """

    scale: float
    offset: float

    def __post_init__(self) -> None:
        for name in ("scale", "offset"):
            check_value(f"{name} of an inverse schedule", getattr(self, name), Positive)

    def __call__(self, count: Any) -> Any:
        return self.scale / (count + self.offset)

    def __str__(self) -> str:
        return f"{self.scale:g}/(t + {self.offset:g})"


@dataclasses.dataclass(frozen=True)
class Piecewise:
    """One number after the other: (first round of a piece, its number), the first from round 1 on; see `piecewise`."""

    pieces: tuple[tuple[int, float], ...]

    def __call__(self, count: Any) -> Any:
        starts = np.array([first - 1 for first, _ in self.pieces])  # t = 0 is round 1
        numbers = jnp.asarray([number for _, number in self.pieces], float)
        return numbers[jnp.searchsorted(jnp.asarray(starts), jnp.asarray(count), side="right") - 1]

    def __str__(self) -> str:
        return "{" + ", ".join(f"{first}: {number:g}" for first, number in self.pieces) + "}"


def piecewise(values: dict[int, float]) -> Piecewise:
    """A number that changes at given rounds: {first round of a piece: its number}, the first piece from round 1 on.

    >>> import undrift as ud
    >>> print(ud.fedavg(eta=piecewise({1: 0.1, 101: 0.01})))
    fedavg(server_eta=1, eta={1: 0.1, 101: 0.01})
    """
    rule = "a piecewise schedule is a table {first round: number}"
    if not isinstance(values, Mapping) or not values:
        raise InputError(f"{rule}, the first from round 1 on; got {shown(values)}")
    pieces = sorted(
        (
            whole(f"{rule}, rounds whole numbers", first, 1, LARGEST),
            check_value(f"the number from round {first} on", n, NotNegative),
        )
        for first, n in values.items()
    )
    if pieces[0][0] != 1:
        raise InputError(
            f"{rule}, the first from round 1 on; got {pieces[0][0]} as the first round: say what holds before"
        )
    return Piecewise(tuple(pieces))
