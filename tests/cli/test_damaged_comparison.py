"""What `compare` keeps of finished methods is read as if a stranger had written it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import undrift as ud
from attack.damaged_checkpoints import array, flipped, packed, unpacked, with_member, with_state
from undrift.command.compare_files import Finished
from undrift.studies.comparison import Outcome

DAMAGES = {
    "cut": lambda c: c[:-1],
    "a bit": flipped(0.5),
    "no state": with_member("state", lambda m: None),
    "no points": with_state(lambda s: s.update(points=[])),
    "points of words": with_state(lambda s: s.update(points=["a", "b"])),
    "one point more": with_state(lambda s: s["points"].append({"eta": 1.0})),
    "one origin less": with_state(lambda s: s["origins"].pop()),
    "no seeds": with_state(lambda s: s.pop("seeds")),
    "seeds as words": with_state(lambda s: s.update(seeds=["a"])),
    "seconds as a word": with_state(lambda s: s.update(seconds="long")),
    "label as a number": with_state(lambda s: s.update(label=3)),
    "no loss": with_member("column_loss", lambda m: None),
    "no rounds": with_member("column_loss", lambda m: array(np.zeros((2, 1, 0)))),
    "a gap of other length": with_member("column_gap", lambda m: array(np.zeros((2, 1, 9)))),
    "no models": with_member("x", lambda m: None),
    "models of text": with_member("x", lambda m: array(np.array([[["a"]], [["b"]]]))),
    "divergence of other shape": with_member("diverged", lambda m: array(np.zeros(2, int))),
    "something else": lambda c: packed(unpacked(c) | {"more.npy": array(np.zeros(1))}),
}


@pytest.fixture
def finished(tmp_path: Path) -> Finished:
    files = Finished(tmp_path, lambda number: f"method {number}")
    history = {"loss": np.arange(8.0).reshape(2, 1, 4), "gap": np.ones((2, 1, 4))}
    points = [{"eta": 0.1}, {"eta": 0.2}]
    files.save(
        0, Outcome("FedAvg", "fedavg", points, [0], history, np.zeros((2, 1, 3)), np.full((2, 1), -1), 1.5, "#123456")
    )
    return files


def test_what_was_kept_comes_back(finished):
    found = finished.load(0)
    assert (found.label, found.points, found.seeds, found.colour) == (
        "FedAvg",
        [{"eta": 0.1}, {"eta": 0.2}],
        [0],
        "#123456",
    )
    assert list(found.history) == ["loss", "gap"]
    np.testing.assert_array_equal(found.history["loss"], np.arange(8.0).reshape(2, 1, 4))
    assert finished.load(1) is None


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_refused(damage, finished):
    path = finished.path(0)
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    with pytest.raises(ud.CheckpointError, match="delete it to run this method again"):
        finished.load(0)


def test_another_comparison_is_refused(finished):
    finished.identify = lambda number: "another"
    with pytest.raises(ud.CheckpointError, match="belongs to another comparison"):
        finished.load(0)
