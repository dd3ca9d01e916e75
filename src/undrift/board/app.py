"""The web application: pages, and streams of what changes. It answers to GET and HEAD alone, and knows files by keys alone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable
from importlib import resources
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from ..report.page import STYLES
from ..report.page.script import DRAWING, wrapped
from .documents import Comparison, document_of
from .guard import middleware
from .index import Index
from .rows import state_of
from .runs import BoardRun
from .streams import ListStream, PageStream

log = logging.getLogger("undrift.board")
LOOK = 0.25  # seconds between two looks
BEAT = 15.0  # seconds after which a stream in which nothing happened says that it is alive
MOST_STREAMS = 64
MOST_COMPARED = 24
SCRIPT = ("view", "list", "start")  # of the board, behind the page's own drawing code


class Board:
    """The runs below a folder, and everybody who looks at them."""

    def __init__(self, root: Path) -> None:
        self.index = Index(root)
        self.streams = 0
        self.over = False  # the server ends: streams end too
        self._lock = threading.Lock()  # nobody reads while somebody looks; held by threads, which no cancellation stops
        self._looked = asyncio.Event()  # set by the next look, which puts another in its place

    async def watch(self) -> None:
        """Look again and again, while anybody wants to know."""
        while True:
            if self.streams:
                try:
                    await self.look()
                except Exception:  # one that nobody foresaw must not end the watch
                    log.exception("looking at the runs failed")
            await asyncio.sleep(LOOK)

    async def look(self) -> None:
        await self.asked(self.index.look)
        looked, self._looked = self._looked, asyncio.Event()
        looked.set()

    async def wait(self) -> None:
        """Until somebody has looked; `TimeoutError` where that takes long."""
        await asyncio.wait_for(self._looked.wait(), BEAT)

    async def asked(self, question: Callable[[], Any]) -> Any:
        """The answer to a question about the runs, while nobody changes them."""

        def locked() -> Any:
            with self._lock:
                return question()

        return await asyncio.to_thread(locked)

    async def events(self, request: Request, question: Callable[[], Any]) -> AsyncIterator[bytes]:
        """A stream of answers that are not None, as long as the browser listens."""
        self.streams += 1
        try:
            await self.look()
            while not self.over:
                answer = await self.asked(question)
                if answer is not None:
                    yield _event(answer)
                try:
                    await self.wait()
                except TimeoutError:
                    yield b": still here\n\n"
                if await request.is_disconnected():
                    return
        finally:
            self.streams -= 1


def _event(content: Any) -> bytes:
    return (
        b"data: " + json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n\n"
    )


def application(root: Path, names: list[str], token: str | None = None) -> Starlette:
    """The board of a folder, for a server that may be called by these names; with a token, for those who know it."""
    board = Board(root)
    pages, looks, script = _static("board.html"), _style(), _script()

    async def shell(request: Request) -> Response:
        if "key" in request.path_params and request.path_params["key"] not in board.index.runs:
            await board.look()
            if request.path_params["key"] not in board.index.runs:
                return PlainTextResponse("There is no such run.\n", status_code=404)
        return Response(pages, media_type="text/html")

    async def style(request: Request) -> Response:
        return Response(looks, media_type="text/css")

    async def code(request: Request) -> Response:
        return Response(script, media_type="text/javascript")

    async def events_of_list(request: Request) -> Response:
        stream = ListStream()
        return _streamed(board, request, lambda: stream.news(board.index.rows))

    async def events_of_run(request: Request) -> Response:
        key = request.path_params["key"]
        return _streamed(
            board, request, _question(board, [key], lambda runs: (document_of(runs[0]), state_of(runs[0])))
        )

    async def events_of_comparison(request: Request) -> Response:
        keys = list(dict.fromkeys(request.query_params.getlist("run")))[:MOST_COMPARED]
        compared = Comparison()
        answer = _question(board, keys, lambda runs: (compared.document(runs), [state_of(run) for run in runs]))
        return _streamed(board, request, answer)

    @contextlib.asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(board.watch())
        yield
        board.over = True
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    routes = [
        Route("/", shell),
        Route("/compare", shell),
        Route("/run/{key}", shell),
        Route("/board.css", style),
        Route("/board.js", code),
        Route("/events", events_of_list),
        Route("/events/compare", events_of_comparison),
        Route("/events/run/{key}", events_of_run),
    ]
    made = Starlette(routes=routes, middleware=middleware(names, token), lifespan=life)
    made.state.board = board
    return made


def _streamed(board: Board, request: Request, question: Callable[[], Any]) -> Response:
    if request.method == "HEAD":
        return Response(media_type="text/event-stream")
    if board.streams >= MOST_STREAMS:
        return PlainTextResponse("Too many are looking: close some pages.\n", status_code=503)
    return StreamingResponse(board.events(request, question), media_type="text/event-stream")


def _question(
    board: Board, keys: list[str], answer: Callable[[list[BoardRun]], tuple[dict[str, Any], Any]]
) -> Callable[[], Any]:
    """What is new of the page of these runs; asked only where one of them has changed."""
    stream, told = PageStream(), [()]

    def ask() -> Any:
        runs = [board.index.runs[key] for key in keys if key in board.index.runs]
        versions: Any = tuple((run.key, run.version) for run in runs)
        if not runs:
            news = {"gone": True} if told[0] != ("gone",) else None
            told[0] = ("gone",)  # type: ignore[assignment]
            return news
        if versions == told[0]:
            return None
        told[0] = versions
        return stream.news(*answer(runs))

    return ask


def _static(name: str) -> bytes:
    return (resources.files(__package__) / "static").joinpath(name).read_bytes()


def _style() -> bytes:
    page = resources.files("undrift.report.page")
    return b"".join((page / name).read_bytes() for name in STYLES) + _static("board.css")


def _script() -> bytes:
    page, own = resources.files("undrift.report.page.script"), resources.files(__package__) / "static"
    pieces = [(page / f"{name}.js").read_text(encoding="utf-8") for name in DRAWING]
    pieces += [(own / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPT]
    return wrapped(*pieces).encode()
