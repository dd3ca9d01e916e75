"""Figures on the pages come from the results: `python -m benchmarks.readme` writes them anew, `--check` says if they are stale.

A page holds pairs of comments, <!-- measured: NAME --> and <!-- /measured -->; what stands between them belongs to this script.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from .arithmetic import (
    GAIN,
    HOSTS,
    LINK,
    MEETINGS,
    Crowd,
    Large,
    Rates,
    all_reduce,
    place,
    size_words,
    time_words,
    work_to_gain,
)
from .machine import ROOT
from .measure import Goal, Row
from .results import Result, read_all
from .words import machine_words, number, spread

Results = dict[str, Result]
PAGES = ("docs/scale.md", "docs/performance.md", "docs/mesh.md")
MARKED = re.compile(r"(<!-- measured: ([\w-]+) -->\n).*?(<!-- /measured -->)", re.DOTALL)
NOT_YET = "*Not measured yet.*"


def main(words: list[str]) -> int:
    results, stale = read_all(), []
    for name in PAGES:
        text = (ROOT / name).read_text()
        fresh = rewritten(text, results)
        if fresh != text:
            stale.append(name)
            if "--check" not in words:
                (ROOT / name).write_text(fresh)
    print(f"{'stale' if '--check' in words else 'rewritten'}: {', '.join(stale)}" if stale else "up to date")
    return 1 if stale and "--check" in words else 0


def rewritten(text: str, results: Results) -> str:
    """The page with the figures of these results."""

    def section(found: re.Match[str]) -> str:
        name = found[2]
        if name not in SECTIONS:
            raise ValueError(f"no section is called {name!r}: choose from {', '.join(SECTIONS)}")
        return f"{found[1]}{SECTIONS[name](results).strip() or NOT_YET}\n{found[3]}"

    return MARKED.sub(section, text)


# ----- tables
def table(head: list[str], rows: list[list[str]]) -> str:
    if not rows:
        return ""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def measured(found: Row | Goal) -> str:
    """A median with its unit, and the quartiles.

    >>> measured(Row("x", 2.0, "ms", 1.5, 2.25)), measured(Goal("x", 3.0, unit="×"))
    ('2 ms (1.5–2.25)', '3×')
    """
    unit = found.unit if found.unit in ("", "×") else f" {found.unit}"
    quartiles = f" ({spread(found)})" if spread(found) else ""
    return f"{number(found.value)}{unit}{quartiles}"


def goals(results: Results) -> str:
    """Every promise of speed and memory, what was measured, and how to measure it again."""
    rows = []
    for result in results.values():
        for goal in result.report.goals:
            if not goal.same:
                verdict = goal.bound if goal.met else f"{goal.bound}, missed"
                rows.append([goal.what, measured(goal), verdict, f"`{result.case}`{'*' if result.disturbed else ''}"])
    lines = table(["work", "measured (quartiles)", "goal", "case"], rows)
    stars = "\n\n\\* disturbed: the [page](../benchmarks/results/index.html) says by what." if "`*" in lines else ""
    return lines + stars


def times(results: Results) -> str:
    """undrift beside its peers and the limit, group by group."""
    rows = []
    for result in results.values():
        for group in dict.fromkeys(row.group for row in result.report.rows if row.side == "peer"):
            bars = [row for row in result.report.rows if row.group == group]
            cells = ["<br>".join(f"{row.what}: {measured(row)}" for row in bars if row.side == side)
                     for side in ("undrift", "peer", "limit")]  # fmt: skip
            rows.append([f"{result.report.title}; {group}", *cells])
    return table(["work", "undrift", "beside", "limit"], rows)


def machine(results: Results) -> str:
    return "\n".join(sorted({f"Measured on: {machine_words(result.machine)}." for result in results.values()}))


def rows_of(*cases: str) -> Callable[[Results], str]:
    """All that some cases measured."""

    def section(results: Results) -> str:
        rows = []
        for case in cases:
            if case in results:
                report = results[case].report
                rows += [
                    [f"{row.group}: {row.what}" if row.group else row.what, measured(row), ""] for row in report.rows
                ]
                rows += [
                    [goal.what, measured(goal), goal.bound if goal.met else f"{goal.bound}, missed"]
                    for goal in report.goals
                ]
        return table(["what", "measured (quartiles)", "goal"], rows)

    return section


# ----- arithmetic
def crowds(results: Results) -> str:
    rates = Rates.of(results)
    if rates is None:
        return ""
    rows = []
    for count in (10**3, 10**5, 10**6, 10**8):
        crowd = Crowd(count)
        cells = [size_words(crowd.memories), size_words(crowd.data), place(crowd.memories + crowd.data, rates.memory)]
        cells += [
            size_words(crowd.touched),
            time_words(crowd.touched / rates.copy),
            time_words(crowd.touched / rates.disk),
        ]
        rows.append([f"{count:.0e}".replace("e+0", "e"), *cells])
    head = [
        "clients",
        "memories of all",
        "data of all",
        "they lie in",
        "a round touches",
        "copied in memory",
        "read from disk",
    ]
    return table(head, rows)


def models(results: Results) -> str:
    rates = Rates.of(results)
    if rates is None:
        return ""
    rows = []
    for count in (10**6, 10**8, 10**9):
        large = Large(count)
        cells = [size_words(large.model), size_words(large.working), place(large.working, rates.memory)]
        cells += [size_words(large.sent), time_words(large.seconds(rates))]
        cells += [time_words(all_reduce(large.model, 2, rates.reduce, rates.latency))]
        cells += [time_words(all_reduce(large.model, HOSTS, LINK, rates.latency))]
        rows.append([f"{count:.0e}".replace("e+0", "e"), *cells])
    head = ["parameters", "model", "working memory", "it lies in", "messages of a round", "products of a round",
            "sum over 2 processes here", f"sum over {HOSTS} hosts, {LINK / 1.25e8:g} Gbit/s"]  # fmt: skip
    return table(head, rows)


def meetings(results: Results) -> str:
    rates = Rates.of(results)
    if rates is None:
        return ""
    rows = []
    for what, count in MEETINGS.items():
        cost = count * rates.meeting
        rows.append([what, str(count), time_words(cost), time_words(work_to_gain(cost))])
    return table(["on a mesh", "meetings", "they cost", f"work of each process for a gain of {GAIN:g}"], rows)


SECTIONS: dict[str, Callable[[Results], str]] = {
    "machine": machine,
    "goals": goals,
    "times": times,
    "limits": rows_of("limits"),
    "many-clients": rows_of("million", "cohort", "first_round"),
    "out-of-core": rows_of("out_of_core", "memory"),
    "mesh": rows_of("mesh"),
    "p1": rows_of("softmax"),
    "p2": rows_of("lenet"),
    "p3": rows_of("fedlin"),
    "sweep": rows_of("sweep", "sweep_lenet", "split", "fedtrack"),
    "start": rows_of("startup", "loopback"),
    "crowds": crowds,
    "models": models,
    "meetings": meetings,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
