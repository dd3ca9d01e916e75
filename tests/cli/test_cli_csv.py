"""One's own tables at the command line, from the first look to a model in scikit-learn."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import StandardScaler

import undrift as ud
from everyday import only
from undrift.command.setting import problem_flag, problem_words
from undrift.studies.columns import FILE, read_columns
from undrift.studies.scikit import to_scikit_learn
from undrift.studies.study import read_study

HOSPITALS = Path(__file__).parents[2] / "examples" / "hospitals" / "data"
ROUNDS = ("--method", "fedsgd", "--rounds", "3", "--steps", "2", "--no-figures", "--out", "r")


def patients(seed: int = 0, rows: int = 60) -> str:
    rng = np.random.default_rng(seed)
    lines = ["hospital,age,drug,dose,ill"]
    for row in range(rows):
        age = int(rng.integers(20, 80))
        ill = "yes" if age + rng.normal(0, 20) > 50 else "no"
        lines.append(
            f"{['nord', 'süd', 'west'][row % 3]},{age},{'abc'[rng.integers(3)]},{rng.integers(1, 9) / 2},{ill}"
        )
    return "\n".join(lines) + "\n"


def raw(text: str) -> tuple[np.ndarray, np.ndarray]:
    """The features as undrift encodes them, and the labels."""
    rows = [line.split(",") for line in text.splitlines()[1:]]
    x = [[float(age), float(drug == "b"), float(drug == "c"), float(dose)] for _, age, drug, dose, _ in rows]
    return np.array(x), np.array([row[-1] for row in rows])


def test_from_a_table_to_scikit_learn(cli):
    Path("patients.csv").write_text(patients())
    said = cli("run", "--problem", "csv:patients.csv,label=ill,client=hospital,categories=onehot", *ROUNDS)
    assert said.code == 0
    assert "60 rows of 3 clients (nord 20, süd 20, west 20), 4 features, standardised over all clients" in said.err
    assert "ill: yes is counted as 1, no as 0" in said.err
    assert "logistic regression is a guess" in said.err
    kept = read_columns(Path("r"))
    assert kept.features == ["age", "drug=b", "drug=c", "dose"]
    assert kept.clients == {"nord": 20, "süd": 20, "west": 20}
    assert (kept.labels, kept.kind, kept.intercept, kept.l2) == (["no", "yes"], "logistic", True, 1.0)
    assert FILE in json.loads(Path("r/summary.json").read_text())["files"]
    model, (x, y) = to_scikit_learn("r"), raw(patients())
    weights = np.load("r/model.npy")
    margins = StandardScaler().fit_transform(x) @ weights[:-1] + weights[-1]
    np.testing.assert_allclose(model.decision_function(x), margins, rtol=1e-9, atol=1e-12)
    assert model.predict(x).tolist() == np.where(margins > 0, "yes", "no").tolist()
    assert set(y) == set(model.classes_)
    assert cli("run", "--out", "r", "--resume").code == 0


def test_the_minimiser_is_that_of_the_pooled_table():
    problem = ud.named_problem("csv", path=str(HOSPITALS), label="disease", l2=0.5)
    tables = [np.loadtxt(path, delimiter=",", skiprows=1) for path in sorted(HOSPITALS.glob("*.csv"))]
    pooled = np.concatenate(tables)
    x = np.hstack([StandardScaler().fit_transform(pooled[:, :-1]), np.ones((len(pooled), 1))])
    reference = LogisticRegression(C=1 / (4 * 0.5), fit_intercept=False, solver="newton-cholesky", tol=1e-12)
    np.testing.assert_allclose(problem.optimum.x, reference.fit(x, pooled[:, -1]).coef_[0], atol=1e-6)
    assert list(problem.columns["clients"]) == ["cleveland", "hungary", "switzerland", "va"]


def test_it_is_the_problem_that_the_same_hospitals_have_as_sites():
    names = (HOSPITALS / "va.csv").read_text().splitlines()[0].split(",")[:-1]
    words = {"kind": "logistic", "features": names, "label": "disease", "standardise": "federated", "l2": 1.0}
    sites = ud.named_problem("sites", folder=str(HOSPITALS), **words)
    table = ud.named_problem("csv", path=str(HOSPITALS), label="disease")
    assert all(np.array_equal(sites.stack[key], table.stack[key]) for key in ("A", "y", "size"))
    shared = {key: entry for key, entry in table.columns.items() if key != "columns"}
    assert shared == sites.columns


@pytest.mark.parametrize("weights", ["samples", "clients"])
def test_regression(weights, tmp_path):
    rng = np.random.default_rng(1)
    x = rng.normal(5, 3, (40, 2))
    y = 2 * x[:, 0] - x[:, 1] + 7 + rng.normal(0, 0.1, 40)
    rows = [f"{'a' if row < 10 else 'b'},{u!r},{v!r},{t!r}" for row, (u, v, t) in enumerate(zip(*x.T, y, strict=True))]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["who,u,v,target", *rows]).replace("np.float64(", "").replace(")", "") + "\n")
    problem = ud.named_problem("csv", path=str(path), client="who", weights=weights, standardise="none")
    count = np.ones(40) if weights == "samples" else np.repeat([1 / 10, 1 / 30], [10, 30])
    reference = LinearRegression().fit(x, y, sample_weight=count)
    np.testing.assert_allclose(problem.optimum.x, [*reference.coef_, reference.intercept_], rtol=1e-6)
    assert "a number is predicted by least squares (a guess" in " ".join(problem.remarks)


def test_one_file_dealt_out_and_a_network(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n" + "".join(f"{row},{row % 7},{'uvw'[row % 3]}\n" for row in range(30)))
    dealt = ud.named_problem("csv", path=str(path), clients=5)
    assert (dealt.clients, dealt.sizes.tolist(), type(dealt).__name__) == (5, [6] * 5, "Network")
    apart = ud.named_problem(
        "csv", path=str(path), clients=3, partition="pathological:classes=1", kind="network", hidden=[4]
    )
    assert (apart.clients, apart.dim) == (3, 2 * 4 + 4 + 4 * 3 + 3)


def test_paths_of_a_study_are_relative_to_it(cli):
    Path("studies/data").mkdir(parents=True)
    Path("studies/data/a.csv").write_text("x,ill\n1,0\n2,1\n3,0\n")
    Path("studies/data/b.csv").write_text("ill,x\n1,4\n0,2\n")
    words = '\nlabel = "ill"\n[run]\nrounds = 2\n[[method]]\nname = "fedsgd"\n'
    for number, path in enumerate(('"data"', '"data/*.csv"', '["data/a.csv", "data/b.csv"]')):
        Path("studies/s.toml").write_text(f'[problem]\nname = "csv"\npath = {path}{words}')
        assert cli("run", "studies/s.toml", "--no-figures", "--out", f"r{number}").code == 0
        assert read_columns(Path(f"r{number}")).clients == {"a": 3, "b": 2}
        assert cli("run", "--out", f"r{number}", "--resume").code == 0
    assert read_study("r2/study.toml").problem["path"] == [
        str(Path(f"studies/data/{name}.csv").resolve()) for name in "ab"
    ]


def test_advice_ends_in_a_command_that_runs(cli):
    Path("my patients.csv").write_text(patients())
    word = "csv:my patients.csv,label=ill,client=hospital,without=drug"
    said = cli("advise", "--problem", word, "--method", "fedsgd", "--steps", "2", "--json")
    command = shlex.split(said.json["run"])
    assert command[:3] == ["undrift", "run", "--problem"]
    assert cli(*command[1:], "--rounds", "2", "--no-figures").code == 0


def test_compare_keeps_what_the_numbers_mean(cli):
    word = f"csv:{HOSPITALS},label=disease,features=age,male"
    assert cli("compare", "--problem", word, "--method", "fedsgd", "--eta", "1e-3", "--rounds", "2", "--no-figures",
               "--out", "c").code == 0  # fmt: skip
    assert read_columns(Path("c")).features == ["age", "male"]


@pytest.mark.parametrize(
    "word",
    [
        "csv:a.csv,b.csv,label=ill,features=age,pulse,l2=0.5,intercept=false",
        "csv:a.csv,label=1,client=2,positive=3,4",
        "network:data=digits,partition=exdir:classes=2,alpha=10,clients=3",
        "least_squares:alpha=50.0,data_seed=3",
    ],
)
def test_a_flag_and_its_table_say_the_same(word):
    words = problem_words(word)
    assert problem_words(problem_flag(words)) == words


NAMED = ("logistic:data=heart", "least_squares:data=diabetes,clients=5", "network:data=diabetes,clients=4")


@pytest.mark.parametrize("word", only(NAMED, NAMED[:2]))
def test_named_data_sets(cli, word):
    assert cli("run", "--problem", word, *ROUNDS, "--eta", "1e-4").code == 0, word
    if word.startswith("logistic"):
        assert list(read_columns(Path("r")).clients) == ["cleveland", "hungarian", "switzerland", "va"]
        assert to_scikit_learn("r").classes_.tolist() == ["healthy", "disease"]
    if word.startswith("least"):
        assert to_scikit_learn("r").predict(np.zeros((1, 10))).shape == (1,)


def test_a_named_data_set_becomes_a_network():
    """Every day it is made; `test_named_data_sets` plays it."""
    made = ud.named_problem("network", data="diabetes", clients=4)
    assert (made.clients, type(made).__name__) == (4, "Network")


def test_classes_against_the_rest():
    d = ud.data.load("digits")
    problem = ud.named_problem("logistic", data="digits", positive=[1, "3"], clients=4, partition="iid")
    assert int((np.asarray(problem.stack["y"]) > 0).sum()) == int(np.isin(d.train.y, [1, 3]).sum())


def test_npz_takes_labels_of_both_kinds(tmp_path):
    A, y = np.random.default_rng(0).normal(size=(2, 5, 3)), np.array([[0, 1, 1, 0, 1], [1, 1, 0, 0, 1]])
    found = []
    for labels in (y, y > 0, 2 * y - 1):
        np.savez(tmp_path / "a.npz", A=A, y=labels)
        found.append(np.asarray(ud.named_problem("npz", path=str(tmp_path / "a.npz")).stack["y"]))
    assert all(np.array_equal(one, 2 * y - 1) for one in found)


# ----- looking at it
def test_describe(cli):
    text = patients().replace("nord,", "nord,", 1) + "west,,a,1,yes\n"
    Path("patients.csv").write_text(text)
    found = cli("data", "describe", "patients.csv", "--label", "ill", "--client", "hospital", "--json").json
    assert found["rows"] == 61
    assert found["clients"] == {"nord": 20, "süd": 20, "west": 21}
    assert sum(sum(counts.values()) for counts in found["label"]["counts"].values()) == 61
    columns = {one["name"]: one for one in found["columns"]}
    assert (columns["age"]["missing"], columns["age"]["missing_percent"]) == (1, 1.64)
    assert columns["drug"]["kind"] == "category"
    assert columns["dose"]["least"] == 0.5
    said = cli("data", "describe", "patients.csv", "--label", "ill", "--client", "hospital")
    assert "age: 1 of 61 values missing (2 %). Remedy: missing=mean or missing=drop" in said.out.replace("\n", " ")
    flag = shlex.split(found["problem"])
    assert cli("run", *flag, *ROUNDS).code == 0  # what it proposes works


def test_describe_several_files_and_npz(cli):
    found = cli("data", "describe", str(HOSPITALS), "--label", "disease", "--json").json
    assert found["clients"] == {"cleveland": 303, "hungary": 292, "switzerland": 116, "va": 141}
    assert found["label"]["counts"]["va"] == {"0": 30, "1": 111}
    assert cli("data", "describe", str(HOSPITALS / "va.csv"), "--label", "age").out.count("mean age") == 1
    np.savez("a.npz", x=np.ones((3, 2)), y=np.array([0, 1, 1]))
    found = cli("data", "describe", "a.npz", "--label", "y", "--json").json
    assert [one["name"] for one in found["columns"]] == ["x0", "x1", "y"]
    assert found["problem"] is None
