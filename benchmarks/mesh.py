"""Clients shared out over two processes of one core each.

*Weak scaling.* One process plays m clients on one core; two processes play 2m on two. Ideal: the same time for twice the work.
*Padding.* What is played for nothing because all devices have as many seats.
*Room.* Data twice as large as what a process may take lie in a file; each of two processes reads its half, and one alone fails.

`python -m benchmarks.mesh ROLE FILE ADDRESS COUNT INDEX` is one of the processes. It works when told to, a line of input at a
time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import disturbance
from .measure import Goal, Report, Row
from .pictures import pictures

ROUNDS = 20
CLIENTS, SAMPLES, DIM, STEPS = 48, 100, 300, 20  # of one process: least squares
LENET_CLIENTS, LENET_SAMPLES, LENET_STEPS, LENET_BATCH = 20, 100, 10, 20  # of one process: LeNet-5
MEMBERS, POPULATION = 10, 1_000  # of which padding is shown
Work = Callable[[], tuple[Any, ...]]  # what a process does when it is told to, and then says
LARGE_SAMPLES, LARGE_DIM = 500, 1_000  # 2 MB a client
SHARE = 384 * 2**20  # bytes of data that a process holds
ROOM = 320 * 2**20  # beside them: threads, messages, gradients, the compiler


def run(repeat: int) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        large, small = _scaling("lenet", repeat), _scaling("least_squares", repeat)
        dropped = _padding()
        alone, together = _room(Path(folder) / "A.npy")
    megabytes = 2 * SHARE / 2**20
    rows = [
        *_rows("LeNet-5", LENET_CLIENTS, large),
        *_rows("least squares", CLIENTS, small),
        Row.of("least squares: two processes ÷ one, clients played per second", small.gain, "×"),
        Row(f"uniform({MEMBERS}) of {POPULATION:,} clients on two processes: played for nothing", dropped, "%"),
        Row(
            f"{megabytes:.0f} MB of data in one process that may take {(SHARE + ROOM) / 2**20:.0f} MB",
            alone,
            "finished",
        ),
        Row(f"… in two such processes, {megabytes / 2:.0f} MB each", together, "finished"),
    ]
    apart = max(large.apart, small.apart)
    goals = [
        Goal.of("LeNet-5: two processes ÷ one, clients played per second", large.gain, at_least=1.7),
        Goal("largest difference between the models of the two processes", apart, at_most=0, same=True, unit=""),
        Goal("data twice as large as one process may hold: it finishes alone", alone, at_most=0, unit=""),
        Goal("… and on two processes", together, at_least=1, unit=""),
    ]
    notes = [
        f"FedAvg, everyone takes part, calls of {ROUNDS} rounds. LeNet-5: {LENET_SAMPLES} pictures of 28 × 28 a client, "
        f"{LENET_STEPS} steps with batches of {LENET_BATCH}. Least squares: {SAMPLES} × {DIM} a client, {STEPS} steps.",
        "The goal was first set for least squares. It is kept beside LeNet-5, which was added after its rounds of a few "
        "milliseconds had been seen to be bound by meetings of the processes.",
        "Every process is bound to a core of its own. What a process may take beside what it has when it has connected "
        "(RLIMIT_DATA): its share of the data and 320 MB.",
    ]
    return Report("mesh", "one run in two processes", rows, goals, notes)


class Scaling(NamedTuple):
    """Seconds of each turn, and by how much the models of the two processes differed."""

    once: np.ndarray
    both: np.ndarray
    apart: float

    @property
    def gain(self) -> np.ndarray:
        return 2 * self.once / self.both


def _rows(name: str, clients: int, found: Scaling) -> list[Row]:
    group = f"weak scaling, {name}"
    return [
        Row.of(f"one process, one core, {clients} clients", 1e3 * found.once / ROUNDS, "ms / round", "undrift", group),
        Row.of(
            f"two processes, one core each, {2 * clients} clients",
            1e3 * found.both / ROUNDS, "ms / round", "undrift", group,
        ),
    ]  # fmt: skip


def _scaling(case: str, repeat: int) -> Scaling:
    with _company(case, Path(), 1) as one, _company(case, Path(), 2) as two:
        once, both, apart = [], [], 0.0
        for turn in range(repeat + 1):  # the first one compiles
            disturbance.calibrate()
            if turn % 2:
                (alone,), pair = _told(one), _told(two)
            else:
                pair, (alone,) = _told(two), _told(one)
            if turn:
                once.append(float(alone[0]))
                both.append(max(float(said[0]) for said in pair))
            apart = max(apart, abs(float(pair[0][1]) - float(pair[1][1])))
    return Scaling(np.asarray(once), np.asarray(both), apart)


def _padding() -> float:
    """Percent of what two processes play."""
    with _company("padding", Path(), 2) as company:
        return float(_told(company)[0][0])


def _room(file: Path) -> tuple[float, float]:
    clients = 2 * SHARE // (LARGE_SAMPLES * LARGE_DIM * 4)
    table = np.lib.format.open_memmap(file, "w+", np.float32, (clients, LARGE_SAMPLES, LARGE_DIM))
    rng = np.random.default_rng(0)
    for row in table:
        row[:] = rng.standard_normal(row.shape, np.float32)
    table.flush()
    del table
    found = []
    for count in (1, 2):
        with _company("room", file, count) as company:
            found.append(float(all(said[:1] == ["finished"] for said in _told(company))))
    return found[0], found[1]


@contextmanager
def _company(role: str, file: Path, count: int) -> Iterator[list[subprocess.Popen[str]]]:
    from undrift.deploy.ports import free_port

    address = f"127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        processes = []
        for index in range(count):
            command = [sys.executable, "-m", "benchmarks.mesh", role, str(file), address, str(count), str(index)]
            made = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.callback(made.wait)
            stack.callback(made.kill)
            processes.append(made)
        yield processes


def _told(company: list[subprocess.Popen[str]]) -> list[list[str]]:
    """What the processes say when they have done their work once; nothing where one has died."""
    for made in company:
        assert made.stdin is not None
        made.stdin.write("go\n")
        made.stdin.flush()
    said = []
    for made in company:
        assert made.stdout is not None
        lines = iter(made.stdout.readline, "")
        said.append(next((line.split()[1:] for line in lines if line.startswith("said ")), []))
    return said


def main(role: str, file: str, address: str, count: int, index: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[index % len(cores)]})
    from undrift.engine import hosts

    if count > 1:
        hosts.connect(address, count, index)
    work = ROLES[role](count, Path(file))
    for _ in sys.stdin:
        print("said", *work(), flush=True)


def _least_squares(count: int, file: Path) -> Work:
    import undrift as ud

    rng = np.random.default_rng(0)
    clients = count * CLIENTS
    A = (rng.standard_normal((clients, SAMPLES, DIM)) / 10).astype(np.float32)
    problem = ud.problems.least_squares(A, rng.standard_normal((clients, SAMPLES)).astype(np.float32), spectral=False)
    return _timed(count, problem, STEPS)


def _lenet(count: int, file: Path) -> Work:
    import undrift as ud

    clients = count * LENET_CLIENTS
    parts = np.arange(clients * LENET_SAMPLES).reshape(clients, LENET_SAMPLES)
    # Every process looks at the sample of the training data that is recorded: a small one, since this is not shared out.
    problem = ud.problems.network(
        ud.models.lenet5(), pictures(parts.size), list(parts), batch=LENET_BATCH, train_sample=LENET_SAMPLES
    )
    return _timed(count, problem, LENET_STEPS)


def _timed(count: int, problem: Any, steps: int) -> Work:
    import time

    import undrift as ud

    def work() -> tuple[float, float]:
        begin = time.perf_counter()
        result = ud.run(
            ud.fedavg(eta=0.01), problem, rounds=ROUNDS, steps=steps, record_every=ROUNDS, mesh=count > 1 or None
        )
        return time.perf_counter() - begin, float(np.sum(result.x))

    return work


def _padded(count: int, file: Path) -> Work:
    import undrift as ud

    problem = ud.problems.least_squares(np.ones((POPULATION, 1, 1)), np.ones((POPULATION, 1)), spectral=False)

    def work() -> tuple[str]:
        result = ud.run(
            ud.fedavg(eta=0.1),
            problem,
            rounds=1_000,
            record_every=1_000,
            participation=ud.plan.uniform(MEMBERS),
            mesh=True,
        )
        return (str(result.setting["mesh"]).split("; ")[-1].split()[0],)  # "… % of what is played is dropped"

    return work


def _roomy(count: int, file: Path) -> Work:
    import resource

    import jax

    import undrift as ud

    jax.block_until_ready(jax.jit(lambda x: x + 1)(np.zeros(1)))
    status = Path("/proc/self/status").read_text().splitlines()
    held = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (held + SHARE + ROOM,) * 2)
    A = np.load(file, mmap_mode="r")
    problem = ud.problems.least_squares(A, np.ones(A.shape[:2], np.float32), spectral=False)

    def work() -> tuple[str]:
        ud.run(ud.fedavg(eta=1e-4), problem, rounds=3, steps=1, record_every=3, mesh=True)
        return ("finished",)

    return work


ROLES: dict[str, Callable[[int, Path], Work]] = {
    "least_squares": _least_squares,
    "lenet": _lenet,
    "padding": _padded,
    "room": _roomy,
}

if __name__ == "__main__":
    main(*sys.argv[1:4], *map(int, sys.argv[4:]))  # type: ignore[arg-type]
