"""P3: FedLin on the least-squares problem (14) of its paper: m = 20, A_i 500 × 100, τ_i uniform on [2, 100]."""

from __future__ import annotations

import numpy as np

import undrift as ud

from .batched_fedlin import Sorted, with_closed_form, with_gram, with_samples
from .disturbance import cores
from .measure import Goal, Report, Row, in_turns

ROUNDS, ETA = 300, 1e-3
GRAM, SAMPLES, SHORTCUT = "NumPy, AᵀA kept", "NumPy, A and Aᵀ", "NumPy, closed form too"
CLOSED, SPARSE, STEPS = "undrift", "undrift, last round recorded only", "undrift, step by step (spectral=False)"


def problem_14(seed: int = 0, alpha: float = 10.0) -> tuple[np.ndarray, np.ndarray]:
    """b_i = A_i x_i + noise, x_i ~ N(u_i, 1) with u_i ~ N(0, α), noise of variance ½."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((20, 500, 100))
    centres = np.sqrt(alpha) * rng.standard_normal((20, 1))
    truth = centres + rng.standard_normal((20, 100))
    return A, (A @ truth[:, :, None])[:, :, 0] + np.sqrt(0.5) * rng.standard_normal((20, 500))


def run(repeat: int) -> Report:
    ud.use_devices(cores())
    A, b = problem_14()
    steps = np.random.default_rng(1).integers(2, 101, len(A))
    data, method = Sorted(A, b, steps, ETA), ud.fedlin(eta=ETA)
    closed, stepwise = (ud.problems.least_squares(A, b, spectral=s) for s in (True, False))
    arguments = {"rounds": ROUNDS, "steps": steps}
    numpy = {SAMPLES: with_samples(data), GRAM: with_gram(data), SHORTCUT: with_closed_form(data)}
    candidates = {
        CLOSED: lambda: ud.run(method, closed, **arguments),
        SPARSE: lambda: ud.run(method, closed, record_every=ROUNDS, **arguments),
        STEPS: lambda: ud.run(method, stepwise, record_every=ROUNDS, **arguments),
        **{name: lambda f=f: f(ROUNDS) for name, f in numpy.items()},
    }
    theirs = [f(ROUNDS) for f in numpy.values()]
    ours = [ud.run(method, p, keep_iterates=True, **arguments).iterates for p in (closed, stepwise)]
    off = max(difference(one, other) for one in ours for other in theirs)
    seconds = in_turns(candidates, repeat)
    group = {CLOSED: "closed form", SPARSE: "closed form", SHORTCUT: "closed form"}
    rows = [
        Row.of(name, 1e3 * s / ROUNDS, "ms / round", "undrift" if name.startswith("undrift") else "peer",
               group.get(name, "step by step")) for name, s in seconds.items()
    ]  # fmt: skip
    rows.append(
        Row.of(
            "both with the closed form and without records: NumPy ÷ undrift", seconds[SHORTCUT] / seconds[SPARSE], "×"
        )
    )
    goals = [
        Goal.of("P3, step by step: NumPy with AᵀA ÷ undrift", seconds[GRAM] / seconds[STEPS], at_least=4),
        Goal.of("P3, closed form: NumPy with AᵀA ÷ undrift", seconds[GRAM] / seconds[CLOSED], at_least=9),
        Goal("largest relative difference of iterates", off, at_most=1e-9, same=True),
    ]
    notes = [
        f"{ROUNDS} rounds a call, everything included that ud.run does, on {cores()} devices. undrift records loss, gap,",
        "distance, gradients and drift in every round unless it says otherwise; NumPy records nothing. The experts step as",
        "the algorithm is written; NumPy's closed form is made once, because τ_i is the same in every round.",
    ]
    return Report("fedlin", "FedLin on (14), 20 clients of 500 × 100, τ from 2 to 100, float64", rows, goals, notes)


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Largest ‖x_t − x'_t‖ / ‖x'_t‖."""
    scale = np.maximum(np.linalg.norm(theirs, axis=1), np.finfo(float).tiny)
    return float(np.max(np.linalg.norm(ours - theirs, axis=1) / scale))
