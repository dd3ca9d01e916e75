"""Study files that must be refused."""

from __future__ import annotations

from hostile_case import Case

CASES: list[Case] = []
