"""Which method, step size, local steps and compression to use, and why: predicted, and measured if asked for."""

from .. import theory
from ..resources import Resources
from .adviser import advise
from .result import Advice, Candidate

vars(theory)["advise"] = advise  # known as ud.theory.advise, though it needs rooms above theory

__all__ = ["Advice", "Candidate", "Resources", "advise"]
