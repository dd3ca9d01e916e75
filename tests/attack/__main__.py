"""`python -m tests.attack`: the whole attack, docs/reliability.json and docs/reliability.md.

Exit code 1 where anything was lost or wrong, or a traceback was seen, or an attack is missing.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .counts import ATTACKS, Counts
from .page import COUNTS, write_page

BAD = ("lost", "wrong", "tracebacks")


def main() -> int:
    """Attack, and say what was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(ATTACKS), help="these attacks; the others' counts are kept")
    parser.add_argument("--share", type=float, default=1.0, help="this share of the full counts, to try it out (1)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, help=f"write the counts there ({COUNTS.name} in docs, and the page from it)"
    )
    arguments = parser.parse_args()
    out = arguments.out or COUNTS
    if arguments.share != 1.0 and arguments.out is None:
        parser.error("less than the full counts is not for the page: say --out FILE")
    counts: dict[str, Any] = json.loads(out.read_text(encoding="utf-8")) if arguments.only and out.exists() else {}
    with tempfile.TemporaryDirectory(prefix="undrift-attack-") as folder:
        _share_compiled_programs(Path(folder))
        for name in arguments.only or ATTACKS:
            counts[name] = _attacked(name, arguments.share, arguments.seed, Path(folder) / name)
            out.write_text(json.dumps(counts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if arguments.out is None:
        write_page()
    return int(any(found[kind] for found in counts.values() for kind in BAD))


def _share_compiled_programs(folder: Path) -> None:
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder / "compiled"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


def _attacked(name: str, share: float, seed: int, folder: Path) -> Counts:
    attack = ATTACKS[name]
    folder.mkdir()
    began = time.perf_counter()
    wanted = attack.full or (attack.at_least if share != 1.0 else 0)
    found = attack.play(max(1, round(share * wanted)) if wanted else 0, seed, folder)
    found["seconds"] = round(time.perf_counter() - began, 1)
    found["date"] = datetime.datetime.now(datetime.UTC).date().isoformat()
    found["on"] = surroundings()
    said = ", ".join(f"{found[kind]} {kind}" for kind in BAD)
    print(f"{name}: {found['attempts']:,} attempts, {said} ({found['seconds']:.0f} s)", flush=True)
    for failure in found["failures"]:
        print(f"  {failure}", flush=True)
    return found


def surroundings() -> str:
    """The machine and the versions, in one line."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("undrift", "jax", "numpy"))
    machine = f"{platform.system()} {platform.machine()} with {os.cpu_count()} cores"
    return f"{machine}, Python {platform.python_version()}, {versions}"


if __name__ == "__main__":
    sys.exit(main())
