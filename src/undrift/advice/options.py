"""The methods that are considered, how each is made from its one step size, and on what scale that is looked for."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..algorithms import METHODS
from ..compression import TopK, top_k
from ..errors import InputError, unknown
from ..problems.base import Problem
from ..recipe import Method

SHARES = (4, 10)  # TOP-k at the server keeps d/4 or d/10 entries
CONSIDERED = (
    "fedsgd",
    "fedavg",
    "fedprox",
    "fednova",
    "fedsplit",
    "scaffold",
    "fedlin",
    "fedlin+top_k",
    "fedtrack",
    "sequential_fl",
    "gd",
)
ON_NETWORKS = ("fedsgd", "fedavg", "fednova", "scaffold", "fedlin", "sequential_fl")


@dataclasses.dataclass(frozen=True)
class Option:
    """A method up to its step size and its local steps."""

    name: str
    label: str
    number: str = "eta"  # what its step size is called
    local: bool = True  # whether local steps matter
    down: TopK | None = None
    extra: tuple[tuple[str, float], ...] = ()  # β of FedProx; L and μ for FedSplit's inner steps

    @property
    def reference(self) -> bool:
        """Not federated: shown for comparison, never recommended."""
        return self.name == "gd"

    def make(self, step: float, steps: Any) -> Method:
        """The method with this step size; τ matters to FedSplit alone, whose proximal step takes that many gradients."""
        extra = dict(self.extra)
        if self.name == "fedsplit":
            return METHODS["fedsplit"](
                s=step, inner_steps=inner_steps(steps), inner_eta=inner_eta(step, **extra), start="model"
            )
        if self.down is not None:
            return METHODS[self.name](eta=step, down=self.down)
        return METHODS[self.name](eta=step, **extra)

    def scale(self, L: float, mu: float, steps: np.ndarray) -> float:
        """A step size of the right order."""
        if self.name == "fedsplit":
            return 1 / math.sqrt(L * mu) if mu > 0 else 1 / L
        if self.name in ("fedsgd", "gd", "fedlin"):
            return 1 / L
        if self.name == "sequential_fl":
            return 1 / (L * float(np.sum(steps)))
        return 1 / (L * float(np.max(steps)))


def inner_steps(steps: Any) -> int:
    return max(1, round(float(np.mean(steps))))


def inner_eta(s: float, L: float, mu: float) -> float:
    """2/(L + μ + 2/s), as FedSplit's paper chooses it."""
    return 2 / (L + mu + 2 / s)


def options_for(problem: Problem, names: Any = None) -> list[Option]:
    """The options that make sense on this problem."""
    try:
        constants = problem.constants
    except InputError:
        constants = None
    network = constants is None
    wanted = list(names) if names else list(ON_NETWORKS if network else CONSIDERED)
    found: list[Option] = []
    for name in wanted:
        if name not in CONSIDERED:
            raise unknown("method that the adviser knows", name, CONSIDERED)
        if name == "fedlin+top_k":
            keep = sorted({max(1, problem.dim // share) for share in SHARES} - {problem.dim}, reverse=True)
            found += [Option("fedlin", f"fedlin ↓top_k({k})", down=top_k(k)) for k in keep]
        elif name == "fedtrack":
            if _finite_sum(problem):
                found.append(Option(name, name))
        elif name == "fedprox" and constants is not None:
            found.append(Option(name, name, extra=(("beta", float(f"{constants.L / 10:.3g}")),)))
        elif name == "fedsplit" and constants is not None:
            extra = (("L", float(constants.L)), ("mu", float(constants.mu)))
            found.append(Option(name, name, number="s", extra=extra))
        elif name in ("fedprox", "fedsplit"):
            continue  # without constants there is no rule for their second parameter
        else:
            found.append(Option(name, name, local=name != "fedsgd"))
    return found


def _finite_sum(problem: Problem) -> bool:
    return isinstance(problem.stack, dict) and "A" in problem.stack and bool(np.any(problem.sizes > 1))


def describe_steps(steps: Any) -> str:
    """τ in a few letters.

    >>> describe_steps(np.array([5, 5])), describe_steps(np.array([1, 3, 20]))
    ('5', '1…20')
    """
    counts = np.atleast_1d(np.asarray(steps))
    low, high = int(counts.min()), int(counts.max())
    return str(low) if low == high else f"{low}…{high}"


Maker = Callable[[float], Method]
