"""The script of the page, in pieces that the board uses too. No library, no network."""

from __future__ import annotations

from importlib import resources

DRAWING = ("words", "scales", "elements", "drawing", "figure", "lanes", "switches")  # each uses those before it
PAGE = (*DRAWING, "page")


def script(*pieces: str) -> str:
    """The pieces as one script, whose names nobody else sees.

    >>> script(*PAGE).startswith("(() => {") and "class Figure" in script(*PAGE)
    True
    """
    folder = resources.files(__package__)
    return wrapped(*((folder / f"{name}.js").read_text(encoding="utf-8") for name in pieces))


def wrapped(*sources: str) -> str:
    """These sources as one script."""
    return "\n".join(["(() => {", '"use strict";', "", *sources, "})();"])
