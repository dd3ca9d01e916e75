"""Sequential FL with control variates once more, as naive NumPy, and SAGA, which it is with one step and cohorts of one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from references import Vector, World


def sequential_corrected(w: World, eta: float, server_eta: float = 1.0, momentum: float = 0.0) -> Iterator[Vector]:
    x, c_i = w.x0, np.zeros((w.m, w.x0.size))
    for t, cohort in w.rounds:
        before, c = x, w.w @ c_i
        for i, tau in cohort:
            gradients, v = [], np.zeros_like(x)
            for k in range(tau):
                gradients.append(w.G(i, x, t, "local", k))
                v = momentum * v + gradients[-1] - c_i[i] + c
                x = x - eta * w.m * w.w[i] * v
            c_i[i] = np.mean(gradients, axis=0)
        x = before + server_eta * (x - before)
        yield x


def saga(w: World, eta: float) -> Iterator[Vector]:
    """One sample is drawn: x ← x − η(∇f_j(x) − its table entry + the mean of the table), then the entry becomes ∇f_j(x)."""
    x, table = w.x0, np.zeros((w.m, w.x0.size))
    for _, [(j, _)] in w.rounds:
        gradient = w.full(j, x)
        x = x - eta * (gradient - table[j] + table.mean(axis=0))
        table[j] = gradient
        yield x
