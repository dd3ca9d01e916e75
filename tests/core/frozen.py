"""What may not differ between versions of Python, NumPy and JAX, or between ours: draws, counts, and models to rounding.

`python tests/core/frozen.py` writes frozen.json anew. Saved runs and published figures rest on these numbers: a change of them
is a change of what users get, and belongs into the changelog.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from core_cases import CASES, PARTIAL, WEIGHTS, logistic_data, problem_of, told

import undrift as ud
from undrift import precision, randomness
from undrift.algorithms.tracking import component_at
from undrift.local import Local

FILE = Path(__file__).with_suffix(".json")


def host_draws() -> dict[str, Any]:
    """Our own integer arithmetic: bits, shuffles, cohorts, silent clients and local steps."""
    uniform = ud.plan.Plan(1000, ud.plan.uniform(5), ud.plan.random_steps(2, 9), 0.3, 7).draw(1, 6)
    return {
        "bits": [str(b) for b in randomness.bits64(3, 1, np.arange(4))],
        "uniform numbers": [float(u).hex() for u in randomness.uniform(3, 1, np.arange(4))],
        "shuffle": randomness.shuffled(np.arange(20), 20, randomness.shuffle_keys(5, 2)).tolist(),
        "cohorts": uniform.ids.tolist(),
        "local steps": uniform.steps.tolist(),
        "who answers": uniform.answered.tolist(),
        "with replacement": ud.plan.Plan(9, ud.plan.uniform(4, replace=True), 1, 0.0, 7).draw(1, 4).ids.tolist(),
        "tosses of a coin": ud.plan.Plan(2, ud.plan.full(), ud.plan.geometric_steps(0.1), 0.0, 7)
        .draw(1, 9)
        .steps[:, 0]
        .tolist(),
        "permuted": ud.plan.Plan(9, ud.plan.permuted(3), 1, 0.0, 7).draw(1, 4).ids.tolist(),
    }


def device_draws(dtype: str) -> dict[str, Any]:
    """From JAX's keys: mini-batches, FedTrack's order, random entries, quantised levels; 32 and 64 bits draw apart."""
    with precision.scope(dtype):
        return _device_draws()


def _device_draws() -> dict[str, Any]:
    key, vector = jax.random.key(11), jnp.linspace(-1.0, 2.0, 12)
    local = Local(loss=None, steps=1, key=key, round=1, client=0, oracle=ud.oracles.full())

    def batches(oracle: ud.oracles.Oracle, n: int) -> list[Any]:
        return jax.jit(jax.vmap(lambda step: oracle.indices(n, key, step)))(jnp.arange(6)).tolist()

    return {
        "mini-batches": batches(ud.oracles.minibatch(4), 10),
        "batches larger than the data": batches(ud.oracles.minibatch(7), 3),
        "mini-batches with replacement": batches(ud.oracles.minibatch(4, replace=True), 10),
        "reshuffled components": jax.jit(jax.vmap(lambda j: component_at("reshuffled", j, 7, local)))(
            jnp.arange(21)
        ).tolist(),
        "random entries": ud.random_k(4).compress(vector, key).indices.tolist(),
        "quantised levels": ud.quantise(3).compress(vector, key).level.tolist(),
        "moved images": _digest(ud.problems.Augment(2)(key, np.arange(3 * 36, dtype=np.float32).reshape(3, 6, 6, 1))),
    }


def real_draws() -> dict[str, Any]:
    """Noise of gradients, and the weights that networks start with."""
    problem = ud.problems.quadratic(np.eye(3)[None], np.zeros((1, 3)))
    noisy = ud.run(ud.gd(eta=1.0), problem, rounds=2, seed=3, oracle=ud.oracles.noisy(1.0)).x
    network = ud.models.mlp((3,), classes=2, input=(4,)).init(jax.random.key(5))
    weights = np.concatenate([leaf.ravel() for leaf in jax.tree.leaves(network)])
    return {"noise": noisy.tolist(), "weights": weights.tolist()}


def partitions() -> dict[str, Any]:
    """Which samples a client gets, as a digest of all index lists."""
    labels = np.arange(600) % 10

    def digest(parts: list[np.ndarray]) -> str:
        return _digest(np.concatenate([np.append(np.asarray(part, np.int64), -1) for part in parts]))

    return {
        "iid": digest(ud.data.iid(labels, clients=7, seed=3)),
        "exdir": digest(ud.data.exdir(labels, clients=7, classes=3, alpha=1.0, seed=3)),
        "dirichlet": digest(ud.data.dirichlet(labels, clients=7, alpha=0.5, seed=3)),
    }


def runs(renormalise: bool, names: Iterable[str] = CASES) -> dict[str, Any]:
    """Of these methods: what it counts, exactly, and where it stands after five rounds, to rounding."""
    problem, found = problem_of(logistic_data(0, WEIGHTS)), {}
    plan = {**PARTIAL, "participation": ud.plan.uniform(3, renormalise=renormalise)}
    for name in names:
        method = CASES[name].make(0.05)
        result = ud.run(method, problem, rounds=5, seed=7, keep_iterates=True, **told(method, **plan))
        counts = {
            column: result.history[column][-1].item()
            for column in ("bytes_up", "bytes_down", "gradients", "component_gradients")
        }
        found[name] = {"counts": counts, "model": result.x.tolist()}
    return found


def everything() -> dict[str, Any]:
    return {
        "host": host_draws(),
        "device, 32 bits": device_draws("float32"),
        "device, 64 bits": device_draws("float64"),
        "real": real_draws(),
        "partitions": partitions(),
        "runs": runs(renormalise=True),  # what cohorts did before they were unbiased
        "unbiased runs": runs(renormalise=False),
    }


def _digest(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


if __name__ == "__main__":
    FILE.write_text(json.dumps(everything(), ensure_ascii=False) + "\n")
