"""Looks of curves on the page: those of the printed figures, for light and for dark ground."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..colours import on_dark
from ..curves import POOLED
from ..style import DASHES, Look, colour_of, looks

LINE = 2  # width of a curve on the page, in pixels: its dashes are multiples of it


def coloured(figures: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The figures, every series with its colours (on light, on dark ground) and its dashes.

    A label keeps its look from figure to figure, a bound has the colour of its curve.
    """
    known: dict[str, Look] = {}
    return [{**figure, "series": _in_one_figure(figure["series"], known)} for figure in figures]


def _in_one_figure(series: Sequence[dict[str, Any]], known: dict[str, Look]) -> list[dict[str, Any]]:
    own = [one for one in series if one["of"] is None]
    found = looks([method_of(one) for one in own], [known.get(one["label"]) for one in own])
    known |= {one["label"]: look for one, look in zip(own, found, strict=True)}
    return [_dressed(one, known[(one if one["of"] is None else series[one["of"]])["label"]]) for one in series]


def _dressed(one: dict[str, Any], look: Look) -> dict[str, Any]:
    """The series as the script takes it."""
    kept = {key: value for key, value in one.items() if key not in ("method", "pooled")}
    label = f"{one['label']} ({POOLED})" if one.get("pooled") else one["label"]
    dashes = " ".join(f"{LINE * part:g}" for part in DASHES[look.variant]) if one["of"] is None else ""
    return {
        **kept,
        "label": label,
        "colour": [look.colour, on_dark(look.colour)],
        "dash": dashes,
        "variant": look.variant,
    }


def method_of(series: dict[str, Any]) -> str:
    """The method that a series shows (or a colour): said, or the first word of its label where that is one.

    >>> method_of({"method": None, "label": "FedLin, τ = 10"}), method_of({"method": None, "label": "ten clients"})
    ('fedlin', 'ten clients')
    """
    if series["method"]:
        return str(series["method"])
    first = re.split(r"[^0-9a-z_]+", series["label"].lower().strip())[0]
    return first if colour_of(first) is not None else str(series["label"])
