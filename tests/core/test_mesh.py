"""Clients shared out over devices and processes: the numbers of one device, whatever is played."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from mesh_cases import CASES

import undrift as ud
from everyday import only
from undrift.engine.mesh import most_on_one, with_seats, words
from undrift.plan import Draw
from undrift.sharding import Shards

PLAYER = Path(__file__).with_name("mesh_player.py")
COUNTER = Path(__file__).with_name("mesh_meetings.py")
PATIENCE = 300.0  # seconds after which a process is taken to hang
TOLERANCE = 1e-12


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return int(found.getsockname()[1])


def played(folder: Path, count: int, *cases: str) -> dict[str, Any]:
    """How much these cases, played by so many processes, differ from one device."""
    address = f"localhost:{free_port()}"
    with ExitStack() as stack:
        processes = []
        for index in range(max(count, 1)):
            log = stack.enter_context((folder / f"process-{index}.log").open("w"))
            command = [sys.executable, str(PLAYER), str(folder), address, str(count), str(index), *cases]
            made = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
            stack.callback(made.kill)
            processes.append(made)
        codes = [made.wait(PATIENCE) for made in processes]
    logs = "\n".join(path.read_text() for path in sorted(folder.glob("*.log")))
    assert codes == [0] * len(processes), logs
    found: dict[str, Any] = {}
    for path in folder.glob("compared-*.json"):
        found |= json.loads(path.read_text())
    return found


def check(found: dict[str, Any]) -> None:
    too_much = {
        (case, name): by
        for case, said in found.items()
        for name, by in said["differences"].items()
        if not by <= TOLERANCE
    }
    assert not too_much


IN_TWO_PROCESSES = {
    "few": ("cohorts with memory", "one's own"),
    "more": ("everyone, another first round", "cohorts with memory", "all data in one place", "one's own"),
}
ON_THREE_DEVICES = {
    "few": {"everyone, another first round", "a dialogue in turn"},
    "more": CASES.keys() - {*IN_TWO_PROCESSES["more"]},
}
EVERY_DAY_FEW = pytest.mark.parametrize("many", only(["few", "more"], {"few"}))


@EVERY_DAY_FEW
def test_two_processes_agree_with_one_device(tmp_path: Path, many: str) -> None:
    found = played(tmp_path, 2, *IN_TWO_PROCESSES[many])
    assert found.keys() == {*IN_TWO_PROCESSES[many]}
    check(found)
    # Five clients on two devices: a phantom; cohorts of three, all of which may belong to one device
    assert found["one's own"]["mesh"] == (
        "2 devices of 2 processes, 3 clients each, the last 1 of them phantoms; 17 % of what is played is dropped"
    )
    assert "seats each for cohorts of 3" in found["cohorts with memory"]["mesh"]
    assert many == "few" or found["all data in one place"]["mesh"] == "None"


@pytest.mark.slow  # every day: two processes
@pytest.mark.parametrize("many", ["few", "more"])
def test_three_devices_of_one_process_agree_with_one(tmp_path: Path, many: str) -> None:
    found = played(tmp_path, 0, *sorted(ON_THREE_DEVICES[many]))
    assert found.keys() == ON_THREE_DEVICES[many]
    check(found)


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 2, 3])
def test_everything_agrees_with_one_device(tmp_path: Path, count: int) -> None:
    """On three devices of one process, in two and in three processes."""
    found = played(tmp_path, count)
    assert found.keys() == CASES.keys()
    check(found)


def test_seats_are_enough_and_their_cost_is_said() -> None:
    mesh = SimpleNamespace(size=2)  # only its size is asked for
    shards = Shards(mesh, clients=10, rows=5, seats=1)  # type: ignore[arg-type]
    ids = np.array([[0, 1, 5, 6], [0, 1, 2, 9]])
    assert most_on_one(shards, ids) == 3
    enough = with_seats(shards, Draw(ids, np.ones_like(ids), None))
    assert enough.seats == 3
    assert with_seats(enough, Draw(ids[:1], np.ones_like(ids[:1]), None)) == enough  # never fewer: one program more
    assert words(enough, 4) == (
        "2 devices of 1 processes, 5 clients each; 3 seats each for cohorts of 4; 33 % of what is played is dropped"
    )


MEETINGS = {
    "fedavg, everyone": [3, 2],
    "scaffold, everyone": [4, 2],
    "fedlin, everyone": [4, 2],
    "fedavg, cohorts": [1, 2],
    "scaffold, cohorts": [1, 2],
}


@pytest.mark.slow
@pytest.mark.parametrize("many", ["few", "more"])
def test_devices_meet_no_more_than_they_must(many: str) -> None:
    """A meeting for every sum that a method asks for and for the mean end of local paths, one more for what is reported."""
    names = ["fedlin, everyone", "fedavg, cohorts"] if many == "few" else list(MEETINGS)
    command = [sys.executable, str(COUNTER), *names]
    said = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert said.returncode == 0, said.stderr
    found = json.loads(said.stdout)
    assert found.pop("seats") == (
        "2 devices of 1 processes, 3 clients each, the last 1 of them phantoms; 1 seats each for cohorts of 2; "
        "0 % of what is played is dropped"
    )
    assert found == {name: MEETINGS[name] for name in names}


def test_what_is_no_mesh_is_refused() -> None:
    problem = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    with pytest.raises(ud.InputError, match=r"mesh is True .* or a jax\.sharding\.Mesh; got 2"):
        ud.run(ud.fedavg(eta=0.1), problem, rounds=1, mesh=2)
