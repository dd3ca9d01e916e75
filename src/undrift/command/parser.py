"""The flags of all sub-commands. Nothing here needs JAX."""

from __future__ import annotations

import argparse
import difflib
import functools
import re
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from ..errors import InputError
from ..gate import Count, NotNegative, Positive, Seed, check_sound, check_value, scalar
from ..studies.schema import Delta, Rounds, RunTable, StepSize, field_types
from . import board, certs, completion
from .codes import EXIT_CODES
from .parser_deploy import add_deployment
from .parser_figure import add_figure

EXIT_TEXT = "exit codes: " + ", ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items())
NOTATION = """names with arguments are written name:value,key=value, here as in study files:
  --problem least_squares:alpha=50,data_seed=3      --method fedprox:beta=0.1
  --problem network:data=digits,model=mlp,clients=20,partition=exdir:classes=2,alpha=10
  --up top_k:75      --down top_k:50,memory=false   --oracle minibatch:20   --participation uniform:10
  --participation uniform:10,renormalise=true       --stop gap=1e-6,patience=20
steps: 20 | 5,10,20 (one per client) | 2..100 (anew every round) | 2..100:fixed (once per client) | 2..100:common (all alike)
  geometric:0.1 (a coin each) | geometric:0.1:common | piecewise:1=20,101=5 | linear_schedule:init_value=20,… | file.py:rule
--up, --down, --oracle, --participation, --steps and --stop take path/to/file.py:factory of your own, as --method does"""


class Parser(argparse.ArgumentParser):
    """Complaints name the nearest valid word."""

    completed_by: Callable[[Parser], None] | None = None  # adds flags that nobody needs before this parser is asked

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self.completed_by is not None:
            self.completed_by(self)
        for word in sys.argv[1:] if args is None else args:
            check_sound("an argument", word)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        message = re.sub(r"^argument (--[a-z-]+): it ", r"\1 ", message)  # a kind calls what it refuses "it"
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: error: {message}{self._hint(message)}\n")

    def _hint(self, message: str) -> str:
        wrong = message.partition("invalid choice: ")[2].partition(" (")[0] or message
        words = [word.strip("'\",:()") for word in wrong.split()]
        valid = [option for action in self._actions for option in action.option_strings]
        valid += [choice for action in self._actions if isinstance(action.choices, list) for choice in action.choices]
        owners: dict[str, list[str]] = {}  # of the flags of sub-commands
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                valid += list(action.choices)
                for name, sub in action.choices.items():
                    for option in (option for inner in sub._actions for option in inner.option_strings):
                        owners.setdefault(option, []).append(name)
        valid += list(owners)
        for word in words:
            head = word.partition("=")[0]
            if head in owners and message.startswith("unrecognized arguments"):
                return f"; {head} is a flag of {', '.join(f'`undrift {name}`' for name in owners[head])}"
            if head in valid or not (head.startswith("--") or "invalid choice" in message):
                continue
            close = difflib.get_close_matches(head, valid, n=1, cutoff=0.6)
            if close:
                return f"; did you mean {close[0]}?"
        return ""


def build_parser() -> Parser:
    parser = Parser(
        prog="undrift",
        description="Federated optimisation that arrives at the right answer.",
        epilog="examples:\n"
        "  undrift demo --open                          the main methods on embedded data, and their page in the browser\n"
        "  undrift compare                              the same; your own problem, methods and grids with flags or a file\n"
        "  undrift run --method fedlin --problem least_squares --rounds 50 --steps 20\n"
        "  undrift reproduce fedlin/fig2                a figure of a paper, and whether its claims hold\n"
        "  undrift advise --problem least_squares       which method, step size and local steps, and why\n"
        "  undrift figure runs/demo --for paper         a run or comparison as PDF, sized for a journal\n"
        "  undrift explain fedlin --up top_k:50         a round as a message diagram, with sizes\n"
        "  undrift export runs/demo --method fedlin --to sklearn   its model for other programs, with a card\n"
        "  undrift list                                 methods, problems, compressors, oracles, participation\n"
        "  undrift schema                               the JSON Schema of study files, for editors\n"
        "  undrift partition --data digits --clients 20 --how exdir:classes=2,alpha=10 --out runs/parts\n"
        "  undrift data                                 data sets, and where they are\n"
        "  undrift rehearse --chaos 3                   deploy on this machine, kill processes, compare with the simulation\n"
        "  undrift serve study.toml --certs pki/server  a real deployment: certs, serve, join, replay\n"
        "  undrift board runs                           watch runs in a browser as they go on\n\n" + EXIT_TEXT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="show the versions of undrift and its libraries")
    parser.add_argument(
        "--compiled",
        metavar="DIR",
        help="keep compiled programs there, off for nowhere (else $UNDRIFT_COMPILED, else in the user's cache)",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    _add_demo(commands)
    _add_run(commands)
    _add_compare(commands)
    _add_advise(commands)
    _add_reproduce(commands)
    _add_export(commands)
    add_figure(functools.partial(_command, commands), of_kind)
    _add_explain(commands)
    _add_list(commands)
    _add_schema(commands)
    _add_partition(commands)
    _add_data(commands)
    certs.add_parser(commands)
    add_deployment(functools.partial(_command, commands), of_kind)
    board.add_parser(functools.partial(_command, commands), of_kind)
    completion.add_parser(functools.partial(_command, commands))
    return parser


def _command(commands: Any, name: str, summary: str, details: str, examples: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}. {details}",
        epilog=f"examples:\n{examples}\n\n{EXIT_TEXT}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return made


def of_kind(kind: Any) -> Callable[[str], Any]:
    """What a flag's word means, of the kinds that study files know too; refuses what is not of this kind."""

    def read(word: str) -> Any:
        try:
            return check_value("it", scalar(word), kind)
        except InputError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


RUN = {key: of_kind(kind) for key, kind in field_types(RunTable).items()}  # flags that are keys of the table [run]


def _add_demo(commands: Any) -> None:
    demo = _command(
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


def _add_run(commands: Any) -> None:
    run = _command(
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


def _add_compare(commands: Any) -> None:
    compare = _command(
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


def _add_reproduce(commands: Any) -> None:
    summary = "run published figures, tables and theorems, and decide what they claim"
    reproduce = commands.add_parser("reproduce", help=summary, formatter_class=argparse.RawDescriptionHelpFormatter)
    reproduce.completed_by = _complete_reproduce


def _complete_reproduce(parser: Parser) -> None:
    from .reproduce import application

    application().add_arguments(parser)


def _add_advise(commands: Any) -> None:
    advise = _command(
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


def _add_export(commands: Any) -> None:
    export = _command(
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


def _add_explain(commands: Any) -> None:
    explain = _command(
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


def _add_list(commands: Any) -> None:
    listing = _command(
        commands,
        "list",
        "list methods, problems, compressors, oracles and participation",
        "With the parameters that each takes.",
        "  undrift list\n  undrift list problems\n  undrift list --json",
    )
    listing.add_argument("what", nargs="?", help="one of methods, problems, compressors, oracles, participation")
    listing.add_argument("--json", action="store_true", help="as JSON on standard output")


def _add_schema(commands: Any) -> None:
    _command(
        commands,
        "schema",
        "print the JSON Schema of study files",
        "Editors complete and check study files by it; a study names it in its first line, #:schema ./study.schema.json.",
        "  undrift schema > study.schema.json",
    )


def _add_partition(commands: Any) -> None:
    partition = _command(
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


def _add_data(commands: Any) -> None:
    data = _command(
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
