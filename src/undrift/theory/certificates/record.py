"""What the table of certificates is asked about a method: part of what is known of it (`Known.certified`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal


@dataclasses.dataclass(frozen=True)
class Certifiable:
    """A method that certificates speak of.

    `method` is its name in the table, `title` the one in sentences. `told` are the parameters that the worst case depends on
    besides local steps; links are told by their contraction δ, and one that keeps something from message to message makes
    another method of it, `kept`: (link, memory) -> its name there. `only_with`: parameters that matter where another is given.
    Every other setting must be the factory's own default, or
    `harmless` where everyone takes part.

    `losses`: of which functions L and μ are asked for. They are those of every client (max_i L_i, min_i μ_i) where clients take
    steps on their own losses, those of f where all that is ever used is its gradient, and those of all components where these
    are refreshed one by one. `steps`: clients take those of the plan; "mean": the mean of them, each like a round of its own;
    "one": none but one; "drawn": as many as the method's coin says.
    """

    method: str
    title: str
    told: tuple[str, ...] = ()
    only_with: Mapping[str, str] = dataclasses.field(default_factory=dict)
    kept: Mapping[tuple[str, Any], str] = dataclasses.field(default_factory=dict)
    harmless: tuple[str, ...] = ()
    losses: Literal["clients", "mean", "components"] = "clients"
    steps: Literal["plan", "mean", "one", "drawn"] = "plan"
    divides: bool = False  # client i steps with eta/τ_i
    at_start: Callable[[Mapping[str, float]], float] | None = (
        None  # numbers -> a with V_0 = ‖x_0 − x*‖² + a·Σ w_i‖∇f_i(x*)‖²
    )
