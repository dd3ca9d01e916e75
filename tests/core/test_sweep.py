"""A sweep's row is the single run."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from core_cases import CASES, PARTIAL, WEIGHTS, least_squares_data, logistic_data, problem_of, told

import undrift as ud
from everyday import only
from undrift.engine import sweep
from undrift.engine.description import Run
from undrift.engine.rounds import compilations

SETTING = {"rounds": 12, **PARTIAL}


# One of every kind of memory and message; the rest in `make full`.
OFTEN = ("fedlin compressed", "fedtrack")


@pytest.mark.parametrize("name", [n if n in OFTEN else pytest.param(n, marks=pytest.mark.slow) for n in CASES])
def test_every_row_is_the_single_run(name):
    problem, make = problem_of(logistic_data(0, WEIGHTS)), CASES[name].make
    setting = told(make(0.01), **SETTING)
    grid, seeds = [0.01, 0.05], [0, 4]
    swept = ud.sweep(make, problem, grid={"eta": grid}, seeds=seeds, **setting)
    assert swept.x.shape == (2, 2, problem.dim)
    for i, eta in enumerate(grid):
        for j, seed in enumerate(seeds):
            single = ud.run(make(eta), problem, seed=seed, keep_iterates=True, **setting)
            np.testing.assert_allclose(swept.x[i, j], single.x, rtol=1e-12, atol=1e-13)
            assert set(swept.history) == set(single.history)
            for column, values in single.history.items():
                np.testing.assert_allclose(swept.history[column][i, j], values, rtol=1e-9, atol=1e-11, err_msg=column)


@pytest.mark.parametrize("room", only([1, 2, 6], {2}))
def test_blocks_of_any_size_give_the_same(monkeypatch, room):
    problem = problem_of(logistic_data(0, WEIGHTS))
    given = {"grid": {"eta": [0.01, 0.02, 0.05]}, "seeds": [0, 4], "oracle": ud.oracles.minibatch(2), **SETTING}
    whole = ud.sweep(ud.scaffold, problem, **given)
    monkeypatch.setattr(sweep, "room", lambda run: room)
    seen = []
    apart = ud.sweep(ud.scaffold, problem, observe=lambda played, rounds: seen.append(played), **given)
    np.testing.assert_allclose(apart.x, whole.x, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(apart.history["loss"], whole.history["loss"], rtol=1e-12)
    assert seen == sorted(seen)
    assert seen[-1] == SETTING["rounds"]


def test_what_strikes_between_blocks_ends_the_sweep():
    def strike(played, rounds):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ud.sweep(ud.fedavg, problem_of(logistic_data(0)), grid={"eta": [0.01]}, seeds=2, rounds=2, observe=strike)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("undrift-")]


def test_convolutions_are_not_merged():
    model = ud.models.lenet5(input=(16, 16, 1))
    data = np.zeros((4, 16, 16, 1), np.float32), np.arange(4)
    problem = ud.problems.network(model, data, [[0, 1], [2, 3]], batch=2)
    assert sweep.room(Run.of(ud.fedavg(eta=0.1), problem, rounds=1)) == 1
    assert sweep.room(Run.of(ud.sgd(eta=0.1), problem, rounds=1).to_play()) == 1
    assert sweep.room(Run.of(ud.fedavg(eta=0.1), problem_of(logistic_data(0)), rounds=1)) > 40


def test_a_grid_of_numbers_is_one_compilation():
    problem = problem_of(least_squares_data(0, samples=11))  # a shape of its own: nobody has compiled it yet
    before = compilations["fedprox"]
    swept = ud.sweep(ud.fedprox, problem, grid={"eta": [0.01, 0.02, 0.05], "beta": [0.0, 1.0]}, seeds=3, rounds=5)
    assert swept.history["loss"].shape == (3, 2, 3, 6)
    assert compilations["fedprox"] == before + 1


def test_settings_may_be_swept_too():
    problem = problem_of(logistic_data(0))
    swept = ud.sweep(ud.scaffold, problem, grid={"option": [1, 2], "eta": [0.02, 0.05]}, rounds=5, steps=3)
    for i, option in enumerate((1, 2)):
        single = ud.run(ud.scaffold(eta=0.05, option=option), problem, rounds=5, steps=3)
        np.testing.assert_allclose(swept.x[i, 1, 0], single.x, rtol=1e-12)


def test_divergent_rows_are_marked_and_lose():
    problem = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    swept = ud.sweep(ud.fedavg, problem, grid={"eta": [0.1, 1e200]}, rounds=20, steps=5)
    assert swept.diverged[0, 0] == -1
    assert swept.diverged[1, 0] > 0
    assert swept.best("gap") == {"eta": 0.1}
    with pytest.raises(ud.InputError, match="every run of the grid diverged"):
        ud.sweep(ud.fedavg, problem, grid={"eta": [1e200]}, rounds=20, steps=5).best()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"grid": {}}, "at least one key"),
        ({"grid": {"eta": []}}, "at least one value"),
        ({"grid": {"etta": [0.1]}}, "did you mean 'eta'"),
        ({"grid": {"eta": [0.1]}, "seeds": []}, "at least one seed"),
        ({"grid": {"eta": [0.1]}, "seed": 1}, "does not take"),
        ({"grid": {"eta": [-0.1]}}, "eta must be a finite number > 0"),
    ],
)
def test_bad_grids(arguments, text):
    with pytest.raises(ud.InputError, match=text):
        ud.sweep(ud.fedavg, problem_of(logistic_data(0)), rounds=2, **arguments)


def test_a_sweep_judges_points_by_their_worst_seed_and_marks_edges():
    history = sweep.History({"loss": np.array([[[3.0], [3.0]], [[1.0], [9.0]], [[4.0], [4.0]]]),
                             "accuracy": np.array([[[0.7], [0.7]], [[0.9], [0.1]], [[0.8], [0.8]]])})  # fmt: skip
    swept = ud.Sweep({"eta": [0.1, 0.2, 0.4]}, [0, 1], history, np.zeros((3, 2, 1)), np.full((3, 2), -1), 0.0)
    assert (swept.best("loss"), swept.edges("loss")) == ({"eta": 0.1}, {"eta": "lower"})
    assert (swept.best("accuracy"), swept.edges("accuracy")) == ({"eta": 0.4}, {"eta": "upper"})  # better where higher
    assert ud.Sweep({"option": [1, 2, 3]}, *list(vars(swept).values())[1:]).edges("loss") == {}  # not a number to widen
