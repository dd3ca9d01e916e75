"""Bad input: every case of the tables in tests/hostile, as its users would meet it."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .tally import Tally
from .tasks import Said, fresh, undrift

TABLES = Path(__file__).parents[1] / "hostile"


def cases() -> list[tuple[str, Any]]:
    """(table, case) of all tables."""
    if str(TABLES) not in sys.path:
        sys.path.insert(0, str(TABLES))  # where they find the form of a case
    names = sorted(path.stem for path in TABLES.glob("table_*.py"))
    return [(name.removeprefix("table_"), case) for name in names for case in importlib.import_module(name).CASES]


def attack_inputs(count: int, seed: int, folder: Path) -> dict[str, Any]:
    """All cases (0), or about `count` of them: each is refused with its code and a message, and no file is touched."""
    tally, every = Tally(), cases()
    form = importlib.import_module("hostile_case")
    step = max(1, len(every) // count) if count else 1
    for table, case in every[seed % step :: step]:
        work = fresh(folder, "work")
        work.mkdir(parents=True)
        with tally.attempt(f"{table}: {case.name}", table), _inside(work):
            form.lay_out(work, case)
            before = form.snapshot(work)
            _check(_answer(case), case, tally)
            if form.snapshot(work) != before:
                tally.wrong("files were touched")
    return tally.counts(seed=seed)


def _answer(case: Any) -> Said:
    if case.call is None:
        return undrift(list(case.words))
    from undrift.errors import UndriftError

    try:
        case.call()
    except UndriftError as error:
        return Said(case.code, "", str(error))
    except BaseException:
        return Said(None, "", "", traceback.format_exc())
    return Said(0, "", "")


def _check(said: Said, case: Any, tally: Tally) -> None:
    if said.traceback:
        tally.traceback(said.traceback)
    elif said.code != case.code:
        tally.wrong(f"exit code {said.code} instead of {case.code}: {said.err.strip()[:200]}")
    elif unsaid := [text for text in case.says if text not in said.err]:
        tally.wrong(f"does not say {unsaid}: {said.err.strip()[:200]}")


@contextlib.contextmanager
def _inside(work: Path) -> Iterator[None]:
    """In this directory, with a state directory of its own and a terminal that is wide enough for a sentence."""
    settings = {"COLUMNS": "120", "XDG_STATE_HOME": str(work.parent / "state")}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        with contextlib.chdir(work):
            yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
