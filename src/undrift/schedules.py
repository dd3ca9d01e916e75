"""Numbers that change by round, beside those of Optax."""

from __future__ import annotations

import dataclasses
from typing import Any

from .gate import Positive, check_value


@dataclasses.dataclass(frozen=True)
class Inverse:
    """scale/(t + offset), t = 0 in the first round: step sizes that fall like 1/t, under which noise averages out.

    >>> import undrift as ud
    >>> print(ud.fedlin(eta=Inverse(scale=2.0, offset=10.0)))
    fedlin(eta=2/(t + 10))
    """

    scale: float
    offset: float

    def __post_init__(self) -> None:
        for name in ("scale", "offset"):
            check_value(f"{name} of an inverse schedule", getattr(self, name), Positive)

    def __call__(self, count: Any) -> Any:
        return self.scale / (count + self.offset)

    def __str__(self) -> str:
        return f"{self.scale:g}/(t + {self.offset:g})"
