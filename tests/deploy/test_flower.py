"""A real federation of Flower on this machine: a SuperLink and two SuperNodes, with TLS and node authentication."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'undrift[flower]'")

from undrift.deploy.ports import free_port
from undrift.flower.federation import Federation, make_app, make_node_key
from undrift.studies.replaying import replay

STUDY = """
[problem]
name = "least_squares"
clients = 2
samples = 5
dim = 3

[run]
rounds = 2
steps = 2
record_every = 2

[[method]]
name = "scaffold"
eta = 0.05
"""
SECONDS = 600.0  # for a run, on a machine that is busy with other things
REFUSED = re.compile(r"activate-node HTTP/1.1\" 4\d\d")
EXAMPLE = Path(__file__).parents[2] / "examples" / "flower"


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Federation]:
    folder = tmp_path_factory.mktemp("federation")
    with Federation(folder / "flower") as federation:
        for i in range(2):
            federation.add_node(f"site-{i}", {"state": str(folder / f"state-{i}")})
        yield federation


def play(federation: Federation, mode: str, seed: int) -> None:
    """Play the study in a mode; with a seed of its own it is another contract, of which the nodes remember nothing."""
    folder = federation.folder.parent
    app, out = folder / f"app-{mode}", folder / mode
    make_app(app, STUDY.replace("[run]", f"[run]\nseed = {seed}"))
    run = federation.run(app, {"mode": mode, "out": str(out), "address": f"127.0.0.1:{free_port()}"})
    federation.wait(run, SECONDS)
    found = replay(out)
    assert found.rounds == 2
    assert found.difference <= 1e-12


def test_ticket_mode_equals_the_simulation(federation: Federation) -> None:
    play(federation, "tickets", 1)
    assert "taking part as client 1" in federation.log("site-1").read_text()


@pytest.mark.slow
def test_message_mode_equals_the_simulation(federation: Federation) -> None:
    play(federation, "messages", 2)


@pytest.mark.slow
def test_the_example_in_flowers_simulation_equals_ours(tmp_path: Path) -> None:
    """Nodes without names and without a state directory: Flower keeps their memory."""
    pytest.importorskip("ray", reason="Flower's simulation needs Ray: pip install 'flwr[simulation]'")
    with Federation(tmp_path / "flower", simulation=True) as federation:
        federation.wait(federation.run(EXAMPLE, {"out": str(tmp_path / "out")}), SECONDS)
    assert replay(tmp_path / "out").difference <= 1e-12


@pytest.mark.slow
def test_a_node_that_was_not_registered_is_refused(federation: Federation) -> None:
    make_node_key(federation.folder / "keys" / "stranger")
    federation.start_node("stranger", {"state": str(federation.folder)})
    end = time.monotonic() + SECONDS
    while not REFUSED.search(federation.log("superlink").read_text()):
        assert time.monotonic() < end, federation.logs()
        time.sleep(0.5)
    assert "SuperNode ID" not in federation.log("stranger").read_text()


def test_the_example_is_the_app_that_rehearsals_use(tmp_path: Path) -> None:
    make_app(tmp_path, (EXAMPLE / "federated" / "study.toml").read_text())
    for name in ("__init__.py", "server_app.py", "client_app.py", "study.toml"):
        assert (tmp_path / "federated" / name).read_text() == (EXAMPLE / "federated" / name).read_text()
