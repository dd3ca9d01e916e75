"""A site's memory on its disk: damaged, lost, too old, or no room for it. Nothing is lost, and the error says what to do."""

from __future__ import annotations

import errno

import numpy as np
import pytest
from chaos import Book
from federations import federation, passed, same_bits

import undrift as ud
from undrift.deploy.frames import Ask, Commit
from undrift.deploy.memory import NEVER, InProcess, OnDisk

LIKE = [np.zeros(3), np.zeros((), np.int32)]


def memory(number):
    return [np.full(3, float(number)), np.asarray(number, np.int32)]


@pytest.mark.parametrize("disk", [InProcess, None])
def test_two_snapshots_are_kept(tmp_path, disk):
    kept = InProcess() if disk else OnDisk(tmp_path, "run")
    for round, base in ((0, NEVER), (1, 0), (1, 0), (4, 1), (5, 1)):
        kept.keep(round, memory(round), base)
    for round in (1, 5):
        for one, other in zip(kept.at(round, LIKE), memory(round), strict=True):
            np.testing.assert_array_equal(one, other)
    for round in (0, 4):
        with pytest.raises(ud.CheckpointError, match=f"round {round}"):
            kept.at(round, LIKE)


def test_what_is_not_this_run_or_damaged_is_refused(tmp_path):
    OnDisk(tmp_path, "run").keep(3, memory(3), NEVER)
    with pytest.raises(ud.CheckpointError, match=r"another run.*--reset"):
        OnDisk(tmp_path, "another").at(3, LIKE)
    (file,) = tmp_path.glob("*.npz")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(ud.CheckpointError, match=r"corrupt.*--reset"):
        OnDisk(tmp_path, "run").at(3, LIKE)


def test_the_error_says_who_is_too_old(tmp_path):
    kept = OnDisk(tmp_path, "run")
    with pytest.raises(ud.CheckpointError, match=r"it holds none.*bring the state directory back"):
        kept.at(7, LIKE)
    for round in (11, 12):
        kept.keep(round, memory(round), 11)
    with pytest.raises(ud.CheckpointError, match=r"rounds \[11, 12\]: the server has begun from an old checkpoint"):
        kept.at(7, LIKE)
    with pytest.raises(ud.CheckpointError, match=r"rounds 11|\[11, 12\].*bring the state directory back"):
        kept.at(20, LIKE)


# ----- in a run
NAME, SITE = "fedlin", "s1"


def disks(tmp_path):
    def disk(site):
        (tmp_path / site).mkdir()
        return OnDisk(tmp_path / site, "run")

    return disk


def once(round, kind, act):
    """When the site hears this of this round for the first time."""
    done = []

    def ignores(site, frame):
        if site == SITE and isinstance(frame, kind) and frame.round == round and not done:
            done.append(True)
            act()
            return True
        return False

    return ignores


def test_a_corrupt_snapshot_stops_the_site_and_the_run_waits(tmp_path):
    own = federation(NAME)
    chaos = own.chaos(0, disk=disks(tmp_path))
    file = tmp_path / SITE / "memory-2.npz"

    def damage():
        whole = file.read_bytes()
        file.write_bytes(whole[:-5])
        chaos.kill(SITE)

        def mend():
            file.write_bytes(whole)
            chaos.come_back(SITE)

        chaos.after(100.0, mend)

    chaos.ignores = once(3, Ask, damage)
    same_bits(own.play(chaos), passed(NAME))
    assert chaos.now > 100
    assert [site for site, _ in chaos.said] == [SITE]
    assert "corrupt" in chaos.said[0][1]
    assert any(site == SITE and "it cannot go on" in what and "corrupt" in what for site, what in own.watched)


def test_a_full_disk_at_a_site(tmp_path):
    own = federation(NAME)
    chaos = own.chaos(0, disk=disks(tmp_path))
    kept = own.disks[SITE]

    class Full(type(kept)):
        def keep(self, round, leaves, base):
            raise ud.StorageError.of(self.folder, OSError(errno.ENOSPC, "No space left on device"))

    def fill():
        own.disks[SITE] = chaos.members[SITE].site.snapshots = Full(kept.folder, "run")

        def make_room():
            own.disks[SITE] = kept
            chaos.come_back(SITE)

        chaos.after(100.0, make_room)

    chaos.ignores = once(3, Commit, fill)
    same_bits(own.play(chaos), passed(NAME))
    assert chaos.now > 100
    assert any("No space left" in said and "make room" in said for _, said in chaos.said)
    assert any("it cannot go on" in what and "make room" in what for _, what in own.watched)


def test_an_old_checkpoint_of_the_server(tmp_path):
    """It goes back two rounds: the sites say what to do, and with the newest checkpoint everything is as it was."""
    own = federation(NAME)
    book, kept = Book(), []
    chaos = own.chaos(0, disk=disks(tmp_path))

    class Stop(Exception):
        pass

    def keep(state):
        Book.keep(book, state)
        kept.append(book.kept)
        if len(kept) == 5:
            raise Stop

    book.keep = keep
    with pytest.raises(Stop):
        own.play(chaos, book)
    book.kept = kept[2]
    chaos.restart_server()
    before = {file: file.read_bytes() for file in tmp_path.rglob("*.npz")}

    def has_seen_enough():
        if len(chaos.said) == len(own.names):
            raise Stop

    with pytest.raises(Stop):
        own.play(chaos, book, check=has_seen_enough)
    assert all(
        "the server has begun from an old checkpoint; bring its newest one back" in said for _, said in chaos.said
    )
    assert {file: file.read_bytes() for file in tmp_path.rglob("*.npz")} == before
    book.kept, book.keep = kept[-1], lambda state: Book.keep(book, state)
    chaos.restart_server()
    for site in own.names:
        chaos.come_back(site)
    same_bits(own.play(chaos, book), passed(NAME))


def test_a_lost_directory_is_refused_until_reset(tmp_path):
    own = federation(NAME)
    chaos = own.chaos(0, disk=disks(tmp_path))

    def lose():
        (tmp_path / "new").mkdir()
        own.disks[SITE], own.states[SITE] = OnDisk(tmp_path / "new", "run"), "new"
        chaos.kill(SITE)

        def reset():
            own.reset.add(SITE)
            chaos.come_back(SITE)

        chaos.after(100.0, reset)

    chaos.ignores = once(3, Ask, lose)
    file = tmp_path / "trace.jsonl"
    try:
        result = own.play(chaos, Book(file))
    finally:
        own.states[SITE] = SITE
    assert any("has lost its memory" in said and "--reset" in said for _, said in chaos.said)
    assert ud.plan.trace(file).resets == {3: (1,)}
    np.testing.assert_array_equal(result.x, own.passed(plan=ud.plan.trace(file)).x)
