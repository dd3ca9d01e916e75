"""What methods promise, and whether they keep it.

    c = ud.theory.constants(problem, path=run.iterates, oracle=oracle)     # L, μ, σ², ζ, …: exact or measured
    bound = ud.theory.fedlin.strongly_convex(c, steps)                      # step size, curve, assumptions
    print(ud.theory.check(run, bound))                                      # holds, or fails first at round t

One module per paper; every function cites the theorem that it evaluates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import (
    centralised,
    curvature,
    ef21,
    fedavg,
    fedlin,
    fedtrack,
    round_map,
    scaffnew,
    scaffold,
    ssl,
    stability,
    surrogate,
)
from .bound import Assumption, Bound
from .certificates import Certificate, certify
from .constants import Constants, constants
from .iterates import local_points, running_means, weighted_means
from .known import Chosen, Known, Usual
from .quantity import Quantity, exact, measured
from .step_rule import promise
from .verdict import Verdict, check

if TYPE_CHECKING:
    from ..advice import advise as advise  # which stands above this room, and puts itself here

__all__ = [
    "Assumption", "Bound", "Certificate", "Chosen", "Constants", "Known", "Quantity", "Usual", "Verdict", "centralised",
    "certify", "check", "constants", "curvature", "ef21", "exact", "fedavg", "fedlin", "fedtrack", "local_points", "measured",
    "promise", "round_map", "running_means", "scaffnew", "scaffold", "ssl", "stability", "surrogate", "weighted_means",
]  # fmt: skip
