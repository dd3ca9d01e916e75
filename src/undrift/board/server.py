"""The board's server: where it listens, and how it ends."""

from __future__ import annotations

import contextlib
import secrets
import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn

from ..errors import InputError
from .app import application
from .guard import is_loopback, names_of


def listening(host: str, port: int) -> socket.socket:
    """A socket at this address; port 0: a free one."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)  # whoever comes before the server is ready waits
    except OSError as error:
        raise InputError(
            f"the board cannot listen at {host}, port {port}: {error.strerror or error}; choose another with --port (0: any "
            "that is free), or another --host"
        ) from error


def serve(root: Path, host: str, port: int, guarded: bool, tell: Callable[[str], None], show: bool) -> None:
    """Serve until Ctrl-C. `guarded`: ask for a token on the loopback address too."""
    token = secrets.token_urlsafe(32) if guarded or not is_loopback(host) else None
    with listening(host, port) as place:
        app = application(root, names_of(host), token)
        address = address_of(host, place.getsockname()[1], token)
        tell(address)
        if show:
            webbrowser.open(address)
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            log_level="warning",
            access_log=False,  # the token stands in an address once
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=2,
            h11_max_incomplete_event_size=16384,
            limit_concurrency=256,
        )
        with contextlib.suppress(KeyboardInterrupt):  # which is how it ends
            Server(config, lambda: setattr(app.state.board, "over", True)).run(sockets=[place])


class Server(uvicorn.Server):
    """Tells the streams to end when the server is asked to."""

    def __init__(self, config: uvicorn.Config, end: Callable[[], None]) -> None:
        super().__init__(config)
        self.end = end

    def handle_exit(self, sig: int, frame: object) -> None:
        self.end()
        super().handle_exit(sig, frame)  # type: ignore[arg-type]


def address_of(host: str, port: int, token: str | None) -> str:
    """What to open in a browser.

    >>> address_of("::1", 8765, None), address_of("0.0.0.0", 80, "t")
    ('http://[::1]:8765/', 'http://...:80/?token=t')
    """
    name = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/" + ("" if token is None else f"?token={token}")
