"""The server's end of the streams: gRPC with certificates on both sides, one stream per site.

An event loop in a thread of its own holds the connections; the run talks to it through queues. A frame travels in pieces, so
that no message is too long for gRPC and back-pressure works inside a frame. Who has no valid certificate of the authority is
turned away by TLS, before any of this; gRPC says so itself on standard error ("Handshake failed").
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import grpc

from ..errors import StorageError, UndriftError
from .carrier import Connected, Event, Heard, Lost
from .certs import check_own, read_files
from .chunks import PIECE
from .doorkeeper import Doorkeeper, Unclear
from .frames import plain
from .grpc_line import Line, Times

log = logging.getLogger("undrift.deploy")
SERVICE, NAME = "undrift.Run", "Talk"
METHOD = f"/{SERVICE}/{NAME}"
PINGS = 6  # keepalive times that the answer to a ping may take
STREAMS = 4  # of one connection; a site uses one


def options(keepalive: float) -> list[tuple[str, int]]:
    """Of both ends. A wrong name would be ignored in silence: tests see that a dead peer is noticed and an idle one is kept.

    A peer that is gone acknowledges no packet: after one time and one timeout the system says so (gRPC sets
    TCP_USER_TIMEOUT). If something in between still acknowledges packets, only the missing answer to a ping shows it (gRPC
    1.85 does not act on `keepalive_timeout_ms` there). That answer waits behind whatever a slow link has still to carry,
    hence the longer time.
    """
    ms = int(1000 * keepalive)
    return [
        ("grpc.max_send_message_length", PIECE + 1024),
        ("grpc.max_receive_message_length", PIECE + 1024),
        ("grpc.keepalive_time_ms", ms),
        ("grpc.keepalive_timeout_ms", ms),
        ("grpc.http2.ping_timeout_ms", PINGS * ms),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", ms // 2),
        ("grpc.default_compression_algorithm", 0),  # payloads are dense numbers
    ]


class GrpcCarrier:
    """Frames to and from the sites whose certificates are known.

    `allowed(name)`: why a site with a valid certificate is not let in, or None; `limit`: most bytes of a frame; `keepalive`:
    seconds of silence after which the other end is asked for a sign of life (both ends must use the same); `connections`:
    most at once, sites and strangers together.
    """

    def __init__(
        self,
        certs: Path,
        port: int,
        allowed: Callable[[str], str | None],
        *,
        host: str = "[::]",
        limit: int = 2**20,
        keepalive: float = 10.0,
        connections: int = 4096,
        times: Times | None = None,
    ) -> None:
        self.limit, self.times = limit, times or Times()
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._lines: dict[str, Line] = {}
        self._count: dict[str, int] = {}
        credentials = _credentials(certs)
        self._door = Doorkeeper(certs, allowed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="undrift-grpc", daemon=True)
        self._thread.start()
        try:
            self.port = self._call(self._start(f"{host}:{port}", credentials, keepalive, connections))
        except BaseException:
            self._end()
            raise

    # ----- what a `Conversation` asks for
    def send(self, site: str, content: bytes) -> None:
        """Never blocks: what a slow site leaves unread is bounded, and beyond the bound frames are lost (and told again)."""
        self._soon(self._put, site, content)

    def receive(self, seconds: float | None) -> Event | None:
        try:
            event = self.events.get(timeout=None if seconds is None else max(seconds, 0.0))
        except queue.Empty:
            return None
        if isinstance(event, Heard):
            line = self._lines.get(event.site)
            if line is not None and line.number == event.connection and line.taken(len(event.content)):
                self._soon(line.room.set)
        return event

    def drop(self, site: str, why: str) -> None:
        log.warning("%s is sent away: %s", plain(site), plain(why))
        self._soon(self._dismiss, site, plain(why))

    def close(self, grace: float = 1.0) -> None:
        """Let what is on its way arrive, then end."""
        if not self._loop.is_closed():
            with contextlib.suppress(Exception):
                self._call(self._stop(grace))
            self._end()

    # ----- inside the loop
    async def _start(self, address: str, credentials: Any, keepalive: float, connections: int) -> int:
        more = [
            ("grpc.max_concurrent_streams", STREAMS),
            ("grpc.max_allowed_incoming_connections", connections),
            ("grpc.server_handshake_timeout_ms", int(1000 * self.times.hello)),
            ("grpc.max_connection_idle_ms", int(1000 * self.times.hello)),  # connected, and opens no stream
            ("grpc.so_reuseport", 0),  # a second server on this port is an error, not a rival
        ]
        self._server = grpc.aio.server(options=options(keepalive) + more)
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(self._talk)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {NAME: handler}),))
        try:
            bound = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise StorageError(f"{address} cannot be listened on: {error}; choose another --port") from error
        await self._server.start()
        self._watch = asyncio.ensure_future(self._look_after())
        return int(bound)

    async def _stop(self, grace: float) -> None:
        self._watch.cancel()
        for line in self._lines.values():
            line.finish("")
        await self._server.stop(grace)

    async def _talk(self, requests: AsyncIterator[bytes], context: Any) -> None:
        try:
            name, certificate = self._door.let_in(context)
        except UndriftError as refusal:
            log.warning("a stranger (%s) was refused: %s", plain(context.peer()), plain(str(refusal)))
            code = grpc.StatusCode.UNAVAILABLE if isinstance(refusal, Unclear) else grpc.StatusCode.PERMISSION_DENIED
            await context.abort(code, plain(str(refusal)))
        line = self._register(name, Line(name, self._next(name), certificate, self.limit, self.times))
        why = "broken off"
        try:
            why = await line.talk(requests, context, self.events)
        finally:
            if self._lines.get(name) is line:
                del self._lines[name]
            self.events.put(Lost(name, line.number, plain(why)))
        if line.ended_by_us and why:
            await _abort(context, why)

    def _next(self, name: str) -> int:
        self._count[name] = self._count.get(name, 0) + 1
        return self._count[name]

    def _register(self, name: str, line: Line) -> Line:
        old = self._lines.get(name)
        if old is not None:  # it came back before its old connection was known to be dead
            old.end("another connection with the same certificate has taken its place")
        self._lines[name] = line
        self.events.put(Connected(name, line.number))
        return line

    def _put(self, site: str, content: bytes) -> None:
        line = self._lines.get(site)
        if line is not None:
            line.put(content)

    def _dismiss(self, site: str, why: str) -> None:
        line = self._lines.get(site)
        if line is not None:
            line.finish(why)

    async def _look_after(self) -> None:
        """End connections that hang, and those whose certificates have been revoked or have expired."""
        pulse = min(1.0, self.times.hello / 4, self.times.stall / 4)
        next_look = 0.0
        while True:
            await asyncio.sleep(pulse)
            now = self._loop.time()
            for line in list(self._lines.values()):
                line.end_if_overdue(now)
            if now >= next_look:
                self._look_at_certificates()
                next_look = now + self.times.certificates

    def _look_at_certificates(self) -> None:
        try:
            revoked = self._door.revoked()
        except UndriftError as error:
            log.warning("nobody new is let in: %s", plain(str(error)))
            return
        for line in list(self._lines.values()):
            why = self._door.no_longer_valid(line.certificate, revoked)
            if why is not None:
                line.end(f"the certificate of {line.site} {why}")

    def _soon(self, call: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # closed
            self._loop.call_soon_threadsafe(call, *arguments)

    def _call(self, task: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(task, self._loop).result()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _abort(context: Any, why: str) -> None:
    try:
        await context.abort(grpc.StatusCode.ABORTED, why)
    except grpc.aio.AbortError:
        raise
    except Exception as error:  # it does not take our last words either: break the stream off without them
        raise asyncio.CancelledError from error


def _credentials(certs: Path) -> grpc.ServerCredentials:
    authority, certificate, key = read_files(certs)
    check_own(certs, server=True)
    return grpc.ssl_server_credentials([(key, certificate)], authority, require_client_auth=True)
