"""Message mode and tickets without a federation: a post in this process whose nodes forget everything between two letters."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from undrift.deploy.carrier import Connected, Heard
from undrift.deploy.contract import Contract
from undrift.deploy.frames import Answer, Terms, write
from undrift.engine.simulate import simulate
from undrift.errors import InputError
from undrift.flower.apps import play
from undrift.flower.messages import MessageCarrier
from undrift.flower.node import Settings, answer
from undrift.flower.post import Reply
from undrift.flower.roll import Roll
from undrift.flower.tickets import Ticket, TicketOffice, make_tickets
from undrift.flower.worker import Patience, ServerGone
from undrift.studies.agreement import Agreement
from undrift.studies.serving import serve
from undrift.studies.study import study_from

CONTRACT = Contract(1, "0", {}, ["site-0", "site-1"], False, {})


class Letters:
    """A post whose nodes answer at once; those in `away` are not there."""

    def __init__(self, names: Mapping[int, str], reply: Any = None) -> None:
        self.names, self.reply, self.away = dict(names), reply, set[int]()
        self.sent: list[tuple[int, Mapping[str, Any]]] = []
        self.numbers, self.waiting = itertools.count(), dict[str, Reply]()

    def nodes(self) -> dict[int, str]:
        return {node: name for node, name in self.names.items() if node not in self.away}

    def send(self, node: int, content: Mapping[str, Any]) -> str:
        letter = str(next(self.numbers))
        self.sent.append((node, content))
        if self.reply is not None:
            reply = self.reply(node, content)
            self.waiting[letter] = reply if isinstance(reply, Reply) else Reply("", reply)
        return letter

    def collect(self, letters: Iterable[str]) -> list[Reply]:
        came = [(letter, self.waiting.pop(letter)) for letter in list(letters) if letter in self.waiting]
        return [Reply(letter, reply.content, reply.trouble) for letter, reply in came]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting where nothing can happen meanwhile."""
    monkeypatch.setattr("undrift.flower.messages.LOOK_ROUND", 0.0)
    monkeypatch.setattr("undrift.flower.messages.AGAIN", 0.0)


@pytest.mark.usefixtures("impatient")
def test_a_run_over_messages_equals_the_simulation_although_nodes_die(tmp_path: Path) -> None:
    """A method with memory at the sites, whose processes end with every letter, a fifth of them before they have answered."""
    problem = {"name": "least_squares", "clients": 2, "samples": 5, "dim": 2}
    method = {"name": "scaffold", "eta": 0.05}
    agreement = Agreement.of(
        study_from({"problem": problem, "run": {"rounds": 2, "steps": 2}, "method": [method]}, "test")
    )
    chance, deaths = random.Random(1), []

    def node(number: int, content: Mapping[str, Any]) -> Mapping[str, Any] | Reply:
        settings = Settings(part=number, state=str(tmp_path / f"node-{number}"))
        said = answer(content, settings, None)
        if chance.random() < 0.2:
            deaths.append(number)
            return Reply("", {}, "the node died after it had done its work")
        return said

    carrier = MessageCarrier(Letters({0: "", 1: ""}, node), agreement.contract, pause=0.0)
    result = serve(agreement, carrier, tmp_path, resend=None, farewell=0.0)
    simulated = simulate(agreement.simulated(agreement.source.whole([None, None])))
    np.testing.assert_allclose(result.x, simulated.x, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.history["loss"], simulated.history["loss"], rtol=0, atol=1e-12)
    assert deaths


@pytest.mark.usefixtures("impatient")
def test_a_reply_that_no_site_can_have_written_ends_the_connection_and_not_the_run() -> None:
    good: dict[str, Any] = {"said": [b"hello"], "counts": [1], "trouble": ""}
    replies = iter([good, {**good, "counts": [2]}, {**good, "counts": [1, -1, 1]}, {"said": "x"}, good])
    carrier = MessageCarrier(Letters({7: "site-0"}, lambda node, content: next(replies)), CONTRACT, pause=0.0)
    assert [carrier.receive(1), carrier.receive(1)] == [Connected("site-0", 1), Heard("site-0", 1, b"hello")]
    carrier.send(
        "site-0", write(Terms(b""))
    )  # the reply to this does not fit it, and neither do those to new connections
    lost, again, hello = carrier.receive(1), carrier.receive(5), carrier.receive(1)
    assert (lost.connection, lost.why) == (1, "a reply does not fit the message that it answers")
    assert again == Connected("site-0", 4)
    assert hello == Heard("site-0", 4, b"hello")


def test_the_operators_names_decide_who_is_who() -> None:
    post = Letters({1: "site-0", 2: "site-0", 3: "stranger"})
    roll = Roll(post, CONTRACT.sites)
    assert roll.present() == {"site-0": 1}  # the second of that name is refused, the stranger has no place
    post.away = {1}
    post.names[4] = "site-0"  # registered in place of the one that is gone
    assert roll.present() == {"site-0": 4}
    assert not post.sent


def test_nodes_without_names_are_asked_and_the_first_keeps_its_name() -> None:
    said = {1: {"part": 1}, 2: {"site": "site-1"}, 3: {"site": "", "part": 9}}
    post = Letters(dict.fromkeys(said, ""), lambda node, content: said[node])
    roll = Roll(post, CONTRACT.sites)
    assert roll.present() == {"site-1": 1}
    post.away = {1}
    assert roll.present() == {}
    assert [node for node, _ in post.sent] == [1, 2, 3]


def test_a_site_whose_ticket_came_back_gets_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("undrift.flower.tickets.AGAIN", 0.0)
    monkeypatch.setattr("undrift.flower.tickets.LOOK_ROUND", 0.0)
    tickets = make_tickets(tmp_path, CONTRACT, "127.0.0.1:1")
    post = Letters({5: "site-0"})

    def reply(node: int, content: Mapping[str, Any]) -> Mapping[str, Any]:
        if len(post.sent) == 3:
            office._over.set()
        return {"end": "the server is gone"}

    post.reply = reply
    office = TicketOffice(post, tickets)
    with office:
        assert office._over.wait(30)
    assert {node for node, _ in post.sent} == {5}
    assert Ticket.read(post.sent[2][1]) == tickets["site-0"]


def test_a_replayed_ticket_lets_in_as_the_same_site_and_only_while_its_server_runs(tmp_path: Path) -> None:
    from undrift.deploy.grpc_server import GrpcCarrier
    from undrift.deploy.grpc_site import NotLetIn, stay_connected

    def tickets_of(start: str) -> dict[str, Ticket]:
        return make_tickets(tmp_path / start, CONTRACT, "")

    def use(ticket: Ticket, port: int) -> None:
        ticket.unpack(tmp_path)

        def talk(send: Any, incoming: Any) -> bool:
            send(Answer(0, 0, 0, b""))  # only to be heard
            return next(incoming) is not None

        patience = Patience(0.3)
        stay_connected(f"127.0.0.1:{port}", tmp_path, patience.listening(talk), limit=2**20, check=patience.check)

    old, new = tickets_of("first start"), tickets_of("second start")
    carrier = GrpcCarrier(tmp_path / "second start" / "server", 0, lambda site: None, host="127.0.0.1")
    try:
        with pytest.raises((ServerGone, NotLetIn)):
            use(old["site-0"], carrier.port)
        for number in (1, 2):
            copied = threading.Thread(target=use, args=(Ticket.read(new["site-1"].words()), carrier.port))
            copied.start()
            assert carrier.receive(30) == Connected("site-1", number)
            assert isinstance(carrier.receive(30), Heard)
            carrier.send("site-1", write(Terms(b"")))
            copied.join(30)
            carrier.receive(30)  # the connection ends
    finally:
        carrier.close()


def test_a_ticket_that_lacks_something_is_refused() -> None:
    with pytest.raises(InputError, match="ticket cannot be read"):
        Ticket.read({"ask": "ticket", "run": "0" * 64, "address": "127.0.0.1:1"})


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"mode": "post", "out": "x"}, "mode of the run's configuration is one of"),
        ({"mode": "tickets", "out": ""}, "the run needs a directory"),
    ],
)
def test_a_run_says_what_its_configuration_lacks(config: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        play("study.toml", Letters({}), config)


@pytest.mark.parametrize(
    ("config", "match"),
    [({"partition-id": -1}, "whole number"), ({"state": 3}, "a word in quotation marks"), ({"data": ""}, "data of")],
)
def test_a_nodes_settings_are_checked(config: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        Settings.read(config)


def test_a_nodes_state_directory_is_that_of_the_run() -> None:
    with pytest.raises(InputError, match="needs a state directory"):
        Settings().folder("0" * 64)
    with pytest.raises(InputError, match="hash of the contract"):
        Settings(state="/srv").folder("../../etc")
    assert Settings(state="/srv").folder("ab" * 32) == Path("/srv") / ("ab" * 16)


def test_a_message_that_nobody_knows_is_refused() -> None:
    with pytest.raises(InputError, match="asks for 'dance'"):
        answer({"ask": "dance"}, Settings(), None)
    with pytest.raises(InputError, match="holds no frames"):
        answer({"ask": "talk", "frames": [1]}, Settings(), None)
