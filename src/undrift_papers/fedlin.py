"""FedLin: figures 1–8 of "Linear convergence in federated learning" (Mitra, Jaafar, Pappas, Hassani, 2021)."""

from __future__ import annotations

from .fedlin_logistic import FIG6, FIG7
from .fedlin_quadratic import FIG1, FIG5
from .fedlin_regression import FIG2, FIG3, FIG4, FIG8

ITEMS = (FIG1, FIG2, FIG3, FIG4, FIG5, FIG6, FIG7, FIG8)
