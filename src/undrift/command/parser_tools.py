"""What the parsers of all sub-commands are made of. Nothing here needs JAX."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from ..errors import InputError
from ..gate import check_sound, check_value, scalar
from ..studies.schema import RunTable, field_types
from .codes import EXIT_CODES

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


def sub_command(commands: Any, name: str, summary: str, details: str, examples: str) -> argparse.ArgumentParser:
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
