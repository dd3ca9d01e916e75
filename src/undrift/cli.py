"""The command `undrift`: names become objects, objects are called, errors become exit codes."""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .command import codes, facts
from .command.complaints import complain
from .command.parser import build_parser
from .command.streams import no_interrupt_is_lost, patient_streams
from .errors import InputError, StorageError
from .report import aside

NAMES = ("demo", "run", "compare", "advise", "reproduce", "figure", "export", "explain", "partition", "data", "schema",
         "certs", "serve", "join", "rehearse", "replay", "board", "completion")  # fmt: skip
SELDOM = (100_000, 50, 100)  # when Python looks for garbage
DRAWN_ASIDE = ("demo", "run", "compare")  # with figures, for which Matplotlib is imported while JAX is
COMMANDS = {name: name for name in NAMES} | {"list": "listing"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (see `command.codes`)."""
    if argv is not None:
        return _uninterrupted(argv)
    # In a process of its own most of what imports and traces make lasts to its end: Python looks for garbage in vain.
    gc.set_threshold(*SELDOM)
    code = _uninterrupted(argv)
    gc.freeze()
    return code


def _uninterrupted(argv: Sequence[str] | None) -> int:
    try:
        with no_interrupt_is_lost():
            return _main(argv)
    except KeyboardInterrupt:  # once more, while the last words were said
        return codes.INTERRUPTED


def _main(argv: Sequence[str] | None) -> int:
    with patient_streams() as output:
        try:
            code = _execute(sys.argv[1:] if argv is None else list(argv))
        except (Exception, KeyboardInterrupt) as error:
            code = complain(error)
        output.flush()
        if output.refusal is not None and code == codes.OK:
            code = complain(StorageError.of("standard output", output.refusal))
    return code


def _execute(words: list[str]) -> int:
    for word in words:
        _check_word(word)
    parser = build_parser()
    try:
        arguments = parser.parse_args(words)
    except SystemExit as finished:  # help was shown, or the flags were wrong and argparse has said so
        return int(finished.code or 0)
    if arguments.compiled is not None:
        from .compiled import VARIABLE

        os.environ[VARIABLE] = arguments.compiled  # for the processes that a command starts too
    if arguments.version:
        from .command.versions import show_versions

        return show_versions()
    if arguments.command is None:
        from .command.doors import DOORS

        print(DOORS, end="")
        return codes.OK  # it was a question, and is answered
    if arguments.command in ("run", "compare") and not arguments.study:
        facts.check_flags(arguments)  # before what takes a while is imported
    with _figures_prepared(arguments):
        command = importlib.import_module(f".command.{COMMANDS[arguments.command]}", __package__)
        return int(command.execute(arguments))


@contextmanager
def _figures_prepared(arguments: argparse.Namespace) -> Iterator[None]:
    """While a run is played and its figures are drawn: what draws them is made ready meanwhile."""
    several = getattr(arguments, "hosts", None) is not None  # processes, of which one draws
    if arguments.command not in DRAWN_ASIDE or arguments.no_figures or several:
        yield
        return
    aside.prepare()
    try:
        yield
    finally:
        aside.dismiss()


def _check_word(word: str) -> None:
    """Names of files and things are text: neither a NUL nor bytes that are no UTF-8 can be written down again."""
    if "\0" in word:
        raise InputError(f"an argument must not hold a NUL character, got {word[:80]!r}: leave it out")
    try:
        word.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"an argument must be valid UTF-8, got {word[:80]!r}: choose another name") from None


if __name__ == "__main__":
    sys.exit(main())
