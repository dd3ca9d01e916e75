"""What is known of each of the library's methods: the one place that asks for a method by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...algorithms import METHODS
from ...recipe import Method
from ..known import Known
from .averaging import FEDAVG, FEDNOVA, FEDPROX, SFLV1, SFLV2
from .centralised import EF21, FEDSGD, GD, IAG, SGD
from .extrapolated import FEDEXP, MIMELITE
from .feddyn import FEDDYN
from .fedlin import FEDLIN, FEDTRACK
from .fedsplit import FEDSPLIT
from .scaffnew import SCAFFNEW
from .scaffold import SCAFFOLD
from .sequential import SEQUENTIAL_FL, SSL

KNOWN: dict[str, Known] = {
    "fedsgd": FEDSGD,
    "ef21": EF21,
    "fedavg": FEDAVG,
    "fedprox": FEDPROX,
    "fednova": FEDNOVA,
    "fedexp": FEDEXP,
    "mimelite": MIMELITE,
    "fedsplit": FEDSPLIT,
    "scaffold": SCAFFOLD,
    "scaffnew": SCAFFNEW,
    "feddyn": FEDDYN,
    "fedlin": FEDLIN,
    "fedtrack": FEDTRACK,
    "sequential_fl": SEQUENTIAL_FL,
    "ssl": SSL,
    "sflv1": SFLV1,
    "sflv2": SFLV2,
    "gd": GD,
    "sgd": SGD,
    "iag": IAG,
}

# What `advise` and `compare` take where nobody says, in the order of their tables. On networks: what needs no constants.
ADVISED = (
    "fedsgd", "ef21", "fedavg", "fedprox", "fednova", "fedsplit", "scaffold", "scaffnew", "fedlin", "fedlin+top_k",
    "fedlin+difference", "fedlin+one_exchange", "fedtrack", "sequential_fl", "sequential_fl+corrected", "gd",
)  # fmt: skip
# Besides, where clients may miss rounds: what keeps the gradients of those that do.
ADVISED_WITH_COHORTS = ("fedlin+table", "fedlin+table_one_exchange", "fedtrack+table")
NAMED = ("fedexp", "mimelite", "feddyn")  # what `advise` takes as well, where somebody names it
ADVISED_ON_NETWORKS = ("fedsgd", "fedavg", "fednova", "scaffold", "fedlin", "sequential_fl")
COMPARED = ("fedavg", "fedprox", "fednova", "fedsplit", "fedsgd", "gd", "scaffold", "fedlin")
COMPARED_ON_NETWORKS = ("fedavg", "fednova", "scaffold", "sequential_fl")

_FUNCTIONS = {getattr(factory, "function", factory) for factory in METHODS.values()}


def known_of(given: Method | Callable[..., Any]) -> Known:
    """The record of a method or of a factory: its own, or the library's; an empty one where nothing is known.

    A user's method is not taken for one of the library's because it has the same name.
    """
    if isinstance(given, Method):
        own, name = given.recipe.known, given.name if given.recipe.factory in _FUNCTIONS else None
    else:
        own = getattr(given, "known", None)
        name = next((name for name, factory in METHODS.items() if factory is given), None)
    known: Known = KNOWN.get(name or "", Known()) if own is None else own
    return known.under(given.parameters) if isinstance(given, Method) else known
