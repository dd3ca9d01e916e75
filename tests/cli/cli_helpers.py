"""Helpers of the command line's tests."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

SMALL = ["--problem", "quadratic:clients=4,dim=6", "--rounds", "12", "--steps", "3"]


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)
