"""Data sets that came later: the embedded tables, CIFAR-100, and Shakespeare of LEAF, in the forms of their publishers."""

from __future__ import annotations

import importlib.util
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from undrift import data
from undrift.data import cifar

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def nothing_elsewhere(monkeypatch, tmp_path):
    monkeypatch.delenv("UNDRIFT_DATA", raising=False)
    monkeypatch.setenv("UNDRIFT_CACHE", str(tmp_path / "cache"))


# ----- tables that come with the installation
def test_the_embedded_hospitals_are_the_published_ones():
    report = data.verify("heart")
    assert (report.origin.where, report.genuine, report.train, report.test) == ("embedded", True, 735, 185)


def test_the_files_of_the_tutorial_are_made_from_the_embedded_table(tmp_path):
    place = ROOT / "examples" / "hospitals"
    spec = importlib.util.spec_from_file_location("prepare_hospitals", place / "prepare.py")
    prepare = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(prepare)
    prepare.main(tmp_path / "made")
    for name in prepare.HOSPITALS:
        assert (tmp_path / "made" / f"{name}.csv").read_bytes() == (place / "data" / f"{name}.csv").read_bytes()


def test_a_copy_in_the_data_directory_comes_first(tmp_path):
    np.savez(tmp_path / "heart_disease.npz", x=np.ones((40, 13)), y=np.arange(40) % 2, center=np.arange(40) // 2 % 4)
    assert data.verify("heart", data_dir=tmp_path).genuine is False


def test_diabetes_has_a_number_to_predict():
    d = data.load("diabetes")
    assert data.verify("diabetes").genuine is True
    assert (d.train.x.shape, d.test.x.shape, d.classes, d.train.y.dtype) == ((354, 10), (88, 10), 0, np.float64)
    assert d.feature_names[:3] == ("age", "sex", "bmi")
    np.testing.assert_allclose(d.train.x.mean(axis=0), 0, atol=1e-5)


# ----- CIFAR-100
def cifar100(folder: Path, changes=lambda count: {}) -> Path:
    folder = folder / "cifar-100-python"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name, count in (("train", 6), ("test", 3)):
        batch = {
            b"filenames": [b"a_%d.png" % number for number in range(count)],
            b"batch_label": b"training batch 1 of 1",
            b"fine_labels": [number * 11 % 100 for number in range(count)],
            b"coarse_labels": [number % 20 for number in range(count)],
            b"data": rng.integers(0, 256, (count, 3072), dtype=np.uint8),
        } | changes(count)
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    return folder


def test_cifar_100(tmp_path):
    folder = cifar100(tmp_path)
    d = data.load("cifar100", data_dir=tmp_path, raw=True)
    assert d.train.x.shape == (6, 32, 32, 3)
    assert d.train.y.tolist() == [0, 11, 22, 33, 44, 55]
    assert d.test.y.tolist() == [0, 11, 22]
    assert (d.classes, d.class_names[0], d.class_names[99]) == (100, "apple", "worm")
    published = pickle.loads((folder / "test").read_bytes())[b"data"]
    assert np.array_equal(d.test.x, published.reshape(3, 3, 32, 32).transpose(0, 2, 3, 1))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (lambda count: {b"fine_labels": [0, 1]}, "one label per image"),
        (lambda count: {b"fine_labels": "0"}, "flat list of whole numbers"),
        (lambda count: {b"fine_labels": [100] * count}, "must lie in 0..99"),
        (lambda count: {b"extra": Path("/tmp")}, "refused"),
    ],
)
def test_cifar_100_that_is_none(tmp_path, changes, reason):
    cifar100(tmp_path, changes)
    with pytest.raises(data.DataError, match=reason):
        data.load("cifar100", data_dir=tmp_path)


def test_no_pickle_of_cifar_100_has_more_operations_than_the_published_one_may():
    with pytest.raises(cifar.Refused, match="refused more than 2,000,000 operations"):
        cifar.decode(b"\x80\x02" + b"]" * 2_000_001, cifar.CIFAR100)


# ----- Shakespeare
LINE = "To be, or not to be: that is the question: whether 'tis nobler in the mind to su"


def leaf(folder: Path, train: object, test: object | None = None) -> None:
    for part, content in (("train", train), ("test", train if test is None else test)):
        (folder / "shakespeare" / part).mkdir(parents=True)
        (folder / "shakespeare" / part / "all_data.json").write_text(json.dumps(content))


def play(**speakers) -> dict:
    return {
        "users": list(speakers),
        "num_samples": [len(y) for _, y in speakers.values()],
        "user_data": {name: {"x": x, "y": y} for name, (x, y) in speakers.items()},
    }


def test_shakespeare(tmp_path):
    assert len(LINE) == 80
    other = LINE[1:] + "f"
    leaf(tmp_path, play(HAMLET=([LINE, other], ["f", "f"]), ROMEO=([LINE], ["?"])), play(ROMEO=([other], ["\n"])))
    d = data.load("shakespeare", data_dir=tmp_path)
    assert (d.train.x.shape, d.train.x.dtype, d.train.y.dtype, d.classes) == ((3, 80), np.int32, np.int32, 80)
    letters = data.SHAKESPEARE_CHARACTERS
    assert "".join(letters[number] for number in d.train.x[1]) == other
    assert [letters[number] for number in d.train.y] == ["f", "f", "?"]
    assert letters[d.test.y[0]] == "\n"
    assert d.group_names == ("HAMLET", "ROMEO")
    assert (d.train.group.tolist(), d.test.group.tolist()) == ([0, 0, 1], [1])
    assert [len(part) for part in data.by_group(d.train.group)] == [2, 1]
    assert data.load("shakespeare", data_dir=tmp_path, raw=True).train.x.dtype == np.uint8


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (play(A=(["short"], ["a"])), "texts of 80 characters"),
        (play(A=([LINE], ["ab"])), "texts of 1 characters"),
        (play(A=([LINE], ["a", "b"])), "1 lines and 2 characters"),
        (play(A=([LINE[:-1] + "#"], ["a"])), "the character '#' is none of LEAF's 80"),
        (play(A=([LINE[:-1] + "\u20ac"], ["a"])), "can't encode"),
        (play(A=([3], ["a"])), "texts of 80 characters"),
        (play(A=([], [])), "holds no line at all"),
        ({"users": ["A", "A"], "user_data": {}}, "each once"),
        ({"users": ["A"], "user_data": {}}, "KeyError"),
        ([], "TypeError"),
    ],
)
def test_shakespeare_that_is_none(tmp_path, content, reason):
    leaf(tmp_path, content)
    with pytest.raises(data.DataError, match=reason):
        data.load("shakespeare", data_dir=tmp_path)


def test_shakespeare_that_is_absent_says_how_to_make_it():
    with pytest.raises(data.MissingDataError, match=r"data/shakespeare/preprocess\.sh"):
        data.load("shakespeare")
