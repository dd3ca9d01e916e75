"""P2: LeNet-5 on pictures of MNIST's shape, 10 of 500 clients a round, 10 steps each with batches of 20.

The opponent is PyTorch in two forked workers that share the clients of a round, the fastest of the usual ways there; the limit
is the rate at which this machine multiplies matrices, measured in the same turns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import undrift as ud

from .disturbance import cores
from .measure import Goal, Report, Row, in_turns, per_round
from .pictures import pictures

SAMPLES, CLIENTS, COHORT, STEPS, BATCH, ETA, DECAY = 60_000, 500, 10, 10, 20, 0.01, 1e-4
ROUNDS = 20  # of a call, on either side
SIZE = 2048  # of the matrices that are multiplied


def floating_point_operations() -> int:
    """Of the products in a gradient of one sample: forward, to the weights, and to the inputs except the pictures."""
    first, second = 24 * 24 * 6 * 25, 8 * 8 * 16 * 6 * 25
    dense = 256 * 120 + 120 * 84 + 84 * 10
    return 2 * (3 * (first + second + dense) - first)


def solver(eta: float) -> object:
    import optax

    return optax.chain(optax.add_decayed_weights(DECAY), optax.sgd(eta))


def run(repeat: int) -> Report:
    import torch

    from . import torch_side

    devices = cores()
    images, labels = pictures(SAMPLES)
    parts = ud.data.exdir(labels, clients=CLIENTS, classes=1, alpha=10.0, seed=0)
    torch.set_num_threads(1)  # the workers come first: a process is forked before it has threads
    tensors = [torch.from_numpy(np.asarray(part, np.int64)) for part in parts]
    clients = torch_side.Clients(
        torch_side.channels_first(images), torch.from_numpy(labels).long(), tensors, STEPS, BATCH, ETA, DECAY
    )
    workers = torch_side.Workers(clients, torch_side.count(clients.model))
    ud.use_devices(devices)

    model = ud.models.lenet5()
    problem = ud.problems.network(model, (images, labels), parts, batch=BATCH)
    flat = np.asarray(problem.initial(0))
    rng = np.random.default_rng(0)
    cohorts = np.stack([rng.choice(CLIENTS, COHORT, replace=False) for _ in range(ROUNDS)])
    start = torch.from_numpy(flat.copy())

    def ours(rounds: int) -> ud.Result:
        given = {"steps": STEPS, "participation": ud.plan.uniform(COHORT), "x0": flat}
        return ud.run(ud.fedavg(eta=ETA, solver=solver), problem, rounds=rounds, record_every=10**6, **given)

    candidates: dict[str, Callable[[], Any]] = {
        "undrift": lambda: ours(ROUNDS),
        "longer": lambda: ours(3 * ROUNDS),
        "workers": lambda: workers.rounds(start, cohorts),
        **products(devices),
    }
    off = difference(clients.model, model, flat, images[:100], labels[:100])
    seconds = in_turns(candidates, repeat)
    workers.close()
    extra = problem.dim - torch_side.count(clients.model)
    return report(seconds, off, extra, devices, torch.__version__)


def products(devices: int) -> dict[str, Callable[[], Any]]:
    """Matrix products that keep all cores busy: NumPy's, and one for each device."""
    import jax
    from jax.sharding import PartitionSpec

    matrices = np.random.default_rng(0).standard_normal((devices, SIZE, SIZE)).astype(np.float32)
    mesh = jax.make_mesh((devices,), ("devices",), axis_types=(jax.sharding.AxisType.Auto,))
    dealt = PartitionSpec("devices")
    multiply = jax.jit(jax.shard_map(lambda a: a @ a, mesh=mesh, in_specs=dealt, out_specs=dealt, check_vma=False))
    placed = jax.device_put(matrices, jax.sharding.NamedSharding(mesh, dealt))
    return {
        "product, NumPy": lambda: [a @ a for a in matrices],
        "product, JAX": lambda: jax.block_until_ready(multiply(placed)),
    }


def report(seconds: dict[str, np.ndarray], off: float, extra: int, devices: int, version: str) -> Report:
    work = floating_point_operations() * COHORT * STEPS * BATCH / 1e9  # GFLOP of a round
    mine, theirs = seconds["undrift"] / ROUNDS, seconds["workers"] / ROUNDS
    alone = per_round(seconds["longer"], seconds["undrift"], 2 * ROUNDS)
    rate = 2e-9 * devices * SIZE**3 / np.minimum(seconds["product, NumPy"], seconds["product, JAX"])
    group, unit = f"calls of {ROUNDS} rounds", "ms / round"
    rows = [
        Row.of(f"undrift, {devices} devices", 1e3 * mine, unit, "undrift", group),
        Row.of("undrift, without what a call costs", 1e3 * alone, unit, "undrift", group),
        Row.of("PyTorch, two forked workers", 1e3 * theirs, unit, "peer", group),
        Row.of("at the matrix product's rate", 1e3 * work / rate, unit, "limit", group),
        Row.of("undrift", work / mine, "GFLOP/s"),
        Row.of("undrift, without what a call costs", work / alone, "GFLOP/s"),
        Row.of(f"product of {SIZE} × {SIZE} matrices, the faster of NumPy and JAX", rate, "GFLOP/s"),
        Row.of("share of that rate, without what a call costs", work / alone / rate, ""),
        Row.of("two PyTorch workers ÷ undrift, without what a call costs", theirs / alone, "×"),
    ]
    goals = [
        Goal.of(f"P2, {group}: two PyTorch workers ÷ undrift", theirs / mine, at_least=3.5),
        Goal.of(f"P2, {group}: share of the matrix product's rate", work / mine / rate, at_least=0.45, unit=""),
        Goal("parameters more than PyTorch's", extra, at_least=0, at_most=0, same=True),
        Goal("largest relative difference of logits and gradients", off, at_most=1e-4, same=True),
    ]
    notes = [
        f"PyTorch {version}. A call is one ud.run with all that it does, compilation excepted; what a call costs falls out of",
        f"the difference of calls of {3 * ROUNDS} and of {ROUNDS} rounds. A round is {work:.2f} GFLOP in products; pooling,",
        "patches, loss and steps are not counted.",
    ]
    title = f"{COHORT} of {CLIENTS} clients × {STEPS} steps × batch {BATCH}, LeNet-5, weight decay {DECAY:g}, float32"
    return Report("lenet", title, rows, goals, notes)


def difference(theirs: Any, model: ud.models.Model, flat: np.ndarray, images: np.ndarray, labels: np.ndarray) -> float:
    """Largest relative difference of logits and of the gradient, with the same parameters in both."""
    import jax

    from . import torch_side

    torch_side.load(theirs, flat)
    everything = ud.problems.network(model, (images, labels), [np.arange(len(labels))], train_sample=None)
    pieces = model.apply(everything.architecture.unravel(jax.numpy.asarray(flat)), images)
    pairs = zip(
        (pieces, everything.gradient(flat)), torch_side.logits_and_gradient(theirs, images, labels), strict=True
    )
    return max(float(np.max(np.abs(a - b)) / np.max(np.abs(b))) for a, b in pairs)
