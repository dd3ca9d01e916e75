"""What a run of many rounds costs beside its rounds: memory for its records, and nothing that grows with the square of them."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

import undrift as ud
from undrift.engine.recorder import Growing

ROUNDS = 100_000


def resident() -> int:
    """Bytes of memory that this process holds."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def play(rounds: int, **arguments: object) -> ud.Result:
    problem = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    return ud.run(ud.fedlin(eta=0.01), problem, rounds=rounds, **arguments)


def test_what_an_observer_is_shown_is_no_copy_and_cannot_be_written_to():
    shown: list[ud.History] = []
    result = play(600, observe=shown.append)
    for earlier, later in zip(shown, [*shown[1:], result.history], strict=True):
        np.testing.assert_array_equal(earlier["loss"], later["loss"][: earlier.length])
    assert np.shares_memory(shown[-1]["loss"], result.history["loss"])
    for name in result.history:
        with pytest.raises(ValueError, match="read-only"):
            shown[-1][name][0] = 0
        result.history[name][0] = 0  # the result is the user's own


def test_a_table_is_moved_a_few_times_only():
    table, moved = Growing(ROUNDS), 0
    for at in range(0, ROUNDS, 100):
        before = table.array
        table.write(at, np.arange(at, at + 100))
        moved += table.array is not before
    np.testing.assert_array_equal(table[:ROUNDS], np.arange(ROUNDS))
    assert moved < 2 * np.log2(ROUNDS / 100)
    assert len(table.array) == ROUNDS


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux to measure memory")
def test_100_000_rounds_hold_their_records_and_nothing_else(tmp_path):
    def growth(rounds: int) -> tuple[int, int]:
        before = resident()
        result = play(rounds, observe=lambda history: None, checkpoint=tmp_path / str(rounds), checkpoint_seconds=0.2)
        assert result.rounds == rounds
        return resident() - before, sum(column.nbytes for column in result.history.values())

    growth(2000)  # what is compiled and loaded once
    grown, records = growth(ROUNDS)
    assert grown < 3 * records + 20e6
