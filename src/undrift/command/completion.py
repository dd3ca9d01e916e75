"""`undrift completion SHELL`: a script by which a shell completes commands, flags, and names of methods, problems and the like.

The script is static: completing runs neither Python nor undrift. It is made from the parser and from what `undrift list` shows.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator
from typing import Any

from . import codes, facts

SHELLS = ("bash", "zsh", "fish")
NAMED = {  # flag or argument -> kind of things that `undrift list` shows
    "--method": "methods",
    "method": "methods",
    "--problem": "problems",
    "--up": "compressors",
    "--down": "compressors",
    "--oracle": "oracles",
    "--participation": "participation",
}
FOLDERS = ("DIR", "RUN")  # what stands for a value in the help -> files or folders are completed
FILES = ("FILE", "STUDY.toml", "FILE.py", "FILE.md", "PATH")


def add_parser(command: Callable[..., argparse.ArgumentParser]) -> None:
    """The flags."""
    parser = command(
        "completion",
        "print a script that lets your shell complete commands, flags and names",
        "Put it where your shell looks for such scripts, and open a new one.",
        "  undrift completion bash > ~/.local/share/bash-completion/completions/undrift\n"
        "  undrift completion zsh > ~/.zfunc/_undrift        with fpath+=~/.zfunc before compinit in ~/.zshrc\n"
        "  undrift completion fish > ~/.config/fish/completions/undrift.fish",
    )
    parser.add_argument("shell", choices=list(SHELLS), help="the shell")


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    print(script(arguments.shell))
    return codes.OK


def script(shell: str) -> str:
    """The script for a shell."""
    import shtab

    from .manual import complete
    from .parser import build_parser

    parser = build_parser()
    for sub in _all(parser):
        complete(sub)
        for action in sub._actions:
            _teach(action, shtab.FILE, shtab.DIRECTORY)
    return str(shtab.complete(parser, shell, preamble=_functions() if shell == "bash" else ""))


def _all(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parser and all that are below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from _all(sub)


def _teach(action: Any, file: Any, folder: Any) -> None:
    """Say how the value of a flag or argument is completed, where that is known."""
    if action.choices is not None or action.nargs == 0:
        return
    name = next((word for word in (*action.option_strings, action.dest) if word in NAMED), None)
    if name is not None:
        action.complete = _by_name(NAMED[name])
    elif action.metavar in FOLDERS:
        action.complete = folder
    elif action.metavar in FILES:
        action.complete = file


def _by_name(kind: str) -> dict[str, str]:
    names = " ".join(_names(kind))
    return {"bash": f"_undrift_{kind}", "zsh": f"({names})", "fish": f'"{names}"'}


def _names(kind: str) -> list[str]:
    return [entry["name"] for entry in facts.names()[kind]]


def _functions() -> str:
    """Bash asks functions: each completes the names of a kind, and files where a method of one's own may stand."""
    lines = []
    for kind in dict.fromkeys(NAMED.values()):
        names = shlex.quote(" ".join(_names(kind)))
        files = '; compgen -f -X "!*.py" -- "$1"' if kind == "methods" else ""
        lines.append(f'_undrift_{kind}() {{ compgen -W {names} -- "$1"{files}; }}')
    return "\n".join(lines)
