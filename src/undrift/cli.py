"""The command `undrift`: names become objects, objects are called, errors become exit codes."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from .command import codes
from .command.parser import build_parser
from .errors import InputError

NAMES = ("run", "compare", "advise", "reproduce", "explain", "partition", "data", "schema")
COMMANDS = {name: name for name in NAMES} | {"list": "listing"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code (see `command.codes`)."""
    parser = build_parser()
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as finished:  # help was shown, or the flags were wrong and argparse has said so
        return int(finished.code or 0)
    except InputError as error:
        return _complain(str(error), codes.BAD_INPUT)
    if arguments.version:
        from .command.versions import show_versions

        return show_versions()
    if arguments.command is None:
        parser.print_help()
        return codes.BAD_INPUT
    return _guarded(arguments)


def _guarded(arguments: argparse.Namespace) -> int:
    """The sub-command, with its errors turned into exit codes."""
    from .errors import CheckpointError, DivergenceError, Interrupted, UndriftError

    try:
        command = importlib.import_module(f".command.{COMMANDS[arguments.command]}", __package__)
        return int(command.execute(arguments))
    except (Interrupted, KeyboardInterrupt) as error:
        return _complain(str(error) or "interrupted", codes.INTERRUPTED)
    except DivergenceError as error:
        return _complain(str(error), codes.DIVERGED)
    except CheckpointError as error:
        return _complain(str(error), codes.BAD_CHECKPOINT)
    except UndriftError as error:
        return _complain(str(error), _code_of(error))
    except BrokenPipeError:  # the reader of a pipe went away, as in `undrift list | head`
        sys.stderr.close()
        return codes.OK


def _code_of(error: Exception) -> int:
    """Bad input, unless the room of data was opened and says that something is absent."""
    if "undrift.data" not in sys.modules:
        return codes.BAD_INPUT
    from .data import DownloadError, MissingDataError

    return codes.MISSING_DATA if isinstance(error, MissingDataError | DownloadError) else codes.BAD_INPUT


def _complain(text: str, code: int) -> int:
    print(f"undrift: {text}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
