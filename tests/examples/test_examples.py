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


def feddyn_file():
    return f"{ROOT / 'examples' / 'own_method.py'}:feddyn"


def test_own_method_is_predicted_advised_and_left_to_its_theorem():
    import numpy as np

    import undrift as ud

    own = runpy.run_path(str(ROOT / "examples" / "own_method.py"))
    feddyn = own["feddyn"]
    p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]], [[4.0]]]), np.array([[3.0], [100.0], [1.0]]))
    found = ud.theory.advise(p, 1e-6, methods=[feddyn, "fedavg"], steps=[1, 4])
    mine = [candidate for candidate in found.candidates if candidate.label == "feddyn"]
    assert found.how == "exact"
    assert [candidate.guarantee is not None for candidate in mine] == [
        True,
        False,
    ]  # its theorem is about one local step
    start = p.value(np.zeros(1)) - p.optimum.value
    for candidate in mine:
        rounds = candidate.forecast.rounds
        made = candidate.option.make(candidate.forecast.step, candidate.steps)
        gaps = ud.run(made, p, rounds=rounds, steps=candidate.steps).history["gap"]
        assert gaps[rounds] <= 1e-6 * start < gaps[rounds - 1]

    run = ud.run(feddyn(eta="theorem", alpha="theorem"), p, rounds=30, steps=1)
    descent = ud.run(ud.fedsgd(eta="theorem"), p, rounds=30)
    assert run.setting["theorem"] == "FedDyn with one local step is gradient descent"
    assert run.x == pytest.approx(descent.x, rel=1e-12)
    numbers = own["bound"](ud.describe(feddyn(eta=1.0, alpha=1.0), p, rounds=0), ud.theory.constants(p)).numbers
    promised = ud.theory.promise(feddyn(**numbers), p)
    assert ud.theory.check(run, promised).holds
    with pytest.raises(ud.InputError, match="up to 4: use steps=1"):
        ud.run(feddyn(eta="theorem", alpha="theorem"), p, rounds=30, steps=4)


def test_own_method_is_served_by_the_command_line(tmp_path, capsys, monkeypatch):
    import json

    from undrift.cli import main

    monkeypatch.chdir(tmp_path)
    problem = ["--problem", "quadratic:clients=3,dim=4"]

    def said(*words):
        assert main([str(word) for word in (*words, "--json")]) == 0
        return json.loads(capsys.readouterr().out)

    shown = said("explain", feddyn_file())
    assert shown["step_rule"].startswith("η = 1/(2L)")
    advice = said("advise", *problem, "--steps", 1, "--method", "gd", feddyn_file(), "--quiet")
    assert f"--method {feddyn_file()}:eta=" in advice["run"]
    assert advice["recommended"]["theorem"] == "FedDyn with one local step is gradient descent"
    said(*advice["run"].split()[1:], "--no-figures", "--quiet")
    theorem = f"{feddyn_file()}:eta=theorem,alpha=theorem,label=by theorem"
    words = ["--rounds", 30, "--steps", 1, "--quiet", "--out", "compared"]
    compared = said("compare", *problem, "--method", feddyn_file(), theorem, *words)
    assert list(compared["theorems"]) == ["by theorem"]
    assert compared["theorems"]["by theorem"]["holds"]
    assert "#882255" in (tmp_path / "compared" / "figure.svg").read_text().upper()
    assert '"#882255"' in (tmp_path / "compared" / "page.html").read_text()
