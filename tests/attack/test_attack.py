"""The attack with small counts, and that its own weapons are sharp."""

from __future__ import annotations

import fcntl
import json
import os
import random
import sys

import pytest

from .counts import ATTACKS
from .disk import Disk, Killed
from .kills import attack_kills_played
from .page import COUNTS, PAGE, page
from .pairs import attack_pairs
from .storage import inject
from .tally import Tally
from .tasks import COMPARE, RUN, References

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the attack needs Linux: /proc, signals")


# What the others try in small runs elsewhere: bad input, payloads and checkpoints have tests of their own, and so have
# signals and kills of real processes.
def test_a_few_deaths_lose_nothing(tmp_path):
    check(attack_kills_played(2, 1, tmp_path, tasks=(RUN, COMPARE)))


def test_a_few_refusals_of_the_disk_lose_nothing(tmp_path):
    tally = Tally()
    inject(6, random.Random(1), (RUN,), tmp_path, References(tmp_path / "undisturbed"), tally)
    check(tally.counts())


@pytest.mark.slow
def test_a_few_rivals_share_nothing(tmp_path):
    check(attack_pairs(2, 1, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_the_full_attack_finds_nothing(name, tmp_path):
    found = ATTACKS[name].play(ATTACKS[name].full, 2, tmp_path)
    check(found)
    assert found["attempts"] >= ATTACKS[name].at_least


def check(found):
    assert found["attempts"] > 0
    assert (found["lost"], found["wrong"], found["tracebacks"]) == (0, 0, 0), "\n".join(found["failures"])


# ----- the weapons
def test_what_is_in_buffers_dies_with_the_process(tmp_path):
    with Disk(tmp_path, at=3) as disk:
        file = (tmp_path / "a").open("wb")  # change 1
        file.write(b"in the buffer")
        os.mkdir(tmp_path / "b")  # change 2
        with pytest.raises(Killed):
            os.mkdir(tmp_path / "c")
    with pytest.raises(Killed):
        file.close()
    assert disk.changes == ["open a", "mkdir b", "mkdir c"]
    assert (tmp_path / "a").read_bytes() == b""
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_the_dead_cannot_clean_up(tmp_path):
    path = tmp_path / "a"

    def tidy():
        try:
            path.write_text("never")
        finally:
            path.unlink()

    with Disk(tmp_path, at=2) as disk, pytest.raises(Killed):
        tidy()
    assert disk.dead
    assert path.read_text() == ""


def test_a_torn_write_leaves_half(tmp_path):
    with Disk(tmp_path, at=2, fault="tear"), pytest.raises(Killed):
        (tmp_path / "a").write_text("12345678")
    assert (tmp_path / "a").read_text() == "1234"


def test_locks_of_the_dead_are_let_go(tmp_path):
    path = tmp_path / "lock"
    with Disk(tmp_path, at=2):
        handle = os.open(path, os.O_CREAT | os.O_RDWR)
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(Killed):
            os.mkdir(tmp_path / "b")
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(handle)


def test_a_full_disk_refuses_until_it_is_left(tmp_path):
    path = tmp_path / "a"
    path.write_text("before")
    with Disk(tmp_path, at=1, fault="ENOSPC"):
        for _ in range(2):
            with pytest.raises(OSError, match="No space left"):
                path.write_text("after")
        path.unlink()  # this it allows
    path.write_text("after")


def test_files_elsewhere_are_left_alone(tmp_path):
    (tmp_path / "in").mkdir()
    with Disk(tmp_path / "in", at=1) as disk:
        (tmp_path / "out").write_text("x")
    assert disk.changes == []


def test_a_tally_counts_a_kind_of_failure_once_an_attempt():
    tally = Tally()
    with tally.attempt("first", "part"):
        tally.lost("this")
        tally.lost("that")
    with tally.attempt("second", "part"):
        tally.traceback("Traceback\n  …\nValueError: no")
    found = tally.counts(seed=3)
    assert [found[key] for key in ("attempts", "lost", "wrong", "tracebacks", "seed")] == [2, 1, 0, 1, 3]
    assert found["failures"] == ["lost: first: this", "lost: first: that", "tracebacks: second: ValueError: no"]


# ----- the page
def test_the_page_says_what_was_counted():
    counts = json.loads(COUNTS.read_text(encoding="utf-8"))
    assert PAGE.read_text(encoding="utf-8") == page(counts)


def test_what_was_counted_is_all_that_was_promised():
    counts = json.loads(COUNTS.read_text(encoding="utf-8"))
    few = {name: found["attempts"] for name, found in counts.items() if found["attempts"] < ATTACKS[name].at_least}
    bad = {
        name: found["failures"]
        for name, found in counts.items()
        for kind in ("lost", "wrong", "tracebacks")
        if found[kind]
    }
    assert (list(counts), few, bad) == (list(ATTACKS), {}, {})
