"""P1: softmax regression on pictures of MNIST's shape, 10 of 1,000 clients a round, 6 steps each with batches of 10.

The opponent is what an expert writes in PyTorch: the whole cohort in batched products, without autograd, on all cores.
"""

from __future__ import annotations

import numpy as np

import undrift as ud

from .disturbance import cores
from .measure import Goal, Report, Row, in_turns
from .pictures import pictures

CLIENTS, SAMPLES, COHORT, STEPS, BATCH, ETA, CLASSES = 1000, 60, 10, 6, 10, 0.01, 10
CALLS = {1000: 2.5, 50: 1.5}  # rounds of a call -> how many times as fast it shall be
SHORT = 50  # calls of so many rounds or fewer are repeated within a turn
TIMES = 10


def run(repeat: int) -> Report:
    import torch

    from .torch_softmax import Cohorts

    ud.use_devices(cores())
    images, labels = pictures(CLIENTS * SAMPLES)
    parts = np.arange(CLIENTS * SAMPLES).reshape(CLIENTS, SAMPLES)
    model = ud.models.softmax_regression()
    problem = ud.problems.network(model, (images, labels), list(parts), batch=BATCH)
    flat = np.asarray(problem.initial(0), np.float32)
    rows_of = images.reshape(CLIENTS, SAMPLES, -1)
    theirs = Cohorts.of(rows_of, labels.reshape(CLIENTS, SAMPLES), CLASSES, STEPS, BATCH, ETA)
    rng, start = np.random.default_rng(0), torch.from_numpy(flat.copy())
    cohorts = np.stack([rng.choice(CLIENTS, COHORT, replace=False) for _ in range(max(CALLS))])

    def ours(rounds: int) -> ud.Result:
        given = {"steps": STEPS, "participation": ud.plan.uniform(COHORT), "x0": flat}
        return ud.run(ud.fedavg(eta=ETA), problem, rounds=rounds, record_every=10**6, **given)

    candidates = {}
    for rounds in CALLS:
        times = TIMES if rounds <= SHORT else 1
        candidates[f"undrift {rounds}"] = lambda n=rounds, k=times: [ours(n) for _ in range(k)]
        candidates[f"PyTorch {rounds}"] = lambda n=rounds, k=times: [
            theirs.rounds(start, cohorts[:n], cores()) for _ in range(k)
        ]
    off = difference(images, labels, parts, flat)
    seconds = in_turns(candidates, repeat)
    rows, goals = [], []
    for rounds, promise in CALLS.items():
        scale = 1e3 / rounds / (TIMES if rounds <= SHORT else 1)
        mine, other = (scale * seconds[f"{who} {rounds}"] for who in ("undrift", "PyTorch"))
        group = f"calls of {rounds:,} rounds"
        rows.append(Row.of(f"undrift, {cores()} devices", mine, "ms / round", "undrift", group))
        rows.append(Row.of(f"batched PyTorch, {cores()} threads", other, "ms / round", "peer", group))
        goals.append(Goal.of(f"P1, {group}: batched PyTorch ÷ undrift", other / mine, at_least=promise))
    goals.append(
        Goal("largest relative difference of models after six steps with all samples", off, at_most=1e-4, same=True)
    )
    notes = [
        f"PyTorch {torch.__version__}. A call is one ud.run with all that it does, compilation excepted; the last round is",
        "recorded. Each side draws its own mini-batches; that they step alike is shown where every batch is all samples.",
    ]
    title = f"{COHORT} of {CLIENTS:,} clients × {STEPS} steps × batch {BATCH}, softmax regression, d = {problem.dim:,}, float32"
    return Report("softmax", title, rows, goals, notes)


def difference(images: np.ndarray, labels: np.ndarray, parts: np.ndarray, flat: np.ndarray) -> float:
    """Largest difference of the models after a round of the first clients, over the largest step: batches of all samples."""
    import torch

    from .torch_softmax import Cohorts

    few, model = parts[:COHORT], ud.models.softmax_regression()
    problem = ud.problems.network(model, (images, labels), list(few), batch=SAMPLES)
    ours = np.asarray(ud.run(ud.fedavg(eta=ETA), problem, rounds=1, steps=STEPS, x0=flat).x)
    inputs, targets = images[few].reshape(COHORT, SAMPLES, -1), labels[few]
    theirs = Cohorts.of(inputs, targets, CLASSES, STEPS, SAMPLES, ETA)
    other = theirs.rounds(torch.from_numpy(flat.copy()), np.arange(COHORT)[None]).numpy()
    return float(np.max(np.abs(ours - other)) / np.max(np.abs(other - flat)))
