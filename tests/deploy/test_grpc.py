"""The transport between honest ends: frames of all sizes, bounded memory, ends that come when asked for."""

from __future__ import annotations

import logging
import threading
import time

import msgspec
import pytest
from net_helpers import HELLO, PATIENCE, Desk, Stopped, carrier, proxy, refused, talker

from undrift.deploy.carrier import Connected, Heard
from undrift.deploy.certs import make_certificates, revoke
from undrift.deploy.chunks import PIECE, chunks
from undrift.deploy.frames import LARGE, Answer, Ask, Finished, Look, Saw, Unable, read_at_server, write
from undrift.deploy.grpc_line import FRAME, FRAMES_OUT, LEAST_ROOM, Times
from undrift.deploy.grpc_server import GrpcCarrier
from undrift.deploy.grpc_site import NotLetIn, stay_connected
from undrift.errors import InputError, StorageError, UndriftError


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pki")
    make_certificates(folder, ["site-1", "site-2", "stranger"])
    return folder


def test_frames_of_all_sizes_pass(pki):
    limit = 3 * PIECE + 1000
    with carrier(pki, limit=limit) as server, talker(server, pki / "site-1", limit=limit) as site:
        desk = Desk(server)
        desk.greeted("site-1")
        for size in (0, 1, PIECE - 20, PIECE, PIECE + 1, 3 * PIECE):
            desk.exchange("site-1", bytes(range(256)) * (size // 256) + b"x" * (size % 256))
        server.send("site-1", write(Finished("that was all")))
        site.join()
        assert desk.lost("site-1").why == "closed by the site"
        assert site.greetings == 1


def test_many_small_frames_keep_their_order(pki):
    with carrier(pki) as server, talker(server, pki / "site-1"):
        desk = Desk(server)
        desk.greeted("site-1")
        for k in range(300):
            server.send("site-1", write(Look(k, -1, b"0" * 100)))
        answers = [desk.until(lambda e: isinstance(e, Heard)).content for _ in range(300)]
        assert [read_at_server(content).round for content in answers] == list(range(300))


def test_a_site_that_is_not_heard_waits_and_its_server_keeps_little(pki):
    """The run takes nothing: the site is stopped by back-pressure, not by memory.

    More is said than the system and gRPC hold between the two ends: either may keep some ten megabytes.
    """
    payload, said, frames = bytes(200_000), [], 400

    def talk(send, incoming):
        send(HELLO)
        for k in range(frames):
            send(Saw(k, payload))
            said.append(k)
        return True

    with carrier(pki) as server:
        site = threading.Thread(
            target=stay_connected, args=(f"127.0.0.1:{server.port}", pki / "site-1", talk), kwargs={"limit": 2**20}
        )
        site.start()
        most, before = LEAST_ROOM + FRAME, -1
        wait_until(lambda: "site-1" in server._lines and server._lines["site-1"].starved)
        while len(said) > before:  # until it goes no further; what is asserted below holds at any time
            before = len(said)
            time.sleep(0.3)
        assert len(said) < frames - 1
        assert sum(len(event.content) for event in _waiting(server)) <= most
        desk = Desk(server)
        rounds = [read_at_server(desk.until(lambda e: isinstance(e, Heard)).content) for _ in range(frames + 1)][1:]
        assert [frame.round for frame in rounds] == list(range(frames))
        site.join(PATIENCE)
        assert not site.is_alive()


def wait_until(true):
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _waiting(server):
    """What the run has not taken, looked at and put back."""
    events = []
    while not server.events.empty():
        events.append(server.events.get())
    for event in events:
        server.events.put(event)
    return [event for event in events if isinstance(event, Heard)]


def test_a_site_that_does_not_read_costs_its_server_little_and_is_dropped(pki, caplog):
    patient = Times(hello=60.0, stall=0.5)
    with caplog.at_level(logging.WARNING), carrier(pki, times=patient, limit=2**22) as server:
        reading = threading.Event()

        def talk(send, incoming):
            send(HELLO)
            reading.wait(PATIENCE)
            return True

        site = threading.Thread(
            target=stay_connected, args=(f"127.0.0.1:{server.port}", pki / "site-1", talk), kwargs={"limit": 2**22}
        )
        site.start()
        try:
            desk = Desk(server)
            desk.greeted("site-1")
            line = server._lines["site-1"]
            frames = [write(Look(k, -1, bytes(2**22 - 100))) for k in range(20)]
            for frame in frames:
                server.send("site-1", frame)
            desk.lost("site-1")
            assert line.out_bytes <= FRAMES_OUT * 2**22 + 2 * FRAME
        finally:
            reading.set()
            site.join(PATIENCE)
    assert "site-1 is too slow for what is sent to it" in caplog.text
    assert caplog.text.count("too slow") == 1
    assert "did not take what was sent to it for 0.5 s" in caplog.text
    assert {record.name for record in caplog.records} == {"undrift.deploy"}  # gRPC complains of nothing


def test_what_waits_already_is_not_queued_again(pki):
    with carrier(pki) as server, proxy(server.port) as between, talker(between.address, pki / "site-1"):
        desk = Desk(server)
        desk.greeted("site-1")
        between.swallow = True
        line = server._lines["site-1"]
        frames = [write(Look(k, -1, bytes(500_000))) for k in range(4)]
        for _ in range(50):
            for frame in frames:
                server.send("site-1", frame)
        done = threading.Event()
        server._loop.call_soon_threadsafe(done.set)  # after all of them were put
        assert done.wait(PATIENCE)
        assert len(line.out) <= len(frames)


def test_the_same_frame_again_after_its_answer_is_sent_again(pki):
    """However soon: the answer may be here before the server knows that all was sent."""
    with carrier(pki) as server, talker(server, pki / "site-1"):
        desk = Desk(server)
        desk.greeted("site-1")
        for _ in range(500):
            desk.round = 0
            desk.exchange("site-1")


@pytest.mark.parametrize("size", [LARGE - 1, LARGE, LARGE + 1, 3 * LARGE])
def test_large_frames_are_the_bytes_that_the_encoder_writes(size):
    payload = bytes(size)
    for frame in (Look(3, -1, payload), Saw(1, payload), Answer(1, 2, 3, payload), Ask(1, 2, 3, -1, 4, 5, 6, payload)):
        assert write(frame) == msgspec.msgpack.encode(frame)


def test_what_a_site_says_last_arrives(pki):
    """It cannot go on and says so: the server hears it before the connection ends."""

    def talk(send, incoming):
        send(HELLO)
        send(Unable("the disk is full"))
        raise UndriftError("the disk is full")

    with carrier(pki) as server:
        with pytest.raises(UndriftError, match="the disk is full"):
            stay_connected(f"127.0.0.1:{server.port}", pki / "site-1", talk, limit=1000)
        desk = Desk(server)
        desk.until(lambda e: isinstance(e, Heard) and read_at_server(e.content) == Unable("the disk is full"))
        desk.lost("site-1")


def test_what_the_server_says_last_arrives(pki):
    """Finished, and at once the server closes."""
    with carrier(pki) as server, talker(server, pki / "site-1") as site:
        desk = Desk(server)
        desk.greeted("site-1")
        server.send("site-1", write(Finished("")))
        server.close(grace=5.0)
        site.join()
        assert (site.error, site.greetings) == (None, 1)
        server.send("site-1", b"after the end, nothing happens")


@pytest.mark.parametrize("where", ["connected", "unreachable"])
def test_a_site_that_is_asked_to_stop_stops(pki, where):
    """While it waits for the server, and while it waits between two attempts."""
    with carrier(pki) as server:
        address = f"127.0.0.1:{server.port if where == 'connected' else 1}"
        with talker(address, pki / "site-1") as site:
            if where == "connected":
                Desk(server).greeted("site-1")
            site.end()


def test_what_check_raises_comes_out_in_the_thread_that_waits(pki):
    def check():
        raise Stopped

    with carrier(pki) as server, pytest.raises(Stopped):
        stay_connected(
            f"127.0.0.1:{server.port}", pki / "site-1", lambda send, frames: next(frames), limit=1, check=check
        )


def test_a_site_that_comes_again_takes_the_place_of_its_old_connection(pki, caplog):
    with carrier(pki) as server, talker(server, pki / "site-1"):
        desk = Desk(server)
        first = desk.greeted("site-1")
        error = refused_by_rival(server, pki)
        assert "another connection" in error
        assert desk.lost("site-1").connection == first
        desk.until(lambda e: isinstance(e, Connected) and e.connection > first + 1)  # the talker is back
        desk.exchange("site-1")


def refused_by_rival(server, pki):
    """What the server says to a second connection with the same certificate, when the first comes back."""
    return refused(server.port, pki / "site-1", list(chunks(write(HELLO)))).details()


def test_a_site_that_is_dropped_hears_why(pki):
    with carrier(pki) as server, talker(server, pki / "site-1") as site:
        desk = Desk(server)
        desk.greeted("site-1")
        server.drop("site-1", "its answers\nmake no sense")
        assert desk.lost("site-1").why == "its answers?make no sense"
        desk.greeted("site-1")  # and comes back
        assert site.greetings == 2


def test_trying_again_does_not_help_whom_the_server_does_not_want(pki, caplog):
    with carrier(pki) as server:
        for name, why in (("stranger", "does not belong to this run"), ("site-2", "was revoked")):
            if name == "site-2":
                revoke(pki, name)
            with talker(server, pki / name) as site:
                site.join()
            assert isinstance(site.error, NotLetIn)
            assert why in str(site.error)
    (pki / "server" / "revoked.pem").unlink()


def test_a_server_of_another_federation_is_not_talked_to(pki, tmp_path, capfd):
    make_certificates(tmp_path, ["site-1"])
    with carrier(pki) as server, talker(server, tmp_path / "site-1") as site:
        site.join()
    assert isinstance(site.error, NotLetIn)
    assert "no certificate of this federation's server" in str(site.error)
    assert site.greetings == 1


def test_a_server_without_its_certificates_does_not_start(pki, tmp_path):
    before = threading.active_count()
    with pytest.raises(InputError, match="lacks authority"):
        GrpcCarrier(tmp_path, 0, lambda name: None)
    assert threading.active_count() == before


def test_two_servers_do_not_share_a_port(pki, capfd):
    with carrier(pki) as server, pytest.raises(StorageError, match="choose another --port"):
        GrpcCarrier(pki / "server", server.port, lambda name: None, host="127.0.0.1")


def test_nothing_happens_for_a_while(pki):
    with carrier(pki) as server:
        assert server.receive(0.01) is None
        assert server.receive(-1.0) is None
