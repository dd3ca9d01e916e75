"""The tutorial of the four hospitals: its own commands, for real, on a free port, and its own Python."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import undrift as ud
from undrift.cli import main
from undrift.errors import InputError
from undrift.studies.scikit import STANDARDISATION, pipeline, to_scikit_learn
from undrift.studies.sites import Sites
from undrift.studies.study import read_study

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "hospitals"
TUTORIAL = (EXAMPLE / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"```bash\n(.*?)\n```", TUTORIAL, re.DOTALL)
PROGRAM = "\n".join(re.findall(r"```python\n(.*?)```", TUTORIAL, re.DOTALL))
TABLE = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) % \| (\d+) % \| (\d+) % \|$", TUTORIAL, re.MULTILINE)
PATIENCE = 300  # seconds that a command may take on a busy machine


@pytest.fixture(scope="module")
def study():
    return read_study(EXAMPLE / "study.toml")


@pytest.fixture(scope="module")
def simulated(study):
    problem = study.make_problem()
    return problem, ud.run(study.methods[0].make(), problem, rounds=study.run["rounds"], steps=study.run["steps"])


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A copy of the example's folder, and in it a run directory to be filled."""
    shutil.copytree(EXAMPLE, tmp_path / "hospitals")
    monkeypatch.chdir(tmp_path / "hospitals")
    (tmp_path / "hospitals" / "runs" / "heart").mkdir(parents=True)
    return tmp_path / "hospitals"


def leave_run(study, model, run: Path) -> None:
    """What `undrift serve` leaves for those who use the model."""
    run.joinpath("study.toml").write_text(study.to_toml(), encoding="utf-8")
    np.save(run / "model.npy", model)
    source = Sites.of(study.problem)
    terms = source.terms([source.facts(one) for one in source.read_folder(EXAMPLE / "data")])
    (run / STANDARDISATION).write_text(json.dumps(source.standardisation(terms)))


def test_the_federated_model_is_that_of_pooled_records(study, simulated):
    problem, result = simulated
    names = study.deploy["sites"]
    assert problem.sizes.tolist() == [303, 292, 116, 141]
    pooled = np.concatenate([np.loadtxt(EXAMPLE / "data" / f"{name}.csv", delimiter=",", skiprows=1) for name in names])
    features = np.hstack([StandardScaler().fit_transform(pooled[:, :-1]), np.ones((len(pooled), 1))])
    fit = LogisticRegression(C=1 / 4, fit_intercept=False, solver="newton-cholesky", tol=1e-10)
    np.testing.assert_allclose(result.x, fit.fit(features, pooled[:, -1]).coef_[0], rtol=0, atol=1e-6)


def test_the_tutorials_python_and_its_figures(study, simulated, place):
    leave_run(study, simulated[1].x, place / "runs" / "heart")
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(PROGRAM, "README.md", "exec"), found := {})
    assert "heart disease with probability 0.9" in said.getvalue()
    model, shown = found["model"], {name: tuple(map(int, row)) for name, *row in TABLE}
    assert list(shown) == study.deploy["sites"]
    for name, table in found["tables"].items():
        ill = table[:, -1].mean()
        right = model.score(table[:, :-1], table[:, -1])
        assert shown[name] == (len(table), *(round(100 * share) for share in (ill, right, max(ill, 1 - ill))))


def test_the_columns_of_the_files_are_those_of_the_study(study):
    for name in study.deploy["sites"]:
        with (EXAMPLE / "data" / f"{name}.csv").open() as file:
            assert next(csv.reader(file)) == [*study.problem["features"], study.problem["label"]]


def test_the_careful_step_size_of_the_tutorial(simulated):
    problem, _ = simulated
    bound = problem.sizes.sum() * problem.dim / 4 + 1
    assert f"= {bound:.0f}" in TUTORIAL
    assert np.sum(np.asarray(problem.stack["A"]) ** 2) == pytest.approx(problem.sizes.sum() * problem.dim)
    assert bound >= problem.constants.L


# ----- to scikit-learn
def test_a_run_that_is_not_there_or_not_whole_is_refused_by_name(study, simulated, place):
    run = place / "runs" / "heart"
    leave_run(study, simulated[1].x, run)
    (run / STANDARDISATION).write_text('{"mean": [1.0]}')
    with pytest.raises(InputError, match=r"standardisation\.json is damaged"):
        to_scikit_learn(run)
    (run / STANDARDISATION).write_text('{"mean": [1.0], "scale": [0.0]}')
    with pytest.raises(InputError, match="11 numbers, got 1"):
        to_scikit_learn(run)
    (run / STANDARDISATION).unlink()
    assert to_scikit_learn(run).n_features_in_ == 11  # the study still names the folder
    private = {key: entry for key, entry in study.problem.items() if key != "folder"}
    (run / "study.toml").write_text(study.but(problem=private).to_toml())
    with pytest.raises(InputError, match=r"standardisation\.json is missing"):
        to_scikit_learn(run)
    (run / "model.npy").write_bytes(b"no array")
    with pytest.raises(InputError, match=r"model\.npy is not a model"):
        to_scikit_learn(run)
    (run / "model.npy").unlink()
    with pytest.raises(InputError, match=r"no model\.npy"):
        to_scikit_learn(run)


def test_words_for_labels_are_the_classes_of_the_model():
    source = Sites(kind="logistic", features=1, labels=["well", "ill"])
    assert pipeline(source, [1.0, 0.5], None).predict([[-1.0], [1.0]]).tolist() == ["well", "ill"]
    with pytest.raises(InputError, match="2 numbers, got shape"):
        pipeline(source, [1.0], None)
    with pytest.raises(InputError, match="network"):
        pipeline(Sites(kind="network", features=1, classes=2), [1.0], None)


# ----- the commands, in real processes
def start(command: str, port: int, folder: Path) -> subprocess.Popen:
    words = shlex.split(command.replace("8443", str(port)))
    assert words[0] == "undrift"
    number = len(list(folder.glob("*.log")))
    with (folder / f"{number}-{words[1]}.log").open("w") as log:
        return subprocess.Popen([sys.executable, "-m", *words], cwd=folder, stdout=log, stderr=subprocess.STDOUT)


def finish(process: subprocess.Popen, folder: Path) -> None:
    code = process.wait(PATIENCE)
    logs = "\n".join(f"{path.name}:\n{path.read_text()}" for path in folder.glob("*.log"))
    assert code == 0, f"{shlex.join(process.args)} ended with {code}\n{logs}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_tutorials_commands(place, simulated):
    shutil.rmtree(place / "runs")
    explain, certs, serve, *joins, replay = COMMANDS
    assert [command.split()[1] for command in (explain, certs, serve, replay)] == [
        "explain",
        "certs",
        "serve",
        "replay",
    ]
    assert [command.split()[1] for command in joins] == ["join"] * 4
    port, running = free_port(), []
    assert main(shlex.split(certs)[1:]) == 0
    try:
        running += [start(command, port, place) for command in (serve, *joins)]
        for process in running:
            finish(process, place)
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.wait()
    for command in (explain, replay):
        assert main(shlex.split(command)[1:]) == 0, command
    np.testing.assert_allclose(np.load("runs/heart/model.npy"), simulated[1].x, rtol=0, atol=1e-12)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(PROGRAM, "README.md", "exec"), {})
    assert "largest difference to scikit-learn" in said.getvalue()
