"""One file per method. `METHODS` is the table that the command line and the contract tests walk through."""

from __future__ import annotations

from collections.abc import Callable

from ..recipe import Method
from .centralised import gd, iag, sgd
from .ef21 import ef21
from .fedavg import fedavg, fedprox
from .feddyn import feddyn
from .fedexp import fedexp
from .fedlin import fedlin
from .fednova import fednova
from .fedsgd import fedsgd
from .fedsplit import fedsplit
from .fedtrack import fedtrack
from .mimelite import mimelite
from .scaffnew import scaffnew
from .scaffold import scaffold
from .sequential import sequential_fl
from .split import sflv1, sflv2, ssl

METHODS: dict[str, Callable[..., Method]] = {
    "fedsgd": fedsgd,
    "ef21": ef21,
    "fedavg": fedavg,
    "fedprox": fedprox,
    "fednova": fednova,
    "fedexp": fedexp,
    "mimelite": mimelite,
    "fedsplit": fedsplit,
    "scaffold": scaffold,
    "scaffnew": scaffnew,
    "feddyn": feddyn,
    "fedlin": fedlin,
    "fedtrack": fedtrack,
    "sequential_fl": sequential_fl,
    "ssl": ssl,
    "sflv1": sflv1,
    "sflv2": sflv2,
    "gd": gd,
    "sgd": sgd,
    "iag": iag,
}

__all__ = [
    "METHODS", "ef21", "fedavg", "feddyn", "fedexp", "fedlin", "fednova", "fedprox", "fedsgd", "fedsplit", "fedtrack", "gd",
    "iag", "mimelite", "scaffnew", "scaffold", "sequential_fl", "sflv1", "sflv2", "sgd", "ssl",
]  # fmt: skip
