"""What a user's own function of the round is given, and what it gives back."""

from __future__ import annotations

from typing import Any, Protocol

import jax
import numpy as np

from .. import randomness
from ..errors import InputError
from ..gate import LARGEST, shown


class Choice(Protocol):
    """A user's function of the round, called on the host: it names clients, or their local steps."""

    def __call__(self, round: int, key: jax.Array, /) -> Any: ...


def user_key(seed: int, what: str, round: int) -> jax.Array:
    """The random key of a user's function in this round."""
    key = jax.random.fold_in(jax.random.key(seed), randomness.tag(what))
    return jax.random.fold_in(key, round)


def numbers_from(given: Any, rule: str, round: int) -> np.ndarray:
    """An array of real numbers from what a user's function gave."""
    where = f" in round {round}" if round else ""
    try:
        found = np.asarray(given)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{rule}, got {shown(given)}{where}: {error}") from None
    if found.dtype == object and all(isinstance(one, int) and not isinstance(one, bool) for one in found.flat):
        raise InputError(f"{rule}, got {shown(given)}{where}: numbers up to {LARGEST} can be counted")
    if found.dtype.kind not in "iuf":
        raise InputError(f"{rule}, got {shown(given)}{where}")
    return found
