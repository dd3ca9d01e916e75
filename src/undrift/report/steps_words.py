"""The local steps of a study in a few words, for the head of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..studies.study import Study
from .tables import short

MOST = 6  # numbers of steps that are listed


def steps_words(study: Study) -> str:
    """How many local steps clients take."""
    return "τ drawn by the method" if study.all_draw_steps else tau_words(study.run["steps"])


def tau_words(steps: Any) -> str:
    """The word `steps` of a table [run], for people.

    >>> tau_words(20), tau_words([5, 10, 20])
    ('τ = 20', 'τ = 5, 10, 20 by client')
    >>> tau_words({"low": 2, "high": 20, "fixed": True}), tau_words({"low": 2, "high": 20})
    ('τ from 2 to 20, fixed for each client', 'τ from 2 to 20, drawn anew in every round')
    >>> tau_words(list(range(1, 21)))
    'τ from 1 to 20 by client'
    """
    if isinstance(steps, Mapping) and {"low", "high"} <= steps.keys():
        how = "fixed for each client" if steps.get("fixed") else "drawn anew in every round"
        return f"τ from {short(steps['low'])} to {short(steps['high'])}, {how}"
    if isinstance(steps, Sequence) and not isinstance(steps, str) and steps:
        several = len(steps) > MOST
        shown = f"from {min(steps)} to {max(steps)}" if several else f"= {', '.join(map(str, steps))}"
        return f"τ {shown} by client"
    if isinstance(steps, str) and ".." in steps:
        low, _, rest = steps.partition("..")
        high, _, fixed = rest.partition(":")
        return tau_words({"low": low, "high": high, "fixed": fixed == "fixed"})
    return f"τ = {short(steps)}"
