"""Fuzz each target, keep what was new in its corpus, and write what happened to results.json."""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TARGETS = ("wire", "study", "checkpoint", "npz")
RESULTS = HERE / "results.json"
CRASHES = HERE / "crashes"
MOST_FILES = 150  # of a corpus


def main() -> int:
    parser = argparse.ArgumentParser(prog="python fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", default=TARGETS, metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    arguments = parser.parse_args()
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for target in arguments.targets:
        found[target] = campaign(target, arguments.seconds)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        print(target, found[target], flush=True)
    return int(any(found[target]["crashes"] for target in arguments.targets))


def campaign(target: str, seconds: int) -> dict[str, Any]:
    """Start from the corpus, look for new ways through the code, and keep one input for each."""
    kept = HERE / "corpus" / target
    CRASHES.mkdir(exist_ok=True)
    before = set(CRASHES.iterdir())
    subprocess.run([sys.executable, f"{HERE / target}.py", "--seeds"], check=True)
    with tempfile.TemporaryDirectory() as new:
        began = time.monotonic()
        said = _run(
            target,
            f"-max_total_time={seconds}",
            "-print_final_stats=1",
            "-timeout=30",
            "-report_slow_units=30",
            new,
            str(kept),
        )
        took = time.monotonic() - began
        _keep(kept, Path(new))
    runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", said)
    crashes = sorted(path.name for path in set(CRASHES.iterdir()) - before)
    return {
        "runs": int(runs[1]) if runs else 0,
        "seconds": round(took),
        "crashes": len(crashes),
        "crash_files": crashes,
        "corpus_files": len(list(kept.iterdir())),
        "python": platform.python_version(),
        "atheris": version("atheris"),
    }


def _run(target: str, *arguments: str) -> str:
    command = [sys.executable, f"{HERE / target}.py", f"-artifact_prefix={CRASHES}/{target}-", *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", check=False).stderr


def _keep(kept: Path, new: Path) -> None:
    """Add the smallest of the inputs that found something new, as far as there is room; a file is named by its content."""
    room = MOST_FILES - len(list(kept.iterdir()))
    for path in sorted(new.iterdir(), key=lambda path: (path.stat().st_size, path.name))[: max(room, 0)]:
        (kept / path.name[:16]).write_bytes(path.read_bytes())


if __name__ == "__main__":
    sys.exit(main())
