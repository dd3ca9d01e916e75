"""Is the adviser right? Its advice, given without running anything, against runs of every method.

    python experiments/adviser_check.py        writes experiments/results/adviser.json and the table in docs/adviser.md

On each problem the advice is made from predictions alone. Then all methods are run, each with the three numbers of local steps
predicted to be cheapest for it and with step sizes from a quarter to four times the predicted one. The advice is right if
 1. the recommended method, with the recommended step size and local steps, reaches the target within its predicted cost,
 2. no other method, at the best of its own step sizes, does so at less than half of what the recommended one takes.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import undrift as ud
from undrift.advice import Advice, Candidate, advise
from undrift.studies.catalogue import PROBLEMS

ROOT = Path(__file__).parents[1]
RESULT, PAGE = ROOT / "experiments" / "results" / "adviser.json", ROOT / "docs" / "adviser.md"
BEGIN, END = "<!-- table: python experiments/adviser_check.py -->", "<!-- end of table -->"
FACTORS = (0.25, 0.5, 0.71, 1.0, 1.41, 2.0, 4.0)
STEPS = (1, 5, 20)


def quadratics(kappa: float, distance: float, twist: float = 0.0, seed: int = 0) -> Any:
    """Eight clients in R¹²: eigenvalues from 1 to κ in one basis, bent by `twist` for each client, minimisers `distance` apart.

    With one basis f is as ill-conditioned as its clients; were every client's basis its own, the mean would be round.
    """
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.standard_normal((12, 12)))
    A, b = [], []
    for _ in range(8):
        own, _ = np.linalg.qr(basis + twist * rng.standard_normal((12, 12)))
        own = own * np.sign(np.sum(own * basis, axis=0))
        H = (own * np.geomspace(1, kappa, 12) * np.exp(0.3 * twist * rng.standard_normal(12))) @ own.T
        A.append((H + H.T) / 2)
        b.append(A[-1] @ (np.ones(12) + distance * rng.standard_normal(12)))
    return ud.problems.quadratic(np.array(A), np.array(b))


def hospitals() -> Any:
    """Four hospitals of very different size and patients: 13 standardised features, logistic regression."""
    rng = np.random.default_rng(3)
    truth = rng.standard_normal(13)
    A, y = [], []
    for size in (40, 90, 160, 240):
        features = rng.standard_normal((size, 13)) * rng.uniform(0.5, 1.5, 13) + 0.7 * rng.standard_normal(13)
        own = truth + 0.7 * rng.standard_normal(13)
        A.append(features)
        y.append(np.where(rng.random(size) < 1 / (1 + np.exp(-features @ own)), 1.0, -1.0))
    return ud.problems.logistic(A, y, l2=5.0)


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "well-conditioned, κ = 3": (lambda: quadratics(3, 1.0, 0.1), {}),
    "ill-conditioned, κ = 300": (lambda: quadratics(300, 1.0, 0.02), {}),
    "equal clients": (lambda: quadratics(100, 0.0), {}),
    "far minimisers, bent Hessians": (lambda: quadratics(100, 10.0, 0.1), {}),
    "slow links": (lambda: quadratics(100, 1.0, 0.05), {"link": "up=200,down=1000,latency=1", "speeds": 1000.0}),
    "slow clients of unequal speed": (
        lambda: quadratics(100, 1.0, 0.05),
        {"speeds": "0.1..10", "link": "latency=0.01"},
    ),
    "loose target": (lambda: quadratics(100, 1.0, 0.1), {"target": 1e-2}),
    "least squares (14), α = 50": (
        lambda: PROBLEMS["least_squares"](clients=10, samples=60, dim=20, alpha=50.0),
        {"link": "latency=0.2"},
    ),
    "logistic, four hospitals": (hospitals, {}),
    "logistic, digits by class": (lambda: PROBLEMS["digits"](clients=6), {"link": "latency=0.2", "target": 1e-4}),
}


def check(name: str) -> dict[str, Any]:
    make, settings = CASES[name]
    began = time.perf_counter()
    found = advise(
        make(),
        **{"target": 1e-6, "steps": STEPS, "measure": True, "rounds": 1500, "measured_local_steps": 3, **settings},
        factors=FACTORS,
    )
    federated = [c for c in found.candidates if not c.option.reference]
    able = [c for c in federated if c.predicted is not None]
    advised = min(able, key=lambda c: (c.predicted.seconds, c.predicted.rounds))
    rounds = advised.measured.exact_step_rounds
    taken = None if rounds is None else advised.tariff.after(rounds)
    rivals = sorted((c for c in federated if c.label != advised.label and c.spent is not None), key=_seconds)
    within = taken is not None and taken.seconds <= advised.predicted.seconds * (1 + 1e-9)
    rival = rivals[0] if rivals else None
    ratio = None if rival is None or taken is None else _seconds(rival) / taken.seconds
    return {
        "problem": name,
        "prediction": advised.how,
        "advised": f"{advised.label}, τ = {advised.local_steps}, {advised.option.number} = {advised.forecast.step:.3g}",
        "predicted_rounds": advised.predicted.rounds,
        "predicted_seconds": advised.predicted.seconds,
        "measured_rounds": rounds,
        "measured_seconds": None if taken is None else taken.seconds,
        "best_rival": None if rival is None else f"{rival.label}, τ = {rival.local_steps}",
        "rival_over_advised": ratio,
        "within_prediction": within,
        "nobody_at_half": ratio is None or ratio >= 0.5,
        "largest_misprediction": _worst(found),
        "seconds_to_check": round(time.perf_counter() - began, 1),
    }


def _seconds(candidate: Candidate) -> float:
    return float(candidate.spent.seconds) if candidate.spent is not None else float("inf")


def _worst(found: Advice) -> float | None:
    """The largest ratio, over all methods, between rounds measured with the predicted step and rounds predicted."""
    pairs = [
        (c.measured.exact_step_rounds, c.forecast.rounds)
        for c in found.candidates
        if c.measured is not None and c.measured.exact_step_rounds and c.forecast is not None and c.forecast.rounds
    ]
    return max((measured / predicted for measured, predicted in pairs), default=None)


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| problem | advised | rounds: predicted, measured | best of the others | within prediction | nobody at half |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        rival = "–" if row["rival_over_advised"] is None else f"{row['best_rival']}: {row['rival_over_advised']:.2f}×"
        sure = "" if row["prediction"] == "exact" else " (estimated)"
        lines.append(
            f"| {row['problem']} | {row['advised']} | {row['predicted_rounds']}{sure}, {row['measured_rounds']} | {rival} | "
            f"{_yes(row['within_prediction'])} | {_yes(row['nobody_at_half'])} |"
        )
    return "\n".join(lines)


def _yes(value: bool) -> str:
    return "yes" if value else "**no**"


def main(names: list[str]) -> None:
    rows = []
    for name in names or CASES:
        rows.append(check(name))
        print(json.dumps(rows[-1], ensure_ascii=False), flush=True)
    if names:
        return
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    head, tail = text.partition(BEGIN)[0], text.partition(END)[2]
    PAGE.write_text(f"{head}{BEGIN}\n{table(rows)}\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
