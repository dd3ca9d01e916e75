"""What is kept: name -> the text as it is now."""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable
from pathlib import Path

from rich.style import Style

from undrift.command.farewell import say
from undrift.command.parser import build_parser
from undrift.command.talk import Talk
from undrift.report.advice import advice_table
from undrift.report.tables import compare_table, run_table
from undrift.report.verdict_words import comparison_words, run_words

from .made_up import advice, outcomes, result, trained
from .spoken import ask, at_widths, masked, printed

TEXTS = Path(__file__).parent / "texts"
ERRORS = (
    "rum",
    "run --method fedlim --problem quadratic",
    "run --problem quadratik --method fedlin",
    "run --method fedlin",
    "run --problem quadratic",
    "run --method fedlin --problem quadratic --rouns 5",
    "run --method fedlin --problem quadratic --rounds -3",
    "run --method fedlin --problem quadratic --rounds five",
    "run --method fedlin --problem quadratic:clientz=4",
    "run --method fedlin --problem quadratic --eta inf",
    "run --method fedlin --problem quadratic --steps 0",
    "run --method fedlin --problem quadratic --participation unifrom:3",
    "run --method fedlin --problem quadratic --resume --overwrite --out x",
    "run --out nowhere --resume",
    "run missing.toml",
    "compare --stop gap=1e-3",
    "compare --method fedlin fedlim --problem quadratic",
    "explain fedlim",
    "list metods",
    "demo --open --no-figures",
    "demo --rounds 0.5",
    "advise --problem quadratic --by time",
    "data fetch mnits",
    "partition --how exdri:2",
    "reproduce fedlin/fig99",
)
RUN = "run --problem quadratic:clients=4,dim=6 --rounds 12 --steps 3 --method fedlin --no-figures --quiet --json --out run"
TERMINAL = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLORTERM": "truecolor"}


def commands() -> list[str]:
    """All sub-commands that there are."""
    actions = build_parser()._actions
    return [name for one in actions if isinstance(one, argparse._SubParsersAction) for name in one.choices]


def cases() -> dict[str, Callable[[], str]]:
    """Name of the text -> what makes it."""
    found: dict[str, Callable[[], str]] = {
        "no-arguments": lambda: _answer(""),
        "version": lambda: json.dumps(sorted(line.split()[0] for line in ask("--version").out.splitlines())) + "\n",
        "help": functools.partial(_help, ""),
        "errors": lambda: "\n".join(_answer(words) for words in ERRORS),
        "run-json": lambda: _json(RUN),
        "list-json": lambda: _answer("list oracles --json"),
        "table-list": lambda: at_widths(lambda columns: ask("list", "compressors", columns=columns).out),
        "table-run": lambda: at_widths(functools.partial(printed, _show_run)),
        "table-compare": lambda: at_widths(functools.partial(printed, _show_comparison)),
        "table-compare-networks": lambda: at_widths(functools.partial(printed, _show_networks)),
        "table-advise": lambda: at_widths(functools.partial(printed, _show_advice)),
        "colours": lambda: _in_colour(**TERMINAL),
        "colours-no-color": lambda: _in_colour(**TERMINAL, NO_COLOR="1"),
        "colours-dumb": lambda: _in_colour(FORCE_COLOR="1", TERM="dumb"),
    }
    return found | {f"help-{name}": functools.partial(_help, name) for name in commands()}


def _in_colour(**environment: str) -> str:
    """A comparison with its colours. Rich remembers the codes of a style as the first terminal of this process had them."""
    Style.parse.cache_clear()
    Style._add.cache_clear()
    return _seen(printed(_show_comparison, **environment))


def _help(command: str) -> str:
    return at_widths(lambda columns: ask(*command.split(), "--help", columns=columns).out)


def _answer(words: str) -> str:
    said = ask(*words.split())
    return f"$ undrift {words}".rstrip() + f"\nexit code {said.code}\n{said.out}{said.err}"


def _json(words: str) -> str:
    content = masked(json.loads(ask(*words.split()).out))
    content["command"] = content["directory"] = "…"
    for part in ("versions", "files"):
        content[part] = sorted(content[part])
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _seen(text: str) -> str:
    """Escape sequences as letters."""
    return text.replace("\x1b", "␛")


def _show_run() -> None:
    talk, played = Talk(), result()
    talk.results.print(run_table("fedlin", "<quadratic: 4 clients, d = 6, float64>", played))
    say(run_words("fedlin", "fedlin", played.history, None), talk)


def _show_comparison() -> None:
    _show(outcomes(), "digits (clients = 20, classes = 2, l2 = 1.0), 250 rounds")


def _show_networks() -> None:
    _show(trained(), 'network (data = "digits", clients = 20), 20 rounds')


def _show(found: list, title: str) -> None:
    talk = Talk()
    talk.results.print(compare_table(found, title))
    say(comparison_words(found), talk)


def _show_advice() -> None:
    Talk().results.print(advice_table(advice(), "least squares: 20 clients"))
