"""What to expect where nothing was measured: bytes and bandwidths, for docs/scale.md.

Everything comes from measured rates (`limits`, `lenet`) and the sizes below. A time is that of the part named alone, as if
nothing else were done meanwhile and nothing overlapped.
"""

from __future__ import annotations

import dataclasses

from .results import Result

NUMBER = 4  # bytes of a float32
FEATURES, SAMPLES = 784, 60  # of a sample, of a client: pictures of MNIST's shape
SOFTMAX = 7_850  # parameters of softmax regression on them
COHORT = 10
STEPS, BATCH = 10, 20  # of a member
LINK = 1.25e9  # bytes a second of the network between hosts that is assumed: 10 Gbit/s
HOSTS = 8
# Of a round of simulated clients on a mesh; tests/core/test_mesh.py counts them in the compiled program.
MEETINGS = {
    "any method, cohorts, for every exchange": 1,
    "FedAvg, everyone": 3,
    "SCAFFOLD or FedLin, everyone": 4,
    "any method, for every evaluation": 2,
}
GAIN = 1.7  # two processes ÷ one, clients played per second


@dataclasses.dataclass(frozen=True)
class Rates:
    """Measured: bytes a second, floating-point operations a second, seconds, bytes of memory."""

    copy: float
    disk: float
    reduce: float
    latency: float
    meeting: float
    product: float
    share: float
    memory: float

    @classmethod
    def of(cls, results: dict[str, Result]) -> Rates | None:
        """None where the cases that it needs have not been measured."""
        if "limits" not in results or "lenet" not in results:
            return None
        rows = {row.what: row.value for row in results["limits"].report.rows}
        shares = [goal.value for goal in results["lenet"].report.goals if "share" in goal.what]
        small, meeting = (
            next(value for what, value in rows.items() if what.startswith(f"{kind} of"))
            for kind in ("all-reduce", "all-gather")
        )
        return cls(
            copy=1e9 * rows["copy in memory, one core"],
            disk=1e9 * rows["read from disk"],
            reduce=1e9 * rows["all-reduce, two processes"],
            latency=1e-3 * small,
            meeting=1e-3 * meeting,
            product=1e9 * rows["JAX, float32"],
            share=shares[0],
            memory=1e9 * results["limits"].machine["memory_gb"],
        )


@dataclasses.dataclass(frozen=True)
class Crowd:
    """m clients of softmax regression, ten a round."""

    clients: int

    @property
    def memories(self) -> int:
        """Bytes that a method keeps of all clients, one vector of each."""
        return self.clients * SOFTMAX * NUMBER

    @property
    def data(self) -> int:
        return self.clients * SAMPLES * (FEATURES + 1) * NUMBER

    @property
    def touched(self) -> int:
        """Bytes of a round: the members' vectors there and back, and their samples."""
        return COHORT * (2 * SOFTMAX + SAMPLES * (FEATURES + 1)) * NUMBER


@dataclasses.dataclass(frozen=True)
class Large:
    """A dense network of d parameters, ten members a round."""

    parameters: int

    @property
    def model(self) -> int:
        return self.parameters * NUMBER

    @property
    def working(self) -> int:
        """Members one after the other: the model, the member's own, its gradient, the sum."""
        return 4 * self.model

    @property
    def sent(self) -> int:
        """Bytes that a round moves between server and members, both ways, uncompressed."""
        return 2 * COHORT * self.model

    def seconds(self, rates: Rates) -> float:
        """Of a round's products: 6 operations a parameter and sample, at the share of the peak that LeNet-5 reaches."""
        return 6 * self.parameters * COHORT * STEPS * BATCH / (rates.product * rates.share)


def all_reduce(size: int, hosts: int, bandwidth: float, latency: float) -> float:
    """Seconds of a ring: 2(h − 1) messages of size/h bytes.

    >>> all_reduce(1_000_000, 2, 1e6, 0.0)
    1.0
    """
    return 2 * (hosts - 1) * (size / hosts / bandwidth + latency)


def work_to_gain(meetings: float, gain: float = GAIN) -> float:
    """Work of each of two processes so that they play `gain` times as much as one, in units of `meetings`: 2w/(w + m) = gain.

    >>> work_to_gain(0.25, gain=1.5)
    0.75
    """
    return meetings * gain / (2 - gain)


def place(size: float, memory: float) -> str:
    """Where so many bytes lie best."""
    if size <= memory / 2:
        return "memory"
    return "file" if size <= 20 * memory else "hosts"


def size_words(count: float) -> str:
    """
    >>> size_words(31_400), size_words(2.5e9), size_words(4e12)
    ('31.4 kB', '2.5 GB', '4 TB')
    """
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f} B"


def time_words(seconds: float) -> str:
    """
    >>> time_words(0.00234), time_words(3.21), time_words(7200)
    ('2.34 ms', '3.21 s', '2 h')
    """
    for unit, scale in (("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{1e3 * seconds:.3g} ms"
