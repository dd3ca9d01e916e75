"""`undrift export`: what it writes computes the same numbers as the model of the run, and says what it is."""

from __future__ import annotations

import importlib.util
import json
import shutil
import warnings
from pathlib import Path

import jax
import joblib
import numpy as np
import pytest
from cli_helpers import SMALL
from sklearn.linear_model import LogisticRegression

import undrift as ud
from undrift.cli import main
from undrift.models.model import Model
from undrift.studies.estimators import estimator_of, parameters, penalty_of
from undrift.studies.flax_files import program_of, variables_of
from undrift.studies.study import read_study, study_from
from undrift.studies.trained import Meaning, Trained, trained

HOSPITALS = Path(__file__).parents[2] / "examples" / "hospitals"
NAMES = ["cleveland", "hungary", "switzerland", "va"]


@pytest.fixture(scope="module")
def tables() -> dict[str, np.ndarray]:
    return {name: np.loadtxt(HOSPITALS / "data" / f"{name}.csv", delimiter=",", skiprows=1) for name in NAMES}


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("exports") / "run"
    words = ["run", HOSPITALS / "study.toml", "--rounds", 60, "--out", folder, "--no-figures", "--quiet"]
    assert main([str(word) for word in words]) == 0
    return folder


@pytest.fixture
def run(finished, tmp_path) -> Path:
    """A copy of the finished run, to be changed."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


# ----- scikit-learn
def test_the_estimator_is_scikit_learns_own_fit_on_pooled_records(cli, run, tables):
    """And l2 is C as the documentation says: C = 1/(m·l2), the intercept a column of ones."""
    said = cli("export", run, "--to", "sklearn")
    assert said.code == 0, said.err
    assert "runs code when it is loaded" in said.err
    model = joblib.load(run / "model.joblib")
    C = model[-1].C
    assert pytest.approx(1 / (4 * 1.0)) == C
    pooled = np.concatenate([tables[name] for name in NAMES])
    features = np.hstack([model[0].transform(_named(model, pooled)), np.ones((len(pooled), 1))])
    fit = LogisticRegression(C=C, fit_intercept=False, solver="newton-cholesky", tol=1e-10).fit(features, pooled[:, -1])
    np.testing.assert_allclose(np.append(model[-1].coef_[0], model[-1].intercept_), fit.coef_[0], atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(_named(model, pooled)), fit.predict_proba(features), atol=1e-7)


def _named(model, table):
    import pandas as pd

    return pd.DataFrame(table[:, :-1], columns=model.feature_names_in_)


def test_columns_in_another_order_are_refused_by_the_estimator(cli, run, tables):
    cli("export", run, "--to", "sklearn", "--out", "model.joblib", "--quiet")
    model = joblib.load("model.joblib")
    frame = _named(model, tables["va"])
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[frame.columns[::-1]])
    assert model.score(frame, tables["va"][:, -1]) == pytest.approx(0.773, abs=2e-3)


def test_l2_with_clients_weights_is_c_with_sample_weights():
    """Σ_i w_i (Σ_j ℓ + (l2/2)‖x‖²) with any weights: C = 1/l2 with s_j = w_i."""
    rng = np.random.default_rng(3)
    A, y = [rng.normal(size=(n, 3)) for n in (5, 20)], [np.sign(rng.normal(size=n)) for n in (5, 20)]
    problem = ud.problems.logistic(A, y, l2=0.7, weights=[0.8, 0.2])
    weights = np.repeat([0.8, 0.2], [5, 20])
    fit = LogisticRegression(C=1 / 0.7, fit_intercept=False, solver="newton-cholesky", tol=1e-12)
    fit.fit(np.concatenate(A), np.concatenate(y), sample_weight=weights)
    np.testing.assert_allclose(fit.coef_[0], problem.optimum.x, atol=1e-7)
    assert penalty_of(Meaning("logistic", l2=0.7, weights="sites"), 2) is None
    equal = ud.problems.logistic(A, y, l2=0.7)
    fit = LogisticRegression(C=1 / (2 * 0.7), fit_intercept=False, solver="newton-cholesky", tol=1e-12)
    np.testing.assert_allclose(fit.fit(np.concatenate(A), np.concatenate(y)).coef_[0], equal.optimum.x, atol=1e-7)


def made(net: Model | None, x: np.ndarray, **words) -> Trained:
    study = study_from({"problem": {"name": "figure1"}}, "a test")
    meaning = Meaning("network" if net is not None else words.pop("kind"), net=net, **words)
    return Trained(Path(), study, {}, {}, "fedavg", x, meaning)


@pytest.mark.parametrize("hidden", [(), (7, 5)], ids=["softmax", "perceptron"])
@pytest.mark.parametrize("classes", [("b", "a", "c"), ("yes", "no")], ids=len)
def test_networks_of_dense_layers_are_estimators(hidden, classes):
    """Classes that are not sorted too: scikit-learn sorts its own."""
    net = ud.models.mlp(hidden, len(classes), (4,), "float32")
    x = np.random.default_rng(5).normal(size=net.parameter_count).astype(np.float32)
    inputs = np.random.default_rng(6).normal(size=(40, 4)).astype(np.float32)
    logits = np.asarray(net.apply(net_params(net, x), inputs))
    model = estimator_of(made(net, x, classes=classes, mean=np.zeros(4), scale=np.ones(4), features=tuple("wxyz")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an array has no names of columns
        assert model.predict(inputs).tolist() == [classes[i] for i in logits.argmax(axis=1)]
        share = np.exp(logits - logits.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        order = np.argsort(classes)
        np.testing.assert_allclose(model.predict_proba(inputs), share[:, order], atol=2e-6)
    assert model[-1].classes_.tolist() == sorted(classes)


def net_params(net, x):
    from undrift.problems.network_model import unraveler

    return unraveler(net, "float32")(jax.numpy.asarray(x))


def test_least_squares_becomes_a_linear_regression():
    model = estimator_of(made(None, np.array([2.0, 1.0]), kind="least_squares", intercept=True, l2=0.0, mean=np.array([10.0]),
                              scale=np.array([5.0])))  # fmt: skip
    np.testing.assert_allclose(model.predict([[10.0], [15.0]]), [1.0, 3.0])


# ----- arrays
def test_arrays_say_how_they_are_used(cli, run, tables):
    said = cli("export", run, "--to", "npz", "--out", "heart.npz", "--json")
    assert said.code == 0, said.err
    assert said.json["files"] == ["heart.npz", "model-card.md"]
    with np.load("heart.npz", allow_pickle=False) as found:
        arrays = dict(found)
    assert "1/(1 + exp(−z))" in str(arrays["README"])
    assert json.loads(str(arrays["metadata"]))["kind"] == "logistic"
    table = tables["va"]
    z = (table[:, :-1] - arrays["mean"]) / arrays["scale"] @ arrays["coef"] + arrays["intercept"]
    assert arrays["features"][0] == "age"
    assert np.mean((z > 0) == table[:, -1]) == pytest.approx(0.773, abs=2e-3)


# ----- Flax
def test_the_flax_module_computes_the_same(cli, run, tables):
    pytest.importorskip("flax")
    assert cli("export", run, "--to", "flax").code == 0
    module = loaded(run / "model_flax.py")
    x, table = np.load(run / "model.npy"), tables["hungary"][:, :-1]
    kept = trained(run).meaning
    expected = (table - kept.mean) / kept.scale @ x[:-1] + x[-1]
    with jax.enable_x64(True):
        found = module.Model().apply(module.load(run / "model_flax.msgpack"), table)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert module.FEATURES[0] == "age"


@pytest.mark.parametrize(
    "net",
    [ud.models.mlp((6,), 3, (4, 4, 1)), ud.models.lenet5(), ud.models.femnist_cnn_unpadded(5)],
    ids=lambda net: net.name,
)
def test_networks_become_linen_modules(net, tmp_path):
    pytest.importorskip("flax")
    x = np.random.default_rng(1).normal(size=net.parameter_count).astype(np.float32) / 10
    model = made(net, x, classes=tuple(range(3)))
    (tmp_path / "net.py").write_text(program_of(model, "net", "net.msgpack"))
    images = np.random.default_rng(2).normal(size=(3, *net.input)).astype(np.float32)
    found = jax.jit(loaded(tmp_path / "net.py").Model().apply)(variables_of(model), images)
    np.testing.assert_allclose(found, jax.jit(net.apply)(net_params(net, x), images), atol=2e-5)


def loaded(path: Path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_name_in_quotes_does_not_get_out_of_the_program():
    evil = ('age"""\nimport os\n"""', "b")
    model = made(None, np.ones(2), kind="logistic", features=evil, classes=(0, 1), label='"""\nraise SystemExit')
    names: dict = {}
    exec(compile(program_of(model, "m", "m.msgpack").split("class Model")[0], "m", "exec"), names)
    assert names["FEATURES"] == list(evil)


# ----- the card
def test_the_card_says_what_the_directory_says(cli, run):
    said = cli("export", run, "--card")
    assert said.code == 0, said.err
    card = (run / "model-card.md").read_text()
    summary = json.loads((run / "summary.json").read_text())
    for client in summary["clients"]["listed"]:
        assert f"| {client['name']} | {client['samples']} | {client['steps']} |" in card
    assert "cleveland 303, hungary 292, switzerland 116, va 141, 852 in all" in card
    assert "C = 1/(m·l2) = 0.25" in card
    assert summary["command"] in card
    assert summary["files"]["model.npy"] in card
    assert "No theorem or certificate was held against this run" in card
    assert "how well it does on new samples is unknown" in card


def test_a_card_of_a_run_with_a_theorem_gives_its_verdict(cli):
    assert cli("run", "--method", "fedlin", *SMALL, "--eta", "theorem", "--out", "r", "--no-figures").code == 0
    assert cli("export", "r", "--card").code == 0
    card = Path("r/model-card.md").read_text()
    assert "It held in this run: FedLin, Theorem 1 holds" in card
    refused = cli("export", "r", "--to", "sklearn")
    assert refused.code == 2
    assert "no estimator of scikit-learn: export it with --to npz" in refused.err
    assert cli("export", "r", "--to", "flax").code == 2
    assert cli("export", "r", "--to", "npz").code == 0


def test_what_is_unknown_is_said_to_be(cli, run):
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps({"status": "finished", "label": summary["label"]}))
    columns = json.loads((run / "standardisation.json").read_text())
    (run / "standardisation.json").write_text(json.dumps({**columns, "clients": None}))
    assert cli("export", run, "--card").code == 0
    card = (run / "model-card.md").read_text()
    assert "Samples per client: unknown" in card
    assert "Results of single clients: unknown" in card
    assert "Versions: unknown" in card


# ----- comparisons
def test_a_method_of_a_comparison(cli):
    assert cli("compare", "--problem", "logistic_synthetic:clients=3,samples=20,dim=4,l2=0.5", "--method", "gd", "fedlin",
               "--eta", 0.05, 0.1, "--rounds", 12, "--steps", 2, "--out", "c", "--no-figures").code == 0  # fmt: skip
    without = cli("export", "c", "--to", "sklearn")
    assert without.code == 2
    assert "compares gd, fedlin: say which with --method" in without.err
    assert "did you mean 'fedlin'?" in cli("export", "c", "--to", "sklearn", "--method", "fedlni").err
    assert cli("export", "c", "--to", "sklearn", "--method", "fedlin").code == 0
    model, models = joblib.load("c/model.joblib"), np.load("c/models.npz")
    np.testing.assert_array_equal(model[-1].coef_[0], models["fedlin"][0])
    assert pytest.approx(1 / (3 * 0.5)) == model[-1].C
    summary = json.loads(Path("c/summary.json").read_text())
    served = {one["label"]: one["clients"] for one in summary["methods"]}
    assert served["fedlin"]["count"] == 3
    assert "The values of its grid that were best here" in Path("c/model-card.md").read_text()


# ----- refusals
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "to what? Say --to sklearn"),
        (["--to", "sklearn", "--method", "scaffold"], "is the run of one method, fedlin"),
        (["--to", "npz", "--out", "heart.csv"], "writes a file .npz"),
        (["--to", "npz", "--out", "nowhere/heart.npz"], "there is no directory nowhere"),
        (["--to", "npz", "--out", "there.npz"], "is already there: --overwrite"),
        (["--to", "flax", "--out", "my-model.msgpack"], "letters, digits and _"),
        (["--card", "--out", "card.txt"], "a file .md"),
    ],
)
def test_bad_words_are_refused(cli, run, words, says):
    Path("there.npz").write_bytes(b"")
    said = cli("export", run, *words)
    assert said.code == 2
    assert says in said.err


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("summary.json", b"{", "summary.json is damaged"),
        ("summary.json", b"[1]", "summary.json is damaged"),
        ("summary.json", None, "no summary.json in"),
        ("model.npy", b"pickle", "is not a model"),
        ("model.npy", None, "no model.npy"),
        ("standardisation.json", b'{"mean": [1]}', "standardisation.json is damaged"),
        ("standardisation.json", b'{"mean": [1.0], "scale": [1.0]}', "11 numbers"),
        ("study.toml", None, "holds no run of undrift"),
        ("study.toml", b"[", "not valid TOML"),
    ],
)
def test_damaged_directories_are_refused_by_the_name_of_the_file(cli, run, name, content, says):
    if content is None:
        (run / name).unlink()
    else:
        (run / name).write_bytes(content)
    said = cli("export", run, "--to", "npz")
    assert said.code in (2, 4)
    assert says in said.err
    assert not (run / "exported.npz").exists()


def test_models_that_do_not_fit_or_are_not_finite_are_refused(cli, run):
    np.save(run / "model.npy", np.ones(5))
    assert "a model of 12 numbers, the file holds 5" in cli("export", run, "--to", "npz").err
    np.save(run / "model.npy", np.full(12, np.nan))
    assert "is not finite" in cli("export", run, "--to", "npz").err
    assert cli("export", run / "nothing", "--to", "npz").code == 2


def test_exports_go_when_their_run_is_replaced(cli, run):
    assert cli("export", run, "--to", "npz").code == 0
    assert cli("run", HOSPITALS / "study.toml", "--rounds", 60, "--out", run, "--overwrite", "--no-figures").code == 0
    assert not (run / "exported.npz").exists()
    assert not (run / "model-card.md").exists()


def test_layers_are_named(finished):
    assert read_study(finished / "study.toml").run["per_client"] is True
    net = ud.models.mlp((3,), 2, (4,))
    found = parameters(net, np.arange(net.parameter_count, dtype=np.float32))
    assert {name: {key: value.shape for key, value in own.items()} for name, own in found.items()} == {
        "dense1": {"weight": (3, 4), "bias": (3,)},
        "dense2": {"weight": (2, 3), "bias": (2,)},
    }
