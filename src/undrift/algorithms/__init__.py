"""One file per method. `METHODS` is the table that the command line and the contract tests walk through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .centralised import gd, sgd
from .fedavg import fedavg, fedprox
from .fedlin import fedlin
from .fednova import fednova
from .fedsgd import fedsgd
from .fedsplit import fedsplit
from .scaffold import scaffold

METHODS: dict[str, Callable[..., Any]] = {
    "fedsgd": fedsgd,
    "fedavg": fedavg,
    "fedprox": fedprox,
    "fednova": fednova,
    "fedsplit": fedsplit,
    "scaffold": scaffold,
    "fedlin": fedlin,
    "gd": gd,
    "sgd": sgd,
}

__all__ = ["METHODS", "fedavg", "fedlin", "fednova", "fedprox", "fedsgd", "fedsplit", "gd", "scaffold", "sgd"]
