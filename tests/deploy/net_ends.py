"""The two ends as processes: python net_ends.py server PKI HOST PORT LIMIT | site PKI HOST:PORT LIMIT.

The server asks whoever is there again and again and prints a line for every event; `once PKI SIZE` asks once, and prints how
much memory that took.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from undrift.deploy.carrier import Connected, Heard, Lost
from undrift.deploy.frames import Finished, Hello, Look, Saw, read_at_server, write
from undrift.deploy.grpc_server import GrpcCarrier
from undrift.deploy.grpc_site import stay_connected


def peak() -> int:
    """Most bytes that this process has had in memory."""
    status = Path("/proc/self/status")  # Linux hands the other mark on from parent to child
    if status.exists():
        return 1024 * int(next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def server(pki: str, host: str, port: str, limit: str) -> None:
    carrier = GrpcCarrier(Path(pki) / "server", int(port), lambda name: None, host=host, limit=int(limit))
    print(f"port {carrier.port}", flush=True)
    round, present = 0, set[str]()
    while True:
        event = carrier.receive(0.5)
        if isinstance(event, Connected):
            present.add(event.site)
            print(f"{event.site} connected", flush=True)
        elif isinstance(event, Lost):
            present.discard(event.site)
            print(f"{event.site} lost", flush=True)
        elif isinstance(event, Heard) and isinstance(read_at_server(event.content), Saw):
            print(f"{event.site} answered", flush=True)
        else:
            round += 1
            for name in present:
                carrier.send(name, write(Look(round, b"model")))


def once(pki: str, size: str) -> None:
    """One exchange of so many bytes each way; prints the port, and at the end the peak of the memory."""
    carrier = GrpcCarrier(Path(pki) / "server", 0, lambda name: None, host="127.0.0.1", limit=int(size) + 1000)
    print(f"port {carrier.port}", flush=True)
    while not isinstance(carrier.receive(None), Heard):
        pass
    before = peak()
    payload = bytes(int(size))
    carrier.send("site-1", write(Look(1, payload)))
    event = carrier.receive(None)
    assert isinstance(event, Heard)
    answer = read_at_server(event.content)
    assert isinstance(answer, Saw)
    assert answer.payload == payload
    print(f"peak {peak() - before}", flush=True)
    carrier.send("site-1", write(Finished("")))
    while not isinstance(carrier.receive(None), Lost):
        pass
    carrier.close()


def site(pki: str, address: str, limit: str) -> None:
    def talk(send, incoming):
        send(Hello(1, "", "", "state", False, b""))
        before = peak()
        for frame in incoming:
            if isinstance(frame, Finished):
                print(f"peak {peak() - before}", flush=True)
                return True
            send(Saw(frame.round, frame.payload))
        return False

    stay_connected(address, Path(pki), talk, limit=int(limit))


if __name__ == "__main__":
    {"server": server, "once": once, "site": site}[sys.argv[1]](*sys.argv[2:])
