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
    assert gaps["table"][-1] < 1e-20
    assert min(gaps["fedavg"][-1], gaps["fedsgd"][-1]) > 1


def test_own_method_is_about_thirty_lines_of_public_names():
    factory = runpy.run_path(str(ROOT / "examples" / "own_method.py"))["table"]
    lines = [line for line in inspect.getsource(factory.function).splitlines() if line.strip()]
    assert len(lines) <= 30
    assert "undrift." not in inspect.getsource(factory.function)


def test_own_method_is_the_same_by_message_passing():
    import numpy as np

    import undrift as ud

    table = runpy.run_path(str(ROOT / "examples" / "own_method.py"))["table"]
    p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]], [[4.0]]]), np.array([[3.0], [100.0], [1.0]]))
    arguments = {"rounds": 5, "participation": ud.plan.uniform(2)}
    simulated, passed = (f(table(eta=0.1), p, **arguments) for f in (ud.run, ud.loopback))
    assert simulated.x == pytest.approx(passed.x, rel=1e-12)
    assert simulated.history["bytes_up"][-1] == 5 * 2 * 8


def own_file():
    return f"{ROOT / 'examples' / 'own_method.py'}:table"


def test_own_method_is_predicted_advised_and_left_to_its_theorem():
    import numpy as np

    import undrift as ud

    own = runpy.run_path(str(ROOT / "examples" / "own_method.py"))
    table = own["table"]
    p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]], [[4.0]]]), np.array([[3.0], [100.0], [1.0]]))
    found = ud.theory.advise(p, 1e-3, methods=[table, "fedavg"], steps=[1, 4])
    mine = [candidate for candidate in found.candidates if candidate.label == "table"]
    assert found.how == "exact"
    assert [candidate.guarantee is not None for candidate in mine] == [True]  # it takes no local steps
    start = p.value(np.zeros(1)) - p.optimum.value
    for candidate in mine:
        rounds = candidate.forecast.rounds
        made = candidate.option.make(candidate.forecast.step, candidate.steps)
        gaps = ud.run(made, p, rounds=rounds).history["gap"]
        assert gaps[rounds] <= 1e-3 * start < gaps[rounds - 1]

    run = ud.run(table(eta="theorem"), p, rounds=30)
    descent = ud.run(ud.fedsgd(eta="theorem"), p, rounds=30)
    assert run.setting["theorem"] == "a table of gradients that are all fresh is gradient descent"
    assert run.x == pytest.approx(descent.x, rel=1e-12)
    numbers = own["bound"](ud.describe(table(eta=1.0), p, rounds=0), ud.theory.constants(p)).numbers
    promised = ud.theory.promise(table(**numbers), p)
    assert ud.theory.check(run, promised).holds
    with pytest.raises(ud.InputError, match="every client takes part in every round"):
        ud.run(table(eta="theorem"), p, rounds=30, participation=ud.plan.uniform(2))


def test_own_method_is_served_by_the_command_line(tmp_path, capsys, monkeypatch):
    import json

    from undrift.cli import main

    monkeypatch.chdir(tmp_path)
    problem = ["--problem", "quadratic:clients=3,dim=4"]

    def said(*words):
        assert main([str(word) for word in (*words, "--json")]) == 0
        return json.loads(capsys.readouterr().out)

    shown = said("explain", own_file())
    assert shown["step_rule"].startswith("1/L of f where nobody is absent")
    advice = said("advise", *problem, "--steps", 1, "--method", "gd", own_file(), "--quiet")
    assert f"--method {own_file()}:eta=" in advice["run"]
    assert advice["recommended"]["theorem"] == "a table of gradients that are all fresh is gradient descent"
    said(*advice["run"].split()[1:], "--no-figures", "--quiet")
    theorem = f"{own_file()}:eta=theorem,label=by theorem"
    words = ["--rounds", 30, "--steps", 1, "--quiet", "--out", "compared"]
    compared = said("compare", *problem, "--method", own_file(), theorem, *words)
    assert list(compared["theorems"]) == ["by theorem"]
    assert compared["theorems"]["by theorem"]["holds"]
    assert "#332288" in (tmp_path / "compared" / "figure.svg").read_text().upper()
    assert '"#332288"' in (tmp_path / "compared" / "page.html").read_text()
