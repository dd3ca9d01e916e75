"""The look of all tables on the terminal. Nothing here needs JAX."""

from __future__ import annotations

from rich import box
from rich.table import Table

LEAST_NAME = 9  # letters of a name's column; longer names are folded


def plain_table(title: str | None = None, caption: str | None = None) -> Table:
    """A table with a rule below its head and no other lines."""
    return Table(
        title=title,
        caption=caption,
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        title_justify="left",
        caption_justify="left",
        title_style="bold",
        caption_style="dim",
    )
