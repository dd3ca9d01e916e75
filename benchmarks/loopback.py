"""Message passing in one process: what an exchange with one client costs, encoding, checks and decoding included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import undrift as ud

from .measure import Goal, Report, Row, in_turns, per_round

CLIENTS, SAMPLES, DIM, STEPS, ROUNDS = 20, 50, 100, 5, 200


def run(repeat: int) -> Report:
    rng = np.random.default_rng(0)
    problem = ud.problems.least_squares(
        rng.standard_normal((CLIENTS, SAMPLES, DIM)), rng.standard_normal((CLIENTS, SAMPLES))
    )
    methods = {  # and how many exchanges a round has
        "fedavg": (ud.fedavg(eta=1e-3), 1),
        "scaffold": (ud.scaffold(eta=1e-3), 1),
        "fedlin": (ud.fedlin(eta=1e-3), 2),
        "fedavg, top-k": (ud.compressed(ud.fedavg(eta=1e-3), up=ud.top_k(10)), 1),
    }

    def played(player: Callable[..., ud.Result], method: Any, rounds: int) -> ud.Result:
        return player(method, problem, rounds=rounds, steps=STEPS, record_every=10**6)

    candidates: dict[Any, Callable[[], Any]] = {}
    off = 0.0
    for name, (method, _) in methods.items():
        candidates[name, "short"] = lambda m=method: played(ud.loopback, m, 2)
        candidates[name, "long"] = lambda m=method: played(ud.loopback, m, ROUNDS + 2)
        here, there = (played(player, method, ROUNDS).x for player in (ud.run, ud.loopback))
        off = max(off, float(np.max(np.abs(here - there)) / np.max(np.abs(here))))
    seconds = in_turns(candidates, repeat)
    rows, goals = [], []
    for name, (_, exchanges) in methods.items():
        each = per_round(seconds[name, "long"], seconds[name, "short"], ROUNDS) / exchanges / CLIENTS
        rows.append(Row.of(name, 1e3 * each, "ms", "undrift", "an exchange with a client"))
        goals.append(Goal.of(f"loopback, {name}: an exchange with a client", 1e3 * each, at_most=0.1, unit="ms"))
    goals.append(Goal("largest relative difference to the simulation", off, at_most=1e-12, same=True))
    title = f"loopback, {CLIENTS} clients of {SAMPLES} × {DIM} least squares, {STEPS} steps, float64"
    return Report("loopback", title, rows, goals, [f"What calls of {ROUNDS + 2} rounds take more than calls of 2."])
