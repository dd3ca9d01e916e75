"""A case in a fresh process, so that it has devices, memory and compiled programs of its own.

`python -m benchmarks.child CASE REPEAT FILE` writes the report into the file.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from . import disturbance
from .disturbance import cores
from .machine import ROOT, facts
from .measure import Report
from .results import Result

__all__ = ["Failed", "in_child", "main"]
PATIENCE = 900.0  # seconds for one case


class Failed(Exception):
    """A case did not end with a report."""


def _ended(command: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """The code with which it ended and what it complained of; none of the processes that it started is left behind."""
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, start_new_session=True, **pipes) as process:
        try:
            _, complaints = process.communicate(timeout=PATIENCE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, complaints


def in_child(case: str, repeat: int) -> Result:
    """Run it, and watch the machine meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        command = [sys.executable, "-m", "benchmarks.child", case, str(repeat), str(file)]
        path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH")) if part)
        load, before = os.getloadavg()[0], disturbance.Clock.now()
        try:
            # What an earlier run compiled must not make this one faster; the case of start-up keeps its own.
            environment = {**os.environ, "PYTHONPATH": path, "UNDRIFT_COMPILED": "off"}
            code, complaints = _ended(command, environment)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"it took more than {PATIENCE:g} s") from error
        after = disturbance.Clock.now()
        if code != 0 or not file.exists():
            raise Failed(f"it ended with code {code}:\n{complaints[-2000:]}")
        seen = json.loads(file.read_text())
    report, used = Report.from_json(seen["report"]), disturbance.shares(before, after, cores())
    return Result(
        case=case,
        machine=facts(),
        when=datetime.datetime.now(datetime.UTC).date().isoformat(),
        repeat=repeat,
        took_seconds=after.wall - before.wall,
        load={"before": load, "after": os.getloadavg()[0]},
        calibration_ms=seen["calibration_ms"],
        others=used["others"],
        stolen=used["stolen"],
        disturbed=disturbance.reasons(report, seen["calibration_ms"], used),
        report=report,
    )


def main(case: str, repeat: str, file: str) -> None:
    disturbance.calibrate()
    report = importlib.import_module(f"benchmarks.{case}").run(int(repeat))
    disturbance.calibrate()
    Path(file).write_text(json.dumps({"report": report.as_json(), "calibration_ms": disturbance.CALIBRATIONS}))


if __name__ == "__main__":
    main(*sys.argv[1:])
