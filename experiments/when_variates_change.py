"""Sequential FL with control variates: when c takes in what changed, and what c_i is; the table of docs/beyond_sequence.md.

    after each turn, or when the round is over; c_i = the mean of the gradients of its local steps, or the first of them

Random quadratics, naive NumPy; rounds until ‖x − x*‖ stays below 1e-8·‖x*‖, the median over problems. "—": not within 1500
rounds, in some problem.
"""

from __future__ import annotations

import numpy as np

CLIENTS, DIM, STEPS, PROBLEMS, ROUNDS = 10, 5, 5, 10, 1500
EXPONENTS = (-3, -2, -1, 0, 1)
RULES = {
    "round, mean": (True, True),
    "round, first": (True, False),
    "turn, mean": (False, True),
    "turn, first": (False, False),
}


def problem(seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """(A, b, L): f_i = ½xᵀA_i x − b_iᵀx."""
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(CLIENTS, DIM, DIM))
    A = B @ np.swapaxes(B, 1, 2) / DIM + 0.1 * np.eye(DIM)
    return A, 3 * rng.normal(size=(CLIENTS, DIM)), float(np.linalg.eigvalsh(A).max())


def rounds_needed(seed: int, exponent: int, at_the_end: bool, mean: bool, cohort: int) -> float:
    A, b, L = problem(seed)
    eta = 2.0**exponent / (L * STEPS)
    turns = [eta * sum(np.linalg.matrix_power(np.eye(DIM) - eta * a, k) for k in range(STEPS)) for a in A]
    best, rng = np.linalg.solve(A.mean(axis=0), b.mean(axis=0)), np.random.default_rng(seed)
    x, c, own, last_above = np.zeros(DIM), np.zeros(DIM), np.zeros((CLIENTS, DIM)), 0
    for t in range(1, ROUNDS + 1):
        change = np.zeros(DIM)
        for i in rng.permutation(CLIENTS)[:cohort]:
            first = A[i] @ x - b[i]
            way = turns[i] @ (first - own[i] + c)
            new = own[i] - c + way / (STEPS * eta) if mean else first
            change, own[i], x = change + (new - own[i]) / CLIENTS, new, x - way
            if not at_the_end:
                c, change = c + change, np.zeros(DIM)
        c = c + change
        if not np.linalg.norm(x - best) <= 1e-8 * np.linalg.norm(best):
            last_above = t
        elif t > 2 * last_above + 20:
            break
    return np.inf if last_above == ROUNDS or not np.all(np.isfinite(x)) else last_above + 1


if __name__ == "__main__":
    print("| clients a round | η·L·τ | " + " | ".join(RULES) + " |")
    print("|---|---|" + "---|" * len(RULES))
    for cohort in (CLIENTS, 3):
        for exponent in EXPONENTS:
            found = [
                [rounds_needed(seed, exponent, *rule, cohort) for seed in range(PROBLEMS)] for rule in RULES.values()
            ]
            cells = [f"{np.median(own):.0f}" if np.all(np.isfinite(own)) else "—" for own in found]
            print(f"| {cohort} of {CLIENTS} | {2.0**exponent:g} | " + " | ".join(cells) + " |", flush=True)
