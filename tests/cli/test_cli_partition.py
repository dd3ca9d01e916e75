"""`undrift partition`: the partition, its picture and its figures."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import jax
import numpy as np
import pytest

import undrift as ud


@pytest.fixture(autouse=True)
def _no_directory(monkeypatch):
    monkeypatch.delenv("UNDRIFT_DATA", raising=False)


def test_everything_is_written(cli):
    words = ["partition", "--clients", 8, "--how", "exdir:classes=2,alpha=10", "--seed", 3, "--out", "p"]
    said = cli(*words)
    assert said.code == 0
    assert "8 clients" in said.out
    assert "ζ" in said.out
    files = {"parts.json", "partition.png", "partition.svg", "describe.json", "describe.csv"}
    assert {file.name for file in Path("p").iterdir()} == files
    labels = ud.data.load("digits").train.y
    parts = ud.data.from_map("p/parts.json", labels)
    wanted = ud.data.exdir(labels, clients=8, classes=2, alpha=10.0, seed=3)
    assert all(np.array_equal(a, b) for a, b in zip(parts, wanted, strict=True))
    summary = json.loads(Path("p/describe.json").read_text())
    figures = ud.data.describe(parts, labels)
    assert summary["samples"]["max"] == figures.sizes.max()
    assert summary["label_entropy"]["median"] == np.median(figures.entropy)
    assert summary["pairwise_total_variation"] == figures.pairwise
    with Path("p/describe.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["samples"]) for row in rows] == figures.sizes.tolist()
    assert [int(row["class_4"]) for row in rows] == figures.counts[:, 4].tolist()
    assert cli(*words).code == 2  # nothing is lost by accident
    assert cli(*words, "--overwrite", "--no-figures", "--json").json == summary


def test_zeta_is_that_of_the_gradients(cli):
    """Against the gradient of multinomial logistic regression, written out."""
    said = cli("partition", "--clients", 6, "--how", "dirichlet:alpha=0.5", "--seed", 1, "--json", "--quiet")
    d = ud.data.load("digits")
    parts = ud.data.dirichlet(d.train.y, clients=6, alpha=0.5, seed=1)
    model = ud.models.softmax_regression(10, input=(8, 8, 1))
    inputs = d.train.x.reshape(-1, 64).astype(np.float64)
    logits = np.asarray(model.apply(model.init(jax.random.key(1)), d.train.x), np.float64)
    errors = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True) - np.eye(10)[d.train.y]
    ones = np.hstack([inputs, np.ones((len(inputs), 1))])
    gradients = np.stack([(ones[part].T @ errors[part] / len(part)).ravel() for part in parts])
    distances = np.linalg.norm(gradients - gradients.mean(axis=0), axis=1)
    zeta = said.json["zeta"]
    np.testing.assert_allclose(zeta["max"], distances.max(), rtol=1e-5)
    np.testing.assert_allclose(zeta["root_mean_square"], np.sqrt(np.mean(distances**2)), rtol=1e-5)
    np.testing.assert_allclose(zeta["gradient_norm"], np.linalg.norm(gradients.mean(axis=0)), rtol=1e-5)


def test_maps_and_groups(cli):
    Path("map.json").write_text(json.dumps({"0": list(range(1000)), "1": list(range(1000, 1438))}))
    said = cli("partition", "--how", "from_map:map.json", "--json")
    assert said.json["clients"] == 2
    assert said.json["samples"]["max"] == 1000
    rng = np.random.default_rng(0)
    x = rng.standard_normal((80, 13)).astype(np.float32)
    np.savez("heart_disease.npz", x=x, y=np.arange(80) % 2, center=np.arange(80) // 2 % 4)
    said = cli("partition", "--data", "heart", "--data-dir", ".", "--how", "by_group", "--json")
    assert said.json["clients"] == 4


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--how", "exdirr:classes=2"], 2, "did you mean 'exdir'"),
        (["--how", "exdir:clases=2,alpha=1"], 2, "did you mean 'classes'"),
        (["--how", "dirichlet"], 2, "needs alpha"),
        (["--how", "exdir:classes=20,alpha=1"], 2, "classes=20"),
        (["--how", "by_group"], 2, "digits has none"),
        (["--how", "from_map:nowhere.json"], 5, "does not exist"),
        (["--clients", "0"], 2, "clients must be"),
        (["--clients", "9999"], 2, "9999"),
        (["--data", "mnits"], 2, "did you mean 'mnist'"),
        (["--model", "lenet"], 2, "did you mean 'lenet5'"),
        (["--model", "lenet5"], 2, "does not fit digits"),
        (["--out", "taken"], 2, "already holds files"),
        (["--out", "taken", "--overwrite"], 2, "not a partition"),
    ],
)
def test_bad_input(cli, words, code, text):
    Path("taken").mkdir()
    Path("taken/thesis.txt").write_text("years of work")
    said = cli("partition", *words)
    assert said.code == code
    assert text in said.err
    assert Path("taken/thesis.txt").read_text() == "years of work"
