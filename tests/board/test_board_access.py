"""Who gets in, and what is answered: nobody by another name, nobody without the token, nothing but reading."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest
from board_cases import GoingOn, ask, finished, served

from undrift.board.guard import HEADERS, names_of
from undrift.board.server import address_of, listening
from undrift.cli import main
from undrift.errors import InputError

PATHS = ("/", "/compare", "/board.css", "/board.js", "/events", "/events/compare?run=a", "/events/run/a")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return finished(tmp_path_factory.mktemp("runs") / "one").parent


def test_every_answer_says_what_a_browser_may_do_with_it(folder):
    with served(folder) as address:
        for path in (*PATHS, "/nowhere", "/run/zz"):
            _, headers, _ = ask(address, path)
            for name, value in HEADERS.items():
                assert headers[name.lower()] == value, path
        assert "unsafe" not in HEADERS["Content-Security-Policy"]
        assert "server" not in ask(address, "/")[1] or "uvicorn" in ask(address, "/")[1]["server"]


@pytest.mark.parametrize(
    "name", ["evil.example", "127.0.0.1.evil.example", "evil.example:80", "", "localhost.evil.example"]
)
def test_other_names_are_refused(folder, name):
    with served(folder) as address:
        status, _, content = ask(address, "/", Host=name)
        assert status == 400
        assert b"undrift board" not in content
        assert ask(address, "/", Host="localhost:1234")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_there_is_only_reading(folder, method):
    with served(folder) as address:
        assert {ask(address, path, method)[0] for path in PATHS} == {405}


def test_paths_lead_nowhere(folder):
    (folder / "secret.txt").write_text("secret")
    with served(folder) as address:
        for path in (
            "/run/../../secret.txt", "/run/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/secret.txt", "/one/page.html",
            "/static/board.html", "/events/run/../../one", "/events/run/%00", "//etc/passwd", "/run/one",
        ):  # fmt: skip
            status, _, content = ask(address, path)
            assert b"secret" not in content
            assert b"root:" not in content
            assert status == 404 or content.startswith(b'data: {"gone":true}'), path


def test_strangers_are_refused_where_there_is_a_token(folder):
    with served(folder, token="right") as address:
        for path in PATHS:
            assert ask(address, path)[0] == 401, path
            assert ask(address, f"{path.partition('?')[0]}?token=wrong")[0] == 401, path
        assert ask(address, "/?token=")[0] == 401
        assert ask(address, "/?token=%C3%A9")[0] == 401
        assert ask(address, "/", Cookie="undrift-board=eyJsZXRfaW4iOiB0cnVlfQ==.aaaa.bbbb")[0] == 401
        status, headers, _ = ask(address, "/?token=right")
        assert (status, headers["location"]) == (303, "/")
        cookie = headers["set-cookie"]
        assert "httponly" in cookie.lower()
        assert "samesite=lax" in cookie.lower()
        assert ask(address, "/", Cookie=cookie.partition(";")[0])[0] == 200
        assert b"data: " in ask(address, "/events", Cookie=cookie.partition(";")[0])[2]
        assert ask(address, "/", Cookie=cookie.partition(";")[0], Host="evil.example")[0] == 400
    with served(folder, token="right") as address:
        assert ask(address, "/", Cookie=cookie.partition(";")[0])[0] == 401, "a session ends with its server"


def test_beyond_this_machine_there_is_always_a_token(folder, monkeypatch):
    from undrift.board import server

    told, tokens = [], []

    def application(root, names, token=None):
        tokens.append(token)
        raise InterruptedError

    monkeypatch.setattr(server, "application", application)
    for host, guarded in (("127.0.0.1", False), ("127.0.0.1", True), ("0.0.0.0", False)):
        with pytest.raises(InterruptedError):
            server.serve(folder, host, 0, guarded, told.append, False)
    assert [token is None for token in tokens] == [True, False, False]
    assert len({*tokens}) == 3
    assert all(len(token) >= 43 for token in tokens if token)
    assert "*" not in names_of("0.0.0.0")
    assert address_of("127.0.0.1", 80, None) == "http://127.0.0.1:80/"


def test_bad_input_is_refused_in_words(folder, tmp_path, capsys, monkeypatch):
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(InputError, match=r"cannot listen at 127.0.0.1.*--port"),
    ):
        listening("127.0.0.1", taken.getsockname()[1])
    assert main(["board", str(tmp_path / "nothing"), "--no-open"]) == 2
    assert "there is no folder" in capsys.readouterr().err
    assert main(["board", str(folder), "--host", "*", "--no-open"]) == 2
    assert "--host must be an address" in capsys.readouterr().err
    assert main(["board", str(folder), "--port", "70000"]) == 2
    capsys.readouterr()
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "undrift.board.server", raising=False)
    assert main(["board", str(folder), "--no-open"]) == 2
    assert "pip install 'undrift[board]'" in capsys.readouterr().err


def test_the_command_serves_and_ends_with_an_interrupt(folder):
    command = [sys.executable, "-m", "undrift", "board", str(folder), "--port", "0", "--no-open", "--token"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as made:
        try:
            address = made.stdout.readline().split()[-1]
            assert ask(address.partition("/?")[0], f"/?{address.partition('?')[2]}")[0] == 303
            assert ask(address.partition("/?")[0], "/")[0] == 401
            made.send_signal(2)
            _, complaints = made.communicate(timeout=300)
        finally:
            made.kill()
    assert made.returncode == 0
    assert complaints == ""


def test_the_board_starts_without_jax(tmp_path):
    """It would take seconds, and hundreds of megabytes, of a process that computes nothing."""
    GoingOn(tmp_path / "live").play(9)
    finished(tmp_path / "done")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "summary.json").write_text("{}")
    (tmp_path / "saved" / "history.csv").write_text("round,loss\n0,2.0\n1,1.0\n")
    words = """
import sys
from pathlib import Path
from undrift.board import server
from undrift.board.documents import document_of
from undrift.board.index import Index
from undrift.board.streams import PageStream
index = Index(Path(sys.argv[1]))
index.look()
assert len(index.runs) == 3
assert all(PageStream().news(document_of(run), {})["sections"] for run in index.runs.values())
assert "jax" not in sys.modules and "matplotlib" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", words, str(tmp_path)], check=True)
