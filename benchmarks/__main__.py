"""Measure speed and memory side by side with what they are compared with.

Results go to benchmarks/results: a JSON file for each case and a page with bars, index.html. `python -m benchmarks.readme`
then writes the figures of the pages in docs/ anew.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from . import page
from .cases import CASES, missing
from .child import Failed, in_child
from .machine import facts
from .results import FOLDER, Result, read_all, write
from .words import machine_words, number, spread


def main(words: list[str] | None = None) -> int:
    arguments = parsed(words)
    console, machine = Console(highlight=False), facts()
    console.print(machine_words(machine), style="dim", markup=False)
    earlier = read_all(arguments.out)
    names, met = wanted(arguments, earlier, machine, console), True
    for k, name in enumerate(names):
        rest = sum(seconds(left, earlier) for left in names[k:])
        progress = f"about {duration(seconds(name, earlier))}; {len(names) - k} left, about {duration(rest)} in all"
        console.print(f"\n[{k + 1}/{len(names)}] {name}: {CASES[name].what} ({progress})", markup=False)
        try:
            result = in_child(name, arguments.repeat)
        except Failed as error:
            console.print(f"{name} failed: {error}", style="red", markup=False)
            met = False
            continue
        show(console, result)
        write(result, arguments.out)
        met = met and all(goal.met for goal in result.report.goals)
    file = page.write(read_all(arguments.out), arguments.out)
    console.print(f"\nbars: {file}", markup=False)
    return 0 if met and set(arguments.names) <= set(CASES) else 1


def parsed(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="CASE", help="which ones (default: all); --list names them")
    parser.add_argument("--list", action="store_true", help="name the cases and leave")
    parser.add_argument("--repeat", type=int, default=7, help="turns of each comparison (default: 7)")
    parser.add_argument("--quick", action="store_const", const=3, dest="repeat", help="the same as --repeat 3")
    parser.add_argument("--resume", action="store_true", help="leave out what was measured with this very code")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder of the results (default: benchmarks/results)")
    arguments = parser.parse_args(words)
    if arguments.list:
        parser.exit(message="".join(f"{name:18}{case.what}\n" for name, case in CASES.items()))
    for name in arguments.names:
        if name not in CASES:
            parser.error(f"unknown case {name!r}: choose from {', '.join(CASES)}")
        if (why := missing(name)) is not None:
            parser.error(f"{name} cannot run: {why}")
    if arguments.repeat < 1:
        parser.error(f"--repeat must be at least 1, got {arguments.repeat}")
    return arguments


def wanted(arguments: argparse.Namespace, earlier: dict[str, Result], machine: object, console: Console) -> list[str]:
    """The cases to run; what is left out is said."""
    names = []
    for name in arguments.names or CASES:
        if (why := missing(name)) is not None:
            console.print(f"{name}: left out, {why}", style="yellow", markup=False)
        elif arguments.resume and name in earlier and earlier[name].machine == machine:
            console.print(
                f"{name}: left out, it was measured with this code on this machine", style="dim", markup=False
            )
        else:
            names.append(name)
    return names


def seconds(name: str, earlier: dict[str, Result]) -> float:
    """How long it took last time; else what was typed in once."""
    return earlier[name].took_seconds if name in earlier else CASES[name].seconds


def duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def show(console: Console, result: Result) -> None:
    table = Table(title=result.report.title, title_justify="left", show_edge=False)
    table.add_column("what")
    table.add_column("median", justify="right")
    table.add_column("quartiles", justify="right")
    table.add_column("unit / goal")
    for row in result.report.rows:
        table.add_row(f"{row.group}: {row.what}" if row.group else row.what, number(row.value), spread(row), row.unit)
    for goal in result.report.goals:
        colour = "green" if goal.met else "red"
        table.add_row(f"[bold]{goal.what}[/bold]", f"[{colour}]{number(goal.value)}[/]", spread(goal), goal.bound)
    console.print(table)
    for note in result.report.notes:
        console.print(note, style="dim", markup=False)
    for reason in result.disturbed:
        console.print(f"disturbed: {reason}", style="bold red", markup=False)


if __name__ == "__main__":
    sys.exit(main())
