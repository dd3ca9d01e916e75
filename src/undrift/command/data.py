"""`undrift data`: which data sets are known, where they are, whether a copy is the published one; what a table holds."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from ..data import cache_folder, catalogue, entry, fetch, status, verify
from ..errors import InputError, UndriftError
from . import codes
from .complaints import code_of
from .talk import Talk


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    if arguments.action == "list":
        found = [_listed(name, arguments) for name in arguments.names or [known.name for known in catalogue()]]
        _shown(found, codes.OK, arguments, _list_table)
        if arguments.names and not arguments.json:  # asked for by name: in full
            for row in found:
                Talk().results.print(f"{row['name']}: {row['path'] or row['advice'] or row['where']}", markup=False)
        return codes.OK
    if arguments.action == "describe":
        from .data_describe import describe

        return describe(arguments)
    if not arguments.names:
        raise InputError(
            f"which data set? For example: undrift data {arguments.action} mnist; `undrift data` lists them"
        )
    for name in arguments.names:
        entry(name)  # refuses an unknown name before anything is fetched
    talk = Talk(json=arguments.json)
    action = _fetched if arguments.action == "fetch" else _verified
    found, code = [], codes.OK
    for name in arguments.names:
        try:
            row, wrong = action(name, arguments, talk)
        except UndriftError as error:  # the others still get their turn
            talk.notes.print(f"undrift: {error}", markup=False)
            row, wrong = {"name": name, "error": str(error)}, code_of(error)
        found.append(row)
        code = max(code, wrong)
    return _shown(found, code, arguments, _fetch_table if arguments.action == "fetch" else _verify_table)


def _listed(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    known = entry(name)
    here = status(name, data_dir=arguments.data_dir, cache_dir=arguments.cache_dir)
    return {
        "name": name,
        "what": known.summary,
        "licence": known.licence,
        "classes": len(known.class_names),
        "train": None if known.sizes is None else known.sizes[0],
        "test": None if known.sizes is None else known.sizes[1],
        "where": here.where,
        "path": None if here.path is None else str(here.path),
        "advice": here.advice,
    }


def _fetched(name: str, arguments: argparse.Namespace, talk: Talk) -> tuple[dict[str, Any], int]:
    paths = fetch(name, cache_dir=arguments.cache_dir, mirror=arguments.mirror, progress=talk.watched)
    row = {"name": name, "cache": str(cache_folder(arguments.cache_dir)), "files": [str(path) for path in paths]}
    return row, codes.OK


def _verified(name: str, arguments: argparse.Namespace, talk: Talk) -> tuple[dict[str, Any], int]:
    report = verify(name, data_dir=arguments.data_dir, cache_dir=arguments.cache_dir)
    path = report.origin.path
    row: dict[str, Any] = {"name": name, "where": report.origin.where, "path": None if path is None else str(path)}
    row |= {"train": report.train, "test": report.test, "genuine": report.genuine, "digest": report.digest}
    if report.genuine is False:
        talk.notes.print(f"undrift: {name} is well formed, but its content is not the published one", markup=False)
    return row, codes.BAD_INPUT if report.genuine is False else codes.OK


def _shown(found: list[dict[str, Any]], code: int, arguments: argparse.Namespace, table: Callable[[Any], Any]) -> int:
    if arguments.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    elif rows := [row for row in found if "error" not in row]:
        Talk().results.print(table(rows))
    return code


def _list_table(rows: list[dict[str, Any]]) -> Any:
    table = _table("name", "what it is", "samples", "where", "advice")
    for row in rows:
        samples = "–" if row["train"] is None else f"{row['train']:,} + {row['test']:,}"
        table.add_row(row["name"], row["what"], samples, row["where"], _short_advice(row))
    return table


def _short_advice(row: dict[str, Any]) -> str:
    if row["where"] != "absent":
        return ""
    return f"undrift data {'fetch' if entry(row['name']).downloadable else 'list'} {row['name']}"


def _fetch_table(rows: list[dict[str, Any]]) -> Any:
    table = _table("name", "files")
    for row in rows:
        table.add_row(row["name"], "\n".join(row["files"]) or "comes with the installation: nothing to fetch")
    return table


def _verify_table(rows: list[dict[str, Any]]) -> Any:
    table = _table("name", "where", "samples", "content")
    words = {True: "the published one", False: "NOT the published one", None: "well formed; no published digest exists"}
    for row in rows:
        where = f"{row['where']} {row['path'] or ''}".strip()
        table.add_row(row["name"], where, f"{row['train']:,} + {row['test']:,}", words[row["genuine"]])
    return table


def _table(*columns: str) -> Any:
    from ..report.plain import plain_table

    table = plain_table()
    for number, column in enumerate(columns):
        table.add_column(column, style="bold" if number == 0 else None, no_wrap=column in ("name", "samples"))
    return table
