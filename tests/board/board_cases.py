"""Folders with runs in every state, written by the library's own writers."""

from __future__ import annotations

import http.client
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from undrift import files
from undrift.board.app import application
from undrift.board.guard import names_of
from undrift.progressfile import Claim, Clients, Curve, Head, Writer
from undrift.report.page import write_page

PATIENCE = 120.0  # seconds: a busy machine may take long


def head(rounds: int = 10_000, **changes: Any) -> Head:
    return Head(**{
        "format": 1, "command": "run", "began": time.time(), "rounds": rounds, "title": "fedlin on least_squares",
        "subtitle": "20 clients", "line": "undrift run --method fedlin", "seeds": [0],
        "setting": [{"key": "problem", "value": "least_squares"}], "curves": [Curve("fedlin", "fedlin")],
        "exchange": [{"label": "fedlin", "costs": ["round, per client 800 B up"], "parts": [{"title": "every round", "rows": [
            {"depth": 0, "name": "local", "down": {"contents": ["x"], "bytes": 800, "link": "down"},
             "up": {"contents": ["y"], "bytes": 800, "link": "up"}, "gradients": 19}]}]}],
        **changes,
    })  # fmt: skip


def own(folder: Path) -> None:
    """Mark a folder as one whose run goes on in this very process."""
    (folder / ".lock").touch()
    (folder / ".lock.owner").write_text(f"process {os.getpid()} on {socket.gethostname()} since now (undrift)\n")


class GoingOn:
    """A run that is being played, round by round, as the test says."""

    def __init__(self, folder: Path, rate: float = 0.99, **changes: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        own(folder)
        self.folder, self.rate, self.round = folder, rate, 0
        self.writer = Writer(folder, head(**changes))
        self.writer.begin()
        self.writer.add(bounds=[Curve("fedlin, Theorem 1", of="fedlin")])

    def play(self, rounds: int) -> None:
        first, self.round = self.round, self.round + rounds
        t = list(range(first, self.round))
        gaps = [max(self.rate**s, 1e-300) for s in t]
        columns: dict[str, list[Any]] = {"relative": gaps, "gap": gaps, "loss": [1 + gap for gap in gaps]}
        columns |= {"bytes": [1600 * s for s in t], "gradients": [20 * s for s in t], "seconds": [0.1 * s for s in t]}
        columns["bound 0"] = [0.999**s for s in t]
        self.writer.add(curve="fedlin", round=t, columns=columns)

    def judge(self, holds: bool) -> None:
        self.writer.add(claims=[Claim("the gap stays below its bound", holds, "smallest slack ×2", 2.0)])

    def tell_sites(self, here: list[bool], seconds: list[float]) -> None:
        names = [f"site-{i}" for i in range(len(here))]
        self.writer.add(
            clients=Clients(
                names, len(names), self.round, steps=[5.0] * len(names), here=here, seconds=seconds, measured=True
            )
        )


def finished(folder: Path, title: str = "fedavg on digits", rate: float = 0.9, rounds: int = 60) -> Path:
    """A run that has ended, with its page."""
    folder.mkdir(parents=True)
    t = list(range(rounds + 1))
    curve = {"label": "fedavg", "x": {"round": t, "bytes": [100 * s for s in t]}, "y": [rate**s for s in t]}
    bound = {
        "label": "fedavg, Theorem 2",
        "kind": "bound",
        "of": "fedavg",
        "x": {"round": t},
        "y": [0.95**s for s in t],
    }
    others = [{**curve, "label": "fedavg ↑top_k(8)"}, {**curve, "label": "gd", "pooled": True}]  # dashed, and marked
    figure = {"title": "Relative gap", "y_label": "gap", "floor": 1e-15, "series": [curve, bound]}
    second = {**figure, "title": "Gradient", "series": [curve, bound, *others]}
    claim = {"sentence": "Theorem 2 holds", "holds": True, "measured": "slack ×2", "margin": 2.0}
    document = {
        "title": title, "subtitle": "60 rounds", "figures": [figure, second], "claims": [claim],
        "command": "undrift run", "versions": {"undrift": "0"}, "seeds": [0],
        "setting": [{"key": "problem", "value": [1, 2.5], "source": "given"}],
        "tables": [{"title": "Results", "columns": ["round", "gap"], "rows": [[0, 1.0], [1, float("nan")]]}],
        "exchange": head().exchange,
        "verdict": {"headline": "FedAvg is 5 % away", "others": "GD arrives", "meaning": "f − f*"},
        "lanes": [{"title": "A lane per client", "lanes": [
            {"name": name, "mark": mark, "samples": 7, "rounds": [0, 60], "curves": {"loss": [2.0, loss]}}
            for name, mark, loss in (("a", "worst", 1.5), ("b", "best", None))]}],
        "presence": {"names": ["client 0", "client 1"], "total": 2, "round": 60, "rounds": [30, 60],
                     "steps": [[5, 5], [9, None]], "answered": [[1, 1], [1, 0]], "seconds": [0.1, 0.5]},
    }  # fmt: skip
    document["exchange"] = [_whole_exchange(one) for one in document["exchange"]]
    write_page(folder / "page.html", document)
    (folder / "study.toml").write_text("")
    files.write_json(folder / "summary.json", {"status": "finished", "rounds": rounds, "files": {}})
    return folder


def _whole_exchange(exchange: dict[str, Any]) -> dict[str, Any]:
    row = {"depth": 0, "name": "", "down": None, "up": None, "gradients": 0, "is_block": False, "holds_rows": False}
    return {
        **exchange,
        "parts": [{**part, "rows": [{**row, **one} for one in part["rows"]]} for part in exchange["parts"]],
    }


@contextmanager
def served(folder: Path, token: str | None = None, host: str = "127.0.0.1") -> Iterator[str]:
    """The address of a board of this folder, in a thread."""
    app = application(folder, names_of(host), token)
    with socket.create_server(("127.0.0.1", 0)) as place:
        config = uvicorn.Config(app, log_level="error", ws="none", http="h11", timeout_graceful_shutdown=2)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{place.getsockname()[1]}"
        finally:
            app.state.board.over = True
            server.should_exit = True
            thread.join(PATIENCE)
    assert not thread.is_alive()


def ask(address: str, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and (a first part of) the content of an answer."""
    where = address.removeprefix("http://")
    connection = http.client.HTTPConnection(where, timeout=PATIENCE)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        stream = answer.getheader("content-type", "").startswith("text/event-stream")
        content = b"" if method == "HEAD" else answer.readline() if stream else answer.read()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content
    finally:
        connection.close()
