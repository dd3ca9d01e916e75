"""The exported pipeline of a run on a table takes its raw columns: words, truths, numbers that are names, and gaps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest

from undrift.cli import main
from undrift.errors import InputError
from undrift.studies.columns import FILE
from undrift.studies.trained import trained

PROBLEM = "csv:patients.csv,label=state,client=hospital,missing=mean,categories=onehot,onehot=ward,positive=ill"
ROUNDS = ("--method", "fedsgd", "--rounds", "2", "--steps", "2", "--no-figures", "--quiet")


def patients(rows: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    age = rng.integers(20, 80, rows).astype(float)
    frame = pd.DataFrame(
        {
            "hospital": np.resize(["nord", "ost", "west"], rows),
            "drug": rng.choice(["a", "b", "c"], rows).astype(object),
            "age": age,
            "ward": rng.choice([1, 2, 10], rows),
            "smokes": rng.choice(["yes", "no"], rows).astype(object),
            "state": np.where(age + rng.normal(0, 20, rows) > 50, "ill", "well"),
        }
    )
    frame.loc[[3, 7], "drug"] = np.nan
    frame.loc[[4, 9, 11], "age"] = np.nan
    frame.loc[5, "smokes"] = np.nan
    return frame


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    patients().to_csv(folder / "patients.csv", index=False)
    problem = PROBLEM.replace("patients.csv", str(folder / "patients.csv"))
    assert main(["run", "--problem", problem, *ROUNDS, "--out", str(folder / "r")]) == 0
    return folder


@pytest.fixture
def run(cli, finished) -> Path:
    """A copy of the finished run and its table in the directory of the test."""
    shutil.copytree(finished, Path(), dirs_exist_ok=True)
    return Path("r")


def by_hand(frame: pd.DataFrame) -> np.ndarray:
    """Words as 0 and 1 for all but the first in the order of words, means where something is missing."""
    columns = [frame.drug.eq(word).astype(float).where(frame.drug.notna()) for word in ("b", "c")]
    columns += [frame.age, *(frame.ward.eq(number).astype(float) for number in (10, 2))]
    columns += [frame.smokes.map({"yes": 1.0, "no": 0.0}).astype(float)]
    return np.stack([column.fillna(column.mean()) for column in columns], axis=1)


def test_the_pipeline_takes_the_raw_table(cli, run):
    said = cli("export", run, "--to", "sklearn")
    assert "takes the columns of your table as they are" in said.err
    model, frame, weights = joblib.load("r/model.joblib"), pd.read_csv("patients.csv"), np.load("r/model.npy")
    features = by_hand(frame)
    np.testing.assert_allclose(model[0].transform(frame), features, rtol=1e-12)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    margins = scaled @ weights[:-1] + weights[-1]
    assert model.predict(frame).tolist() == np.where(margins > 0, "ill", "well").tolist()
    backwards = frame[frame.columns[::-1]]
    assert np.array_equal(model.predict_proba(backwards), model.predict_proba(frame))
    array = frame[list(model.feature_names_in_)].to_numpy(dtype=object)
    assert np.array_equal(model.predict_proba(array), model.predict_proba(frame))
    truths = frame.assign(smokes=frame.smokes.map({"yes": True, "no": False}))
    assert np.array_equal(model.predict_proba(truths), model.predict_proba(frame))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"drug": "z"}, "unknown categories"),
        ({"ward": 3}, "unknown categories"),
        ({"ward": np.nan}, "unknown categories"),  # none was missing in training
        ({"age": "old"}, "could not convert"),
    ],
    ids=["word", "number", "gap", "word for a number"],
)
def test_what_was_not_there_in_training_is_refused(cli, run, change, complaint):
    cli("export", run, "--to", "sklearn", "--quiet")
    with pytest.raises(ValueError, match=complaint):
        joblib.load("r/model.joblib").predict(patients().assign(**change))


def test_the_other_forms_and_the_card_say_what_comes_first(cli, run):
    for form in ("npz", "flax"):
        assert "words and missing values of a table come first" in cli("export", run, "--to", form).err
    rule = "drug: 0 or 1 for each of 'b', 'c'; 'a' is all 0; 0."
    with np.load("r/exported.npz") as arrays:
        assert rule in str(arrays["README"])
        kept = json.loads(Path("r", FILE).read_text())["columns"]
        said = json.loads(str(arrays["metadata"]))["columns"]
    assert [one["column"] for one in said] == ["drug", "age", "ward", "smokes"]
    assert all(entry.items() <= whole.items() for entry, whole in zip(kept, said, strict=True))
    assert rule in Path("r/model-card.md").read_text()
    assert "smokes: 1 for true or yes, 0 for false or no" in Path("r/model-card.md").read_text()
    program = Path("r/model_flax.py").read_text()
    assert rule in program
    compile(program, "model_flax.py", "exec")


@pytest.mark.parametrize(
    ("place", "change"),
    [(0, {"categories": []}), (0, {"fill": [0.5]}), (0, {"categories": ["a", "b"], "fill": []}), (1, {"fill": [1, 2]})],
)
def test_columns_that_do_not_become_the_features_are_refused(run, place, change):
    path = run / FILE
    content = json.loads(path.read_text())
    content["columns"][place] |= change
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match="bring it back from a copy"):
        trained(run)


def test_a_network_whose_layers_nobody_named_is_exported(cli):
    patients().to_csv("patients.csv", index=False)
    words = PROBLEM.replace(",positive=ill", ",kind=network")
    assert cli("run", "--problem", words, *ROUNDS, "--eta", "0.01", "--out", "n").code == 0
    said = cli("export", "n", "--to", "sklearn")
    assert said.code == 0, said.err
    assert set(joblib.load("n/model.joblib").predict(patients())) <= {"ill", "well"}
