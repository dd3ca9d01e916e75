"""What the tests of the mesh play, in every process alike: one case per kind of program, plan and record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

import undrift as ud

CLIENTS, DIM = 5, 4


def rows(samples: int = 6, dim: int = DIM) -> Any:
    rng = np.random.default_rng(3)
    A, b = rng.normal(size=(CLIENTS, samples, dim)) / np.sqrt(samples), rng.normal(size=(CLIENTS, samples))
    return ud.problems.least_squares(A, b, weights=[1.0, 2.0, 0.5, 1.5, 3.0], spectral=False)


def images() -> Any:
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(24, 3)), rng.integers(0, 2, size=24)
    parts = [np.arange(24)[k::CLIENTS] for k in range(CLIENTS)]
    model = ud.models.mlp((4,), classes=2, input=(3,), dtype="float64")
    return ud.problems.network(model, (x, y), parts, cut=1, batch=2)


@ud.method
def of_medians(eta):
    """A user's own: what the server makes of the answers is no mean."""

    def client(memory, x, local):
        return memory, x - eta * local.gradient(x)

    def receive(x, slots, ups, cohort):
        return jnp.median(ups, axis=0), slots

    return ud.Algorithm((ud.Exchange("middle", lambda x, slot: x, client, receive),))


ROUNDS = 4
COHORT = {"participation": ud.plan.uniform(3), "steps": ud.plan.random_steps(1, 3)}
CASES: dict[str, Callable[[], tuple[Any, Any, dict[str, Any]]]] = {
    "everyone, another first round": lambda: (
        ud.fedlin(eta=0.1, up=ud.top_k(2), down=ud.top_k(3)), rows(),
        {"steps": [1, 3, 2, 1, 2], "keep_iterates": True, "diagnostics": True, "record_every": 3}),
    "cohorts with memory": lambda: (ud.scaffold(eta=0.1), rows(), {**COHORT, "failures": 0.3, "per_client": True}),
    "a table at the client, a rule": lambda: (
        ud.fedtrack(eta=0.05), rows(),
        {"participation": ud.plan.uniform(4, replace=True), "stop": ud.stop.at(gap=1e-9)}),
    "compressed with memory": lambda: (ud.compressed(ud.fedavg(eta=0.1), up=ud.top_k(2)), rows(), COHORT),
    "a dialogue in turn": lambda: (ud.ssl(eta=0.1), images(), {"participation": ud.plan.uniform(3), "steps": 2}),
    "looped over": lambda: (ud.fedavg(eta=0.1), rows(80, 110), {"steps": 2}),
    "all data in one place": lambda: (ud.gd(eta=0.1), rows(), {}),
    "one's own": lambda: (of_medians(eta=0.1), rows(), {}),
}  # fmt: skip


def numbers(result: Any) -> dict[str, np.ndarray]:
    """All that a result holds."""
    found = {"x": result.x, "stopped": np.asarray(str(result.stopped))}
    found |= {f"history {name}": np.asarray(column) for name, column in result.history.items()}
    found |= {f"clients {name}": table for name, table in result.clients.items()}
    return found | ({} if result.iterates is None else {"iterates": result.iterates})


def differences(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> dict[str, float]:
    """By how much two results differ, relative to the largest number of a kind."""
    assert one.keys() == other.keys()
    assert one.pop("stopped") == other.pop("stopped")
    found = {}
    for name, a in one.items():
        b = other[name]
        assert a.shape == b.shape, name
        assert np.array_equal(np.isnan(a), np.isnan(b)), name
        scale = max(1.0, float(np.nanmax(np.abs(a), initial=0.0)))
        found[name] = float(np.nanmax(np.abs(a - b), initial=0.0)) / scale
    return found
