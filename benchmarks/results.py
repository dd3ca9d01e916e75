"""The files of results, benchmarks/results/CASE.json, all of one format.

format          2; files of another are not read
case            the name that `python -m benchmarks` knows it by
machine         processor, cores, instructions, memory, versions, commit, and a hash of the code that was measured
when            the day, UTC
repeat          turns of each comparison
took_seconds    of the whole case
load            the load averages of the last minute before and after
calibration_ms  a fixed piece of work on all cores, timed between turns
others, stolen  shares of the processor time that went to other processes and to other guests of the host
disturbed       why the figures should not be trusted; empty if nothing speaks against them
report          title, notes, `rows` (what, value, unit; quartiles low and high; side: undrift, peer or limit; group of
                bars) and `goals` (what, value, unit, at_least or at_most, quartiles, met; same: both sides compute alike)
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from .measure import Report

FORMAT = 2
FOLDER = Path(__file__).parent / "results"


@dataclasses.dataclass(frozen=True)
class Result:
    case: str
    machine: dict[str, Any]
    when: str
    repeat: int
    took_seconds: float
    load: dict[str, float]
    calibration_ms: list[float]
    others: float | None
    stolen: float | None
    disturbed: list[str]
    report: Report

    def as_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **vars(self), "report": self.report.as_json()}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Result:
        fields = {key: value for key, value in found.items() if key not in ("format", "report")}
        return cls(**fields, report=Report.from_json(found["report"]))


def write(result: Result, folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(rounded(result.as_json()), indent=1, ensure_ascii=False, allow_nan=False)
    (folder / f"{result.case}.json").write_text(text + "\n")


def read_all(folder: Path = FOLDER) -> dict[str, Result]:
    """What has been measured, in the order of the cases."""
    from .cases import CASES

    order = {name: k for k, name in enumerate(CASES)}
    found = {}
    for path in sorted(folder.glob("*.json"), key=lambda path: (order.get(path.stem, len(order)), path.stem)):
        content = json.loads(path.read_text())
        if content.get("format") == FORMAT:
            found[path.stem] = Result.from_json(content)
    return found


def rounded(value: Any) -> Any:
    """Six digits of every number: more than any of them is worth, and files that can be read."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    return [rounded(entry) for entry in value] if isinstance(value, list) else value
