"""The flags of what looks at methods, runs and data: export, explain, list, schema, partition, data."""

from __future__ import annotations

import argparse
from typing import Any

from ..gate import Count, Seed
from .parser_tools import RUN, of_kind, sub_command


def add_export(commands: Any) -> None:
    """`undrift export`."""
    export = sub_command(
        commands,
        "export",
        "take the model of a run elsewhere, with its card",
        "As a fitted estimator of scikit-learn, as named arrays, or for Flax; model-card.md says what it is and how good.",
        "  undrift export runs/heart --to sklearn       a pipeline for raw features, by joblib\n"
        "  undrift export runs/heart --to npz --out heart.npz\n"
        "  undrift export runs/compare-digits-001 --method fedlin --to flax\n"
        "  undrift export runs/heart --card             the model card alone",
    )
    export.add_argument("run", metavar="RUN", help="the directory of a run, of a comparison or of a deployed run")
    export.add_argument("--to", choices=["sklearn", "npz", "flax"], help="what it becomes")
    export.add_argument("--method", metavar="LABEL", help="of a comparison: whose model, at its best step")
    export.add_argument("--card", action="store_true", help="the model card alone, where nothing else is asked for")
    export.add_argument("--out", metavar="FILE", help="where to write (in RUN); the card goes beside it")
    export.add_argument("--overwrite", action="store_true", help="replace what is at FILE")
    export.add_argument("--json", action="store_true", help="what was written, as JSON on standard output")
    export.add_argument("--quiet", action="store_true", help="no notes")


def add_explain(commands: Any) -> None:
    """`undrift explain`."""
    explain = sub_command(
        commands,
        "explain",
        "show a method's round as a message diagram with sizes, and its mathematics",
        "Everything is read from the method's program, so it works for your own methods too.",
        "  undrift explain fedlin\n"
        "  undrift explain fedlin --dim 100 --up top_k:50\n"
        "  undrift explain fedlin:table=true --failures 0.1\n"
        "  undrift explain my_method.py:factory --steps 10",
    )
    explain.add_argument(
        "method", metavar="METHOD", help="a name, or path/to/file.py:factory; with --deployed a study file"
    )
    explain.add_argument(
        "--deployed",
        action="store_true",
        help="of STUDY.toml: the contract that `undrift serve` would show to its sites",
    )
    explain.add_argument("--trust", action="store_true", help="run the program that the study file names, unasked")
    explain.add_argument("--dim", type=of_kind(Count), default=100, metavar="D", help="length of the model (100)")
    explain.add_argument(
        "--steps", type=of_kind(Count), metavar="τ", help="local steps, for the count of gradients (10)"
    )
    explain.add_argument(
        "--failures", type=RUN["failures"], metavar="P", help="above 0: the round where clients may miss rounds"
    )
    explain.add_argument("--up", metavar="WORD", help="compressor of what clients send")
    explain.add_argument("--down", metavar="WORD", help="compressor of what the server sends")
    explain.add_argument("--dtype", choices=["float32", "float64"], default="float64")
    explain.add_argument("--json", action="store_true", help="as JSON on standard output")


def add_list(commands: Any) -> None:
    """`undrift list`."""
    listing = sub_command(
        commands,
        "list",
        "list methods, problems, compressors, oracles and participation",
        "With the parameters that each takes.",
        "  undrift list\n  undrift list problems\n  undrift list --json",
    )
    listing.add_argument("what", nargs="?", help="one of methods, problems, compressors, oracles, participation")
    listing.add_argument("--json", action="store_true", help="as JSON on standard output")


def add_schema(commands: Any) -> None:
    """`undrift schema`."""
    sub_command(
        commands,
        "schema",
        "print the JSON Schema of study files",
        "Editors complete and check study files by it; a study names it in its first line, #:schema ./study.schema.json.",
        "  undrift schema > study.schema.json",
    )


def add_partition(commands: Any) -> None:
    """`undrift partition`."""
    partition = sub_command(
        commands,
        "partition",
        "share a data set out among clients, draw the picture, and print how much they differ",
        "Label entropy, total variation, and ζ: how far clients' gradients lie apart at the initial model.",
        "  undrift partition --clients 10 --how iid\n"
        "  undrift partition --data digits --clients 20 --how exdir:classes=2,alpha=10 --seed 0 --out runs/parts\n"
        "  undrift partition --data mnist-writers --how by_group --model lenet5\n"
        "  undrift partition --how from_map:runs/parts/parts.json\n\n"
        "how: iid | dirichlet:alpha=A | pathological:classes=C | exdir:classes=C,alpha=A | by_group | from_map:PATH\n"
        "     each also with min_size=N, the least number of samples of a client (1)",
    )
    partition.add_argument("--data", default="digits", metavar="NAME", help="a data set, see `undrift data` (digits)")
    partition.add_argument(
        "--clients", type=of_kind(Count), metavar="M", help="20 if missing; by_group and from_map know it"
    )
    partition.add_argument("--how", default="exdir:classes=2,alpha=10", metavar="WORD", help="the partition, see below")
    partition.add_argument(
        "--seed", type=of_kind(Seed), default=0, help="of the partition and of the initial model (0)"
    )
    partition.add_argument(
        "--model",
        default="softmax_regression",
        metavar="MODEL",
        help="for ζ: softmax_regression (default), mlp, lenet5, femnist_cnn, femnist_cnn_unpadded, vgg11",
    )
    output = partition.add_argument_group("output")
    output.add_argument("--out", metavar="DIR", help="write parts.json, describe.json, .csv, partition.png, .svg there")
    output.add_argument("--overwrite", action="store_true", help="replace the partition in DIR")
    output.add_argument("--json", action="store_true", help="the figures as JSON on standard output")
    output.add_argument("--no-figures", action="store_true", help="draw no picture")
    output.add_argument("--quiet", action="store_true", help="no progress, no notes")
    _add_sources(partition)


def add_data(commands: Any) -> None:
    """`undrift data`."""
    data = sub_command(
        commands,
        "data",
        "list, fetch and verify data sets; describe tables of your own",
        "Data sets are looked for in the data directory, then in the cache of downloads.",
        "  undrift data\n"
        "  undrift data fetch mnist fmnist              download into the cache, checksums verified\n"
        "  undrift data verify mnist --data-dir ~/data  is this copy well formed, and the published one?\n"
        "  undrift data describe patients.csv --label ill --client hospital\n"
        "  undrift data describe hospitals/*.csv --label ill     one file per client",
    )
    data.add_argument("action", nargs="?", choices=["list", "fetch", "verify", "describe"], default="list",
                      metavar="ACTION", help="list (default), fetch, verify or describe")  # fmt: skip
    data.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="data sets, as `undrift data` names them; of describe: files or folders",
    )
    data.add_argument("--json", action="store_true", help="as JSON on standard output")
    describe = data.add_argument_group("describe")
    describe.add_argument("--label", metavar="COLUMN", help="the column to predict: how its values are spread")
    describe.add_argument("--client", metavar="COLUMN", help="the column that says whose each row is")
    describe.add_argument("--separator", choices=["comma", "semicolon", "tab"], help="of columns (found out)")
    describe.add_argument("--decimal", choices=["point", "comma"], help="of numbers (found out)")
    describe.add_argument("--encoding", choices=["cp1252", "latin-1", "utf-16"], help="of text (utf-8)")
    _add_sources(data)


def _add_sources(parser: argparse.ArgumentParser) -> None:
    sources = parser.add_argument_group("sources of data")
    sources.add_argument("--data-dir", metavar="DIR", help="your data files (else $UNDRIFT_DATA)")
    sources.add_argument("--cache-dir", metavar="DIR", help="downloads (else $UNDRIFT_CACHE, else the user's cache)")
    sources.add_argument("--mirror", metavar="URL", help="download from URL/name/file (else $UNDRIFT_MIRROR)")
