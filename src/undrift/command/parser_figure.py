"""The flags of `undrift figure`. Nothing here needs JAX or Matplotlib."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from ..gate import Positive

MEASURES = "gap, relative-gap, loss, accuracy, gradient, distance, drift, or any column of history.csv"


def add_figure(command: Callable[..., argparse.ArgumentParser], of_kind: Callable[[Any], Any]) -> None:
    """The sub-command."""
    figure = command(
        "figure",
        "draw runs and comparisons for a paper, a screen or slides",
        "From what they wrote: history.csv, summary.json, bounds.csv; nothing is run. Lines are medians over seeds, bands "
        "their range; every curve has its own dashes and markers, so that grey print can be read.",
        "  undrift figure runs/demo --for paper --y gap --out gap.pdf\n"
        "  undrift figure runs/a runs/b --x bytes --width page --legend below --out figures/bytes\n"
        "  undrift figure runs/theorem --bounds --label 'fedlin=FedLin ($\\tau = 5$)' --out bound.pdf",
    )
    figure.add_argument("runs", nargs="+", metavar="RUN", help="directories that `run`, `compare` or `serve` wrote")
    figure.add_argument(
        "--for",
        dest="purpose",
        choices=["paper", "screen", "slides"],
        default="paper",
        help="paper (default): one column, 8-point serif; screen; slides: 18-point",
    )
    figure.add_argument("--y", default=None, metavar="WHAT", help=f"{MEASURES} (relative-gap, or loss without f*)")
    figure.add_argument("--x", choices=["round", "bytes", "gradients", "seconds"], default="round")
    figure.add_argument(
        "--bounds", action="store_true", help="what theorems and certificates promise, where runs know it"
    )
    look = figure.add_argument_group("look")
    look.add_argument("--width", metavar="W", help="column (88 mm), page (180 mm) or millimetres")
    look.add_argument("--height", type=of_kind(Positive), metavar="MM", help="millimetres (0.68 of the width)")
    look.add_argument("--size", type=of_kind(Positive), metavar="PT", help="size of the text in points (paper: 8)")
    look.add_argument("--font", choices=["serif", "sans"], help="paper: serif; screen and slides: sans")
    look.add_argument("--usetex", action="store_true", help="let LaTeX set all text (it must be installed)")
    look.add_argument("--legend", choices=["inside", "right", "below", "none"], default="inside")
    look.add_argument("--title", default="", help="none by default; formulas stand between dollars")
    look.add_argument("--only", nargs="+", metavar="LABEL", help="draw these curves, in this order")
    look.add_argument(
        "--label", action="append", default=[], metavar="OLD=NEW", help="another name; formulas stand between dollars"
    )
    look.add_argument(
        "--scale", choices=["log", "linear"], help="of y (log; linear for accuracies and what is below zero)"
    )
    look.add_argument("--xlim", metavar="A,B")
    look.add_argument("--ylim", metavar="A,B")
    output = figure.add_argument_group("output")
    output.add_argument(
        "--out", metavar="PATH", help="NAME.pdf, .svg or .png, or NAME for all three (WHAT-per-AXIS, in this directory)"
    )
    output.add_argument("--overwrite", action="store_true", help="replace files of that name")
    output.add_argument("--json", action="store_true", help="files and curves as JSON on standard output")
    output.add_argument("--quiet", action="store_true", help="no notes")
