"""Whatever arrives is refused with a `WireError`, or it is a message that can be used and encodes to the same bytes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import undrift as ud
from attack.wire_payloads import COMPRESSORS, Kind, attack_wire, holds, hostile, kinds, used, with_fitting_checksum
from everyday import share
from undrift import envelope, precision, wire
from undrift.engine.loopback import Direct
from undrift.engine.nodes import ClientNode, ServerNode
from undrift.engine.parts import MEASURE, Call, Parts
from undrift.envelope import DOWN, OVERHEAD, Envelope, seal, unseal
from undrift.messages import Levels, Signs, Sparse

PLAIN = ("vector", "whole numbers", "truth values", "nothing", "nested")
NAMES = [f"{name}, {dtype}" for dtype in ("float32", "float64") for name in (*COMPRESSORS, *PLAIN)]


every_kind = pytest.mark.parametrize("name", NAMES)


def known(name: str) -> Kind:
    """The kind of this name; all are made when the first is asked for, not when tests are collected."""
    return kinds()[NAMES.index(name)]


def test_kinds_are_known_by_their_names():
    assert [f"{kind.name}, {kind.dtype}" for kind in kinds()] == NAMES


@every_kind
@hypothesis.given(data=st.data())
def test_any_bytes(name, data):
    kind = known(name)
    length = wire.size(kind.shapes)
    holds(kind, data.draw(st.binary(min_size=length, max_size=length)))
    other = data.draw(st.binary(max_size=2 * min(length, 60) + 2).filter(lambda p: len(p) != length))
    with pytest.raises(ud.WireError, match=f"has {length} bytes, got {len(other)}"):
        wire.decode(other, kind.shapes)


@every_kind
@hypothesis.given(seed=st.integers(0, 2**32 - 1))
def test_damaged_messages(name, seed):
    kind = known(name)
    holds(kind, hostile(wire.encode(kind.honest), np.random.default_rng(seed)))


@every_kind
def test_honest_messages_arrive_as_they_were(name):
    kind = known(name)
    payload = wire.encode(kind.honest)
    arrived = wire.decode(payload, kind.shapes)
    assert wire.encode(arrived) == payload
    assert used(arrived, kind.dtype) is None


def test_an_attack_in_small():
    counts = attack_wire(1500, seed=1)
    assert counts["payloads"] == 1500 == counts["refused"] + counts["accepted"]
    assert min(counts["refused"], counts["accepted"]) > 300


def test_numbers_that_are_not_finite_pass_only_where_they_are_awaited():
    for bad in (np.nan, np.inf, -np.inf):
        message = {"a": np.array([1.0, bad]), "b": Signs(np.ones(3, bool), np.float64(abs(bad)))}
        payload = wire.encode(message)
        with pytest.raises(ud.WireError, match="finite numbers, part 1 of 2 does not"):
            wire.decode(payload, message)
        back = wire.decode(payload, message, not_finite=True)
        assert wire.encode(back) == payload


def test_a_step_whose_multiples_are_infinite_is_refused():
    largest = np.finfo(np.float32).max
    packed = Levels(np.array([3, 0], np.int32), np.float32(largest / 2), 3)
    with pytest.raises(ud.WireError, match="finite"):
        wire.decode(wire.encode(packed), packed)
    small = Levels(np.array([1, 0], np.int32), packed.step, 3)
    assert wire.decode(wire.encode(small), small).level.tolist() == [1, 0]


def test_one_vector_has_one_encoding():
    """A negative scale would be the same vector with all signs turned; so would bits beyond the last entry."""
    signs = Signs(np.array([True, False, True]), np.float32(0.5))
    payload = wire.encode(signs)
    turned = bytes([payload[0] ^ 0b111]) + np.float32(-0.5).tobytes()
    with pytest.raises(ud.WireError, match=r"a scale is ≥ 0 .* got -0\.5"):
        wire.decode(turned, signs)
    with pytest.raises(ud.WireError, match="bits after the last of 3 are zero"):
        wire.decode(bytes([payload[0] | 0b1000]) + payload[1:], signs)


# ----- between nodes
@functools.cache
def problem() -> ud.problems.Problem:
    rng = np.random.default_rng(0)
    return ud.problems.least_squares(rng.normal(size=(3, 4, 2)), rng.normal(size=(3, 4)))


class Changed(Direct):
    """A network that changes the answers of client 1."""

    def __init__(self, clients: list[ClientNode], change: Callable[[bytes], Any]) -> None:
        super().__init__(clients)
        self.change = change

    def deliver(self, call: Call, messages: Any) -> dict[int, bytes]:
        replies = super().deliver(call, messages)
        changed = self.change(replies[1])
        return {i: reply for i, reply in replies.items() if i != 1} | ({} if changed is None else {1: changed})


def nodes(change: Callable[[bytes], Any] = lambda reply: reply) -> tuple[ServerNode, list[ClientNode]]:
    run = ud.describe(ud.fedavg(eta=0.01), problem(), rounds=2)
    parts = Parts(run.contract)
    clients = [ClientNode(i, problem().only(i), parts) for i in range(3)]
    return ServerNode(parts, Changed(clients, change)), clients


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda reply: reply[:-1], "has 16 bytes, got 15"),
        (lambda reply: reply + b"\0", "has 16 bytes, got 17"),
        (lambda reply: np.array([1.0, np.nan]).tobytes(), "finite numbers, part 1 of 1 does not"),
        (lambda reply: "text", "a message is bytes, got str"),
        (lambda reply: None, "is missing"),
    ],
)
def test_a_server_names_client_and_exchange_and_uses_nothing(change, says):
    with precision.scope("float64"):
        server, _ = nodes(change)
        before = np.asarray(server.x)
        with pytest.raises(ud.WireError, match=r"answer of client 1 in exchange 'local' of round 1 is .*") as caught:
            server.play_round(1)
        assert says in str(caught.value)
        np.testing.assert_array_equal(server.x, before)


def test_an_evaluation_is_checked_too():
    with precision.scope("float64"):
        server, _ = nodes(lambda reply: reply[:-1])
        with pytest.raises(ud.WireError, match="answer of client 1 in exchange evaluation of round 0 is refused"):
            server.evaluate()


def test_a_client_checks_what_it_is_told():
    with precision.scope("float64"):
        _, clients = nodes()
        honest, client = np.ones(2).tobytes(), clients[2]
        for call, steps, payload, says in (
            (Call(0, 1), 1, honest[:-1], "client 2 was told in exchange 'local' of round 1 is refused"),
            (Call(0, 1), 1, np.array([np.inf, 0]).tobytes(), "finite numbers"),
            (Call(1, 1), 1, honest, "places 0 … 0, got 1"),
            (Call(-2, 1), 1, honest, "places 0 … 0, got -2"),
            (Call(0, -1), 1, honest, "round must be at least 0"),
            (Call(0, 2**31), 1, honest, "round must be at least 0 and below 2**31"),
            (Call(0, 1, -3), 1, honest, "repeat must be at least 0"),
            (Call(0, 1), -1, honest, "steps must be at least 0"),
            (Call(MEASURE, 0), 1, honest[:8], "has 16 bytes, got 8"),
            (Call(MEASURE, 0), 1, honest + b"\0", "has 32 bytes, got 17"),
        ):
            with pytest.raises(ud.WireError) as caught:
                client.handle(call, steps, payload)
            assert says in str(caught.value)


# ----- envelopes
TOLD = Envelope(DOWN, bytes(range(16)), client=3, attempt=2, place=1, round=7, repeat=0, steps=5)


@hypothesis.given(st.binary(max_size=40))
def test_an_envelope_arrives_as_it_was(payload):
    frame = seal(TOLD, payload)
    assert len(frame) == OVERHEAD + len(payload)
    assert unseal(frame) == (TOLD, payload)


@hypothesis.given(st.integers(0, 8 * OVERHEAD + 15))
def test_every_damaged_bit_of_a_frame_is_found(bit):
    frame = bytearray(seal(TOLD, b"ab"))
    frame[bit // 8] ^= 1 << bit % 8
    with pytest.raises(ud.WireError):
        unseal(bytes(frame))


def test_other_versions_are_refused_by_name():
    frame = seal(TOLD, b"payload")
    other = frame[:4] + (2).to_bytes(2, "little") + frame[6:]
    with pytest.raises(ud.WireError, match="version 1 of the protocol is spoken here, got 2: install the same undrift"):
        unseal(with_fitting_checksum(other))


@pytest.mark.parametrize("field", Envelope._fields)
def test_a_frame_that_belongs_elsewhere_is_refused(field):
    other = TOLD._replace(**{field: bytes(16) if field == "run" else getattr(TOLD, field) + 1})
    with pytest.raises(ud.WireError, match=f"must have {field} .* it belongs elsewhere"):
        envelope.must_be(other, TOLD)


def test_clients_refuse_frames_of_other_runs_and_of_others():
    with precision.scope("float64"):
        _, clients = nodes()
        name = clients[0].parts.run_name
        honest = Envelope(DOWN, name, client=0, attempt=0, place=0, round=1, repeat=0, steps=1)
        payload = np.ones(2).tobytes()
        came, reply = unseal(clients[0].answer(seal(honest, payload)))
        assert (came, len(reply)) == (honest.reply(), 16)
        for wrong in (honest._replace(client=1), honest._replace(run=bytes(16)), honest.reply()):
            with pytest.raises(ud.WireError, match="belongs elsewhere"):
                clients[0].answer(seal(wrong, payload))


def test_a_run_is_known_by_its_program_and_numbers_and_not_by_its_data():
    def name(method: Any, given: Any = None, **arguments: Any) -> bytes:
        return Parts(ud.describe(method, given or problem(), rounds=2, **arguments).contract).run_name

    own = name(ud.fedavg(eta=0.01))
    rng = np.random.default_rng(7)
    others = ud.problems.least_squares(rng.normal(size=(3, 4, 2)), rng.normal(size=(3, 4)))
    assert name(ud.fedavg(eta=0.01)) == own == name(ud.fedavg(eta=0.01), others)
    different = [
        name(ud.fedavg(eta=0.02)),
        name(ud.fedsgd(eta=0.01)),
        name(ud.fedavg(eta=0.01), seed=1),
        name(ud.fedavg(eta=0.01), steps=2),
        name(ud.fedavg(eta=0.01), x0=[1.0, 0.0]),
        name(ud.fedavg(eta=0.01), participation=ud.plan.uniform(2)),
        name(ud.compressed(ud.fedavg(eta=0.01), up=ud.top_k(1))),
    ]
    assert len({own, *different}) == 1 + len(different)


# ----- divergence stays a divergence where all nodes are one's own
@pytest.mark.parametrize(
    "compressor", share([ud.top_k(1), ud.random_k(1), ud.scaled_sign(), ud.quantise(3)], 0, of=2), ids=str
)
def test_loopback_reports_divergence_as_the_simulation_does(compressor):
    steep = ud.problems.quadratic(np.array([[[1.0, 0], [0, 1]], [[1e150, 0], [0, 1e150]]]), np.ones((2, 2)))
    told = []
    for interpreter in (ud.run, ud.loopback):
        with pytest.raises(ud.DivergenceError) as caught:
            interpreter(ud.compressed(ud.fedsgd(eta=1.0), up=compressor), steep, rounds=8, x0=[2.0, 1.0])
        told.append((caught.value.round, caught.value.client, str(caught.value)))
    assert told[0] == told[1]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_quantised_vectors_that_are_not_finite_stay_so(bad):
    with precision.scope("float64"):
        message = ud.quantise(2).compress(
            np.array([1.0, bad, -2.0]), ud.describe(ud.fedsgd(eta=1), problem(), rounds=1).key
        )
    payload = wire.encode(message)
    assert not wire.finite(wire.decode(payload, message, not_finite=True))


def test_places_out_of_range_and_out_of_order_are_refused():
    packed = Sparse(np.ones(2, np.float32), np.array([3, 150], np.int32), 200)
    payload = wire.encode(packed)
    assert payload[-2:] == bytes([3, 150])
    for places, says in (([3, 200], "below the dimension d = 200, got 200"), ([150, 3], "ascend"), ([3, 3], "twice")):
        with pytest.raises(ud.WireError, match=says):
            wire.decode(payload[:-2] + bytes(places), packed)
