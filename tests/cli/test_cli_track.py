"""`--track`: runs and comparisons in TensorBoard's event files."""

from __future__ import annotations

import struct
from pathlib import Path

import pandas as pd
import pytest
from cli_helpers import SMALL

from undrift.command.talk import Stop
from undrift.engine import simulate

RUN = ["run", "--method", "fedlin", "--eta", "0.02", *SMALL, "--no-figures"]


def gaps(folder: Path) -> list[tuple[int, float]]:
    from tensorboardX.proto.event_pb2 import Event

    found = []
    for path in sorted(folder.glob("events*")):
        content, at = path.read_bytes(), 0
        while at < len(content):
            (size,) = struct.unpack("<Q", content[at : at + 8])
            event = Event.FromString(content[at + 12 : at + 12 + size])
            found += [(event.step, value.simple_value) for value in event.summary.value if value.tag == "gap"]
            at += 16 + size
    return sorted(found)


def test_a_run_that_is_resumed_goes_on_in_its_tracker_unasked(cli, monkeypatch):
    calls = []

    def strike(self):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(simulate, "CHUNK_SECONDS", 0.0)
        patch.setattr(Stop, "heard", strike)
        assert cli(*RUN, "--out", "r", "--track", "tensorboard:tb", "--json").code == 130
    before = gaps(Path("tb/r"))
    assert 2 <= len(before) < 13
    assert list(Path("r").glob("tracked-tensorboard-*.json"))
    assert cli("run", "--out", "r", "--resume", "--no-figures").code == 0
    history = pd.read_csv("r/history.csv")
    assert [t for t, _ in gaps(Path("tb/r"))] == list(range(13))
    assert [gap for _, gap in gaps(Path("tb/r"))] == pytest.approx(history["gap"].tolist(), rel=1e-6)
    assert not list(Path("r").glob("tracked-*"))


def test_the_numbers_do_not_depend_on_being_tracked(cli):
    assert cli(*RUN, "--out", "a").code == 0
    Path("tb").write_text("in the way")
    said = cli(*RUN, "--out", "b", "--track", "tensorboard:tb")
    assert said.code == 0
    assert said.err.count("does not track this run any more") == 1
    assert Path("a/history.csv").read_bytes() == Path("b/history.csv").read_bytes()


def test_a_comparison_is_one_run_for_each_method_and_seed(cli):
    words = ["compare", "--method", "fedavg", "fedlin", "--eta", "0.01", "0.02", *SMALL, "--oracle", "noisy:1.0"]
    assert cli(*words, "--seeds", 3, "--no-figures", "--out", "c", "--track", "tensorboard:tb").code == 0
    history = pd.read_csv("c/history.csv")
    for (label, seed), rows in history.groupby(["label", "seed"]):
        found = gaps(Path("tb/c") / label / f"seed-{seed}")
        assert [gap for _, gap in found] == pytest.approx(rows["gap"].tolist(), rel=1e-6)


@pytest.mark.parametrize(
    ("word", "text"), [("tensorbord", "did you mean 'tensorboard'"), ("mlflow:", "say what follows the colon")]
)
@pytest.mark.parametrize("command", ["run", "compare"])
def test_what_is_no_tracker_is_refused_before_anything_is_written(cli, command, word, text):
    said = cli(command, *RUN[1:], "--out", "r", "--track", word)
    assert said.code == 2
    assert text in said.err
    assert not Path("r").exists()
