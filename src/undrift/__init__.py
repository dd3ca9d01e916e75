"""undrift: federated optimisation that arrives at the right answer.

>>> import numpy as np, undrift as ud
>>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
>>> r = ud.run(ud.fedlin(eta=0.1), p, rounds=200, steps=[50, 30])
>>> bool(np.isclose(r.x[0], p.optimum.x[0]))
True
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import data as data
    from . import models as models
    from . import theory as theory
    from ._api import *  # noqa: F403

__version__ = "0.1.0"

ROOMS = ("data", "models", "oracles", "plan", "problems", "stop", "theory", "track")

__all__ = [
    "METHODS", "Account", "Algorithm", "AtServer", "CheckpointError", "Cohort", "Diagnostics", "DivergenceError",
    "Exchange", "Gradients", "History", "HostLostError", "InputError", "Interrupted",
    "Known", "Method", "OneByOne", "Repeat", "Resources",
    "Result", "StorageError", "Sweep", "UndriftError", "WireError", "advise", "compressed", "describe", "ef21", "fedavg",
    "feddyn", "fedexp", "fedlin", "fednova", "fedprox", "fedsgd", "fedsplit", "fedtrack", "gd", "iag", "keep_compiled",
    "loopback", "method", "mimelite", "oracles", "plan", "private", "problems", "quantise", "random_k", "run", "scaffnew",
    "scaffold", "scaled_sign", "sequential_fl", "sflv1", "sflv2", "sgd", "ssl", "stop", "sweep", "top_k", "track",
    "use_devices",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """JAX takes a second to import: it waits until it is needed, so that `undrift --help` answers at once."""
    if name in ROOMS:
        if name == "theory":
            importlib.import_module(".advice", __name__)  # which puts `advise` there
        return importlib.import_module(f".{name}", __name__)
    if name in __all__:
        globals()[name] = found = getattr(importlib.import_module("._api", __name__), name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *ROOMS, *__all__})
