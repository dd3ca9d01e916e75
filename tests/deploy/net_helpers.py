"""A server with real connections, sites that talk to it, and a bad network between them: for tests of the transport."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from undrift.deploy.carrier import Connected, Event, Heard, Lost
from undrift.deploy.certs import SERVER, read_files
from undrift.deploy.frames import Finished, Frame, Hello, Look, Saw, read_at_server, write
from undrift.deploy.grpc_line import Times
from undrift.deploy.grpc_server import METHOD, GrpcCarrier, options
from undrift.deploy.grpc_site import stay_connected

PATIENCE = 60.0  # seconds after which something is taken never to happen
HELLO = Hello(1, "", "", "state", False, b"")
PATIENT = Times(hello=PATIENCE, stall=PATIENCE, farewell=PATIENCE, certificates=0.1)
OFTEN = 0.2  # seconds: a quarter of it passes between two looks of the server at its connections
LIMIT = 2**20


@contextmanager
def carrier(pki: Path, **arguments: Any) -> Iterator[GrpcCarrier]:
    """A server that knows the sites whose names begin with `site`.

    It looks often at what is overdue, though nothing is for long: a test may give it other `times` for who comes next.
    """

    def allowed(name: str) -> str | None:
        return None if name.startswith("site") else f"{name} does not belong to this run"

    given = {"host": "127.0.0.1", "limit": LIMIT, "times": PATIENT, **arguments}
    times = given.pop("times")
    looks_often = dataclasses.replace(times, stall=min(times.stall, OFTEN))
    made = GrpcCarrier(pki / "server", given.pop("port", 0), allowed, times=looks_often, **given)
    made.times = times
    try:
        yield made
    finally:
        made.close(grace=0.1)


class Stopped(Exception):
    """Raised at a site whose test is over."""


class Talker:
    """A site in a thread: says hello, answers every `Look` with `Saw`, and comes back whenever it is cut off."""

    def __init__(self, address: str, certs: Path, *, limit: int = LIMIT, **arguments: Any) -> None:
        self.over, self.error = False, None
        self.greetings = 0
        self._thread = threading.Thread(target=self._run, args=(address, certs), kwargs={"limit": limit, **arguments})
        self._thread.start()

    def _run(self, address: str, certs: Path, **arguments: Any) -> None:
        try:
            stay_connected(address, certs, self._talk, check=self._check, **arguments)
        except Stopped:
            pass
        except Exception as error:
            self.error = error

    def _check(self) -> None:
        if self.over:
            raise Stopped

    def _talk(self, send: Callable[[Frame], None], incoming: Iterator[Frame]) -> bool:
        self.greetings += 1
        send(HELLO)
        for frame in incoming:
            if isinstance(frame, Finished):
                return True
            assert isinstance(frame, Look)
            send(Saw(frame.round, frame.payload))
        return False

    def end(self) -> None:
        self.over = True
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def join(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


@contextmanager
def talker(server: GrpcCarrier | str, certs: Path, **arguments: Any) -> Iterator[Talker]:
    made = Talker(server if isinstance(server, str) else f"127.0.0.1:{server.port}", certs, **arguments)
    try:
        yield made
    finally:
        made.end()


class Desk:
    """Takes a carrier's events one by one, and keeps them."""

    def __init__(self, server: GrpcCarrier) -> None:
        self.server, self.seen, self.round = server, list[Event](), 0

    def until(self, wanted: Callable[[Event], bool]) -> Event:
        """The next event of a kind."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            event = self.server.receive(0.1)
            if event is not None:
                self.seen.append(event)
                if wanted(event):
                    return event
        raise AssertionError(f"it never happened; what did: {[_short(event) for event in self.seen]}")

    def greeted(self, site: str) -> int:
        """The connection of a site that says hello."""
        return self.until(lambda e: isinstance(e, Heard) and e.site == site and _is_hello(e.content)).connection

    def lost(self, site: str) -> Lost:
        found = self.until(lambda e: isinstance(e, Lost) and e.site == site)
        assert isinstance(found, Lost)
        return found

    def exchange(self, site: str, payload: bytes = b"0123") -> None:
        """One question and its answer."""
        self.round += 1
        self.server.send(site, write(Look(self.round, -1, payload)))
        expected = Saw(self.round, payload)
        self.until(lambda e: isinstance(e, Heard) and e.site == site and read_at_server(e.content) == expected)

    def connections(self, site: str) -> int:
        return sum(isinstance(event, Connected) and event.site == site for event in self.seen)


def _is_hello(content: bytes | bytearray) -> bool:
    with contextlib.suppress(Exception):
        return isinstance(read_at_server(content), Hello)
    return False


def _short(event: Event) -> str:
    return f"{type(event).__name__}({event.site}, {event.connection}, {getattr(event, 'why', '')})"


def raw_call(port: int, certs: Path, pieces: Iterator[bytes]) -> Any:
    """A stream of bytes of one's own choice, by somebody with these certificates."""
    authority, certificate, key = read_files(certs)
    credentials = grpc.ssl_channel_credentials(authority, key, certificate)
    named = [("grpc.ssl_target_name_override", SERVER), ("grpc.use_local_subchannel_pool", 1)]
    big = [("grpc.max_send_message_length", -1)]
    keep = [option for option in options(10.0) if option[0] != "grpc.max_send_message_length"]
    channel = grpc.secure_channel(f"127.0.0.1:{port}", credentials, [*keep, *named, *big])
    return channel, channel.stream_stream(METHOD)(pieces)


def refused(port: int, certs: Path, pieces: list[bytes]) -> grpc.RpcError:
    """How the server ends such a stream."""
    ended = threading.Event()

    def outgoing() -> Iterator[bytes]:
        yield from pieces
        ended.wait(PATIENCE)  # the stream stays open

    channel, call = raw_call(port, certs, outgoing())
    try:
        for _ in call:
            pass
    except grpc.RpcError as error:
        return error
    finally:
        ended.set()
        channel.close()
    raise AssertionError("the server ended the stream without a complaint")


class Proxy:
    """TCP between a site and its server: may delay, throttle, cut, or swallow everything (a half-open connection)."""

    def __init__(self, port: int) -> None:
        self.target, self.delay, self.rate = port, 0.0, 0.0  # seconds; bytes per second, 0: as fast as possible
        self.swallow = False
        self.passed = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._lock, self._over = threading.Lock(), False
        self._pumps: list[threading.Thread] = []
        self._door = threading.Thread(target=self._accept)
        self._door.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        """All connections, as when a machine loses its power: no farewell, but the other side hears of it."""
        with self._lock:
            for end in self._open:
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                    end.shutdown(socket.SHUT_RDWR)
            self._open.clear()

    def close(self) -> None:
        self._over = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits there
        self._listener.close()
        self._door.join(PATIENCE)
        self.cut()
        for pump in self._pumps:
            pump.join(PATIENCE)

    def _accept(self) -> None:
        while not self._over:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()
                continue
            with self._lock:
                self._open += [near, far]
            for one, other in ((near, far), (far, near)):
                self._pumps.append(threading.Thread(target=self._pump, args=(one, other)))
                self._pumps[-1].start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while content := source.recv(65536 if not self.rate else 4096):
                while self.swallow and not self._over:
                    time.sleep(0.05)
                if self.delay or self.rate:
                    time.sleep(self.delay + (len(content) / self.rate if self.rate else 0.0))
                sink.sendall(content)
                self.passed += len(content)
        except OSError:
            pass
        finally:
            for end in (source, sink):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            source.close()


@contextmanager
def proxy(port: int) -> Iterator[Proxy]:
    made = Proxy(port)
    try:
        yield made
    finally:
        made.close()
