"""Which method, step size, local steps and compression to use, and why: predicted, and measured if asked for."""

from ..resources import Resources
from .adviser import advise
from .result import Advice, Candidate

__all__ = ["Advice", "Candidate", "Resources", "advise"]
