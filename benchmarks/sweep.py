"""A grid of 8 step sizes × 5 seeds as one program, beside 40 single runs."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

import undrift as ud

from .fedlin import problem_14
from .measure import Goal, Report, Row, in_turns, ratio

SEEDS = 5


def cases() -> dict[str, tuple[Any, Any, list[float], dict[str, Any]]]:
    """name -> (factory, problem, step sizes, arguments of the run)."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((10, 50, 20))
    y = np.sign(A @ rng.standard_normal(20) + rng.standard_normal((10, 50)))
    small, large = ud.problems.logistic(A, y, l2=1.0), ud.problems.least_squares(*problem_14())
    noisy = {"rounds": 100, "steps": 10, "oracle": ud.oracles.minibatch(10)}
    slow = {"rounds": 100, "steps": ud.plan.random_steps(2, 100)}
    return {
        "FedAvg, logistic, mini-batches": (ud.fedavg, small, np.geomspace(1e-4, 1e-2, 8).tolist(), noisy),
        "FedLin on (14), random τ": (ud.fedlin, large, np.geomspace(1e-4, 1e-3, 8).tolist(), slow),
    }


def run(repeat: int) -> Report:
    rows, goals = [], []
    for name, (factory, problem, etas, arguments) in cases().items():

        def swept(factory: Any = factory, p: Any = problem, etas: Any = etas, given: Any = arguments) -> Any:
            return ud.sweep(factory, p, grid={"eta": etas}, seeds=SEEDS, **given).history["loss"]

        def single(factory: Any = factory, p: Any = problem, etas: Any = etas, given: Any = arguments) -> Any:
            runs = [[ud.run(factory(eta=e), p, seed=s, **given).history["loss"] for s in range(SEEDS)] for e in etas]
            return np.asarray(runs)

        off = float(np.max(np.abs(swept() / single() - 1)))
        warm = in_turns({"sweep": swept, "single": single}, repeat)
        cold = in_turns({"sweep": lambda f=swept: afresh(f), "single": lambda f=single: afresh(f)}, 2, warm=False)
        rows += [Row(f"{name}: sweep", 1e3 * float(np.median(warm["sweep"])), "ms")]
        rows += [Row(f"{name}: 40 single runs", 1e3 * float(np.median(warm["single"])), "ms")]
        rows += [Row(f"{name}: sweep / 40 runs, compilation included", 1 / ratio(cold["single"], cold["sweep"]), "×")]
        goals += [
            Goal(f"{name}: sweep / 40 runs", 1 / ratio(warm["single"], warm["sweep"]), at_most=0.25),
            Goal(f"{name}: largest relative difference of losses", off, at_most=1e-9),
        ]
    notes = [
        "The single runs share one compiled program, which is compiled once for all forty where compilation counts."
    ]
    return Report("sweep", f"8 step sizes × {SEEDS} seeds, float64", rows, goals, notes)


def afresh(call: Any) -> None:
    """With nothing compiled yet."""
    jax.clear_caches()
    call()
