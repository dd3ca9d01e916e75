"""Ports of this machine, for rehearsals."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
