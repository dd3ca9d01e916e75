"""A site's end of the stream: connects, talks, and comes back after whatever broke it."""

from __future__ import annotations

import contextlib
import logging
import queue
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc

from .certs import SERVER, read_files
from .chunks import Assembly, chunks
from .frames import Frame, FromServer, read_at_site, write
from .grpc_server import METHOD, OPTIONS

log = logging.getLogger("undrift.deploy")
SHORTEST, LONGEST = 0.2, 30.0  # seconds between two attempts to connect

Talk = Callable[[Callable[[Frame], None], Iterator[FromServer]], bool]  # True: the run is over


def stay_connected(
    address: str, certs: Path, talk: Talk, *, limit: int, wait: Callable[[float], None] = time.sleep
) -> None:
    """Connect and talk until the run is over; pauses grow up to half a minute, with jitter so that sites do not come together.

    `talk` gets a function that sends and an iterator of what comes; a connection that breaks ends the iterator with `Broken`.
    """
    authority, certificate, key = read_files(certs)
    credentials = grpc.ssl_channel_credentials(authority, key, certificate)
    options = (*OPTIONS, ("grpc.ssl_target_name_override", SERVER), ("grpc.enable_retries", 0))
    pause = SHORTEST
    while True:
        with grpc.secure_channel(address, credentials, options) as channel:
            began = time.monotonic()
            try:
                if _one_connection(channel, talk, limit):
                    return
            except Broken as broken:
                log.warning("%s; trying again", broken)
        pause = SHORTEST if time.monotonic() - began > LONGEST else min(LONGEST, 2 * pause)
        wait(pause * random.uniform(0.5, 1.5))


class Broken(ConnectionError):
    """The connection is gone."""


def _one_connection(channel: grpc.Channel, talk: Talk, limit: int) -> bool:
    out: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def outgoing() -> Iterator[bytes]:
        while (content := out.get()) is not None:
            yield from chunks(content)

    call = channel.stream_stream(METHOD)(outgoing())

    def incoming() -> Iterator[FromServer]:
        assembly = Assembly(limit)
        try:
            for piece in call:
                whole = assembly.add(piece)
                if whole is not None:
                    yield read_at_site(whole)
        except grpc.RpcError as error:
            raise Broken(_reason(error)) from error
        raise Broken("the server closed the connection")

    try:
        return talk(lambda frame: out.put(write(frame)), incoming())
    finally:
        out.put(None)
        with contextlib.suppress(Exception):
            call.cancel()


def _reason(error: grpc.RpcError) -> str:
    details = getattr(error, "details", lambda: "")() or ""
    code = getattr(error, "code", lambda: "")()
    return f"no connection ({getattr(code, 'name', code)}: {details})"
