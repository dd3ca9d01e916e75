"""Who may look: names that the server answers to, a token where others can reach it, and what a browser may load."""

from __future__ import annotations

import contextlib
import ipaddress
import secrets
import socket
from typing import Any

from starlette.authentication import AuthCredentials, AuthenticationBackend, BaseUser, SimpleUser
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
LET_IN = "let_in"
DAY = 86400
REFUSED = "Open the address that `undrift board` showed when it started: it carries the token.\n"


def is_loopback(host: str) -> bool:
    """Whether nobody on another machine can reach this address.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "192.168.1.4", "example.org")]
    [True, True, True, False, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def names_of(host: str) -> list[str]:
    """The names by which a server at this address may be called: no other, so that no page can lend it its own name.

    >>> names_of("127.0.0.1")
    ['127.0.0.1', '[::1]', 'localhost']
    """
    if is_loopback(host):
        return sorted({"127.0.0.1", "localhost", "[::1]", _bracketed(host)})
    own = {socket.gethostname(), socket.getfqdn(), "localhost", "127.0.0.1", "[::1]"}
    with contextlib.suppress(OSError):
        own |= {_bracketed(str(one[4][0])) for one in socket.getaddrinfo(socket.gethostname(), None)}
    return sorted({_bracketed(host), *(name for name in own if "*" not in name)})


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def middleware(names: list[str], token: str | None) -> list[Middleware]:
    """From the outside inwards."""
    found = [Middleware(Headers), Middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False)]
    if token is not None:
        found += [
            Middleware(
                SessionMiddleware,
                secret_key=secrets.token_urlsafe(32),  # of this process alone: sessions end with it
                session_cookie="undrift-board",
                max_age=DAY,
                same_site="lax",
            ),
            Middleware(AuthenticationMiddleware, backend=BySession()),
            Middleware(Doorkeeper, token=token),
        ]
    return found


class Headers:
    """Adds to every answer what a browser may do with it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self.app(scope, receive, with_headers)


class BySession(AuthenticationBackend):
    """Whoever has shown the token once is known by the session."""

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, BaseUser] | None:
        return (AuthCredentials([LET_IN]), SimpleUser("reader")) if conn.session.get(LET_IN) else None


class Doorkeeper:
    """Lets in who is known, takes the token from the address of those who show it, and refuses everybody else."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        shown = request.query_params.get("token")
        if shown is not None and secrets.compare_digest(shown.encode(), self.token.encode()):
            request.session[LET_IN] = True
            answer: Any = RedirectResponse("/", status_code=303)  # the token does not stay in the address
        elif LET_IN in request.auth.scopes and shown is None:
            answer = self.app
        else:
            answer = PlainTextResponse(REFUSED, status_code=401)
        await answer(scope, receive, send)
