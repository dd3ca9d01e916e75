"""`undrift compare`: edges of grids, grids that grow, and what several seeds show."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_helpers import SMALL

from undrift.command.talk import Stop
from undrift.report.tables import compare_table
from undrift.studies.comparison import Outcome
from undrift.studies.refining import remarks

FEDLIN = ["compare", "--method", "fedlin", *SMALL, "--no-figures"]


def outcome(ends, etas=(0.1, 0.2, 0.4), diverged=None) -> Outcome:
    """A method whose relative gaps fall geometrically to these ends: (points, seeds)."""
    ends = np.asarray(ends, float)
    gap = ends[..., None] ** (np.arange(5) / 4)
    costs = np.broadcast_to(np.arange(5.0), gap.shape)
    history = {"loss": gap, "gap": gap} | dict.fromkeys(("bytes_up", "bytes_down", "gradients"), costs)
    bad = np.full(ends.shape, -1) if diverged is None else np.asarray(diverged)
    points, seeds = [{"eta": eta} for eta in etas], list(range(ends.shape[1]))
    return Outcome("mine", "mine", points, seeds, history, np.zeros((*ends.shape, 1)), bad, 1.0, numbers=["eta"])


# ----- which point is best
def test_a_point_is_judged_by_its_worst_seed():
    """The median would choose the second: one of its seeds in three has collapsed."""
    found = outcome([[1e-3, 2e-3, 3e-3], [1e-9, 1e-9, 0.9], [1e-2, 1e-2, 1e-2]])
    assert found.best == 0


def test_a_point_that_diverged_with_any_seed_is_not_chosen_and_that_is_said():
    found = outcome([[1e-3, 1e-3], [1e-9, 1e-9], [1.0, 1.0]], diverged=[[-1, -1], [-1, 3], [-1, -1]])
    assert found.best == 0
    assert any("1 of 3 values diverged with some seeds only" in line for line in remarks(found, 0))


def test_where_every_point_diverged_with_some_seed_there_is_none():
    found = outcome([[1e-3, 1e-3], [1e-9, 1e-9], [1.0, 1.0]], diverged=[[-1, 2], [4, -1], [-1, 4]])
    assert found.best is None
    assert found.edges == {}
    row = [next(iter(column.cells)) for column in compare_table([found], "").columns]
    assert "round 2" in row


@pytest.mark.parametrize(("best", "edges"), [(0, {"eta": "lower"}), (1, {}), (2, {"eta": "upper"})])
def test_edges_are_the_smallest_and_the_largest_value(best, edges):
    ends = [[1e-2]] * 3
    ends[best] = [1e-5]
    found = outcome(ends)
    assert found.edges == edges
    mark = {"lower": "‹0.1", "upper": "0.4›", None: "0.2"}[edges.get("eta")]
    assert list(compare_table([found], "").columns[1].cells) == [mark]
    assert bool(remarks(found, 0)) == bool(edges)


def test_a_larger_value_that_diverged_is_an_end():
    found = outcome([[1e-2], [1e-5], [1.0]], diverged=[[-1], [-1], [3]])
    assert found.edges == {}


# ----- several seeds
def test_medians_come_with_their_range():
    found = outcome([[1e-4, 1e-12, 1e-8]], etas=(0.1,))
    assert found.rounds_of_seeds(1e-6) == [None, 2, 3]
    assert found.rounds_to(1e-6) == 3
    columns = {str(column.header): next(iter(column.cells)) for column in compare_table([found], "").columns}
    assert columns["1e-6"] == "3\n(2–never)"
    assert columns["gap"] == "1.0e-08\n(1.0e-12–\n1.0e-04)"
    assert "Medians over 3 seeds" in compare_table([found], "").caption


def test_half_of_the_seeds_decide_when_a_target_is_reached():
    assert outcome([[1e-12, 1e-4]], etas=(0.1,)).rounds_to(1e-6) == 2
    assert outcome([[1e-12, 1e-4, 1e-4]], etas=(0.1,)).rounds_to(1e-6) is None


def test_seeds_show_in_table_and_summary(cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    said = cli(*FEDLIN, "--eta", 0.02, 0.05, "--oracle", "noisy:1.0", "--seeds", 3, "--out", "r")
    assert said.code == 0
    assert max(map(len, said.out.splitlines())) <= 80
    assert "Medians over 3 seeds (lowest–highest)" in " ".join(said.out.split())
    method = json.loads(Path("r/summary.json").read_text())["methods"][0]
    ends = method["seeds"]["relative_gap"]
    assert len(set(ends)) == 3
    assert method["relative_gap"] == pytest.approx(float(np.median(ends)))
    history = pd.read_csv("r/history.csv")
    last = history[history["round"] == 12].sort_values("seed")
    assert last["gap"].tolist() == pytest.approx(method["seeds"]["final"]["gap"])
    assert method["seeds"]["final"]["bytes_up"] == last["bytes_up"].tolist()
    assert set(method["seeds"]["rounds_to"]) == {"0.001", "1e-06", "1e-09"}


# ----- edges, and grids that grow
def test_an_edge_is_marked_said_and_written(cli):
    said = cli(*FEDLIN, "--eta", 0.001, 0.002, "--out", "r")
    assert "0.002›" in said.out
    assert (
        "the best eta, 0.002, is the largest that was tried: a better one may lie above; --refine looks there"
        in said.err
    )
    assert json.loads(Path("r/summary.json").read_text())["methods"][0]["edges"] == {"eta": "upper"}


def test_the_page_speaks_of_edges(cli, quick_figures):
    assert cli(*[word for word in FEDLIN if word != "--no-figures"], "--eta", 0.001, 0.002, "--out", "r").code == 0
    page = Path("r/page.html").read_text()
    assert "best, at the upper edge" in page
    assert "is the largest that was tried" in page


def test_refine_widens_by_the_grids_own_ratio_and_then_looks_closer(cli):
    said = cli(*FEDLIN, "--eta", 0.004, 0.02, "--refine", "--out", "r", "--json")
    assert said.code == 0
    (method,) = said.json["methods"]
    etas = [point["eta"] for point in method["grid"]]
    wider = [eta for eta, origin in zip(etas, method["origins"], strict=True) if origin == "wider"]
    finer = [eta for eta, origin in zip(etas, method["origins"], strict=True) if origin == "finer"]
    assert wider == pytest.approx([0.1, 0.5, 2.5][: len(wider)])
    assert wider
    assert len(finer) == 2
    assert method["edges"] == {}
    values, best = sorted(set(etas) - set(finer)), method["best"]["eta"]
    assert min(values) < best < max(values)
    # one level finer: half-way, of exponents, between what was best and its neighbours
    centre = np.sqrt(finer[0] * finer[1])
    assert finer[1] / finer[0] == pytest.approx(5, rel=1e-2)
    assert min(abs(np.log(np.array(values) / centre))) < 1e-2
    grid = pd.read_csv("r/grid.csv")
    assert grid["origin"].tolist() == method["origins"]
    assert grid["eta"].tolist() == pytest.approx(etas)
    assert grid["best"].sum() == 1
    history = pd.read_csv("r/history.csv")
    assert history["eta"].unique().tolist() == [best]


def test_refine_is_bounded_and_says_where_it_stopped(cli):
    said = cli(*FEDLIN, "--eta", 1e-9, 2e-9, "--refine", 3, "--out", "r")
    assert "the grid grew by 3 of at most 3 values (3 wider)" in said.err
    assert "the best eta, 1.6e-08, is still the largest that was tried" in said.err
    assert "--refine 6 looks further" in said.err
    assert "1.6e-08›" in said.out


def test_refine_looks_below_where_everything_diverged(cli):
    said = cli(*FEDLIN, "--eta", 1e3, 4e3, "--refine", 12, "--rounds", 400, "--out", "r", "--json")
    assert said.code == 0
    assert said.json["methods"][0]["best"]["eta"] < 1e3


def test_a_step_by_another_name_and_steps_by_rule(cli):
    """FedSplit's step is s; what a theorem chose is left as it is, alone or in a grid."""
    said = cli("compare", "--method", "fedsplit:s=0.01", *SMALL, "--refine", "--no-figures", "--out", "one", "--json")
    assert said.json["methods"][0]["grid"] == [{"s": 0.01}]  # given, and not as a grid
    Path("s.toml").write_text(
        '[problem]\nname = "quadratic"\nclients = 4\ndim = 6\n[run]\nrounds = 12\nsteps = 3\nrefine = 6\n'
        '[[method]]\nname = "fedsplit"\ns = [0.01, 0.02]\n'
        '[[method]]\nname = "gd"\neta = "theorem"\n'
        '[[method]]\nname = "fedsgd"\neta = ["theorem", 1e-4]\n'
    )
    said = cli("compare", "s.toml", "--no-figures", "--out", "r", "--json")
    assert said.code == 0
    split, gd, sgd = said.json["methods"]
    assert len(split["grid"]) > 2
    assert all(set(point) == {"s"} for point in split["grid"])
    assert len(gd["grid"]) == 1
    assert sgd["grid"][0]["eta"] == pytest.approx(gd["best"]["eta"])
    assert len(sgd["grid"]) > 2


def test_a_search_that_was_interrupted_goes_on_as_if_it_had_not_been(cli, monkeypatch):
    words = [*FEDLIN, "--eta", 0.004, 0.02, "--refine", 6]
    assert cli(*words, "--out", "whole").code == 0
    calls = []

    def strike(self):
        calls.append(Path("r", "checkpoint-01.npz").exists())
        if sum(calls) == 3:  # the grid is kept, and a point that was added
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Stop, "heard", strike)
        assert cli(*words, "--out", "r").code == 130
    halfway = len(pd.read_csv("r/grid.csv"))
    assert 2 <= halfway < len(pd.read_csv("whole/grid.csv"))
    assert cli("compare", "--out", "r", "--resume", "--no-figures").code == 0
    for name in ("history.csv", "grid.csv"):
        assert Path("r", name).read_bytes() == Path("whole", name).read_bytes()


@pytest.mark.parametrize("word", ["-1", "1.5", "many", "100000"])
def test_what_is_no_number_of_points_is_refused(cli, word):
    said = cli(*FEDLIN, f"--refine={word}", "--out", "r")
    assert said.code == 2
    assert "--refine" in said.err
    assert not Path("r").exists()
