"""LeNet-5 on pictures of MNIST's shape: a round of 10 of 500 clients, 10 steps each with batches of 20, beside PyTorch."""

from __future__ import annotations

import numpy as np

import undrift as ud

from .child import cores, in_child
from .measure import Goal, Report, Row, in_turns, least, ratio
from .pictures import pictures

SAMPLES, CLIENTS, COHORT, STEPS, BATCH, ETA, DECAY = 60_000, 500, 10, 10, 20, 0.01, 1e-4
ROUNDS, FEWER = 40, 10  # a call of ours, a call of PyTorch's
FEW = 2  # clients of a call with several threads, which can be very slow on a busy machine


def run(repeat: int) -> Report:
    return in_child("lenet", repeat)


def solver(eta: float) -> object:
    import optax

    return optax.chain(optax.add_decayed_weights(DECAY), optax.sgd(eta))


def measured(repeat: int) -> Report:
    import jax
    import torch
    from jax.flatten_util import ravel_pytree

    from . import torch_side
    from .bare import bare_rounds

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
    params = model.init(jax.random.key(0))
    flat = np.asarray(ravel_pytree(params)[0])
    rng = np.random.default_rng(0)
    cohorts = np.stack([rng.choice(CLIENTS, COHORT, replace=False) for _ in range(ROUNDS)])
    places = np.stack([[rng.choice(parts[i], (STEPS, BATCH)) for i in members] for members in cohorts])
    start = torch.from_numpy(flat.copy())

    def ours(make: object, rounds: int) -> ud.Result:
        method = make(eta=ETA, solver=solver)
        return ud.run(
            method,
            problem,
            rounds=rounds,
            steps=STEPS,
            participation=ud.plan.uniform(COHORT),
            x0=flat,
            record_every=10**6,
        )

    bare = bare_rounds(model, images, labels, ETA, DECAY)
    candidates = {
        "fedavg, long": lambda: ours(ud.fedavg, ROUNDS + 1),
        "fedavg, short": lambda: ours(ud.fedavg, 1),
        "sequential_fl, long": lambda: ours(ud.sequential_fl, FEWER + 1),
        "sequential_fl, short": lambda: ours(ud.sequential_fl, 1),
        "bare": lambda: bare(params, places),
        "loop": lambda: torch_side.one_process(clients, start, cohorts[:1, :FEW], devices),
        "loop, one thread": lambda: torch_side.one_process(clients, start, cohorts[:FEWER], 1),
        "workers": lambda: workers.rounds(start, cohorts[:FEWER]),
    }
    off = difference(clients.model, model, flat, images[:100], labels[:100])
    seconds = in_turns(candidates, repeat)
    workers.close()
    return report(seconds, off, problem.dim - torch_side.count(clients.model), devices, torch.__version__)


def report(seconds: dict[str, np.ndarray], off: float, extra: int, devices: int, version: str) -> Report:
    fedavg = (seconds["fedavg, long"] - seconds["fedavg, short"]) / ROUNDS
    bare, workers = seconds["bare"] / ROUNDS, seconds["workers"] / FEWER
    loops = seconds["loop"] * COHORT / FEW, seconds["loop, one thread"] / FEWER
    loop = least(*loops)
    quickest = (seconds["fedavg, long"].min() - seconds["fedavg, short"].min()) / ROUNDS
    per_round = {
        f"undrift, FedAvg on {devices} devices": fedavg,
        "undrift, sequential_fl": (seconds["sequential_fl, long"] - seconds["sequential_fl, short"]) / FEWER,
        "JAX by hand, same network": bare,
        f"PyTorch loop, {devices} threads": loops[0],
        "PyTorch loop, 1 thread": loops[1],
        "PyTorch, two forked workers": workers,
    }
    rows = [Row(name, 1e3 * float(np.median(s)), "ms / round, median") for name, s in per_round.items()]
    rows += [
        Row("undrift, least", 1e3 * quickest, "ms / round"),
        Row("JAX by hand, least", 1e3 * float(bare.min()), "ms / round"),
        Row("PyTorch loop, least", 1e3 * float(loop.min()), "ms / round"),
        Row("PyTorch, two forked workers, least", 1e3 * float(workers.min()), "ms / round"),
        Row("undrift / JAX by hand", ratio(fedavg, bare), "× the time"),
        Row("least of PyTorch's loop / least of ours", float(loop.min() / quickest), "×"),
        Row("least of the workers / least of ours", float(workers.min() / quickest), "×"),
        Row("set-up and two evaluations of a run", float(np.median(seconds["fedavg, short"])), "s"),
    ]
    goals = [
        Goal("PyTorch loop (the faster) / undrift", ratio(loop, fedavg), at_least=3),
        Goal("two PyTorch workers / undrift", ratio(workers, fedavg), at_least=1),
        Goal("parameters more than PyTorch's", extra, at_least=0, at_most=0),
        Goal("largest relative difference of logits and gradients", off, at_most=1e-4),
    ]
    notes = [
        f"PyTorch {version}. Our round is what {ROUNDS + 1} rounds of ud.run take more than one (sequential_fl: {FEWER + 1}),",
        "compilation excluded; nothing is recorded in between. sequential_fl cannot share its clients out.",
        f"PyTorch's loop with {devices} threads is timed on {FEW} of the {COHORT} clients and scaled to a round.",
    ]
    title = f"{COHORT} of {CLIENTS} clients × {STEPS} steps × batch {BATCH}, LeNet-5, weight decay {DECAY:g}, float32"
    return Report("lenet", title, rows, goals, notes)


def difference(
    theirs: object, model: ud.models.Model, flat: np.ndarray, images: np.ndarray, labels: np.ndarray
) -> float:
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
