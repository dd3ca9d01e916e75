"""FedDyn, FedExP, MimeLite and Mime once more, as naive NumPy (see references.py)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from references import Vector, World


def feddyn(w: World, eta: float, alpha: float) -> Iterator[Vector]:
    x, lam = w.x0, {i: np.zeros_like(w.x0) for i in range(w.m)}
    for t, cohort in w.rounds:
        ends = {}
        for i, tau in cohort:
            y = x
            for k in range(tau):
                y = y - eta * (w.G(i, y, t, "local", k) - lam[i] + alpha * (y - x))
            ends[i] = y
        for i, y in ends.items():  # a client that was drawn twice played once
            lam[i] = lam[i] - alpha * (y - x)
        if cohort:
            h = sum(w.w[i] * lam[i] for i in range(w.m))
            x = w.mean(cohort, [ends[i] for i, _ in cohort], around=x) - h / alpha
        yield x


def fedexp(w: World, eta: float, epsilon: float, average: bool = False) -> Iterator[Vector]:
    x = shown = w.x0
    for t, cohort in w.rounds:
        back = []
        for i, tau in cohort:
            y = x
            for k in range(tau):
                y = y - eta * w.G(i, y, t, "local", k)
            back.append(x - y)
        if cohort:
            mean, square = w.mean(cohort, back), w.mean(cohort, [b @ b for b in back])
            before, x = x, x - max(1.0, square / (2 * (mean @ mean + epsilon))) * mean
            shown = (before + x) / 2 if average else x
        yield shown


def mimelite(w: World, eta: float, beta: float, server_eta: float = 1.0) -> Iterator[Vector]:
    x, s = w.x0, np.zeros_like(w.x0)
    for t, cohort in w.rounds:
        moves, gradients = [], []
        for i, tau in cohort:
            y = x
            for k in range(tau):
                y = y - eta * ((1 - beta) * w.G(i, y, t, "local", k) + beta * s)
            moves.append(y - x)
            gradients.append(w.full(i, x))
        if cohort:
            s = (1 - beta) * w.mean(cohort, gradients) + beta * s
            x = x + server_eta * w.mean(cohort, moves)
        yield x


def mime(w: World, eta: float, beta: float, server_eta: float = 1.0) -> Iterator[Vector]:
    x, s = w.x0, np.zeros_like(w.x0)
    for t, cohort in w.rounds:
        moves = []
        c = w.mean(cohort, [w.full(i, x) for i, _ in cohort]) if cohort else None
        for i, tau in cohort:
            y = x
            for k in range(tau):
                corrected = w.G(i, y, t, "local", k) - w.G(i, x, t, "local", k) + c
                y = y - eta * ((1 - beta) * corrected + beta * s)
            moves.append(y - x)
        if cohort:
            s = (1 - beta) * c + beta * s
            x = x + server_eta * w.mean(cohort, moves)
        yield x
