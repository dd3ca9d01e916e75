"""What a run would cost, without playing it."""

from __future__ import annotations

from typing import Any

import numpy as np

import undrift as ud
from undrift import precision
from undrift.engine.recorder import Recorder
from undrift.engine.simulate import padded_plan


def costs(method: ud.Method, problem: ud.problems.Problem, rounds: int, **arguments: Any) -> dict[str, np.ndarray]:
    """The cost columns of the history: running totals, index 0 before round 1."""
    run = ud.describe(method, problem, rounds=rounds, **arguments).to_play()
    with precision.scope(run.population.dtype):
        counts = Recorder(run).costs(padded_plan(run, 0, rounds + 1, rounds + 1), 0, rounds + 1)
    return {name: np.cumsum(column) for name, column in counts.items()}
