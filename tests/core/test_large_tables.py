"""Iterates and clients' columns that would be large are written to disk as the run goes on."""

from __future__ import annotations

import os

import numpy as np
import pytest
from core_cases import PARTIAL, logistic_data, problem_of

import undrift as ud
from undrift.engine import simulate, table

ARGUMENTS = {"rounds": 9, "keep_iterates": True, "per_client": True, **PARTIAL}


def test_a_result_is_the_same_and_mapped(monkeypatch, tmp_path):
    problem = problem_of(logistic_data(0))
    small = ud.run(ud.fedavg(eta=0.05), problem, **ARGUMENTS)
    monkeypatch.setattr(table, "IN_MEMORY", 10 * problem.dim * 8 - 1)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(table.tempfile, "tempdir", None)
    large = ud.run(ud.fedavg(eta=0.05), problem, **ARGUMENTS)
    assert isinstance(large.iterates, np.memmap)
    assert not isinstance(large.clients["loss"], np.memmap)  # five numbers a round: smaller than an iterate
    np.testing.assert_array_equal(large.iterates, small.iterates)
    assert os.listdir(tmp_path) == []  # a temporary file without a name
    large.save(tmp_path / "run")
    np.testing.assert_array_equal(np.load(tmp_path / "run" / "iterates.npy"), small.iterates)


def test_a_checkpoint_keeps_the_names_of_tables(monkeypatch, tmp_path):
    problem, method = problem_of(logistic_data(0)), ud.scaffold(eta=0.05)
    whole = ud.run(method, problem, **ARGUMENTS)
    monkeypatch.setattr(simulate, "CHUNK_SECONDS", 0.0)
    ud.run(method, problem, **{**ARGUMENTS, "rounds": 3}, checkpoint=tmp_path)  # small: within the checkpoint
    monkeypatch.setattr(table, "IN_MEMORY", 0)
    ud.run(method, problem, **{**ARGUMENTS, "rounds": 6}, checkpoint=tmp_path, checkpoint_seconds=0.0, resume=True)
    held = sorted(tmp_path.glob(table.FILES))
    assert len(held) == 1 + len(whole.clients)
    again = ud.run(method, problem, **ARGUMENTS, checkpoint=tmp_path, resume=True)
    np.testing.assert_array_equal(again.iterates, whole.iterates)
    for name, rows in whole.clients.items():
        np.testing.assert_array_equal(again.clients[name], rows, err_msg=name)
    assert sorted(tmp_path.glob(table.FILES)) == held
    held[0].write_bytes(b"")
    with pytest.raises(ud.CheckpointError, match="holds 0 rows, the checkpoint speaks of 10"):
        ud.run(method, problem, **{**ARGUMENTS, "rounds": 12}, checkpoint=tmp_path, resume=True)
