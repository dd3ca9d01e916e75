"""One exchange (a message down, one of the same size up) over the streams of a deployment, beside a bare gRPC echo.

Two processes, certificates on both sides. The echo is what a program of a few lines would do: a stream, one message each way,
or pieces of the same size as ours; the faster of the two is what ours is held against. Ours also writes and reads frames.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .measure import Goal, Report, Row, in_turns, least

SIZES = {"160 B": 160, "100 kB": 100_000, "10 MB": 10_000_000, "100 MB": 100_000_000}
LIMIT = 2**30
HOST = "127.0.0.1"
COMEBACKS = 3
CROWD = 1000


def run(repeat: int) -> Report:
    from undrift.deploy.certs import make_certificates

    logging.getLogger("undrift.deploy").setLevel(logging.ERROR)
    rows, goals = [], []
    with tempfile.TemporaryDirectory() as folder:
        pki = Path(folder)
        make_certificates(pki, ["a"])
        with _ours(pki) as ours, _bare(pki) as bare:
            for words, size in SIZES.items():
                payload = bytes(size)
                times = max(1, min(50, 50_000_000 // size))
                candidates = {"undrift": ours, **bare}
                calls = {name: _repeated(call, payload, times) for name, call in candidates.items()}
                seconds = in_turns(calls, repeat)
                rows += [Row.of(name, 1e3 * s / times, "ms", "undrift" if name == "undrift" else "peer",
                                f"an exchange of {words}") for name, s in seconds.items()]  # fmt: skip
                found = seconds["undrift"] / least(*(seconds[name] for name in bare))
                if size >= 100_000:
                    goals.append(Goal.of(f"an exchange of {words}: undrift ÷ the faster echo", found, at_most=2.0))
                else:
                    rows.append(Row.of(f"{words}: undrift ÷ the faster echo", found, "×"))
        rows += _comebacks(pki)
        rows += _crowd(pki / "crowd")
    return Report(
        "deploy_transport", "an exchange over gRPC with certificates, two processes on one machine", rows, goals
    )


def _repeated(call: Callable[[bytes], None], payload: bytes, times: int) -> Callable[[], None]:
    def repeated() -> None:
        for _ in range(times):
            call(payload)

    return repeated


@contextlib.contextmanager
def _child(*words: str) -> Iterator[subprocess.Popen[str]]:
    made = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.deploy_transport", *words], stdout=subprocess.PIPE, text=True
    )
    try:
        yield made
    finally:
        made.kill()
        made.communicate()


# ----- ours
@contextlib.contextmanager
def _ours(pki: Path) -> Iterator[Callable[[bytes], None]]:
    from undrift.deploy.carrier import Heard
    from undrift.deploy.frames import Look, read_at_server, write
    from undrift.deploy.grpc_server import GrpcCarrier

    carrier = GrpcCarrier(pki / "server", 0, lambda name: None, host=HOST, limit=LIMIT)

    def exchange(payload: bytes) -> None:
        carrier.send("a", write(Look(1, -1, payload)))
        event = carrier.receive(600)
        assert isinstance(event, Heard)
        answer: Any = read_at_server(event.content)
        assert len(answer.payload) == len(payload)

    try:
        with _child("site", str(carrier.port), str(pki)):
            _await_hello(carrier)
            yield exchange
    finally:
        carrier.close(0.1)


def _await_hello(carrier: Any) -> None:
    from undrift.deploy.carrier import Heard

    while not isinstance(carrier.receive(60), Heard):
        pass


def site(port: str, pki: str) -> None:
    """A site that gives back what it is shown."""
    from undrift.deploy.frames import Hello, Saw
    from undrift.deploy.grpc_site import stay_connected

    logging.getLogger("undrift.deploy").setLevel(logging.ERROR)

    def talk(send: Any, incoming: Any) -> bool:
        send(Hello(1, "", "", "", False, b""))
        for frame in incoming:
            send(Saw(frame.round, frame.payload))
        return True

    stay_connected(f"{HOST}:{port}", Path(pki) / "a", talk, limit=LIMIT)


# ----- the echo
@contextlib.contextmanager
def _bare(pki: Path) -> Iterator[dict[str, Callable[[bytes], None]]]:
    import grpc

    from undrift.deploy.certs import SERVER, read_files
    from undrift.deploy.chunks import PIECE

    authority, certificate, key = read_files(pki / "a")
    named = ("grpc.ssl_target_name_override", SERVER)
    with _child("echo", str(pki)) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        credentials = grpc.ssl_channel_credentials(authority, key, certificate)
        with grpc.secure_channel(f"{HOST}:{port}", credentials, [*_unlimited(), named]) as channel:
            whole_out: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
            parts_out: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
            whole_in = channel.stream_stream("/bare/Whole")(iter(whole_out.get, None))
            parts_in = channel.stream_stream("/bare/Parts")(iter(parts_out.get, None))

            def whole(payload: bytes) -> None:
                whole_out.put(payload)
                assert len(next(whole_in)) == len(payload)

            def parts(payload: bytes) -> None:
                view = memoryview(payload)
                parts_out.put(len(payload).to_bytes(8))
                for start in range(0, len(view), PIECE):
                    parts_out.put(bytes(view[start : start + PIECE]))
                come = bytearray()
                while len(come) < len(payload):
                    come += next(parts_in)

            yield {"echo, one message": whole, "echo, pieces": parts}
            whole_out.put(None)
            parts_out.put(None)


def _unlimited() -> list[tuple[str, int]]:
    return [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


def echo(pki: str) -> None:
    asyncio.run(_echo(Path(pki)))


async def _echo(pki: Path) -> None:
    import grpc

    from undrift.deploy.certs import read_files
    from undrift.deploy.chunks import PIECE

    async def whole(requests: Any, context: Any) -> None:
        async for message in requests:
            await context.write(message)

    async def parts(requests: Any, context: Any) -> None:
        async for head in requests:
            come = bytearray()
            while len(come) < int.from_bytes(head):
                come += await anext(requests)
            for start in range(0, len(come), PIECE):
                await context.write(bytes(memoryview(come)[start : start + PIECE]))

    authority, certificate, key = read_files(pki / "server")
    server = grpc.aio.server(options=_unlimited())
    handlers = {
        "Whole": grpc.stream_stream_rpc_method_handler(whole),
        "Parts": grpc.stream_stream_rpc_method_handler(parts),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("bare", handlers),))
    port = server.add_secure_port(f"{HOST}:0", grpc.ssl_server_credentials([(key, certificate)], authority, True))
    await server.start()
    print(port, flush=True)
    await server.wait_for_termination()


# ----- coming back
def _comebacks(pki: Path) -> list[Row]:
    """Seconds until a site is there again."""
    from undrift.deploy.grpc_server import GrpcCarrier

    def carrier(port: int = 0) -> GrpcCarrier:
        return GrpcCarrier(pki / "server", port, lambda name: None, host=HOST, limit=LIMIT)

    server = carrier()
    cut, restarted = [], []
    with _child("site", str(server.port), str(pki)):
        _await_hello(server)
        for _ in range(COMEBACKS):
            time.sleep(6)  # a connection that lasted
            began = time.perf_counter()
            server.drop("a", "a benchmark")
            _await_hello(server)
            cut.append(time.perf_counter() - began)
        for _ in range(COMEBACKS):
            time.sleep(6)
            server.close(0.1)
            began = time.perf_counter()
            server = carrier(server.port)
            _await_hello(server)
            restarted.append(time.perf_counter() - began)
        server.close(0.1)
    return [
        Row("back after its connection was cut", statistics.median(cut), "s"),
        Row("back after the server was started again at once", statistics.median(restarted), "s"),
    ]


# ----- many
def _crowd(pki: Path) -> list[Row]:
    from .deploy_crowd import crowd

    seen = crowd(pki, CROWD)
    return [
        Row(f"{CROWD} connections: until all have said hello", seen.connecting, "s"),
        Row(f"{CROWD} connections: an exchange of 1 kB with each", seen.round, "s"),
        Row(f"{CROWD} connections: memory of the server for each", seen.bytes_each / 1e3, "kB"),
        Row(f"{CROWD} connections: open files of the server", seen.files, ""),
    ]


if __name__ == "__main__":
    {"site": site, "echo": echo}[sys.argv[1]](*sys.argv[2:])
