"""`undrift reproduce`: the papers' figures, tables and theorems, and whether their claims hold."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from undrift.command import codes
from undrift.command.directory import names_in, writable
from undrift.command.talk import Stop, Talk
from undrift.errors import InputError, Interrupted

from .flags import Scale
from .item import Item
from .registry import all_items, select
from .reproduce import Reproduction, reproduce
from .store import Store


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    talk = Talk(arguments.quiet, arguments.json)
    store = Store(Path(arguments.out))
    names_in(store.root)  # refuses a file
    if arguments.list:
        return _list(store, arguments, talk)
    if arguments.report and not (arguments.items or arguments.all):
        return _report(store, arguments.report, talk)
    items = select(arguments.items, arguments.all)
    writable(store.root)
    done, stopped = _play(items, store, arguments, talk)
    if arguments.report and not stopped:
        _report(store, arguments.report, talk)
    failed = sum(reproduction.failed for reproduction in done)
    total = sum(len(reproduction.claims) for reproduction in done)
    if arguments.json:
        words = {"items": [reproduction.words() for reproduction in done], "claims": total, "failed": failed}
        print(json.dumps({**words, "status": "interrupted" if stopped else "finished"}, indent=2, ensure_ascii=False))
    elif done:
        colour = "red" if failed else "green"
        talk.results.print(f"[{colour}]{total - failed} of {total} claims hold[/] in {len(done)} items", markup=True)
    if stopped:
        left = len(items) - len(done)
        talk.notes.print(f"stopped with {left} of {len(items)} items to go; the same command continues", markup=False)
        return codes.INTERRUPTED
    return codes.CLAIM_FAILED if failed and arguments.strict else codes.OK


def _play(
    items: Sequence[Item], store: Store, arguments: argparse.Namespace, talk: Talk
) -> tuple[list[Reproduction], bool]:
    """What was reproduced, and whether somebody stopped it."""
    done: list[Reproduction] = []
    with talk.progress() as bar, Stop() as stop:
        overall = bar.add_task("all", total=len(items), visible=len(items) > 1)
        for item in items:
            task = bar.add_task(item.name, total=None)

            def progress(text: str, now: int, total: int, task: Any = task) -> None:
                bar.update(task, description=text, completed=now, total=total)
                stop.heard()

            try:
                stop.heard()
                made = reproduce(
                    item,
                    store,
                    arguments.scale,
                    again=arguments.again,
                    redraw=arguments.redraw,
                    train=not arguments.finished,
                    progress=progress,
                )
            except (KeyboardInterrupt, Interrupted):
                return done, True
            finally:
                bar.remove_task(task)
            done.append(made)
            bar.advance(overall)
            if not arguments.json:
                _show(made, talk)
    return done, False


def _show(made: Reproduction, talk: Talk) -> None:
    """One item with its verdicts."""
    out = talk.results
    how = f"{made.seconds:.1f} s" if made.fresh else "kept"
    where = escape(f"{made.file}, drawn in {made.folder}")
    out.print(f"[bold]{made.item.name}[/]  {escape(made.item.title)}  [dim]({how}; {where})[/]", markup=True)
    for claim in made.claims:
        mark = "[green]holds[/]" if claim["holds"] else "[bold red]FAILS[/]"
        out.print(f"  {mark}  {escape(claim['sentence'])}: {escape(claim['measured'])}", markup=True, soft_wrap=True)
        if not claim["holds"] and claim["explanation"]:
            out.print(f"         [red]{escape(claim['explanation'])}[/]", markup=True, soft_wrap=True)
    for remark in made.remarks:
        out.print(f"  [dim]{escape(remark)}[/]", markup=True, soft_wrap=True)


def _list(store: Store, arguments: argparse.Namespace, talk: Talk) -> int:
    scale: Scale = arguments.scale
    items = select(arguments.items) if arguments.items else list(all_items().values())
    rows = [(item, _standing(item, store, scale)) for item in items]
    if arguments.json:
        words = [{"item": i.name, "title": i.title, "claims": _count(i, scale), "standing": s} for i, s in rows]
        print(json.dumps(words, indent=2, ensure_ascii=False))
        return codes.OK
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("item", "what", "claims", f"results in {store.root} ({scale})"):
        table.add_column(name)
    for item, standing in rows:
        table.add_row(item.name, item.title, str(_count(item, scale)), standing)
    talk.results.print(table)
    return codes.OK


def _count(item: Item, scale: Scale) -> int:
    """Claims that are decided at this scale."""
    return sum(item.scale(scale) in claim.scales for claim in item.claims)


def _standing(item: Item, store: Store, scale: Scale) -> str:
    """not run, or how many claims hold."""
    try:
        result, claims = store.result(item, scale), store.claims(item, scale) or []
    except InputError:  # its own reproduction says what is wrong; the others can be listed
        return "damaged"
    if result is None:
        return "half done" if store.work_folder(item, scale).exists() else "not run"
    failed = sum(not claim["holds"] for claim in claims)
    return f"{failed} of {len(claims)} fail" if failed else f"all {len(claims)} hold"


def _report(store: Store, file: str, talk: Talk) -> int:
    from .report import write_report

    written = write_report(Path(file), store, list(all_items().values()))
    talk.note(f"written to {written}")
    return codes.OK
