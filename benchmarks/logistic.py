"""Many clients, few at a time: FedAvg on MNIST-like logistic regression, 10 clients a round, 6 steps with batches of 10."""

from __future__ import annotations

import numpy as np

import undrift as ud

from .measure import Report, Row, in_turns, ratio

ROUNDS, COHORT, STEPS, BATCH, DIM, ETA = 1000, 10, 6, 10, 784, 1e-3
SIZES = {1_000: 60, 100_000: 6}  # clients -> samples of each


def data(clients: int, samples: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    A = rng.random((clients, samples, DIM), np.float32)
    return A, np.where(A @ (rng.random(DIM, np.float32) - np.float32(0.5)) > 0, np.float32(1), np.float32(-1))


def by_hand(A: np.ndarray, y: np.ndarray, rounds: int) -> np.ndarray:
    """The whole cohort in one batched product per local step, every client walking through its own shuffled data."""
    rng, (m, n, d) = np.random.default_rng(0), A.shape
    x = np.zeros(d, np.float32)
    column = np.arange(COHORT)[:, None]
    for _ in range(rounds):
        members = rng.choice(m, COHORT, replace=False, shuffle=False)[:, None]
        walk = [rng.permuted(np.tile(np.arange(n), (COHORT, 1)), axis=1) for _ in range(-(-STEPS * BATCH // n))]
        order = np.concatenate(walk, axis=1)
        local = np.repeat(x[None], COHORT, axis=0)
        for k in range(STEPS):
            chosen = order[column, np.arange(k * BATCH, (k + 1) * BATCH)]
            rows, labels = A[members, chosen], y[members, chosen]
            margins = labels * (rows @ local[:, :, None])[:, :, 0]
            slopes = -labels / (1 + np.exp(margins))
            local -= np.float32(ETA * n / BATCH) * (slopes[:, None, :] @ rows)[:, 0]
        x = local.mean(axis=0)
    return x


def run(repeat: int) -> Report:
    rows = []
    for clients, samples in SIZES.items():
        A, y = data(clients, samples)
        problem = ud.problems.logistic(A, y)
        arguments = {"rounds": ROUNDS, "steps": STEPS, "record_every": ROUNDS, "participation": ud.plan.uniform(COHORT)}
        candidates = {
            "undrift": lambda p=problem, a=arguments: ud.run(
                ud.fedavg(eta=ETA), p, oracle=ud.oracles.minibatch(BATCH), **a
            ),
            "NumPy by hand": lambda A=A, y=y: by_hand(A, y, ROUNDS),
        }
        seconds = in_turns(candidates, repeat)
        for name, times in seconds.items():
            rows.append(Row(f"{clients:,} clients: {name}", 1e3 * float(np.median(times)) / ROUNDS, "ms / round"))
        rows += [Row(f"{clients:,} clients: NumPy / undrift", ratio(seconds["NumPy by hand"], seconds["undrift"]), "×")]
        reached = [problem.value(candidates["undrift"]().x), problem.value(by_hand(A, y, ROUNDS))]
        rows += [Row(f"{clients:,} clients: loss reached / by hand", reached[0] / reached[1], "×")]
    return Report("logistic", f"{COHORT} clients a round, {STEPS} steps, batches of {BATCH}, float32", rows)
