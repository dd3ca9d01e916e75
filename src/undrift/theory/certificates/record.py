"""What the table of certificates is asked about a method: part of what is known of it (`Known.certified`)."""

from __future__ import annotations

import dataclasses
from typing import Literal


@dataclasses.dataclass(frozen=True)
class Certifiable:
    """A method that certificates speak of.

    `method` is its name in the table, `title` the one in sentences. `told` are the parameters that the worst case depends on
    besides local steps; those of them that are links are told by their contraction δ (and NAME_memory). Every other setting
    must be the factory's own default, or `harmless` where everyone takes part. `losses`: of which functions L and μ are asked
    for. They are those of every client (max_i L_i, min_i μ_i) where clients take steps on their own losses, those of f where
    all that is ever used is its gradient, and those of all components where these are refreshed one by one.
    """

    method: str
    title: str
    told: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()
    losses: Literal["clients", "mean", "components"] = "clients"
    steps: Literal["plan", "mean", "one", "drawn"] = "plan"  # whose local steps; "drawn": by the method's own coin
    divides: bool = False  # client i steps with eta/τ_i
