"""Which method, step size, local steps and compression to use, and why: predicted, and measured if asked for."""

from .adviser import Advice, Candidate, advise
from .resources import Resources

__all__ = ["Advice", "Candidate", "Resources", "advise"]
