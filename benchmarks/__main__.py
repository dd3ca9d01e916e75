"""python -m benchmarks [NAME …] [--repeat N] [--json FILE]"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from . import compilations, deploy_rounds, deploy_transport, evaluate, fedlin, lenet, logistic, memory, peak, sweep, vgg
from .child import Missing
from .measure import Report, machine

BENCHMARKS = {
    "peak": peak.run,
    "fedlin": fedlin.run,
    "sweep": sweep.run,
    "compilations": compilations.run,
    "memory": memory.run,
    "logistic": logistic.run,
    "lenet": lenet.run,
    "vgg": vgg.run,
    "evaluate": evaluate.run,
    "deploy_transport": deploy_transport.run,
    "deploy_rounds": deploy_rounds.run,
}
RESULTS = Path(__file__).parent / "results"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ones (default: all): {', '.join(BENCHMARKS)}")
    parser.add_argument("--repeat", type=int, default=7, help="turns per comparison (default: 7)")
    parser.add_argument("--json", type=Path, help="one more copy of the results in this file")
    arguments = parser.parse_args()
    strange = [name for name in arguments.names if name not in BENCHMARKS]
    if strange:
        parser.error(f"unknown benchmark {strange[0]!r}: choose from {', '.join(BENCHMARKS)}")
    if arguments.repeat < 1:
        parser.error(f"--repeat must be at least 1, got {arguments.repeat}")
    console, facts = Console(), machine()
    console.print(
        f"[dim]{facts['processor']}, {facts['cores']} cores, JAX {facts['jax']}, NumPy {facts['numpy']}[/dim]"
    )
    reports, missing = [], 0
    for name in arguments.names or BENCHMARKS:
        try:
            with console.status(f"{name} …"):
                reports.append(BENCHMARKS[name](arguments.repeat))
        except Missing as error:
            console.print(f"\n{name}: left out, {error}", markup=False)
            missing += name in arguments.names
            continue
        show(console, reports[-1])
        write(RESULTS / f"{name}.json", facts, [reports[-1]])
    if arguments.json is not None:
        write(arguments.json, facts, reports)
    return 0 if not missing and all(goal.met for report in reports for goal in report.goals) else 1


def show(console: Console, report: Report) -> None:
    table = Table(title=f"{report.name}: {report.title}", title_justify="left", show_edge=False)
    table.add_column("what")
    table.add_column("value", justify="right")
    table.add_column("unit / promise")
    for row in report.rows:
        table.add_row(row.what, f"{row.value:,.4g}", row.unit)
    for goal in report.goals:
        colour = "green" if goal.met else "red"
        table.add_row(f"[bold]{goal.what}[/bold]", f"[{colour}]{goal.value:,.4g}[/{colour}]", goal.bound)
    console.print()
    console.print(table)
    for note in report.notes:
        console.print(f"[dim]{note}[/dim]")


def write(path: Path, facts: dict[str, object], reports: list[Report]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"machine": facts, "reports": [report.as_json() for report in reports]}
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
