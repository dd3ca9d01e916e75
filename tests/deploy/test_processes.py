"""Real processes over gRPC end where the simulation ends, for every kind of method."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from undrift.deploy.certs import make_certificates
from undrift.deploy.ports import free_port
from undrift.studies.replaying import replay

PATIENCE = 600.0
LOGISTIC = {"name": "digits", "classes": 5}
SQUARES = {"name": "least_squares", "samples": 6, "dim": 4}
NETWORK = {"name": "network", "data": "digits", "model": "mlp", "partition": "iid", "cut": 2}

CASES = {
    "fedavg": (LOGISTIC, {"steps": 3}, {"name": "adam.py:fedavg_adam"}),
    "scaffold": (SQUARES, {"steps": 3, "participation": "uniform:2"}, {"name": "scaffold", "eta": 0.01}),
    "fedlin": (LOGISTIC, {"steps": [1, 3, 2]}, {"name": "fedlin", "eta": 0.01, "up": "top_k:20", "down": "top_k:20"}),
    "fedtrack": (SQUARES, {"steps": 3}, {"name": "fedtrack", "eta": 0.005}),
    "fedsplit": (SQUARES, {"steps": 1}, {"name": "fedsplit", "s": 0.1}),
    "sequential_fl": (LOGISTIC, {"steps": 2}, {"name": "sequential_fl", "eta": 0.01}),
    "ssl": (NETWORK, {"steps": 2}, {"name": "ssl", "eta": 0.05}),
    "ssl-peer": (NETWORK, {"steps": 2}, {"name": "ssl", "eta": 0.05, "mode": "peer"}),
    "sflv1": (NETWORK, {"steps": 2}, {"name": "sflv1", "eta": 0.05}),
    "sflv2": (NETWORK, {"steps": 2}, {"name": "sflv2", "eta": 0.05}),
}
ROUNDS = 3
# A method of one's own: installed at the server and at the sites, known by its content
ADAM = """import optax
import undrift as ud


def fedavg_adam() -> ud.Algorithm:
    return ud.fedavg(eta=0.01, server=optax.adam(0.1)).build()
"""


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each case, all of them played by one server and three sites, one after the other."""
    return play(tmp_path_factory.mktemp("deployed"), 3, tuple(CASES))


def play(folder: Path, sites: int, names: tuple[str, ...]) -> Path:
    """Play these cases by a server and sites that are processes of their own."""
    make_certificates(folder / "pki", [f"site-{i}" for i in range(sites)])
    for name in names:
        problem, run, method = CASES[name]
        (folder / name).mkdir()
        tables = {"problem": {**problem, "clients": sites}, "run": {"rounds": ROUNDS, **run}}
        (folder / name / "study.toml").write_text(toml(tables, method))
        if ".py:" in method["name"]:
            (folder / name / "adam.py").write_text(ADAM)
    (folder / "ports.json").write_text(json.dumps({name: free_port() for name in names}))
    player = str(Path(__file__).with_name("player.py"))
    parts = ["server", *(str(i) for i in range(sites))]
    processes = [
        subprocess.Popen(
            [sys.executable, player, part, str(folder), *names],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for part in parts
    ]
    try:
        said = {part: process.communicate(timeout=PATIENCE)[0] for part, process in zip(parts, processes, strict=True)}
    finally:
        for process in processes:
            process.kill()
    for part, process in zip(parts, processes, strict=True):
        assert process.returncode == 0, f"{part}: {said[part].decode()}"
    return folder


def toml(tables: dict, method: dict) -> str:
    """A study file of plain values."""
    blocks = [*((f"[{name}]", table) for name, table in tables.items()), ("[[method]]", method)]
    return "\n".join(
        line for head, table in blocks for line in (head, *(f"{k} = {json.dumps(v)}" for k, v in table.items()))
    )


@pytest.mark.slow  # every day: the tutorial of the hospitals, and two kills (test_crashes.py)
@pytest.mark.computes
@pytest.mark.parametrize("name", CASES)
def test_processes_end_where_the_simulation_ends(deployed: Path, name: str) -> None:
    found = replay(deployed / name / "run", trust=True)
    assert found.rounds == ROUNDS
    assert found.absences == 0
    assert found.equal, found.words()
    assert found.result.history["loss"][-1] != found.result.history["loss"][0]
