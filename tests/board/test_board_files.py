"""What the board makes of files: it reads what can be read, writes nothing, and stays in its folder."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import msgspec
import pytest
from board_cases import GoingOn, finished, head, own

from undrift.board.documents import document_of
from undrift.board.folder import Folder
from undrift.board.index import Index
from undrift.board.predict import forecast
from undrift.board.runs import BoardRun
from undrift.board.stored import document_in
from undrift.board.streams import ListStream, PageStream
from undrift.board.tail import LONGEST, Tail
from undrift.board.tracks import MOST_POINTS
from undrift.progressfile import NAME, Line
from undrift.report.page.check import DOCUMENT, SERIES


def looked(folder):
    """name -> row, after all rows have been written."""
    index = Index(folder)
    for _ in range(20):
        index.look()
    return {row["name"]: row for _, row in index.rows.values()}


def test_runs_of_every_state(tmp_path):
    GoingOn(tmp_path / "a" / "live").play(5)
    GoingOn(tmp_path / "killed").play(7)
    (tmp_path / "killed" / ".lock.owner").write_text("process 999999999 on nowhere since then (undrift)\n")
    (tmp_path / "killed" / ".lock").unlink()
    finished(tmp_path / "done")
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "study.toml").write_text("")
    (tmp_path / "no-run").mkdir()
    rows = looked(tmp_path)
    states = {name: row["status"] for name, row in rows.items()}
    assert states == {"a/live": "running", "killed": "stopped", "done": "finished", "begun": "not begun"}
    assert (rows["killed"]["played"], rows["killed"]["total"]) == (6, 10_000)
    assert rows["done"]["verdict"] is True
    assert rows["done"]["value"] == pytest.approx(0.9**60)
    assert rows["done"]["bound"] == pytest.approx(0.95**60)


def test_damaged_files_are_named_and_the_rest_is_shown(tmp_path):
    live = GoingOn(tmp_path / "half")
    live.play(5)
    with open(live.folder / NAME, "ab") as file:
        file.write(b'{"at": 0, "curve": "fedlin", "round": [5], "columns": {"loss": [')
    for name, content in (
        ("garbage", b"\xff\x00\n" * 50),
        ("deep", b"[" * 100_000 + b"\n"),
        ("other", msgspec.json.encode({"undrift progress": 2}) + b"\n"),
        (
            "lists",
            msgspec.json.encode(head()) + b"\n" + msgspec.json.encode(Line(0, "fedlin", [1], {"loss": []})) + b"\n[]\n",
        ),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / NAME).write_bytes(content)
    finished(tmp_path / "page")
    (tmp_path / "page" / "page.html").write_text('<script type="application/json" id="data">{"title": 3}</script>')
    finished(tmp_path / "summary")
    (tmp_path / "summary" / "summary.json").write_text("[1, 2")
    rows = looked(tmp_path)
    assert (rows["half"]["status"], rows["half"]["played"], rows["half"]["damage"]) == ("running", 4, "")
    damaged = {name for name, row in rows.items() if row["damage"]}
    assert damaged == {"garbage", "deep", "other", "lists", "summary"}
    for run in Index(tmp_path).folder.runs():
        made = BoardRun(Folder(tmp_path), run)
        made.look()
        assert PageStream().news(document_of(made), {})["header"]


def test_a_result_without_a_page_is_drawn_from_its_history(tmp_path):
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "summary.json").write_text('{"rounds": 2, "final": {}}')
    (tmp_path / "saved" / "history.csv").write_text("round,loss,gap,bytes_up\n0,3.0,2.0,0\n1,2.0,1.0,8\n2,,,16\n")
    run = BoardRun(Folder(tmp_path), ("saved",))
    run.look()
    gap, loss = document_of(run)["figures"]
    assert gap["series"][0]["y"] == [1.0, 0.5, None]
    assert loss["series"][0]["x"]["bytes"] == [0, 8, 16]
    (tmp_path / "saved" / "history.csv").write_text("round,loss\n0,x\n")
    assert document_of(run)["figures"] == []


def test_everything_that_a_page_holds_is_read_again(tmp_path):
    page = (finished(tmp_path / "done") / "page.html").read_bytes()
    found = document_in(page)
    assert found.keys() == DOCUMENT.keys()
    assert found["figures"][1]["series"][0].keys() == (SERIES.keys() - {"method", "pooled"}) | {
        "colour",
        "dash",
        "variant",
    }
    assert found["figures"][1]["series"][2]["dash"] != found["figures"][1]["series"][0]["dash"] == ""
    for good, bad in (
        (b'"rounds":[0,60],"curves"', b'"rounds":[0],"curves"'),
        (b'"dash":""', b'"dash":"url(x)"'),
        (b'"variant":0', b'"variant":9'),
        (b'"headline":"FedAvg', b'"headline":1,"x":"'),
        (b'{"loss":[2.0,null]}', b'{"gap":[2.0,null]}'),
    ):
        assert good in page
        assert document_in(page.replace(good, bad)) is None, bad


def test_nothing_outside_is_read_and_nothing_that_is_no_plain_file(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    finished(outside)
    inside.mkdir()
    (inside / "link").symlink_to(outside, target_is_directory=True)
    (inside / "links").mkdir()
    for name in ("page.html", "summary.json", "study.toml"):
        (inside / "links" / name).symlink_to(outside / name)
    (inside / "pipe").mkdir()
    os.mkfifo(inside / "pipe" / "summary.json")
    (inside / "pipe" / "study.toml").write_text("")
    rows = looked(inside)
    assert {name: row["status"] for name, row in rows.items()} == {"pipe": "not begun"}
    folder = Folder(inside)
    assert folder.read(("link",), "summary.json", 10**6) is None
    assert folder.read(("links",), "summary.json", 10**6) is None
    assert folder.read(("pipe",), "summary.json", 10**6) is None
    assert folder.read(("..", "outside"), "summary.json", 10**6) is not None, (
        "keys, not names, are what keeps readers inside"
    )


def test_reading_changes_nothing(tmp_path, monkeypatch):
    live = GoingOn(tmp_path / "live")
    live.play(50)
    finished(tmp_path / "done")
    opened = []
    real = os.open
    monkeypatch.setattr(
        os, "open", lambda path, flags, *rest, **words: opened.append(flags) or real(path, flags, *rest, **words)
    )
    before = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
    looked(tmp_path)
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert opened
    assert not any(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND) for flags in opened)


def test_a_tail_reads_each_line_once_however_it_is_cut(tmp_path):
    file, draw = tmp_path / NAME, random.Random(1)
    lines = [bytes(f"line {i} " + "x" * draw.randrange(50), "ascii") for i in range(300)]
    content, found = b"\n".join(lines) + b"\n", []
    tail = Tail(Folder(tmp_path), (), NAME)
    assert tail.look() == (False, [], False)
    with open(file, "wb", buffering=0) as out:
        while content:
            size = draw.randrange(1, 200)
            out.write(content[:size])
            content = content[size:]
            found += tail.look()[1]
    assert found == lines
    file.write_bytes(b"anew\n")
    assert tail.look()[:2] == (True, [b"anew"])
    (tmp_path / "next").write_bytes(b"other\n")
    os.replace(tmp_path / "next", file)
    assert tail.look()[:2] == (True, [b"other"])
    with open(file, "ab") as out:
        out.write(b"y" * (LONGEST + 100))
    for _ in range(10):
        tail.look()
    with open(file, "ab") as out:
        out.write(b"end\nafter\n")
    assert tail.look()[1] == [b"after"], "a line that is too long is left out"
    file.unlink()
    assert tail.look() == (True, [], False)


def test_what_is_kept_and_told_is_bounded(tmp_path):
    live = GoingOn(tmp_path / "live", rounds=100_000)
    run, stream, told, drawn = BoardRun(Folder(tmp_path), ("live",)), PageStream(), [], {}
    for _ in range(60):
        live.play(500)
        run.look()
        news = stream.news(document_of(run), {})
        told.append(len(str(news.get("points", news.get("figures")))))
        drawn = replayed(drawn, news)
    (track,) = run.tracks.values()
    assert len(track.rounds) <= MOST_POINTS + 1
    assert drawn["x"] == track.rounds, "differences add up to the whole"
    assert drawn["y"] == track.columns["relative"]
    assert sorted(told)[len(told) // 2] < max(told) / 3, "mostly only what is new is told"
    assert stream.news(document_of(run), {}) is None


def replayed(drawn, news):
    """What a browser has of the first curve."""
    if "figures" in news:
        first = news["figures"][0]["series"][0]
        return {"x": list(first["x"]["round"]), "y": list(first["y"])}
    for one in news.get("points", []):
        if (one["figure"], one["series"]) == (0, 0):
            start = one["from"]
            return {"x": drawn["x"][:start] + one["x"]["round"], "y": drawn["y"][:start] + one["y"]}
    return drawn


def test_the_list_tells_differences(tmp_path):
    stream = ListStream()
    assert stream.news({}) == {"rows": [], "gone": []}, "a first answer comes though there is nothing"
    assert stream.news({"a": (1, {"key": "a"})}) == {"rows": [{"key": "a"}], "gone": []}
    assert stream.news({"a": (2, {"key": "a"})}) is None
    assert stream.news({"b": (1, {"key": "b"})}) == {"rows": [{"key": "b"}], "gone": ["a"]}


def test_rounds_left_are_predicted(tmp_path):
    live = GoingOn(tmp_path / "live", rate=0.5, rounds=1000, targets={"gap": 0.5**40})
    live.play(20)
    run = BoardRun(Folder(tmp_path), ("live",))
    run.look()
    row = looked(tmp_path)["live"]
    assert row["left"].startswith("21 rounds left")
    assert "gap ≤ 9.09e-13, by its slope" in row["left"]
    rounds = list(range(30))
    assert forecast(5, rounds, {"gap": [0.5**t for t in rounds]}, {"gap": 0.5**50}).rounds == 5
    assert forecast(99, rounds, {"gap": [2.0**t for t in rounds]}, {"gap": 1e-3}).rounds == 99


def test_a_dead_owner_is_no_owner(tmp_path):
    own(tmp_path)
    GoingOn(tmp_path)
    run = BoardRun(Folder(tmp_path), ())
    run.look()
    assert run.is_live
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    words = (tmp_path / ".lock.owner").read_text().replace(str(os.getpid()), str(child.pid))
    (tmp_path / ".lock.owner").write_text(words)
    run.look()
    assert run.status == "stopped"
