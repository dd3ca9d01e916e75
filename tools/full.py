"""`make full`: everything that can be checked here, part after part, with one table at the end.

    python tools/full.py                   all parts that have not passed yet on this commit and Python
    python tools/full.py --minutes 30      stop when the time is up; where it begins changes by day and commit
    python tools/full.py --only docs       these parts, whether or not they passed before
    python tools/full.py --passed test     note that a part passed elsewhere (`make test` says so)

What passed is kept in .full/ for this state of the files and this Python, so that a run that was stopped goes on where
it stopped. Exit code 1 if a part failed; a part that was not reached is no failure, and the table names it.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
STATE = ROOT / ".full"
PYTHON = sys.executable
GRACE = 20.0  # seconds that a part has to end itself when the time is up


class Part(NamedTuple):
    """Something to check: its name, the command, and what it is for."""

    name: str
    command: tuple[str, ...]
    about: str


class Outcome(NamedTuple):
    """What came of a part: "passed", "failed" or "not finished"; for how long; how many tests, and why some were skipped."""

    result: str
    seconds: float
    tests: int
    skipped: dict[str, int]


def _tests(name: str, about: str, *words: str) -> Part:
    report = f"--junitxml={STATE / name}.xml"
    return Part(name, (PYTHON, "-m", "pytest", "-n", "2", "--dist", "loadfile", report, *words), about)


def _slow(name: str, *folders: str) -> Part:
    places = [f"tests/{folder}" for folder in folders]
    return _tests(f"slow-{name}", f"slow tests of {', '.join(folders)}", "-m", "slow", *places)


def parts() -> list[Part]:
    """Everything, in the order in which a run without a limit takes it."""
    attack = ("--share", "0.02", "--out", str(STATE / "attack.json"))
    return [
        Part("test", ("make", "test"), "what every day has"),
        _slow("core", "core"),
        _slow("deploy", "deploy"),
        _slow("cli", "cli", "attack"),
        _slow("learning", "learning", "models", "data"),
        _slow("papers", "papers", "theory"),
        _slow("pages", "page", "pages", "board", "examples"),
        Part("attack", (PYTHON, "-m", "tests.attack", *attack), "a fiftieth of the attack"),
        Part("docs", ("make", "docs"), "the site, notebooks executed, a warning is an error"),
        Part("package", ("make", "package"), "sdist and wheel, built, checked, tried"),
        Part("flower", ("make", "flower"), "a federation of Flower"),
        Part("demo", ("make", "demo"), "the newcomer's first command"),
    ]


# ----- what passed before
def state_of_files() -> str:
    """A name for the commit, what was changed since, and the Python; without git a new one each time."""
    try:
        said = [
            subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout
            for words in (["rev-parse", "HEAD"], ["diff", "HEAD"], ["status", "--porcelain"])
        ]
    except (OSError, subprocess.CalledProcessError):
        said = [os.urandom(16)]
    return hashlib.sha256(b"\0".join([*said, sys.version.encode()])).hexdigest()


def passed_before() -> dict[str, Outcome]:
    """The parts that passed with these very files."""
    try:
        kept = json.loads((STATE / "passed.json").read_text())
    except (OSError, ValueError):
        return {}
    if kept.get("state") != state_of_files():
        return {}
    return {name: Outcome(*outcome) for name, outcome in kept["passed"].items()}


def note_passed(name: str, outcome: Outcome) -> None:
    """Remember that a part passed, beside those that passed before it."""
    STATE.mkdir(exist_ok=True)
    kept = {**passed_before(), name: outcome}
    (STATE / "passed.json").write_text(json.dumps({"state": state_of_files(), "passed": kept}, indent=1))


# ----- one part
@contextlib.contextmanager
def group_of(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The command and all that it starts, as one group, of which nothing is left in the end."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)


def play(part: Part, deadline: float | None) -> Outcome:
    """Run a part until it ends or the time is up."""
    STATE.mkdir(exist_ok=True)
    report = STATE / f"{part.name}.xml"
    report.unlink(missing_ok=True)
    began = time.monotonic()
    with group_of(part.command, STATE / f"{part.name}.log") as process:
        try:
            code = process.wait(None if deadline is None else max(0.0, deadline - began))
            result = "passed" if code == 0 else "failed"
        except subprocess.TimeoutExpired:
            result = "not finished"
    return Outcome(result, time.monotonic() - began, *counted(report))


def counted(report: Path) -> tuple[int, dict[str, int]]:
    """How many tests ran, and why others were skipped, from pytest's report; nothing where there is none."""
    if not report.exists():
        return 0, {}
    cases = list(ElementTree.parse(report).iter("testcase"))
    reasons = Counter(skip.get("message", "") for case in cases for skip in case.iter("skipped"))
    return len(cases) - sum(reasons.values()), dict(reasons)


# ----- all of them
def turned(todo: list[Part], today: datetime.date, state: str) -> list[Part]:
    """The same parts, beginning elsewhere on another day or with other files, so that each has its turn within a limit.

    >>> [part.name for part in turned([Part(name, (), "") for name in "abc"], datetime.date(2026, 1, 1), "1")]
    ['b', 'c', 'a']
    """
    start = (today.toordinal() + int(state[:8], 16)) % len(todo) if todo else 0
    return todo[start:] + todo[:start]


def table(every: list[Part], before: dict[str, Outcome], now: dict[str, Outcome]) -> str:
    """One line for each part, and one for each reason why tests were skipped."""
    lines = [f"{'part':<14} {'result':<14} {'tests':>6} {'skipped':>8} {'time':>7}  what it is"]
    reasons: Counter[str] = Counter()
    for part in every:
        outcome = now.get(part.name) or before.get(part.name)
        if outcome is None:
            lines.append(f"{part.name:<14} {'not reached':<14} {'':>6} {'':>8} {'':>7}  {part.about}")
            continue
        result = outcome.result if part.name in now else f"{outcome.result} before"
        minutes, seconds = divmod(round(outcome.seconds), 60)
        tests, skipped = outcome.tests or "", sum(outcome.skipped.values()) or ""
        lines.append(f"{part.name:<14} {result:<14} {tests:>6} {skipped:>8} {minutes:>4}:{seconds:02}  {part.about}")
        reasons.update(outcome.skipped)
    return "\n".join([*lines, *(f"skipped {count:>4} × {reason}" for reason, count in reasons.most_common())])


def tail(log: Path, lines: int = 60) -> str:
    """The end of what a part said."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def main(minutes: float | None = None, only: Sequence[str] = (), passed: str = "") -> int:
    """Play what is left, show the table, and say by the exit code whether anything failed."""
    if passed:
        note_passed(passed, Outcome("passed", 0.0, 0, {}))
        return 0
    every = parts()
    if unknown := sorted(set(only) - {part.name for part in every}):
        sys.exit(f"no such part: {', '.join(unknown)}; there are {', '.join(part.name for part in every)}")
    before = {} if only else passed_before()
    todo = [part for part in every if (part.name in only if only else part.name not in before)]
    if minutes is not None:
        todo = turned(todo, datetime.datetime.now(datetime.UTC).date(), state_of_files())
    deadline = None if minutes is None else time.monotonic() + 60 * minutes
    now: dict[str, Outcome] = {}
    for number, part in enumerate(todo, 1):
        if deadline is not None and time.monotonic() >= deadline:
            break
        print(f"[{number} of {len(todo)}] {part.name}: {part.about} …", flush=True)
        now[part.name] = outcome = play(part, deadline)
        print(f"  {outcome.result} after {outcome.seconds:.0f} s", flush=True)
        if outcome.result == "passed":
            note_passed(part.name, outcome)
        elif outcome.result == "failed":
            print(tail(STATE / f"{part.name}.log"), flush=True)
    print("\n" + table(every, before, now), flush=True)
    return int(any(outcome.result == "failed" for outcome in now.values()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, help="stop after so many; all parts where it is left out")
    parser.add_argument("--only", nargs="+", default=(), help="these parts alone")
    parser.add_argument("--passed", default="", help="note that this part has passed, and do nothing else")
    sys.exit(main(**vars(parser.parse_args())))
