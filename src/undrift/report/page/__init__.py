"""One HTML file that shows a run, a comparison or a reproduction: it needs no network and no other file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from ...files import write_text
from . import parts
from .check import checked, plain
from .palette import coloured
from .script import PAGE, script

__all__ = ["write_page"]

STYLES = ("style.css", "lanes.css")


def write_page(path: str | Path, document: Mapping[str, Any]) -> Path:
    """Write `document` as one self-contained page and return its path.

    The keys of a document, of which only the title is compulsory:

    | key | what it holds |
    |---|---|
    | title, subtitle, command | words; the command is what makes the page again |
    | verdict | {headline, others, meaning}: what came of it, in words; the page begins with it |
    | versions, seeds | {name: version}; a list |
    | setting | a list of {key, value, source, note}; source is "paper", "ours", "given", "rule" or another word |
    | claims | a list of {sentence, holds, measured, paper, margin, explanation} |
    | figures | a list of {title, note, y_label, y_scale, x_scale, floor, series} |
    | lanes | a list of {title, note, lanes}, a lane being {name, mark, samples, steps, rounds, curves}; curves by measure |
    | tables | a list of {title, note, columns, rows} |
    | pictures | a list of {title, note, svg_or_png_path}; the file is put into the page |
    | presence | what is known of the clients along the run (`report.lanes`) |
    | exchange | rounds as messages (`report.exchanges`) |

    A series is {label, kind, x, y, low, high, method, of, thin, pooled}: kind is "measured" or "bound", x maps axes ("round",
    "bytes", "gradients", "seconds" or a name of your own) to columns as long as y. Values that are not finite are left out of
    the curve. `method` chooses the look, by its name or as "#rrggbb" (the label does where it is missing), `of` the measured
    series that a bound belongs to (else the one whose label the bound's begins with, else the one before it); `thin` lines are
    there for comparison; `pooled` says that all data are in one place. At or below `floor` a value counts as rounding.

    >>> import tempfile
    >>> curve = {"label": "fedlin", "kind": "measured", "x": {"round": [0, 1, 2]}, "y": [1.0, 0.1, float("nan")]}
    >>> figure = {"title": "Gap", "y_label": "f − f*", "y_scale": "log", "series": [curve]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_page(Path(folder) / "page.html", {"title": "A run", "figures": [figure]})
    ...     text = page.read_text(encoding="utf-8")
    >>> '"y":[1.0,0.1,null]' in text, "https:" in text
    (True, False)
    """
    content = checked(document)
    data = json.dumps(as_data(content), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    page = Template(_file("template.html")).substitute(
        title=parts.text(content["title"]),
        description=parts.text(content["subtitle"] or content["title"]),
        header=parts.header(content),
        sections="\n".join(parts.sections(content)),
        style="".join(map(_file, STYLES)),
        script=script(*PAGE),
        data=data.replace("<", "\\u003c"),  # nothing in the data can end the element that holds them
    )
    target = Path(path)
    write_text(target, page)
    return target


def as_data(content: Mapping[str, Any]) -> dict[str, Any]:
    """A document that was checked, as JSON: what the script draws, and the words that the board shows the same page from."""
    words = plain({key: entry for key, entry in content.items() if key != "figures"})
    return {**words, "figures": coloured(content["figures"])}


def _file(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")
