"""Colours of curves: those of the printed figures, for light and for dark ground."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..style import OTHERS, colour_of

DARK_GROUND = "#1a1d21"  # as in style.css
POOL = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7B3294", *OTHERS, "#8C8C8C", "#000000")
CONTRAST = 4.0  # least contrast of a line on dark ground


def coloured(figures: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The figures, every series with the colours (on light, on dark ground).

    A method has its own colour; variants of it in the same figure take others, because on the page dashes mean bounds. A label
    keeps its colour from figure to figure, a bound has the colour of its curve.
    """
    known: dict[str, str] = {}
    return [{**figure, "series": _in_one_figure(figure["series"], known)} for figure in figures]


def _in_one_figure(series: Sequence[dict[str, Any]], known: dict[str, str]) -> list[dict[str, Any]]:
    wanted = [known.get(one["label"]) or colour_of(method_of(one)) for one in series]
    chosen: list[str | None] = [None] * len(series)
    for i, one in enumerate(series):
        if one["of"] is None:
            own = wanted[i]
            chosen[i] = own if own is not None and own not in chosen else _free([*chosen, *wanted], i)
            known.setdefault(one["label"], chosen[i] or "")
    for i, one in enumerate(series):
        if one["of"] is not None:
            chosen[i] = chosen[one["of"]]
    kept = [{key: value for key, value in one.items() if key != "method"} for one in series]
    return [{**one, "colour": [c, on_dark(c)]} for one, c in zip(kept, chosen, strict=True) if c is not None]


def _free(taken: Sequence[str | None], turn: int) -> str:
    return next((colour for colour in POOL if colour not in taken), POOL[turn % len(POOL)])


def method_of(series: dict[str, Any]) -> str:
    """The method that a series shows (or a colour): said, or the first word of its label.

    >>> method_of({"method": None, "label": "FedLin, τ = 10"})
    'fedlin'
    """
    return str(series["method"] or re.split(r"[^0-9a-z_]+", series["label"].lower().strip())[0])


def on_dark(colour: str) -> str:
    """The colour, as light as it must be to be seen on dark ground; black becomes nearly white.

    >>> on_dark("#E69F00"), on_dark("#000000")
    ('#E69F00', '#E8E8E8')
    """
    if colour == "#000000":
        return "#E8E8E8"
    mixed = _channels(colour)
    while contrast(_hex(mixed), DARK_GROUND) < CONTRAST:
        mixed = [c + 0.05 * (255 - c) for c in mixed]
    return _hex(mixed)


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, 1 to 21 (WCAG 2).

    >>> contrast("#000000", "#ffffff")
    21.0
    """
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    shares = [c / 255 for c in _channels(colour)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _channels(colour: str) -> list[float]:
    return [float(int(colour[i : i + 2], 16)) for i in (1, 3, 5)]


def _hex(channels: Sequence[float]) -> str:
    return "#" + "".join(f"{round(c):02X}" for c in channels)
