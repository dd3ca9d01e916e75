"""Many connections to one server. python benchmarks/deploy_crowd.py PORT PKI NAME … is the crowd: it answers what it hears."""

from __future__ import annotations

import asyncio
import dataclasses
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
PROCESSES = 2  # that the crowd is spread over
PAYLOAD = bytes(1000)
ROUNDS = 5
PATIENCE = 300.0


@dataclasses.dataclass(frozen=True)
class Seen:
    """`connecting`, `round`: seconds; `bytes_each`: of the server's memory for a connection."""

    connecting: float
    round: float
    bytes_each: float
    files: int


def crowd(pki: Path, count: int, rounds: int = ROUNDS) -> Seen:
    """So many sites connect to a server in this process, and answer it round by round."""
    import psutil

    from undrift.deploy.carrier import Heard
    from undrift.deploy.certs import make_certificates
    from undrift.deploy.frames import Look, Saw, read_at_server, write
    from undrift.deploy.grpc_server import GrpcCarrier

    allow_files(2 * count + 500)
    names = [f"site-{k}" for k in range(count)]
    make_certificates(pki, names)
    me = psutil.Process()
    server = GrpcCarrier(pki / "server", 0, lambda name: None, host=HOST)
    before = me.memory_info().rss
    command = [sys.executable, __file__, str(server.port), str(pki)]
    children = [subprocess.Popen([*command, *names[k::PROCESSES]]) for k in range(PROCESSES)]

    def answers() -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        deadline = time.monotonic() + PATIENCE
        while len(found) < count:
            event = server.receive(deadline - time.monotonic())
            if event is None:
                raise TimeoutError(f"{len(found)} of {count} answered within {PATIENCE:g} s")
            if isinstance(event, Heard):
                found[event.site] = bytes(event.content)
        return found

    try:
        began = time.perf_counter()
        answers()
        connected = time.perf_counter()
        for k in range(rounds):
            for name in names:
                server.send(name, write(Look(k, PAYLOAD)))
            assert {read_at_server(content) for content in answers().values()} == {Saw(k, PAYLOAD)}
        ended = time.perf_counter()
        grown = me.memory_info().rss - before
        return Seen(connected - began, (ended - connected) / rounds, grown / count, me.num_fds())
    finally:
        for child in children:
            child.kill()
            child.wait()
        server.close(0.1)


def allow_files(count: int) -> None:
    """Raise the limit of open files as far as the system lets us, and say if that is not enough."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        if hard != resource.RLIM_INFINITY and hard < count:
            raise OSError(f"{count} open files are needed, and the system allows {hard}: ulimit -n {count}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


async def clients(port: str, pki: str, names: list[str]) -> None:
    """All at once; a few shake hands at a time."""
    handshakes = asyncio.Semaphore(20)
    await asyncio.gather(*(client(port, Path(pki) / name, handshakes) for name in names))


async def client(port: str, certs: Path, handshakes: asyncio.Semaphore) -> None:
    import grpc

    from undrift.deploy.certs import SERVER, read_files
    from undrift.deploy.chunks import Assembly, chunks
    from undrift.deploy.frames import Hello, Saw, read_at_site, write
    from undrift.deploy.grpc_server import METHOD, options

    authority, certificate, key = read_files(certs)
    named: list[tuple[str, Any]] = [("grpc.ssl_target_name_override", SERVER), ("grpc.use_local_subchannel_pool", 1)]
    credentials = grpc.ssl_channel_credentials(authority, key, certificate)
    async with handshakes:
        channel = grpc.aio.secure_channel(f"{HOST}:{port}", credentials, [*options(10.0), *named])
        call: Any = channel.stream_stream(METHOD)()
        for piece in chunks(write(Hello(1, "", "", "", False, b""))):
            await call.write(piece)
    assembly = Assembly(2**20)
    async for piece in call:
        whole = assembly.add(piece)
        if whole is not None:
            frame: Any = read_at_site(whole)
            for part in chunks(write(Saw(frame.round, frame.payload))):
                await call.write(part)


if __name__ == "__main__":
    allow_files(len(sys.argv) + 500)
    asyncio.run(clients(sys.argv[1], sys.argv[2], sys.argv[3:]))
