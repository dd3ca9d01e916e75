"""One page with bars, without scripts and without anything fetched: `python -m benchmarks.page` makes it anew."""

from __future__ import annotations

import itertools
from html import escape
from pathlib import Path

from .measure import Goal, Row
from .results import FOLDER, Result, read_all
from .words import machine_words, number, spread, unit_words

STYLE = Path(__file__).with_name("page.css")
WIDTH = 1000  # of the bars' own coordinates
SIDES = {"undrift": "undrift", "peer": "what it is compared with", "limit": "what the machine can do"}


def write(results: dict[str, Result], folder: Path = FOLDER) -> Path:
    file = folder / "index.html"
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(document(results))
    return file


def document(results: dict[str, Result]) -> str:
    parts = [
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>undrift: speed and memory</title>\n<style>\n{STYLE.read_text()}</style>",
        "<header><h1>undrift: speed and memory</h1>",
        "<p>Medians, with quartiles as lines and in small print; sides take turns, and each case shows that they compute the ",
        "same. <code>python -m benchmarks</code> measures this on your machine.</p>",
        f'<div class="key">{"".join(f"<span><i class={side!r}></i>{words}</span>" for side, words in SIDES.items())}</div>',
        "</header>\n<main>",
        summary(results),
        *(section(result) for result in results.values()),
        "</main>\n</html>\n",
    ]
    return "\n".join(parts)


def summary(results: dict[str, Result]) -> str:
    """All goals of speed and memory, and which were met."""
    rows = []
    for result in results.values():
        mark = ' <span class="badge disturbed">disturbed</span>' if result.disturbed else ""
        link = f' <small><a href="#{escape(result.case)}">{escape(result.case)}</a></small>{mark}'
        rows += [goal_row(goal, link) for goal in result.report.goals if not goal.same]
    machines = {machine_words(result.machine) for result in results.values()}
    met = sum(goal.met for result in results.values() for goal in result.report.goals if not goal.same)
    lines = "".join(f'<p class="note">{escape(words)}</p>' for words in sorted(machines))
    return f"<section id='goals'><h2>{met} of {len(rows)} goals met</h2>{lines}{goal_table(rows)}</section>"


def goal_table(rows: list[str]) -> str:
    head = "<thead><tr><th>what</th><th>measured</th><th>goal</th><th></th></tr></thead>"
    return f"<table>{head}<tbody>{''.join(rows)}</tbody></table>"


def goal_row(goal: Goal, link: str = "") -> str:
    badge = f'<span class="badge {"met" if goal.met else "missed"}">{"met" if goal.met else "missed"}</span>'
    quartiles = f"<br><small>{spread(goal)}</small>" if spread(goal) else ""
    return (
        f'<tr><td>{escape(goal.what)}{link}</td><td class="value">{number(goal.value)}{quartiles}</td>'
        f'<td class="value">{escape(goal.bound)}</td><td>{badge}</td></tr>'
    )


def section(result: Result) -> str:
    report = result.report
    drawn = [row for row in report.rows if row.side]
    groups = itertools.groupby(
        sorted(drawn, key=lambda row: first_place(row, drawn)), key=lambda row: (row.group, row.unit)
    )
    parts = [f"<section id='{escape(result.case)}'><h2>{escape(report.title)}</h2>"]
    parts += [
        f'<p class="reason"><span class="badge disturbed">disturbed</span> {escape(r)}</p>' for r in result.disturbed
    ]
    parts += [bars(name, unit, list(rows)) for (name, unit), rows in groups]
    parts.append(goal_table([goal_row(goal) for goal in report.goals]) if report.goals else "")
    others = [row for row in report.rows if not row.side]
    if others:
        cells = "".join(
            f'<tr><td>{escape(row.what)}</td><td class="value">{number(row.value)} {escape(row.unit)}'
            f"{f'<br><small>{spread(row)}</small>' if spread(row) else ''}</td></tr>"
            for row in others
        )
        parts.append(f"<details><summary>{len(others)} more</summary><table><tbody>{cells}</tbody></table></details>")
    parts.append(f'<p class="note">{escape(" ".join(report.notes))}</p>' if report.notes else "")
    load = f"load {result.load['before']:.2f} before, {result.load['after']:.2f} after"
    parts.append(
        f'<p class="note">{result.when}, {result.repeat} turns, {result.took_seconds:.0f} s, {load}.</p></section>'
    )
    return "\n".join(part for part in parts if part)


def first_place(row: Row, rows: list[Row]) -> int:
    """Where the first bar of its group stands."""
    return next(k for k, other in enumerate(rows) if (other.group, other.unit) == (row.group, row.unit))


def bars(name: str, unit: str, rows: list[Row]) -> str:
    longest = max(max(row.value, row.high or 0) for row in rows) or 1.0
    head = f"<h3>{escape(name)} <small>{escape(unit_words(unit))}</small></h3>"
    return head + "".join(bar(row, WIDTH / longest) for row in rows)


def bar(row: Row, scale: float) -> str:
    whisker = ""
    if row.low is not None and row.high is not None:
        whisker = f'<line class="whisker" x1="{row.low * scale:.1f}" x2="{row.high * scale:.1f}" y1="7" y2="7"/>'
    quartiles = f"<small>{spread(row)}</small>" if spread(row) else ""
    words = f"{row.what}: {number(row.value)} {row.unit}"
    return (
        f'<div class="bar"><span class="label">{escape(row.what)}</span>'
        f'<svg viewBox="0 0 {WIDTH} 14" preserveAspectRatio="none" role="img" aria-label="{escape(words)}">'
        f'<rect class="{row.side}" width="{max(row.value * scale, 1):.1f}" height="14"/>{whisker}</svg>'
        f'<span class="figure">{number(row.value)} {escape(row.unit)}{quartiles}</span></div>'
    )


if __name__ == "__main__":
    print(write(read_all()))
