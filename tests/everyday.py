"""Which cases of a large table run every day (`make test`); the others are marked `slow` and run in `make full`.

A table of methods × interpreters × precisions has too many cells for every day. Each test of such a table takes a share of its
rows, and tests beside it take the other shares, so that every row and every column is met every day, though not every cell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def only(cases: Iterable[Any], often: Collection[Any]) -> list[Any]:
    """All cases as parameters of a test; those that are not in `often` are slow.

    >>> [case if isinstance(case, str) else case.marks[0].name for case in only(["a", "b"], {"a"})]
    ['a', 'slow']
    """
    cases = list(cases)
    unknown = [name for name in often if name not in cases]
    assert not unknown, f"no such cases: {unknown}"
    return [case if case in often else pytest.param(case, marks=pytest.mark.slow) for case in cases]


def share(cases: Iterable[Any], turn: int, of: int = 3, always: Collection[Any] = ()) -> list[Any]:
    """All cases as parameters of a test; every day those whose place is `turn` modulo `of`, and those in `always`.

    >>> [case if isinstance(case, str) else case.marks[0].name for case in share("abcd", 1, of=2)]
    ['slow', 'b', 'slow', 'd']
    """
    cases = list(cases)
    return only(cases, [case for place, case in enumerate(cases) if place % of == turn or case in always])
