"""Solves the table of certified steps that ships with the library: `python experiments/certified_table.py`.

Needs `pip install 'undrift[certify]'`. Rows that are there already are kept, so that it can be stopped and started again; with
`--anew` all are solved. An hour or so on one core. For every method, number of local steps and κ: the step (in units of 1/L)
with the best worst case, found by golden section, and its rate, kept only where the inequality was checked in fractions.
`below` is a worst case from below, attained by f_i(x) = (μ/2)x² or (L/2)x² at all clients.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from undrift.theory.certificates.certify import rates_of
from undrift.theory.certificates.closed_form import quadratic_rate
from undrift.theory.certificates.table import FILE

FINE = (1.25, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 2000, 5000, 10000)
FEW = (10, 100, 1000)
COARSE = (2, 5, 10, 20, 50, 100, 200, 500, 1000, 10000)


def wanted() -> Iterator[tuple[str, tuple[int, ...], dict[str, Any], tuple[float, ...]]]:
    """(method, local steps in any mixture, settings, κ)."""
    yield "fedsgd", (1,), {}, FINE
    yield "fedsplit", (1,), {}, FINE
    for tau in (1, 2, 3, 4, 5):
        yield "fedlin", (tau,), {}, FINE
    for tau in (6, 8, 10):
        yield "fedlin", (tau,), {}, COARSE
    for low, high in ((1, 5), (2, 5)):
        yield "fedlin", tuple(range(low, high + 1)), {}, COARSE
    for tau in (1, 2, 4, 5):
        yield "scaffold", (tau,), {"option": 2}, FEW
    for low, high in ((1, 10), (2, 10)):
        yield "fedlin", tuple(range(low, high + 1)), {}, FEW
    yield "fedlin", (20,), {}, FEW


def solve(
    method: str, steps: tuple[int, ...], settings: dict[str, Any], kappa: float, near: float | None
) -> dict[str, Any]:
    """One row."""
    rates = rates_of(method, Fraction(str(kappa)), set(steps), settings)
    step = rates.best(near=near, tolerance=3e-3 if len(steps) == 1 else 2e-2)
    found = rates.certified(step, worst=False)
    below = quadratic_rate(method, float(step), kappa, steps)
    return {"method": method, "steps": steps, **settings, "kappa": kappa, "eta": float(step), "rate": found.rate,
            "below": below, "exact": found.exact}  # fmt: skip


def _key(method: str, steps: tuple[int, ...], row: dict[str, Any], kappa: float) -> tuple[Any, ...]:
    """What a row is known by."""
    return method, steps, row.get("option"), kappa


def main() -> None:
    parser = argparse.ArgumentParser(description="Solve the table of certified steps.")
    parser.add_argument("--anew", action="store_true", help="solve rows that are there already, too")
    rows = [] if parser.parse_args().anew else json.loads(FILE.read_text())["rows"] if FILE.exists() else []
    there = {_key(row["method"], tuple(row["steps"]), row, row["kappa"]): row["eta"] for row in rows}
    for method, steps, settings, kappas in wanted():
        near = None
        for kappa in kappas:
            if (key := _key(method, steps, settings, kappa)) in there:
                near = there[key]
                continue
            began = time.time()
            row = solve(method, steps, settings, kappa, near)
            near = row["eta"]
            rows.append(row)
            seconds = f"{time.time() - began:.0f} s"
            print(
                f"{method} {steps} κ = {kappa}: η = {row['eta']:.4f}/L, rate {row['rate']:.6f}, {seconds}", flush=True
            )
            lines = json.dumps({"rows": rows}, separators=(",", ":")).replace('{"method"', '\n{"method"')
            FILE.write_text(lines + "\n")


if __name__ == "__main__":
    main()
