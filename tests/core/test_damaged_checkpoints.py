"""A checkpoint that is not whole and right is refused with an error that says why, and nothing of it is used."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import undrift as ud
from attack.damaged_checkpoints import attack_checkpoints, kinds, play
from undrift.engine.stored import Stored


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> bytes:
    folder = tmp_path_factory.mktemp("good")
    play(folder, 5)
    return (folder / "checkpoint.npz").read_bytes()


@pytest.mark.parametrize("kind", kinds())
def test_damage_is_refused(kind, good, tmp_path: Path):
    file = tmp_path / "checkpoint.npz"
    damaged = kinds()[kind](good)
    assert damaged != good
    file.write_bytes(damaged)
    with pytest.raises(ud.CheckpointError, match=r"delete it to start this run again|belongs to another run") as caught:
        play(tmp_path, 8)
    assert str(file) in str(caught.value)
    assert file.read_bytes() == damaged


def test_what_is_whole_is_used(good, tmp_path: Path):
    (tmp_path / "checkpoint.npz").write_bytes(good)
    longer = play(tmp_path, 8)
    np.testing.assert_array_equal(longer.iterates, play(tmp_path / "other", 8, resume=False).iterates)


@pytest.mark.parametrize("kind", [kind for kind in kinds() if "declares" in kind or "bomb" in kind])
def test_what_a_file_declares_is_not_taken(kind, good, tmp_path: Path):
    (tmp_path / "checkpoint.npz").write_bytes(kinds()[kind](good))
    tracemalloc.start()
    with pytest.raises(ud.CheckpointError):
        Stored(tmp_path / "checkpoint.npz", "delete it")
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken < 2**21


def test_the_attack_counts_no_harm():
    counts = attack_checkpoints(seed=3, only=["empty", "zip bomb"], flips=12)
    assert counts["damaged"] == 14 == counts["refused"] + counts["harmless"]
    assert counts["refused"] >= 2
    assert counts["wrong"] == counts["other_exceptions"] == counts["touched"] == 0
