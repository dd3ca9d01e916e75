"""What is minimised, with its optimum and its constants where they exist in closed form."""

from .augment import Augment
from .base import Constants, Optimum, Problem
from .client import ClientLoss
from .custom import custom
from .least_squares import least_squares
from .logistic import logistic
from .network import network
from .population import Population
from .quadratic import quadratic

__all__ = [
    "Augment",
    "ClientLoss",
    "Constants",
    "Optimum",
    "Population",
    "Problem",
    "custom",
    "least_squares",
    "logistic",
    "network",
    "quadratic",
]
