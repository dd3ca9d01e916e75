"""The shipped table of certified steps, read in the safe direction only.

A row speaks of a set of local steps in any mixture, so it covers every subset of it; and what holds for all μ-strongly convex
losses holds for those with a larger μ, so it covers every smaller κ. It is made by `experiments/certified_table.py`.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import InputError
from .certificate import Certificate

FILE = Path(__file__).with_name("certified.json")
DESCRIPTION = ("method", "steps", "kappa", "eta", "rate", "below", "exact")
SCOPE = "any number of clients, any weights"
MIXTURE = f"{SCOPE}, any mixture of these steps, also one that changes by round"


@functools.cache
def rows() -> tuple[dict[str, Any], ...]:
    """What was solved, and checked in fractions."""
    return tuple(row for row in json.loads(FILE.read_text(encoding="utf-8"))["rows"] if row["exact"])


def lookup(method: str, L: float, mu: float, steps: Sequence[int], settings: Mapping[str, Any]) -> Certificate:
    """The certificate of a method whose clients take these numbers of local steps; refused where the table has none.

    >>> c = lookup("fedsgd", L=2.0, mu=0.2, steps=[1], settings={})
    >>> round(c.eta * 2.2 / 2, 2), c.exact  # near 2/(L + μ), gradient descent's best step
    (1.0, True)
    """
    from .rounds import METHODS

    asked = set(steps)
    kappa = L / mu
    covering = [row for row in rows() if _same(row, method, settings) and asked <= set(row["steps"])]
    if not covering:
        raise InputError(_missing(method, steps, settings))
    enough = [row for row in covering if row["kappa"] >= kappa * (1 - 1e-12) and row["rate"] < 1]
    if not enough:
        largest = max(row["kappa"] for row in covering)
        raise InputError(f"the table of certified steps goes to κ = {largest:g}, here it is {kappa:.6g}: {REMEDY}")
    row = min(enough, key=lambda row: row["rate"])
    number = METHODS[method].number
    eta = row["eta"] / L
    return Certificate(
        method=method,
        measure="sq_distance",
        eta=eta,
        rate=row["rate"],
        residual=row["rate"] - row["below"],
        L=float(L),
        mu=float(mu),
        steps=tuple(row["steps"]),
        numbers={number: eta},
        scope=SCOPE if len(row["steps"]) == 1 else MIXTURE,
        exact=True,
        source=f"table: κ = {row['kappa']:g} covers κ = {kappa:.4g}",
        memory=METHODS[method].memory,
        per=METHODS[method].per,
    )


REMEDY = "give a number, or solve it with ud.theory.certify (pip install 'undrift[certify]')"


def _same(row: Mapping[str, Any], method: str, settings: Mapping[str, Any]) -> bool:
    own = {key: value for key, value in row.items() if key not in DESCRIPTION}
    return bool(row["method"] == method and own == dict(settings))


def _missing(method: str, steps: Sequence[int], settings: Mapping[str, Any]) -> str:
    there = sorted({tuple(row["steps"]) for row in rows() if _same(row, method, settings)})
    if not there:
        known = ", ".join(sorted({row["method"] for row in rows()}))
        given = "".join(f" with {key}={value}" for key, value in settings.items())
        return f"the table of certified steps has nothing on {method}{given} (it has {known}): {REMEDY}"
    sets = ", ".join(str(one[0]) if len(one) == 1 else f"{one[0]} to {one[-1]}" for one in there)
    return f"the table of certified steps has {method} with τ = {sets}, and not with {sorted(set(steps))}: {REMEDY}"
