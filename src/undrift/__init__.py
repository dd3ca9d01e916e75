"""undrift: federated optimisation that arrives at the right answer.

>>> import numpy as np, undrift as ud
>>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
>>> r = ud.run(ud.fedlin(eta=0.1), p, rounds=200, steps=[50, 30])
>>> bool(np.isclose(r.x[0], p.optimum.x[0]))
True
"""

import importlib
from typing import TYPE_CHECKING, Any

from . import oracles, plan, problems
from .algorithms import METHODS, fedavg, fedlin, fednova, fedprox, fedsgd, fedsplit, gd, scaffold, sgd
from .compression import quantise, random_k, scaled_sign, top_k
from .engine.history import History, Result
from .engine.loopback import loopback
from .engine.simulate import run
from .engine.sweep import Sweep, sweep
from .errors import CheckpointError, DivergenceError, InputError, Interrupted, UndriftError
from .links import compressed
from .method import Method, method
from .protocol import Algorithm, Cohort, Exchange, Memory, OneByOne, Repeat

if TYPE_CHECKING:
    from . import data, models

__version__ = "0.1.0"

_LAZY = ("data", "models")  # rooms that bring heavier libraries are opened when first entered


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "METHODS", "Algorithm", "CheckpointError", "Cohort", "DivergenceError", "Exchange", "History", "InputError",
    "Interrupted", "Memory", "Method", "OneByOne", "Repeat", "Result", "Sweep", "UndriftError", "compressed", "data", "fedavg",
    "fedlin", "fednova", "fedprox", "fedsgd", "fedsplit", "gd", "loopback", "method", "models", "oracles", "plan", "problems",
    "quantise", "random_k", "run", "scaffold", "scaled_sign", "sgd", "sweep", "top_k",
]  # fmt: skip
