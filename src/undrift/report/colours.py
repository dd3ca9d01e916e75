"""Colours by numbers: how much they differ, and the same hue for dark ground, for terminals and for variants."""

from __future__ import annotations

from collections.abc import Sequence

DARK_GROUND = "#1a1d21"  # of the page, as in style.css
CONTRAST = 4.0  # least contrast of a line on dark ground
READABLE = 3.0  # least contrast of a word on a terminal, black or white
BLACK, WHITE = "#000000", "#FFFFFF"
NEARLY_WHITE = "#E8E8E8"
STEP = 0.05
DARK = 0.18  # luminance up to which shades become lighter, and beyond which darker
SHADES = (0.0, 0.35, 0.6)


def on_dark(colour: str) -> str:
    """The colour, as light as it must be to be seen on dark ground; black becomes nearly white.

    >>> on_dark("#E69F00"), on_dark("#000000")
    ('#E69F00', '#E8E8E8')
    """
    return NEARLY_WHITE if colour == BLACK else _until(colour, WHITE, DARK_GROUND, CONTRAST)


def on_terminal(colour: str) -> str | None:
    """The colour, so that it can be read on black and on white; None (the terminal's own) for black.

    >>> on_terminal("#D55E00"), on_terminal("#000000")
    ('#D55E00', None)
    """
    return None if colour == BLACK else _until(_until(colour, WHITE, BLACK, READABLE), BLACK, WHITE, READABLE)


def shade(colour: str, number: int) -> str:
    """The same hue, a bit lighter or darker: itself, then two more.

    >>> shade("#D55E00", 0), shade("#D55E00", 1) == shade("#D55E00", 4)
    ('#D55E00', True)
    """
    other = WHITE if luminance(colour) < DARK else BLACK
    return _mixed(colour, other, SHADES[number % len(SHADES)])


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, 1 to 21 (WCAG 2).

    >>> contrast("#000000", "#ffffff")
    21.0
    """
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    """Relative luminance, 0 to 1 (WCAG 2)."""
    shares = [c / 255 for c in _channels(colour)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _until(colour: str, towards: str, ground: str, enough: float) -> str:
    mixed = colour
    while contrast(mixed, ground) < enough:
        mixed = _mixed(mixed, towards, STEP)
    return mixed


def _mixed(colour: str, other: str, part: float) -> str:
    if not part:
        return colour
    return _hex([a + part * (b - a) for a, b in zip(_channels(colour), _channels(other), strict=True)])


def _channels(colour: str) -> list[float]:
    return [float(int(colour[i : i + 2], 16)) for i in (1, 3, 5)]


def _hex(channels: Sequence[float]) -> str:
    return "#" + "".join(f"{round(c):02X}" for c in channels)
