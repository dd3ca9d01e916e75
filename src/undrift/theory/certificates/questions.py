"""What may be asked of `certify`: numbers as exact fractions, in units with L = 1, and refusals by name."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from ...errors import InputError, unknown
from .rounds import REQUIRED, Method


def positive_number(name: str, value: Any) -> float:
    """A finite number > 0."""
    try:
        number = math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise InputError(f"{name} is a finite number > 0, got {value!r}")
    return number


def exactly(name: str, value: Any) -> Fraction:
    """A positive number as the fraction that it is."""
    return Fraction(positive_number(name, value)) if not isinstance(value, Fraction) or value <= 0 else value


def whole_number(name: str, value: Any) -> int:
    """A whole number ≥ 1."""
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise InputError(f"{name}: whole numbers ≥ 1, got {value!r}")
    return number


def _contraction(name: str, value: Any, L: float) -> Fraction | None:
    if value is None:
        return None
    delta = exactly(name, value)
    if delta < 1:
        raise InputError(f"{name} is δ ≥ 1 of a compressor with ‖C(v) − v‖² ≤ (1 − 1/δ)‖v‖², got {value!r}")
    return delta


def _chance(name: str, value: Any, L: float) -> Fraction:
    p = exactly(name, value)
    if p > 1:
        raise InputError(f"{name} is a probability, 0 < {name} ≤ 1, got {value!r}")
    return p


def _option(name: str, value: Any, L: float) -> int:
    if value not in (1, 2):
        raise InputError(f"SCAFFOLD has the options 1 and 2, got {value!r}")
    return int(value)


def _or_none(read: Callable[[str, Any, float], Any]) -> Callable[[str, Any, float], Any]:
    return lambda name, value, L: None if value is None else read(name, value, L)


READ: dict[str, Callable[[str, Any, float], Any]] = {
    "down": _contraction,
    "up": _contraction,
    "p": _chance,
    "option": _option,
    "server_eta": lambda name, value, L: exactly(name, value),
    "components": lambda name, value, L: whole_number(name, value),
    "inner_steps": _or_none(lambda name, value, L: whole_number(name, value)),
    "beta": lambda name, value, L: exactly(name, value) / Fraction(L),
    "inner_eta": _or_none(lambda name, value, L: exactly(name, value) * Fraction(L)),
}


def read_settings(name: str, known: Method, given: Mapping[str, Any], L: float) -> dict[str, Any]:
    """All settings of a method, checked."""
    for key in given:
        if key not in known.settings:
            raise unknown(f"setting of {name} in a certificate", key, known.settings)
    missing = [key for key, default in known.settings.items() if default is REQUIRED and given.get(key) is None]
    if missing:
        raise InputError(f"the certificate of {name} depends on {', '.join(missing)}: give {missing[0]}=…")
    found = {key: READ[key](key, value, L) for key, value in {**known.settings, **given}.items()}
    if (found.get("inner_steps") is None) != (found.get("inner_eta") is None):
        raise InputError("inner_steps and inner_eta go together: give both, or neither for the exact proximal step")
    return found
