"""The server's end of the streams: gRPC with certificates on both sides, one stream per site.

An event loop in a thread of its own holds the connections; the run talks to it through two queues. A frame travels in chunks,
so that no message is too long for gRPC and back-pressure works inside a frame.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import queue
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
from cryptography import x509

from ..errors import StorageError
from .carrier import Connected, Event, Heard, Lost
from .certs import AUTHORITY, REVOKED, read_certificate, read_files, read_revoked
from .chunks import Assembly, chunks

log = logging.getLogger("undrift.deploy")
METHOD = "/undrift.Run/Talk"
HELLO_SECONDS = 30.0  # in which a connection must say who it is
AHEAD = 8  # frames of one site that wait to be read
MESSAGE = 4 * 2**20
OPTIONS = (
    ("grpc.max_send_message_length", MESSAGE),
    ("grpc.max_receive_message_length", MESSAGE),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.default_compression_algorithm", 0),  # payloads are dense numbers
    ("grpc.so_reuseport", 0),  # a second server on this port is an error, not a rival
)


@dataclasses.dataclass(eq=False)
class _Line:
    """A connection of a site."""

    number: int
    out: asyncio.Queue[bytes | None]
    room: asyncio.Semaphore
    context: Any


class GrpcCarrier:
    """Frames to and from the sites whose certificates are known. `limit`: most bytes of a frame."""

    def __init__(
        self, certs: Path, port: int, allowed: Callable[[str], str | None], *, host: str = "[::]", limit: int = 2**20
    ) -> None:
        self.certs, self.allowed, self.limit = certs, allowed, limit
        self.events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._lines: dict[str, _Line] = {}
        self._count: dict[str, int] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="undrift-grpc", daemon=True)
        self._thread.start()
        self.port = self._call(self._start(host, port))

    # ----- what a `Conversation` asks for
    def send(self, site: str, content: bytes) -> None:
        self._loop.call_soon_threadsafe(self._put, site, content)

    def receive(self, seconds: float | None) -> Event | None:
        try:
            event = self.events.get(timeout=seconds)
        except queue.Empty:
            return None
        if isinstance(event, Heard):
            self._loop.call_soon_threadsafe(self._make_room, event)
        return event

    def drop(self, site: str, why: str) -> None:
        log.info("%s is sent away: %s", site, why)
        self._loop.call_soon_threadsafe(self._put, site, None)

    def close(self, grace: float = 1.0) -> None:
        """Let what is on its way arrive, then end."""
        with contextlib.suppress(Exception):
            self._call(self._stop(grace))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # ----- inside the loop
    async def _start(self, host: str, port: int) -> int:
        authority, certificate, key = read_files(self.certs)
        credentials = grpc.ssl_server_credentials([(key, certificate)], authority, require_client_auth=True)
        self._server = grpc.aio.server(options=OPTIONS)
        handler = grpc.stream_stream_rpc_method_handler(self._talk)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("undrift.Run", {"Talk": handler}),))
        try:
            bound = self._server.add_secure_port(f"{host}:{port}", credentials)
        except RuntimeError as error:
            raise StorageError(f"port {port} cannot be used: {error}; choose another with --port") from error
        await self._server.start()
        return int(bound)

    async def _stop(self, grace: float) -> None:
        for line in self._lines.values():
            line.out.put_nowait(None)
        await self._server.stop(grace)

    async def _talk(self, requests: AsyncIterator[bytes], context: Any) -> None:
        site = self._name(context)
        refusal = self._refusal(site, context)
        if refusal is not None:
            log.warning("a stranger was refused: %s", refusal)
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, refusal)
        line = self._register(site, context)
        writer = asyncio.ensure_future(self._write(line))
        reader = asyncio.ensure_future(self._read(site, line, requests))
        why = "closed"
        try:
            done, _ = await asyncio.wait({writer, reader}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                why = str(task.exception() or task.result() or why)
        except asyncio.CancelledError:
            why = "broken off"
        finally:
            writer.cancel()
            reader.cancel()
            if self._lines.get(site) is line:
                del self._lines[site]
            self.events.put(Lost(site, line.number, why))

    def _register(self, site: str, context: Any) -> _Line:
        old = self._lines.get(site)
        if old is not None:  # the site came back before its old connection was known to be dead
            old.out.put_nowait(None)
        self._count[site] = self._count.get(site, 0) + 1
        line = _Line(self._count[site], asyncio.Queue(), asyncio.Semaphore(AHEAD), context)
        self._lines[site] = line
        self.events.put(Connected(site, line.number))
        return line

    async def _write(self, line: _Line) -> str:
        while (content := await line.out.get()) is not None:
            for part in chunks(content):
                await line.context.write(part)
        return "ended by the server"

    async def _read(self, site: str, line: _Line, requests: AsyncIterator[bytes]) -> str:
        assembly, first = Assembly(self.limit), True
        iterator = requests.__aiter__()
        while True:
            try:
                part = await asyncio.wait_for(anext(iterator), HELLO_SECONDS if first else None)
            except StopAsyncIteration:
                return "closed by the site"
            except TimeoutError:
                return f"said nothing for {HELLO_SECONDS:g} s"
            whole = assembly.add(part)
            if whole is not None:
                first = False
                await line.room.acquire()
                self.events.put(Heard(site, line.number, whole))

    def _put(self, site: str, content: bytes | None) -> None:
        line = self._lines.get(site)
        if line is not None:
            line.out.put_nowait(content)

    def _make_room(self, event: Heard) -> None:
        line = self._lines.get(event.site)
        if line is not None and line.number == event.connection:
            line.room.release()

    def _name(self, context: Any) -> str:
        names = context.auth_context().get("x509_common_name", [])
        return names[0].decode("utf-8", "replace") if names else ""

    def _refusal(self, site: str, context: Any) -> str | None:
        """Why this caller is not let in, or None. The list of revoked certificates is read anew for every caller."""
        if not site:
            return "no certificate"
        listed = self.certs / REVOKED
        if listed.exists():
            own = x509.load_pem_x509_certificate(context.auth_context()["x509_pem_cert"][0])
            revoked = read_revoked(listed, read_certificate(self.certs / AUTHORITY))
            if any(entry.serial_number == own.serial_number for entry in revoked):
                return f"the certificate of {site} was revoked"
        return self.allowed(site)

    def _call(self, task: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(task, self._loop).result()
