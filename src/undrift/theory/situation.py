"""All that a step size may depend on."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..oracles import Oracle
from ..plan import Participation
from ..problems.base import Problem
from ..recipe import Method


@dataclasses.dataclass(frozen=True)
class Situation:
    """A run, as far as theorems look at it."""

    method: Method
    problem: Problem
    steps: Any
    oracle: Oracle
    participation: Participation
    failures: float = 0.0
