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

        def ours(rounds: int, problem: ud.problems.Problem = problem) -> ud.Result:
            method, oracle = ud.fedavg(eta=ETA), ud.oracles.minibatch(BATCH)
            given = {"steps": STEPS, "participation": ud.plan.uniform(COHORT), "oracle": oracle}
            return ud.run(method, problem, rounds=rounds, record_every=10 * ROUNDS, **given)

        candidates = {
            "long": lambda f=ours: f(ROUNDS + 1),
            "short": lambda f=ours: f(1),
            "by hand": lambda A=A, y=y: by_hand(A, y, ROUNDS),
        }
        seconds = in_turns(candidates, repeat)
        alone = np.maximum(seconds["long"] - seconds["short"], 1e-9)
        reached = [problem.value(ours(ROUNDS).x), problem.value(by_hand(A, y, ROUNDS))]
        name = f"{clients:,} clients"
        rows += [
            Row(f"{name}: undrift", 1e3 * float(np.median(alone)) / ROUNDS, "ms / round"),
            Row(f"{name}: NumPy by hand", 1e3 * float(np.median(seconds["by hand"])) / ROUNDS, "ms / round"),
            Row(f"{name}: NumPy / undrift", ratio(seconds["by hand"], alone), "×"),
            Row(f"{name}: undrift's two evaluations of f and set-up", float(np.median(seconds["short"])), "s"),
            Row(f"{name}: loss reached / by hand", reached[0] / reached[1], "×"),
        ]
    notes = [
        f"A round is what {ROUNDS + 1} rounds take more than one; f is evaluated before the first and after the last."
    ]
    return Report(
        "logistic", f"{COHORT} clients a round, {STEPS} steps, batches of {BATCH}, float32", rows, notes=notes
    )
