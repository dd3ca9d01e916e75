"""undrift: federated optimisation that arrives at the right answer.

>>> import numpy as np, undrift as ud
>>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
>>> r = ud.run(ud.fedlin(eta=0.1), p, rounds=200, steps=[50, 30])
>>> bool(np.isclose(r.x[0], p.optimum.x[0]))
True
"""

import importlib
import importlib.util
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import data as data
    from . import models as models
    from ._api import *  # noqa: F403

__version__ = "0.1.0"

_ROOMS = ("data", "models")  # bring heavier libraries, so they are opened when first entered


def __getattr__(name: str) -> Any:
    """JAX takes a second to import: it waits until it is needed, so that `undrift --help` answers at once."""
    if name in _ROOMS or _is_room(name):
        return importlib.import_module(f".{name}", __name__)
    if not name.startswith("_"):
        api = importlib.import_module("._api", __name__)
        if name in api.__all__:
            globals().update({public: getattr(api, public) for public in api.__all__})
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _is_room(name: str) -> bool:
    """Whether this is a file of the package, which must not wait for the public names (they may be waiting for it)."""
    return name != "method" and importlib.util.find_spec(f"{__name__}.{name}") is not None


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS, *importlib.import_module("._api", __name__).__all__})


class _Package(types.ModuleType):
    """Keeps `undrift.method` the decorator, where the import system would put the file of the same name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name == "method" and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
