"""`undrift data describe`: what the columns of a table hold, how rows and labels are spread over clients, what to do next."""

from __future__ import annotations

import argparse
import json
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

from ..data.columns import Column, Look, look
from ..data.table import Table, joined, read_table
from ..data.table_numbers import clients_of
from ..data.table_report import Complaint, Treatment, of_feature, of_key, suggestion
from ..errors import InputError, unknown
from ..studies.tables import files_at
from . import codes
from .talk import Talk

MOST_COLUMNS, MOST_CLIENTS, MOST_LABELS = 60, 40, 20


def describe(arguments: argparse.Namespace) -> int:
    """The command."""
    if not arguments.names:
        raise InputError("which files? For example: undrift data describe patients.csv --label ill --client hospital")
    files, table, owner = _read(arguments)
    found = report(arguments, files, table, owner)
    if arguments.json:
        print(json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _show(found, Talk())
    return codes.OK


def _read(arguments: argparse.Namespace) -> tuple[list[str], Table, list[str]]:
    """The files, all rows as one table, and whose each row is."""
    if all(name.lower().endswith(".npz") for name in arguments.names):
        from ..data.table_npz import read_npz_table

        found = {Path(name).stem: Path(name) for name in arguments.names}
        tables = [read_npz_table(path) for path in found.values()]
    else:
        found = files_at(arguments.names)
        words = {key: given for key in ("separator", "decimal", "encoding") if (given := getattr(arguments, key))}
        tables = [read_table(path, **words) for path in found.values()]
    table, owner = joined(tables)
    for name in filter(None, (arguments.label, arguments.client)):
        if name not in table.columns:
            raise unknown(f"column of {table.source},", name, table.columns)
    if arguments.client is None:
        return arguments.names, table, [list(found)[number] for number in owner]
    names, number = clients_of(table.columns[arguments.client])
    return arguments.names, table, [names[one] for one in number]


def report(arguments: argparse.Namespace, files: list[str], table: Table, owner: list[str]) -> dict[str, Any]:
    """Everything that is said, for machines."""
    looks = [look(column) for column in table.columns.values()]
    complaints = {seen.name: _complaints(seen, table, arguments) for seen in looks}
    labels = None if arguments.label is None else _labels(table.columns[arguments.label], owner)
    return {
        "files": files,
        "rows": table.rows,
        "columns": [_column(seen, complaints[seen.name]) for seen in looks],
        "clients": dict(Counter(owner)),
        "label": labels,
        "notes": table.notes,
        "problem": _word(arguments, files, len(set(owner)), [one for found in complaints.values() for one in found]),
    }


def _complaints(seen: Look, table: Table, arguments: argparse.Namespace) -> list[Complaint]:
    if seen.name in (arguments.label, arguments.client):
        return of_key(seen, "label" if seen.name == arguments.label else "client", Treatment())
    return of_feature(seen, table, Treatment())


def _column(seen: Look, complaints: list[Complaint]) -> dict[str, Any]:
    return {
        "name": seen.name,
        "kind": seen.kind,
        "missing": seen.missing,
        "missing_percent": round(100 * seen.missing / max(seen.rows, 1), 2),
        "distinct": seen.distinct,
        "constant": seen.constant,
        "least": seen.least,
        "mean": seen.mean,
        "greatest": seen.greatest,
        "frequent": dict(seen.frequent),
        "complaints": [{"what": one.what, "remedy": one.remedy} for one in complaints],
    }


def _labels(column: Column, owner: list[str]) -> dict[str, Any]:
    """How often each label occurs, or the mean of a number, at every client."""
    marks, kind = column.marks(), look(column)
    if kind.kind == "number" and kind.distinct > MOST_LABELS:
        values: dict[str, list[float]] = {}
        for name, number in zip(owner, column.numbers, strict=True):
            if number == number:
                values.setdefault(name, []).append(float(number))
        return {"name": column.name, "mean": {name: sum(some) / len(some) for name, some in values.items()}}
    counts = Counter(zip(owner, marks, strict=True))
    classes = sorted({mark for mark in marks if mark is not None})[:MOST_LABELS]
    return {
        "name": column.name,
        "counts": {name: {mark: counts[name, mark] for mark in classes} for name in dict.fromkeys(owner)},
    }


def _word(arguments: argparse.Namespace, files: list[str], clients: int, complaints: list[Complaint]) -> str | None:
    """The flag of the problem that these files make, with remedies for all that was found."""
    if any(name.lower().endswith(".npz") for name in files):
        return None
    words = [*files, f"label={arguments.label or '…'}"]
    if arguments.client is not None:
        words.append(f"client={arguments.client}")
    elif clients == 1:
        words.append("client=…")
    given = [(key, getattr(arguments, key)) for key in ("separator", "decimal", "encoding")]
    words += [f"{key}={word}" for key, word in given if word]
    words += [suggestion(complaints)] if complaints else []
    return f"--problem {shlex.quote('csv:' + ','.join(words))}"


# ----- for people
def _show(found: dict[str, Any], talk: Talk) -> None:
    from ..report.plain import plain_table

    columns = found["columns"]
    many = len(found["clients"])
    table = plain_table(f"{found['rows']:,} rows, {len(columns)} columns, {many} client{'s' * (many != 1)}")
    for head in ("column", "kind", "missing", "distinct", "least", "mean", "greatest"):
        table.add_column(head, justify="left" if head in ("column", "kind") else "right", overflow="fold")
    for one in columns[:MOST_COLUMNS]:
        figures = ["–" if one[key] is None else f"{one[key]:.4g}" for key in ("least", "mean", "greatest")]
        kind = f"{one['kind']}, constant" if one["constant"] else one["kind"]
        table.add_row(one["name"], kind, _missing(one), f"{one['distinct']:,}", *figures)
    talk.results.print(table)
    if len(columns) > MOST_COLUMNS:
        talk.results.print(f"… and {len(columns) - MOST_COLUMNS} more columns: --json has all")
    talk.results.print(_client_table(found))
    for one in columns[:MOST_COLUMNS]:
        for complaint in one["complaints"]:
            talk.results.print(f"{one['name']}: {complaint['what']}. Remedy: {complaint['remedy']}")
    for note in found["notes"]:
        talk.results.print(note)
    if found["problem"]:
        talk.results.print(f"As a problem: {found['problem']}", soft_wrap=True)


def _missing(one: dict[str, Any]) -> str:
    return "" if not one["missing"] else f"{one['missing']:,} ({one['missing_percent']:.3g} %)"


def _client_table(found: dict[str, Any]) -> Any:
    from ..report.plain import plain_table

    label = found["label"] or {}
    heads = [f"mean {label['name']}"] if "mean" in label else list(next(iter(label.get("counts", {}).values()), {}))
    table = plain_table(None if not heads or "mean" in label else f"rows by {label['name']}")
    table.add_column("client", overflow="fold")
    for head in ("rows", *heads):
        table.add_column(head, justify="right", overflow="fold")
    for name, rows in list(found["clients"].items())[:MOST_CLIENTS]:
        if "mean" in label:
            cells = [f"{label['mean'][name]:.4g}" if name in label["mean"] else "–"]
        else:
            cells = [f"{count:,}" for count in label.get("counts", {}).get(name, {}).values()]
        table.add_row(name, f"{rows:,}", *cells)
    if len(found["clients"]) > MOST_CLIENTS:
        table.caption = f"and {len(found['clients']) - MOST_CLIENTS} more: --json has all"
    return table
