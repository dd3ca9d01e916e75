"""FedLin on the least-squares problem (14) of its paper: m = 20, A_i 500 × 100, τ_i uniform on [2, 100]."""

from __future__ import annotations

import numpy as np

import undrift as ud

from .batched_fedlin import Sorted, with_closed_form, with_gram, with_samples
from .measure import Goal, Report, Row, in_turns, ratio

ROUNDS, ETA = 300, 1e-3


def problem_14(seed: int = 0, alpha: float = 10.0) -> tuple[np.ndarray, np.ndarray]:
    """b_i = A_i x_i + noise, x_i ~ N(u_i, 1) with u_i ~ N(0, α), noise of variance ½."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((20, 500, 100))
    centres = np.sqrt(alpha) * rng.standard_normal((20, 1))
    truth = centres + rng.standard_normal((20, 100))
    return A, (A @ truth[:, :, None])[:, :, 0] + np.sqrt(0.5) * rng.standard_normal((20, 500))


def run(repeat: int) -> Report:
    A, b = problem_14()
    steps = np.random.default_rng(1).integers(2, 101, len(A))
    data, method = Sorted(A, b, steps, ETA), ud.fedlin(eta=ETA)
    closed, stepwise = (ud.problems.least_squares(A, b, spectral=s) for s in (True, False))
    arguments = {"rounds": ROUNDS, "steps": steps}
    experts = {"NumPy, A and Aᵀ": with_samples(data), "NumPy, AᵀA kept": with_gram(data)}
    shortcut = with_closed_form(data)
    candidates = {
        "undrift": lambda: ud.run(method, closed, **arguments),
        "undrift, last round recorded only": lambda: ud.run(method, closed, record_every=ROUNDS, **arguments),
        "undrift, step by step (spectral=False)": lambda: ud.run(method, stepwise, record_every=ROUNDS, **arguments),
        **{name: lambda f=f: f(ROUNDS) for name, f in experts.items()},
        "NumPy, closed form too": lambda: shortcut(ROUNDS),
    }
    off = max(
        difference(ud.run(method, p, keep_iterates=True, **arguments).iterates, f(ROUNDS))
        for p in (closed, stepwise)
        for f in (*experts.values(), shortcut)
    )
    seconds = in_turns(candidates, repeat)
    expert = np.minimum(*(seconds[name] for name in experts))
    rows = [Row(name, ROUNDS / float(np.median(s)), "rounds / s") for name, s in seconds.items()]
    goals = [
        Goal("undrift / best expert", ratio(expert, seconds["undrift"]), at_least=5),
        Goal("largest relative difference of iterates", off, at_most=1e-9),
    ]
    stepping = ratio(expert, seconds["undrift, step by step (spectral=False)"])
    same = ratio(seconds["NumPy, closed form too"], seconds["undrift, last round recorded only"])
    rows += [
        Row("step by step / best expert", stepping, "×"),
        Row("both with the closed form, both without records", same, "×"),
    ]
    notes = [
        f"{ROUNDS} rounds a call, everything included that ud.run does. undrift records loss, gap, distance, gradients and",
        "drift in every round unless it says otherwise; NumPy records nothing. The experts step as the algorithm is written;",
        "the last line gives NumPy the closed form as well, made once because τ_i is the same in every round.",
    ]
    return Report("fedlin", "rounds of FedLin on (14), float64", rows, goals, notes)


def difference(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Largest ‖x_t − x'_t‖ / ‖x'_t‖."""
    scale = np.maximum(np.linalg.norm(theirs, axis=1), np.finfo(float).tiny)
    return float(np.max(np.linalg.norm(ours - theirs, axis=1) / scale))
