"""kill -9 of servers and sites, at random and at every numbered point of the protocol: the run ends as if nothing had been."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from undrift.cli import main
from undrift.command import rehearse as command
from undrift.command.processes import Troupe
from undrift.deploy.certs import make_certificates
from undrift.deploy.faults import POINTS, VARIABLE
from undrift.deploy.ports import free_port
from undrift.studies.replaying import replay

PATIENCE = 600.0
ROUNDS = 200
REST = 0.5  # of the rounds, at the end, in which nobody is killed: a late look at the run does not miss a kill
SITES = 2
PROBLEM = f'[problem]\nname = "least_squares"\nclients = {SITES}\nsamples = 6\ndim = 4\n'
METHODS = {
    "fedlin": 'name = "fedlin"\neta = 0.01\nup = "top_k:2"\ndown = "top_k:2"\n',
    "scaffold": 'name = "scaffold"\neta = 0.01\n',
    "fedtrack": 'name = "fedtrack"\neta = 0.005\n',
    "fedsplit": 'name = "fedsplit"\ns = 0.1\n',
    "sequential_fl": 'name = "sequential_fl"\neta = 0.01\n',
}


def study(folder: Path, method: str, rounds: int) -> Path:
    file = folder / "study.toml"
    file.write_text(f"{PROBLEM}[run]\nrounds = {rounds}\nsteps = 2\n[[method]]\n{METHODS[method]}")
    return file


@pytest.fixture(autouse=True)
def _rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "REST", REST)


def rehearse(
    folder: Path, method: str, kills: int, seed: int, capsys: pytest.CaptureFixture[str], rounds: int = ROUNDS
) -> None:
    words = [
        "rehearse",
        str(study(folder, method, rounds)),
        "--chaos",
        str(kills),
        "--seed",
        str(seed),
        "--json",
        "--quiet",
    ]
    code = main(words)
    said = capsys.readouterr()
    assert code == 0, said.err
    found = json.loads(said.out)
    assert found["kills"] == kills
    assert found["rounds"] == rounds
    assert found["equal"], found


@pytest.mark.computes
def test_two_kills_change_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A site and the server are killed, each once."""
    rehearse(tmp_path, "fedlin", kills=2, seed=8, capsys=capsys, rounds=60)


@pytest.mark.slow
@pytest.mark.computes
def test_ten_kills_change_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rehearse(tmp_path, "fedlin", kills=10, seed=1, capsys=capsys)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_fifty_kills_change_nothing(method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rehearse(tmp_path, method, kills=10, seed=2, capsys=capsys)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedlin", "scaffold"])
@pytest.mark.parametrize("point", POINTS)
def test_a_death_at_every_point_of_the_protocol_changes_nothing(point: str, method: str, tmp_path: Path) -> None:
    make_certificates(tmp_path / "pki", [f"site-{i}" for i in range(SITES)])
    file, port, victim = study(tmp_path, method, 6), free_port(), "site-1" if point.startswith("site") else "server"
    with Troupe(tmp_path / "logs") as troupe:
        troupe.add("server", ["serve", str(file), "--certs", str(tmp_path / "pki/server"), "--port", str(port),
                              "--host", "127.0.0.1", "--out", str(tmp_path / "run"), "--no-figures"])  # fmt: skip
        for i in range(SITES):
            troupe.add(f"site-{i}", ["join", f"127.0.0.1:{port}", "--certs", str(tmp_path / f"pki/site-{i}"),
                                     "--state", str(tmp_path / f"state-{i}"), "--study", str(file)])  # fmt: skip
        for name in troupe.commands:
            troupe.start(name, **({VARIABLE: f"{point}:3"} if name == victim else {}))
        died = troupe.running[victim].wait(PATIENCE)
        assert died == -9, (tmp_path / "logs" / f"{victim}.log").read_text()
        troupe.start(victim)
        limit = time.monotonic() + PATIENCE
        while not troupe.all_ended():
            assert troupe.failed() is None, troupe.failed()
            assert time.monotonic() < limit
            time.sleep(0.1)
    found = replay(tmp_path / "run")
    assert found.rounds == 6
    assert found.equal, found.words()
