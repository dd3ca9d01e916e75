"""Figures are drawn by another process where there is one, and by this one where there is not; they are the same."""

from __future__ import annotations

import sys

import matplotlib as mpl
import numpy as np
import pytest

from undrift.report import aside
from undrift.report.curves import Drawing, curve_from
from undrift.report.figures import write_figures

NAMES = ("figure.png", "figure.svg")


@pytest.fixture
def drawing() -> Drawing:
    values = np.geomspace(1.0, 1e-3, 5)[None, :]
    columns = {name: np.arange(5)[None, :] for name in ("bytes_up", "bytes_down", "gradients")}
    return Drawing.of([curve_from("FedLin", "fedlin", values, columns)], "a title", "gap", singles=False)


@pytest.fixture
def process(monkeypatch):
    for name in ("jax", "matplotlib"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    aside.prepare()
    monkeypatch.undo()
    (process,) = aside._waiting
    yield process
    aside.dismiss()
    assert process.poll() is not None, "it has outlived this"


def drawn(drawing, folder):
    folder.mkdir()
    write_figures(drawing, folder)
    return [(folder / name).read_bytes() for name in NAMES]


def test_the_other_process_draws_the_same(drawing, process, tmp_path, monkeypatch):
    with mpl.rc_context():  # whatever other tests have set
        mpl.rcdefaults()
        here = drawn(drawing, tmp_path / "here")
    monkeypatch.setattr("undrift.report.figures.write_figures", None)  # nothing is drawn here
    aside.figures(drawing, tmp_path)
    assert [(tmp_path / name).read_bytes() for name in NAMES] == here


def test_what_the_other_process_does_not_draw_is_drawn_here(drawing, process, tmp_path):
    process.kill()
    process.wait()
    aside.figures(drawing, tmp_path)
    assert [(tmp_path / name).read_bytes() for name in NAMES] == drawn(drawing, tmp_path / "here")


def test_the_other_process_touches_no_file(drawing, process, tmp_path, monkeypatch):
    """So one that outlives its parent cannot write into a folder that has a new owner."""
    written = []
    monkeypatch.setattr("undrift.files.write_bytes", lambda path, content: written.append(path.name))
    aside.figures(drawing, tmp_path)
    assert written == list(NAMES)
    assert not list(tmp_path.iterdir())


def test_no_process_is_started_for_what_is_there_already():
    aside.prepare()  # Matplotlib is imported here
    assert not aside._waiting
