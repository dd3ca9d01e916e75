"""The flags of what plays methods: demo, run, compare, advise, reproduce."""

from __future__ import annotations

import argparse
from typing import Any

from ..gate import Count, NotNegative, Positive, Seed
from ..studies.schema import Delta, Rounds, StepSize
from .parser_tools import NOTATION, RUN, Parser, of_kind, sub_command


def add_demo(commands: Any) -> None:
    """`undrift demo`."""
    demo = sub_command(
        commands,
        "demo",
        "compare the main methods on handwritten digits that come with undrift",
        "The study that `undrift compare` runs where nothing is asked for. It ends with a verdict, the path of the page, "
        "and what to try next.",
        "  undrift demo\n  undrift demo --open\n  undrift demo --rounds 50 --out runs/demo --overwrite",
    )
    demo.add_argument("--rounds", type=RUN["rounds"], metavar="T", help="communication rounds (250)")
    demo.add_argument("--open", action="store_true", help="show the page in the browser when it is done")
    demo.add_argument("--out", metavar="DIR", help="the run directory (default: a fresh one under runs/)")
    demo.add_argument("--overwrite", action="store_true", help="replace the run in DIR")
    demo.add_argument("--json", action="store_true", help="the summary as JSON on standard output")
    demo.add_argument("--no-figures", action="store_true", help="write no figures")
    demo.add_argument("--quiet", action="store_true", help="no progress, no notes")


def add_run(commands: Any) -> None:
    """`undrift run`."""
    run = sub_command(
        commands,
        "run",
        "run one method on one problem",
        "From flags, from a study file, or from a file with flags over it.",
        "  undrift run --method fedlin --problem least_squares --eta 1e-2 --rounds 50 --steps 20 --up top_k:75\n"
        "  undrift run study.toml --rounds 500 --out runs/long\n"
        "  undrift run --out runs/long --resume         continue a run that was stopped or killed\n\n" + NOTATION,
    )
    run.add_argument("study", nargs="?", metavar="STUDY.toml", help="a study file; its first method is run")
    run.add_argument("--method", metavar="METHOD", help="a name, or path/to/file.py:factory for your own")
    run.add_argument(
        "--eta",
        type=of_kind(StepSize),
        help="step size: a number, theorem for what its theorem asks for, or certified for the best worst case (chosen by "
        "a rule that is said if missing)",
    )
    setting = _add_setting(run)
    setting.add_argument(
        "--stop",
        metavar="WORD",
        help="end early: gap=1e-6 | patience=20,column=loss | both (whichever comes first); patience=20,keep=best keeps the "
        "model of the best round",
    )
    setting.add_argument(
        "--per-client",
        action=argparse.BooleanOptionalAction,
        help="record losses, accuracies and drift of each client too (clients.npz; of few clients unasked)",
    )
    _add_wish(setting, "--keep-iterates", "keep the model of every round (iterates.npy)")
    _add_means(run)
    _add_output(run)
    run.add_argument(
        "--checkpoint-seconds",
        type=of_kind(NotNegative),
        default=10.0,
        metavar="S",
        help="write a checkpoint every S seconds (10)",
    )
    run.add_argument(
        "--store",
        metavar="DIR",
        help="keep clients' memories in a file there, and bring only those that take part to memory (in the run's own "
        "directory where they would not fit)",
    )
    hosts = run.add_argument_group(
        "several hosts", "Start the same command in every process, with --out in a directory that all of them see."
    )
    hosts.add_argument(
        "--hosts",
        nargs="?",
        const="",
        metavar="HOST:PORT",
        help="share the clients out over all processes; where process 0 listens (default: as SLURM or Open MPI say)",
    )
    hosts.add_argument("--host-count", type=of_kind(Count), metavar="N", help="how many processes there are")
    hosts.add_argument(
        "--host-index", type=of_kind(Seed), metavar="I", help="which of them this one is: 0 … N − 1; 0 writes and shows"
    )


def add_compare(commands: Any) -> None:
    """`undrift compare`."""
    compare = sub_command(
        commands,
        "compare",
        "run several methods side by side, each over a grid of step sizes",
        "The same problem, plan and seeds for all. Without arguments: the main methods on embedded digits.",
        "  undrift compare --out runs/demo\n"
        "  undrift compare study.toml --rounds 200\n"
        "  undrift compare --problem quadratic:L=100 --method fedavg scaffold fedlin --steps 2..20:fixed\n\n"
        + NOTATION,
    )
    compare.add_argument("study", nargs="?", metavar="STUDY.toml", help="a study file; all its methods are run")
    compare.add_argument("--method", nargs="+", action="extend", metavar="METHOD", help="one or more methods")
    compare.add_argument(
        "--eta",
        type=of_kind(StepSize),
        nargs="+",
        help="the grid of step sizes, for every method; theorem and certified may be among them",
    )
    compare.add_argument("--seeds", type=RUN["seeds"], help="number of seeds (1); a step is judged by its worst one")
    compare.add_argument(
        "--refine",
        type=RUN["refine"],
        nargs="?",
        const=8,
        metavar="N",
        help="widen a grid while its best value lies at an edge, then look once closer around it: at most N values more per "
        "method (8)",
    )
    _add_setting(compare)
    _add_means(compare)
    _add_output(compare)


def add_reproduce(commands: Any) -> None:
    """`undrift reproduce`."""
    summary = "run published figures, tables and theorems, and decide what they claim"
    reproduce = commands.add_parser("reproduce", help=summary, formatter_class=argparse.RawDescriptionHelpFormatter)
    reproduce.completed_by = _complete_reproduce


def _complete_reproduce(parser: Parser) -> None:
    from .reproduce import application

    application().add_arguments(parser)


def add_advise(commands: Any) -> None:
    """`undrift advise`."""
    advise = sub_command(
        commands,
        "advise",
        "say which method, step size, local steps and compression to use, and why",
        "Rounds to the target are predicted (exactly on quadratics), and measured with --measure; costs follow from them.",
        "  undrift advise --problem least_squares:alpha=50 --target 1e-6\n"
        "  undrift advise --problem digits --speeds 5..100 --link up=1e5,down=1e6,latency=0.1 --measure --out runs/advice\n"
        "  undrift advise study.toml --by bytes --steps 1 10 50\n"
        "  undrift advise --problem network:data=digits --on accuracy --target 0.9 --measure --rounds 50\n\n"
        + NOTATION,
    )
    advise.add_argument(
        "study", nargs="?", metavar="STUDY.toml", help="a study file: its problem and its plan are used"
    )
    advise.add_argument("--problem", metavar="PROBLEM", help="a name with arguments, see `undrift list`")
    advise.add_argument("--target", type=of_kind(Positive), default=1e-6, help="f − f* ≤ target·(f₀ − f*) (1e-6)")
    advise.add_argument("--absolute", action="store_true", help="the target is f − f* itself")
    advise.add_argument(
        "--on",
        choices=["gap", "loss", "accuracy"],
        default="gap",
        help="what the target is of; loss, accuracy: measured",
    )
    advise.add_argument("--steps", nargs="+", metavar="τ", help="numbers of local steps to consider (1 2 5 10 20 50)")
    advise.add_argument(
        "--method",
        nargs="+",
        action="extend",
        metavar="METHOD",
        help="consider these only: names, or path/to/file.py:factory for your own",
    )
    advise.add_argument(
        "--by",
        choices=["seconds", "bytes", "rounds", "gradients"],
        default="seconds",
        help="what is minimised (seconds)",
    )
    _add_means(advise)
    setting = advise.add_argument_group("setting")
    setting.add_argument(
        "--participation", metavar="WORD", help="full, uniform:N, weighted:N, permuted:N (but full: measured)"
    )
    setting.add_argument(
        "--failures", type=RUN["failures"], metavar="P", help="probability that a client does not answer"
    )
    _add_availability(setting)
    setting.add_argument("--oracle", metavar="WORD", help="full, minibatch:B or noisy:VARIANCE (but full: measured)")
    setting.add_argument("--seed", type=RUN["seed"], help="seed of the runs (data have their own: data_seed)")
    setting.add_argument(
        "--measure", action="store_true", help="run the candidates, over step sizes around the predicted ones"
    )
    setting.add_argument(
        "--rounds", type=of_kind(Rounds), default=2000, metavar="T", help="most rounds of a measured run (2000)"
    )
    output = advise.add_argument_group("output")
    output.add_argument("--out", metavar="DIR", help="write advice.json, .csv, .md, .png, .svg there")
    output.add_argument("--overwrite", action="store_true", help="replace the advice in DIR")
    output.add_argument("--json", action="store_true", help="the advice as JSON on standard output")
    output.add_argument("--no-figures", action="store_true", help="draw no figure")
    output.add_argument("--quiet", action="store_true", help="no progress, no notes")


def _add_availability(group: Any) -> None:
    group.add_argument(
        "--availability",
        metavar="FILE.csv",
        help="who is there in which round; FILE.csv:absent=silent,after=repeat says more of others and of later rounds",
    )


def _add_wish(group: Any, flag: str, text: str) -> None:
    """A flag that says yes; None: it says nothing, and a study file may."""
    group.add_argument(flag, action="store_const", const=True, help=text)


def _add_setting(parser: argparse.ArgumentParser) -> Any:
    setting = parser.add_argument_group("setting")
    setting.add_argument("--problem", metavar="PROBLEM", help="a name with arguments, see `undrift list`")
    setting.add_argument("--rounds", type=RUN["rounds"], metavar="T", help="how many rounds of communication")
    setting.add_argument("--steps", metavar="τ", help="local steps, see below")
    setting.add_argument("--participation", metavar="WORD", help="full, uniform:N, weighted:N or permuted:N")
    setting.add_argument(
        "--failures", type=RUN["failures"], metavar="P", help="probability that a client does not answer"
    )
    _add_availability(setting)
    setting.add_argument("--oracle", metavar="WORD", help="full, minibatch:B or noisy:VARIANCE")
    setting.add_argument("--up", metavar="WORD", help="compressor of what clients send")
    setting.add_argument("--down", metavar="WORD", help="compressor of what the server sends")
    setting.add_argument(
        "--clip", type=of_kind(Positive), metavar="C", help="private: norm that messages up are clipped to"
    )
    setting.add_argument(
        "--noise",
        type=of_kind(NotNegative),
        metavar="σ",
        help="private: standard deviation of the noise, in units of C",
    )
    setting.add_argument("--delta", type=of_kind(Delta), metavar="δ", help="private: where epsilon is counted (1e-5)")
    setting.add_argument("--noise-by", choices=["client", "server"], help="private: who adds the noise (client)")
    setting.add_argument("--seed", type=RUN["seed"], help="seed of the run (data have their own: data_seed)")
    setting.add_argument("--record-every", type=RUN["record_every"], metavar="N", help="evaluate f every N rounds")
    setting.add_argument(
        "--on-divergence", choices=["stop", "continue"], help="stop (exit code 3), or play on to study it"
    )
    setting.add_argument(
        "--devices",
        type=of_kind(Count),
        metavar="N",
        help="devices of the CPU that share the clients (`run` of networks with convolutions: all cores; else 1)",
    )
    _add_wish(setting, "--diagnostics", "record what the method says about itself too")
    setting.add_argument(
        "--trust", action="store_true", help="run the programs (file.py:factory) that the study file names, unasked"
    )
    return setting


def _add_means(parser: argparse.ArgumentParser) -> None:
    means = parser.add_argument_group("means", "What turns work and bytes into (virtual) seconds.")
    means.add_argument("--speeds", metavar="S", help="gradients per second: 100 | 10,20,40 | 10..1000 (100)")
    means.add_argument("--link", metavar="WORDS", help="bytes/s and seconds: up=1e6,down=1e7,latency=0.05 (these)")


def _add_output(parser: argparse.ArgumentParser) -> None:
    output = parser.add_argument_group("output")
    output.add_argument("--out", metavar="DIR", help="the run directory (default: a fresh one under runs/)")
    again = output.add_mutually_exclusive_group()
    again.add_argument("--overwrite", action="store_true", help="replace the run in DIR")
    again.add_argument("--resume", action="store_true", help="continue the run in DIR; same bits as without a break")
    output.add_argument("--json", action="store_true", help="the summary as JSON on standard output")
    output.add_argument(
        "--track",
        action="append",
        metavar="WORD",
        help="hand rounds to tensorboard[:DIR], mlflow[:URI], wandb[:PROJECT] or trackio[:PROJECT]; may be given several times",
    )
    output.add_argument("--no-figures", action="store_true", help="write no figures")
    output.add_argument("--quiet", action="store_true", help="no progress, no notes")
