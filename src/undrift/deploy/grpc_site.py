"""A site's end of the stream: connects, talks, and comes back after whatever broke it."""

from __future__ import annotations

import contextlib
import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc

from ..errors import UndriftError
from .certs import SERVER, check_own, read_files
from .chunks import Assembly, chunks
from .frames import Frame, FrameError, FromServer, read_at_site, write
from .grpc_server import METHOD, options

log = logging.getLogger("undrift.deploy")
SHORTEST, LONGEST = 0.2, 10.0  # seconds between two attempts to connect
STEADY = 5.0  # seconds after which a connection counts as a good one: the next attempt comes soon
FAREWELL = 2.0  # seconds for what is still to be sent when a talk ends
LISTEN = 0.2  # seconds between two looks at whether to stop
AHEAD = 2  # frames that wait to be sent

Talk = Callable[[Callable[[Frame], None], Iterator[FromServer]], bool]  # True: the run is over


class Broken(ConnectionError):
    """The connection is gone."""


class NotLetIn(UndriftError):
    """The server, or its certificate, is such that trying again cannot help."""


def stay_connected(
    address: str,
    certs: Path,
    talk: Talk,
    *,
    limit: int,
    check: Callable[[], None] = lambda: None,
    keepalive: float = 10.0,
) -> None:
    """Connect and talk until the run is over; pauses grow up to ten seconds, with jitter so that sites do not come together.

    `talk` gets a function that sends and an iterator of what comes; a connection that breaks ends either with `Broken`, which
    is to be let through. `check` is called now and then, in a thread of its own: what it raises ends waiting and is raised
    here. The certificates are read for every connection, so that renewed ones need no restart. Raises `NotLetIn` where trying
    again cannot help.
    """
    with _Ear(check) as ear:
        pause = SHORTEST
        while True:
            began = time.monotonic()
            with _channel(address, certs, keepalive) as channel:
                try:
                    if _one_connection(channel, talk, limit, ear):
                        return
                except (Broken, FrameError) as broken:
                    ear.heard()
                    log.warning("%s: %s; trying again", address, broken)
            pause = SHORTEST if time.monotonic() - began > STEADY else min(LONGEST, 2 * pause)
            ear.wait(pause * random.uniform(0.5, 1.5))


def _channel(address: str, certs: Path, keepalive: float) -> grpc.Channel:
    authority, certificate, key = read_files(certs)
    check_own(certs)
    more = [
        ("grpc.ssl_target_name_override", SERVER),
        ("grpc.enable_retries", 0),
        ("grpc.use_local_subchannel_pool", 1),  # a new attempt is new, not one that waits for an old one's back-off
    ]
    credentials = grpc.ssl_channel_credentials(authority, key, certificate)
    return grpc.secure_channel(address, credentials, [*options(keepalive), *more])


class _Ear:
    """Hears when to stop while the main thread waits for the network, and breaks the connection off."""

    def __init__(self, check: Callable[[], None]) -> None:
        self.check = check
        self.raised: BaseException | None = None
        self.call: Any = None
        self._stopped, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._listen, name="undrift-stop", daemon=True)

    def __enter__(self) -> _Ear:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()

    def _listen(self) -> None:
        while not self._over.wait(LISTEN):
            try:
                self.check()
            except BaseException as error:  # KeyboardInterrupt is the usual one
                self.raised = error
                self._stopped.set()
                if self.call is not None:
                    self.call.cancel()
                return

    def heard(self) -> None:
        if self.raised is not None:
            raise self.raised

    def wait(self, seconds: float) -> None:
        self._stopped.wait(seconds)
        self.heard()


def _one_connection(channel: grpc.Channel, talk: Talk, limit: int, ear: _Ear) -> bool:
    out: queue.Queue[bytes | None] = queue.Queue(AHEAD)
    over = threading.Event()

    def outgoing() -> Iterator[bytes]:
        while (content := out.get()) is not None:
            yield from chunks(content)

    stream: Any = channel.stream_stream(METHOD)
    call = stream(outgoing())
    ear.call = call
    ear.heard()  # from here on it is cancelled when something is heard
    if not call.add_callback(over.set):
        over.set()  # it has failed already

    def send(frame: Frame) -> None:
        content = write(frame)
        while not over.is_set():
            with contextlib.suppress(queue.Full):
                out.put(content, timeout=LISTEN)
                return
        raise _reason(call)

    try:
        finished = talk(send, _incoming(call, limit))
        _say_farewell(out, over)
        return finished
    except (UndriftError, ArithmeticError):
        _say_farewell(out, over)
        raise
    finally:
        ear.call = None
        call.cancel()
        over.wait(FAREWELL)
        _close(out)


def _incoming(call: Any, limit: int) -> Iterator[FromServer]:
    assembly = Assembly(limit)
    try:
        for piece in call:
            whole = assembly.add(piece)
            if whole is not None:
                yield read_at_site(whole)
    except grpc.RpcError as error:
        raise _reason(error) from error
    raise _reason(call)


def _say_farewell(out: queue.Queue[bytes | None], over: threading.Event) -> None:
    """Let what was said last (that this site is unable, say) arrive."""
    with contextlib.suppress(queue.Full):
        out.put(None, timeout=FAREWELL)
        over.wait(FAREWELL)


def _close(out: queue.Queue[bytes | None]) -> None:
    """Let gRPC's thread that waits for something to send end."""
    with contextlib.suppress(queue.Empty):
        while True:
            out.get_nowait()
    out.put(None)


def _reason(call: Any) -> Broken | NotLetIn:
    """Why a call is over."""
    code, details = call.code(), call.details() or ""
    if code == grpc.StatusCode.OK:
        return Broken("the server closed the connection")
    if code in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED):
        return NotLetIn(f"the server does not let this site in: {details}")
    if "CERTIFICATE_VERIFY_FAILED" in details:
        return NotLetIn(
            "who answers there has no certificate of this federation's server: look at the address, and whether both sides "
            f"have folders of the same `undrift certs` ({details})"
        )
    if "failed to connect" in details and "Socket closed" in details:
        details += "; if this does not pass: the server may have another authority, or another clock"
    return Broken(f"no connection ({code.name}: {details})")
