"""How often a run compiles its program: once, and never again for another step size, seed or number of rounds."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import jax
import numpy as np

import undrift as ud
from undrift.engine.simulate import compilations, compiled_advance

from .measure import Goal, Report, Row

LOGS = ("jax._src.dispatch", "jax._src.interpreters.pxla", "jax._src.compiler")
FINISHED = f"Finished XLA compilation of jit({compiled_advance.__name__})"


class Counter(logging.Handler):
    """Counts JAX's own log lines about compiling the program of a run."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += record.getMessage().startswith(FINISHED)


@contextmanager
def counted() -> Iterator[Counter]:
    counter, loggers = Counter(), [logging.getLogger(name) for name in LOGS]
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.addHandler(counter)
        logger.propagate = False  # counted, not shown
    try:
        with jax.log_compiles():
            yield counter
    finally:
        for logger, spread in zip(loggers, before, strict=True):
            logger.removeHandler(counter)
            logger.propagate = spread


def run(repeat: int) -> Report:
    rng = np.random.default_rng(0)
    problem = ud.problems.quadratic(np.eye(8) * rng.uniform(1, 2, (5, 1, 1)), rng.standard_normal((5, 8)))
    methods = {
        "fedavg": (ud.fedavg(eta=0.1), ud.fedavg(eta=0.05)),
        "fedlin": (ud.fedlin(eta=0.1), ud.fedlin(eta=0.05)),
        "scaffold": (ud.scaffold(eta=0.01), ud.scaffold(eta=0.02)),
    }
    rows, goals = [], []
    for name, (one, other) in methods.items():
        jax.clear_caches()
        compilations.clear()
        with counted() as first:
            ud.run(one, problem, rounds=1000, steps=5)
        with counted() as further:
            ud.run(other, problem, rounds=700, steps=[1, 2, 3, 4, 5], seed=7)
        rows.append(Row(f"{name}: traced, two runs together", compilations[name], "times"))
        goals.append(Goal(f"{name}: compilations of the first run (JAX's log)", first.count, at_least=1, at_most=1))
        goals.append(Goal(f"{name}: … of a second, with other numbers", further.count, at_most=0))
    return Report("compilations", "programs compiled, 1000 rounds in several chunks", rows, goals)
