"""The examples run and show what they say."""

import inspect
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def played(name, **arguments):
    return runpy.run_path(str(ROOT / "examples" / f"{name}.py"))["main"](**arguments)


def test_only_fedlin_ends_at_the_minimiser_in_the_quickstart():
    distances = played("quickstart")
    assert distances["fedlin"] < 1e-12
    assert min(distances[name] for name in ("fedavg", "fedprox", "fednova")) > 0.1


def test_own_problem_is_solved_by_fedlin_alone():
    left = played("own_problem")
    assert left["fedlin"] < 1e-12
    assert left["fedavg"] > 1e-3


def test_own_method_reaches_the_minimiser_although_clients_are_absent():
    gaps = played("own_method")
    assert gaps["feddyn"][-1] < 1e-20
    assert gaps["fedavg"][-1] > 1


def test_own_method_is_about_thirty_lines_of_public_names():
    factory = runpy.run_path(str(ROOT / "examples" / "own_method.py"))["feddyn"]
    lines = [line for line in inspect.getsource(factory.function).splitlines() if line.strip()]
    assert len(lines) <= 30
    assert "undrift." not in inspect.getsource(factory.function)


def test_own_method_is_the_same_by_message_passing():
    import numpy as np

    import undrift as ud

    feddyn = runpy.run_path(str(ROOT / "examples" / "own_method.py"))["feddyn"]
    p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]], [[4.0]]]), np.array([[3.0], [100.0], [1.0]]))
    arguments = {"rounds": 5, "steps": [3, 1, 2], "participation": ud.plan.uniform(2)}
    simulated, passed = (f(feddyn(eta=0.1, alpha=1.0), p, **arguments) for f in (ud.run, ud.loopback))
    assert simulated.x == pytest.approx(passed.x, rel=1e-12)
    assert simulated.history["bytes_up"][-1] == 5 * 2 * 8
