"""Deployed rounds with JAX in them: a server and its sites as processes, and how soon who was killed is back."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from undrift.command.processes import Troupe
from undrift.deploy.certs import make_certificates
from undrift.deploy.ports import free_port

from . import disturbance
from .measure import Goal, Report, Row

SETTLED = 20  # rounds before which programs are compiled
PATIENCE = 600.0
FEDLIN = {
    "problem": {"name": "least_squares", "clients": 3, "samples": 200, "dim": 100},
    "run": {"rounds": 400, "steps": 10, "record_every": 1000},
    "method": {"name": "fedlin", "eta": 1e-4, "up": "top_k:10", "down": "top_k:10"},
}
SPLIT = {
    "problem": {"name": "network", "data": "digits", "model": "mlp", "clients": 1, "partition": "iid", "cut": 2},
    "run": {"rounds": 60, "steps": 100, "record_every": 1000},
    "method": {"name": "ssl", "eta": 0.05},
}
LONG = {**FEDLIN, "run": {**FEDLIN["run"], "rounds": 100_000}}


def run(repeat: int) -> Report:
    """The benchmark; two turns at most, since processes take seconds to start."""
    turns = min(repeat, 2)
    fedlin = min(_seconds_per_round(FEDLIN) for _ in range(turns)) / 2  # two exchanges a round
    dialogue = min(_seconds_per_round(SPLIT) for _ in range(turns)) / SPLIT["run"]["steps"]
    back = _rejoining(turns)
    rows = [
        Row("FedLin, top-k both ways, 3 sites, d = 100: an exchange", 1000 * fedlin, "ms"),
        Row("sequential split learning, one site, batch 20: a step of the dialogue", 1000 * dialogue, "ms"),
        *(Row(f"from kill -9 of {who} to its next finished round", seconds, "s") for who, seconds in back.items()),
    ]
    goals = [
        Goal("deployed FedLin: an exchange", 1000 * fedlin, at_most=4.0, unit="ms"),
        Goal("deployed split dialogue: a step", 1000 * dialogue, at_most=2.0, unit="ms"),
    ]
    return Report("deploy_rounds", "deployed rounds on one machine, JAX, checkpoints and fsync included", rows, goals)


def _seconds_per_round(tables: dict[str, Any]) -> float:
    """The median, after programs are compiled; everything that a round needs is in it."""
    disturbance.calibrate()
    with tempfile.TemporaryDirectory() as folder, Troupe(Path(folder) / "logs") as troupe:
        _start(troupe, Path(folder), tables)
        _until(troupe, troupe.all_ended)
        rows = [json.loads(line) for line in (Path(folder) / "run/trace.jsonl").read_text().splitlines()[1:]]
    return float(np.median(np.diff([row["seconds"] for row in rows][SETTLED:])))


def _rejoining(turns: int) -> dict[str, float]:
    """Seconds from a kill to the next round that is finished, the start of the process included."""
    found: dict[str, list[float]] = {"a site": [], "the server": []}
    with tempfile.TemporaryDirectory() as folder, Troupe(Path(folder) / "logs") as troupe:
        _start(troupe, Path(folder), LONG)
        trace = Path(folder) / "run/trace.jsonl"
        _until(troupe, lambda: _lines(trace) > SETTLED)
        for _ in range(turns):
            for who, name in (("a site", "site-1"), ("the server", "server")):
                before = _lines(trace)
                _until(troupe, lambda least=before: _lines(trace) > least + SETTLED)
                began = time.perf_counter()
                troupe.kill(name)
                before = _lines(trace)
                troupe.start(name)
                _until(troupe, lambda least=before: _lines(trace) > least)
                found[who].append(time.perf_counter() - began)
    return {who: min(seconds) for who, seconds in found.items()}


def _start(troupe: Troupe, folder: Path, tables: dict[str, Any]) -> None:
    sites = [f"site-{i}" for i in range(tables["problem"]["clients"])]
    make_certificates(folder / "pki", sites)
    blocks = [("[problem]", tables["problem"]), ("[run]", tables["run"]), ("[[method]]", tables["method"])]
    lines = [line for head, table in blocks for line in (head, *(f"{k} = {json.dumps(v)}" for k, v in table.items()))]
    study, port = folder / "study.toml", free_port()
    study.write_text("\n".join(lines))
    troupe.add("server", ["serve", str(study), "--certs", str(folder / "pki/server"), "--port", str(port), "--host",
                          "127.0.0.1", "--out", str(folder / "run"), "--no-figures"])  # fmt: skip
    for site in sites:
        troupe.add(site, ["join", f"127.0.0.1:{port}", "--certs", str(folder / "pki" / site), "--state",
                          str(folder / site), "--study", str(study)])  # fmt: skip
    for name in troupe.commands:
        troupe.start(name)


def _lines(trace: Path) -> int:
    return trace.read_bytes().count(b"\n") if trace.exists() else 0


def _until(troupe: Troupe, done: Any) -> None:
    limit = time.monotonic() + PATIENCE
    while not done():
        if (why := troupe.failed()) is not None:
            raise RuntimeError(why)
        if time.monotonic() > limit:
            raise TimeoutError(f"a rehearsal took more than {PATIENCE:g} s")
        time.sleep(0.02)
