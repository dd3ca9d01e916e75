"""docs/cli.md from the parser: every command and flag, as `--help` knows them.

    python -m undrift.command.manual docs/cli.md             write it anew
    python -m undrift.command.manual docs/cli.md --check     say whether it is up to date

Explanations that no parser has are in docs/cli-guide.md.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from .codes import EXIT_CODES
from .parser import build_parser
from .parser_tools import Parser

COMMAND = "python -m undrift.command.manual docs/cli.md"
HEAD = f"""<!-- Made by `{COMMAND}` from the parser; edit the texts there. -->
# The command `undrift`

All commands and flags, as `--help` shows them. [The guide](cli-guide.md) explains notation, run directories, interruptions.
"""


def manual() -> str:
    """The page."""
    parser = build_parser()
    commands = _commands(parser)
    parts = [HEAD, _usage(parser), _flags(parser), "## Commands\n", _overview(parser)]
    parts += [_command(sub, name, 2) for name, sub in commands.items()]
    parts += ["## Exit codes\n", _exit_codes()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).strip() + "\n"


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Sub-commands by name, with all their flags."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, sub in action.choices.items():
                complete(sub)
                found[name] = sub
    return found


def complete(parser: argparse.ArgumentParser) -> None:
    """Add the flags that a parser would add when it is asked."""
    if isinstance(parser, Parser) and parser.completed_by is not None:
        add, parser.completed_by = parser.completed_by, None
        add(parser)


def _overview(parser: argparse.ArgumentParser) -> str:
    """A table of sub-commands, each a link to its section."""
    rows = ["| command | what it does |", "|---|---|"]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                title = f"{parser.prog} {choice.dest}"
                rows.append(f"| [`{title}`](#{title.replace(' ', '-')}) | {_cell(choice.help or '')} |")
    return "\n".join(rows) + "\n"


def _command(parser: argparse.ArgumentParser, name: str, level: int) -> str:
    """A section: what it does, how it is called, its flags, its examples, and its own sub-commands."""
    parts = [f"{'#' * level} `{parser.prog}`\n"]
    if parser.description:
        parts.append(_prose(parser.description) + "\n")
    parts += [_usage(parser), _flags(parser), _epilogue(parser)]
    inner = _commands(parser)
    if inner:
        parts.append(_overview(parser))
    parts += [_command(sub, inner_name, level + 1) for inner_name, sub in inner.items()]
    return "\n".join(parts)


def _usage(parser: argparse.ArgumentParser) -> str:
    """One line, so that it does not depend on the width of a terminal or on how a Python breaks lines."""
    words = ["[flags]"] if any(action.option_strings and not action.required for action in parser._actions) else []
    words += [_invocation(action) for action in parser._actions if action.option_strings and action.required]
    words += [_positional(action) for action in parser._actions if not action.option_strings]
    return f"```text\n{' '.join([parser.prog, *words])}\n```\n"


def _positional(action: argparse.Action) -> str:
    if isinstance(action, argparse._SubParsersAction):
        return "COMMAND …"
    name = _meta(action)
    wrapped = {"?": f"[{name}]", "*": f"[{name} …]", "+": f"{name} [{name} …]"}
    return wrapped.get(str(action.nargs), name)


def _meta(action: argparse.Action) -> str:
    """What stands for a value."""
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.metavar is not None:
        return action.metavar
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper() if action.option_strings else action.dest


def _invocation(action: argparse.Action) -> str:
    """A flag with what follows it."""
    names = ", ".join(action.option_strings)
    if action.nargs == 0:
        return names
    value = _meta(action)
    more = {"?": f"[{value}]", "*": f"[{value} …]", "+": f"{value} …"}
    return f"{names} {more.get(str(action.nargs), value)}"


def _flags(parser: argparse.ArgumentParser) -> str:
    """A table for each group of arguments."""
    return "\n".join(_group(group) for group in parser._action_groups)


def _group(group: argparse._ArgumentGroup) -> str:
    rows = [_row(action) for action in group._group_actions if _is_shown(action)]
    if not rows:
        return ""
    named = group.title not in ("positional arguments", "options", "optional arguments")
    title = [f"**{str(group.title).capitalize()}**{': ' + _prose(group.description) if group.description else ''}\n"]
    return "\n".join([*(title if named else []), f"| {_head(group)} | what it does |", "|---|---|", *rows]) + "\n"


def _head(group: argparse._ArgumentGroup) -> str:
    return "flag" if any(action.option_strings for action in group._group_actions) else "argument"


def _is_shown(action: argparse.Action) -> bool:
    hidden = isinstance(action, argparse._SubParsersAction | argparse._HelpAction) or action.help == argparse.SUPPRESS
    return not hidden


def _row(action: argparse.Action) -> str:
    name = _invocation(action) if action.option_strings else _positional(action)
    text = action.help % _facts(action) if action.help else ""
    required = " (required)" if action.option_strings and action.required else ""
    return f"| `{_cell_code(name)}` | {_cell(text)}{required} |"


def _facts(action: argparse.Action) -> dict[str, object]:
    """What a help text may name as %(default)s and the like."""
    return {**vars(action), "prog": "undrift", "choices": ", ".join(map(str, action.choices or ()))}


def _epilogue(parser: argparse.ArgumentParser) -> str:
    """The examples; exit codes have a table of their own."""
    kept = [part for part in (parser.epilog or "").split("\n\n") if not part.startswith("exit codes:")]
    return "\n".join(_example(part) for part in kept if part.strip())


def _example(part: str) -> str:
    lines = part.splitlines()
    body = "\n".join(re.sub(r"(?<=\S)( {3,})(?=\S)", r"\1# ", line.removeprefix("  ")) for line in lines[1:])
    if lines[0] == "examples:" and body:
        return f"```sh\n{body}\n```\n"
    return f"```text\n{part}\n```\n"


def _prose(text: str) -> str:
    return " ".join(_escaped(text).split())


def _escaped(text: str) -> str:
    """Markdown means something by these characters outside of `code`; an underscore inside a word means nothing."""
    parts = re.split(r"(`[^`]*`)", text)
    special = re.compile(r"([*<$\[\]]|(?<!\w)_|_(?!\w))")
    return "".join(part if part.startswith("`") else special.sub(r"\\\1", part) for part in parts)


def _cell(text: str) -> str:
    return _prose(text).replace("|", "\\|")


def _cell_code(text: str) -> str:
    return text.replace("|", "\\|")


def _exit_codes() -> str:
    rows = [f"| {code} | {_cell(meaning)} |" for code, meaning in EXIT_CODES.items()]
    return "\n".join(["| code | meaning |", "|---|---|", *rows]) + "\n"


def main(words: list[str]) -> int:
    """Write the page, or say whether it is up to date."""
    files: Iterator[Path] = (Path(word) for word in words if word != "--check")
    file = next(files, Path("docs/cli.md"))
    if "--check" in words:
        fresh = file.is_file() and file.read_text(encoding="utf-8") == manual()
        print("up to date" if fresh else f"stale: {COMMAND}")
        return 0 if fresh else 1
    file.write_text(manual(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
