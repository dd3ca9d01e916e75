"""`undrift partition`: who gets which samples, drawn, measured and written down."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from .. import files
from ..data import Dataset, Heterogeneity, Parts, bubble_figure, describe, load, to_map
from ..errors import InputError
from ..ownership import owned
from ..studies.networks import model_builder
from ..studies.partition import draw_parts
from . import codes
from .directory import names_in, writable
from .dissimilarity import Dissimilarity, dissimilarity
from .talk import Talk

MAP, FIGURE, NUMBERS = "parts.json", "partition", "describe"


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    talk = Talk(arguments.quiet, arguments.json)
    build = model_builder(arguments.model)
    out = None if arguments.out is None else checked_place(Path(arguments.out), arguments.overwrite)
    places = {"data_dir": arguments.data_dir, "cache_dir": arguments.cache_dir, "mirror": arguments.mirror}
    dataset = load(arguments.data, progress=talk.watched, **places)
    parts = draw_parts(arguments.how, dataset, arguments.clients, arguments.seed)
    figures = describe(parts, dataset.train.y, num_classes=dataset.classes)
    zeta = dissimilarity(build(dataset), dataset.train, parts, arguments.seed)
    summary = summary_of(arguments, figures, zeta)
    if out is not None:
        with owned(out):
            checked_place(out, arguments.overwrite)  # again: somebody else may have been faster
            to_map(parts, out / MAP)  # by which the directory is known
            write_numbers(out, summary, figures, zeta)
            if not arguments.no_figures:
                write_picture(out, parts, dataset, f"{arguments.data}, {arguments.how}")
    if arguments.json:
        print(json.dumps(summary, indent=2, ensure_ascii=False))
    else:
        talk.results.print(_table(summary))
        for line in _lines(summary):
            talk.results.print(line, markup=False)
    if out is not None:
        talk.note(f"written to {out}")
    return codes.OK


def checked_place(out: Path, overwrite: bool) -> Path:
    """The directory to write into, if nothing in it would be lost by accident."""
    if names_in(out):
        if not overwrite:
            raise InputError(f"{out} already holds files: choose another directory, or --overwrite")
        if not (out / MAP).exists():
            raise InputError(f"{out} holds files that are not a partition of undrift: choose another directory")
    return writable(out)


def summary_of(arguments: argparse.Namespace, figures: Heterogeneity, zeta: Dissimilarity) -> dict[str, Any]:
    """The figures of a partition, for machines."""
    columns = {
        "samples": figures.sizes,
        "classes": figures.classes,
        "label_entropy": figures.entropy,
        "total_variation": figures.distance[figures.sizes > 0],
    }
    return {
        "data": arguments.data,
        "how": arguments.how,
        "seed": arguments.seed,
        "clients": int(figures.sizes.size),
        **{name: _spread(values) for name, values in columns.items()},
        "pairwise_total_variation": figures.pairwise,
        "zeta": {
            "model": arguments.model,
            "parameters": zeta.parameters,
            "max": float(zeta.distances.max()),
            "root_mean_square": float(np.sqrt(np.mean(zeta.distances**2))),
            "gradient_norm": zeta.gradient_norm,
        },
    }


def _spread(values: Any) -> dict[str, float]:
    return {
        "min": float(values.min()),
        "median": float(np.median(values)),
        "mean": float(values.mean()),
        "max": float(values.max()),
    }


def write_numbers(out: Path, summary: dict[str, Any], figures: Heterogeneity, zeta: Dissimilarity) -> None:
    """describe.json: the summary; describe.csv: one row per client."""
    files.write_json(out / f"{NUMBERS}.json", summary)
    own = ["client", "samples", "classes", "label_entropy", "total_variation", "gradient_distance"]
    columns = (figures.sizes, figures.classes, figures.entropy, figures.distance, zeta.distances, *figures.counts.T)
    rows = enumerate(zip(*(column.tolist() for column in columns), strict=True))
    head = [*own, *(f"class_{c}" for c in range(figures.counts.shape[1]))]
    files.write_csv(out / f"{NUMBERS}.csv", [head, *([client, *row] for client, row in rows)])


def write_picture(out: Path, parts: Parts, dataset: Dataset, title: str) -> None:
    """The bubble picture, as PNG and SVG."""
    from ..report.figures import write_figure

    names = dataset.group_names if dataset.group_names and len(dataset.group_names) == len(parts) else None
    figure = bubble_figure(
        parts,
        dataset.train.y,
        title=title,
        class_names=dataset.class_names,
        client_names=names,
        num_classes=dataset.classes,
    )
    write_figure(figure, out / f"{FIGURE}.png")
    write_figure(figure, out / f"{FIGURE}.svg")


def _lines(summary: dict[str, Any]) -> list[str]:
    zeta = summary["zeta"]
    return [
        f"total variation between two clients, on average: {summary['pairwise_total_variation']:.3f}",
        f"ζ = ‖∇f_i(x) − ∇f(x)‖: largest {zeta['max']:.4g}, root mean square {zeta['root_mean_square']:.4g}, "
        f"where ‖∇f(x)‖ = {zeta['gradient_norm']:.4g};",
        f"  x: {zeta['model']}, {zeta['parameters']:,} parameters, as a run with seed {summary['seed']} starts",
    ]


def _table(summary: dict[str, Any]) -> Any:
    from ..report.plain import plain_table

    table = plain_table(f"{summary['clients']:,} clients: {summary['data']}, {summary['how']}")
    table.add_column("per client", no_wrap=True)
    for name in ("min", "median", "max"):
        table.add_column(name, justify="right", no_wrap=True)
    rows = {
        "samples": "samples",
        "classes": "classes",
        "label_entropy": "label entropy, bits",
        "total_variation": "total variation from all",
    }
    for key, words in rows.items():
        digits = ",.0f" if key in ("samples", "classes") else ".3f"
        table.add_row(words, *(format(summary[key][name], digits) for name in ("min", "median", "max")))
    return table
