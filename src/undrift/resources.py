"""How fast clients compute and how fast their links are: what turns rounds into seconds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from .errors import InputError
from .gate import Link, check, scalar


@dataclasses.dataclass(frozen=True)
class Resources:
    """Gradient evaluations per second of every client; bytes per second up and down; seconds an exchange takes on its way.

    A gradient evaluation is one call of the oracle: ∇f_i on all of a client's data, or on one mini-batch.

    >>> Resources.of(3, speeds="10..1000", link="up=1e5,latency=0.2")
    Resources(speeds=(10.0, 100.0, 1000.0), up=100000.0, down=10000000.0, latency=0.2)
    """

    speeds: tuple[float, ...]
    up: float = 1e6
    down: float = 1e7
    latency: float = 0.05

    @classmethod
    def of(cls, clients: int, speeds: Any = 100.0, link: Any = None) -> Resources:
        """`speeds`: one number, one per client, or "lo..hi" (spread evenly on a logarithmic scale over the clients).

        `link`: a dictionary or a word up=1e6,down=1e7,latency=0.05; what is missing keeps its default.
        """
        return cls(_speeds(speeds, clients), **_link(link))

    def pooled(self) -> Resources:
        """One machine as fast as all clients together: a gradient of all of them takes it the mean of their speeds."""
        return dataclasses.replace(self, speeds=(float(np.mean(self.speeds)),))

    def link_seconds(self, link: str, size: int) -> float:
        """How long a message is on its way; from client to client it passes the sender's and the receiver's link."""
        rate = {"up": self.up, "down": self.down, "peer": min(self.up, self.down)}.get(link)
        return 0.0 if rate is None else size / rate

    @cached_property
    def rates(self) -> np.ndarray:
        """The speeds as an array: a tuple of a million takes longer to read than ten clients to play."""
        return np.asarray(self.speeds)

    @property
    def unequal(self) -> bool:
        return bool(self.rates.max() > 1.01 * self.rates.min())

    def steps_by_speed(self, most: int) -> np.ndarray:
        """τ_i in proportion to the clients' speeds, the fastest taking `most`; nobody takes fewer than 1."""
        speeds = self.rates
        return np.maximum(1, np.rint(most * speeds / speeds.max())).astype(np.int64)

    def __str__(self) -> str:
        low, high = self.rates.min(), self.rates.max()
        speed = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        return f"{speed} gradients/s, {_bytes(self.up)}/s up, {_bytes(self.down)}/s down, latency {1000 * self.latency:g} ms"


def _speeds(words: Any, clients: int) -> tuple[float, ...]:
    try:
        if isinstance(words, str) and ".." in words:
            low, high = (float(part) for part in words.split(".."))
            numbers = np.geomspace(low, high, clients) if low > 0 and high > 0 else np.array([np.nan])
        else:
            parts = words.split(",") if isinstance(words, str) else words
            numbers = np.atleast_1d(np.asarray(parts, float))
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"speeds are written 100, or 10,20,40 (one per client), or 10..1000; got {words!r}") from None
    if numbers.shape not in ((1,), (clients,)):
        raise InputError(f"speeds must be one number or one per client ({clients}), got {numbers.size} of them")
    if not np.all(np.isfinite(numbers) & (numbers > 0)):
        raise InputError(f"speeds are gradients per second, finite numbers > 0; got {words!r}")
    return (float(numbers[0]),) * clients if numbers.shape == (1,) else tuple(numbers.tolist())


def _link(words: Any) -> dict[str, float]:
    given = words
    if isinstance(words, str):
        parts = [part.partition("=") for part in filter(None, words.split(","))]
        given = {key.strip(): scalar(text.strip()) for key, _, text in parts}
        if not all(equals for _, equals, _ in parts) or len(given) < len(parts):
            raise InputError(f"a link is written up=1e6,down=1e7,latency=0.05, each once; got {words!r}")
    elif words is not None and not isinstance(words, Mapping):
        raise InputError(f"a link is a table or a word such as up=1e6,down=1e7,latency=0.05; got {words!r}")
    check(Link, given or {}, "a link")
    return {key: float(value) for key, value in (given or {}).items()}


def _bytes(count: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:g} {unit}"
    return f"{count:g} B"
