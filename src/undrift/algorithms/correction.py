"""What FedLin and FedTrack share: a direction g that corrects local steps from x, two vectors down a round.

Where nobody misses rounds a client keeps the x it was told last, and hears g alone; elsewhere it is told (x, g).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from ..protocol import Cohort
from ..signatures import Centre, Send


def send_x(server: Any, slot: Any) -> jax.Array:
    """↓x"""
    x: jax.Array = server.x
    return x


def send_direction(every_round: bool, name: str = "g") -> Send:
    """↓g, or ↓(x, g) where a client may have missed x; `name`: where the server keeps g."""

    def send(server: Any, slot: Any) -> Any:
        g = getattr(server, name)
        return g if every_round else (server.x, g)

    return send


def centre_of(every_round: bool, kept: Callable[[Any], jax.Array]) -> Centre:
    """x, around which y_i lies: what the client has kept of it, or was told."""
    return lambda memory, down: kept(memory) if every_round else down[0]


def average(server: Any, slots: Any, y: jax.Array, cohort: Cohort) -> tuple[Any, Any]:
    """x ← mean y_i"""
    return server._replace(x=cohort.mean(y, around=server.x)), slots
