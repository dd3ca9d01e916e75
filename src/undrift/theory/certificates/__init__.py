"""Worst cases of a round over all L-smooth, μ-strongly convex losses, by semidefinite programmes: rates that are tight.

    c = ud.theory.certify(ud.fedlin, L=1.0, mu=0.1, clients=2, steps=4)     # needs undrift[certify]
    c.eta, c.rate                                                           # the best step, the contraction of a round

A table of solved cases ships with the library (`certificates.table`), so that `eta="certified"` needs no solver.
"""

from __future__ import annotations

from .certificate import Certificate
from .certify import certify
from .rounds import METHODS

__all__ = ["METHODS", "Certificate", "certify"]
