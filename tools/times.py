"""Where the time of the tests goes: a plugin of pytest that ends with tables, by what was done, by folder and by test.

    python -m pytest -p tools.times -n 2 --dist loadfile      `make times`

Each test is charged for its set-up, call and tear-down. JAX says how long it traced, lowered and compiled; the system how
long processes that a test started and waited for have computed; a test that has a browser is the browser's. What is left
is Python: interpreting, waiting, and running compiled programs. Seconds are those of the workers, added up.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

MOST = 50  # tests that are listed
KINDS = ("tracing", "compiling", "processes", "browser", "rest")
EVENTS = {
    "/jax/core/compile/jaxpr_trace_duration": "tracing",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "tracing",
    "/jax/core/compile/backend_compile_duration": "compiling",
}
PROPERTY = "seconds of "

_spent: dict[str, float] = defaultdict(float)
_total: dict[str, dict[str, float]] = {}
_workers: dict[str, float] = defaultdict(float)


def _listen() -> None:
    import jax

    def heard(event: str, seconds: float, **_: object) -> None:
        if event in EVENTS:
            _spent[EVENTS[event]] += seconds

    jax.monitoring.register_event_duration_secs_listener(heard)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Every worker listens to its own JAX; the process that deals out tests has none."""
    if not session.config.getoption("numprocesses", None) or hasattr(session.config, "workerinput"):
        _listen()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Begin a new account for each test."""
    _spent.clear()
    yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Let each of the three reports of a test say what its phase was spent on."""
    report = yield
    times = os.times()
    children = times.children_user + times.children_system
    spent = {**_spent, "processes": children - getattr(item.config, "_children", 0.0)}
    item.config._children = children
    _spent.clear()
    if "browser" in getattr(item, "fixturenames", ()):
        spent = {"browser": call.duration}
    for kind, seconds in spent.items():
        report.user_properties = [*report.user_properties, (PROPERTY + kind, min(seconds, call.duration))]
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add a phase to the account of its test."""
    account = _total.setdefault(report.nodeid, dict.fromkeys(("all", *KINDS), 0.0))
    account["all"] += report.duration
    _workers[getattr(report, "worker_id", "this process")] += report.duration
    phase = {key.removeprefix(PROPERTY): value for key, value in report.user_properties if key.startswith(PROPERTY)}
    known = min(sum(phase.values()), report.duration)
    for kind, seconds in phase.items():
        account[kind] += seconds
    account["rest"] += report.duration - known


def _folder(test: str) -> str:
    parts = Path(test.split("::")[0]).parts
    return "/".join(parts[:2])


def _row(name: str, account: dict[str, float]) -> str:
    return " ".join([f"{account[kind]:>9.1f}" for kind in ("all", *KINDS)] + [f" {name}"])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The tables, and every test in .full/times.csv."""
    folders: dict[str, dict[str, float]] = {}
    whole = dict.fromkeys(("all", *KINDS), 0.0)
    for test, account in _total.items():
        folder = folders.setdefault(_folder(test), dict.fromkeys(("all", *KINDS), 0.0))
        for kind, seconds in account.items():
            folder[kind] += seconds
            whole[kind] += seconds
    said = terminalreporter.write_line
    said(" ".join(f"{kind:>9}" for kind in ("all", *KINDS)) + "  seconds of workers")
    said(_row("everything", whole))
    said(", ".join(f"{worker}: {seconds:.0f} s" for worker, seconds in sorted(_workers.items())))
    for rows, most in ((folders, len(folders)), (_total, MOST)):
        said("")
        for name in sorted(rows, key=lambda name: -rows[name]["all"])[:most]:
            said(_row(name, rows[name]))
    place = Path(".full/times.csv")
    place.parent.mkdir(exist_ok=True)
    lines = [",".join(["test", "all", *KINDS])]
    lines += [
        ",".join([f'"{test}"', *(f"{value:.3f}" for value in account.values())]) for test, account in _total.items()
    ]
    place.write_text("\n".join(lines) + "\n")
