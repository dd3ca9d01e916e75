"""Copies of data sets that are not what their names say."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hostile_case import Case
from hostile_files import MISSING, OBJECTS, saved


def of_copy(name: str, files: dict[str, Any], *says: str, data: str, code: int = 2) -> Case:
    words = ("data", "verify", data, "--data-dir", ".", "--cache-dir", "cache")
    return Case(f"data: {name}", says, words, files=files, code=code)


HEART = {"x": np.ones((8, 13), np.float32), "y": np.arange(8) % 5, "center": np.arange(8) % 4}
UCI = ",".join(["1.0"] * 13) + ",0\n"
HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")


def of_heart(name: str, changes: dict[str, Any], *says: str) -> Case:
    arrays = {key: value for key, value in {**HEART, **changes}.items() if value is not None}
    return of_copy(f"heart, {name}", {"heart_disease.npz": saved(**arrays)}, *says, data="heart")


def of_table(name: str, text: str | bytes, *says: str) -> Case:
    files = {f"heart/processed.{hospital}.data": UCI * 8 for hospital in HOSPITALS}
    return of_copy(f"heart, {name}", {**files, "heart/processed.va.data": text}, *says, data="heart")


def of_leaf(name: str, content: str | bytes, *says: str) -> Case:
    files = {f"femnist/{part}/a.json": content for part in ("train", "test")}
    return of_copy(f"femnist, {name}", files, *says, data="femnist")


def leaf(x: Any = ([0.5] * 784,), y: Any = (3,), users: Any = ("a",)) -> str:
    return json.dumps({"users": users, "user_data": {"a": {"x": x, "y": y}}})


MNIST = {"x_train": np.zeros((4, 28, 28), np.uint8), "y_train": np.arange(4), "x_test": np.zeros((2, 28, 28), np.uint8)}
MNIST |= {"y_test": np.arange(2)}


def of_mnist(name: str, changes: dict[str, Any], *says: str) -> Case:
    return of_copy(f"mnist, {name}", {"mnist.npz": saved(**{**MNIST, **changes})}, *says, data="mnist")


CIFAR = {f"cifar-10-batches-py/{name}": b"cos\nsystem\nU\x04true\x85R." for name in ("data_batch_1", "data_batch_2")}
CIFAR |= {f"cifar-10-batches-py/{name}": b"" for name in ("data_batch_3", "data_batch_4", "data_batch_5", "test_batch")}
FETCH = "remove it and fetch it again"
CASES = [
    of_heart("no diagnoses", {"y": None}, "must hold the arrays x, y, center", "it lacks y", "rename or add them"),
    of_heart(
        "a hospital too few", {"center": HEART["center"][:-1]}, "one diagnosis and one hospital", "(7,)", "correct"
    ),
    of_heart(
        "diagnosis 5", {"y": np.full(8, 5)}, "a diagnosis must be a whole number in 0..4", "patient 0 has 5", "correct"
    ),
    of_heart(
        "diagnosis NaN", {"y": np.full(8, np.nan)}, "a diagnosis must be a whole number", "has nan", "correct the file"
    ),
    of_heart("hospital 4", {"center": np.full(8, 4)}, "a hospital must be a whole number in 0..3", "has 4", "correct"),
    of_heart(
        "diagnoses as text", {"y": HEART["y"].astype(str)}, "a diagnosis must be a number", "<U21", "correct the file"
    ),
    of_heart(
        "complex hospitals", {"center": HEART["center"] * 1j}, "a hospital must be a number", "complex128", "correct"
    ),
    of_heart(
        "features as text", {"x": HEART["x"].astype(str)}, "must be uint8 or floating point", "<U32", "convert them"
    ),
    of_heart("complex features", {"x": HEART["x"] * 1j}, "must be uint8 or floating point", "complex", "convert them"),
    of_heart("infinite features", {"x": HEART["x"] * np.inf}, "finite or NaN", "got infinity", "replace the file"),
    of_heart("twelve features", {"x": HEART["x"][:, 1:]}, "shape (13,)", "got (12,)", "reshape or replace the file"),
    of_heart(
        "no patients", {key: array[:0] for key, array in HEART.items()}, "every sample needs one label", "0 samples"
    ),
    of_heart("x one number", {"x": np.array(1.0)}, "one diagnosis and one hospital", "()", "correct the file"),
    of_table("empty table", "", "14 comma-separated values", "shape (0,)", FETCH),
    of_table("short line", "1,2,3\n", "14 comma-separated values", "shape (1, 3)", FETCH),
    of_table("ragged lines", UCI + "1,2\n", "14 comma-separated values", "ValueError", FETCH),
    of_table("words", UCI.replace("1.0", "one"), "14 comma-separated values", "'one'", FETCH),
    of_table("bytes", b"\xff\xfe\x00", "14 comma-separated values", "UnicodeDecodeError", FETCH),
    of_leaf(
        "fractional labels", leaf(y=[0.5]), "must be a LEAF file", "whole numbers y, found float64 and float64", FETCH
    ),
    of_leaf("labels as text", leaf(y=["3"]), "must be a LEAF file", "whole numbers y", FETCH),
    of_leaf("a user twice", leaf(users=["a", "a"]), "must be a LEAF file", "names, each once", FETCH),
    of_leaf("a user without data", leaf(users=["b"]), "must be a LEAF file", "KeyError: 'b'", FETCH),
    of_leaf("no users", "{}", "must be a LEAF file", "KeyError: 'users'", FETCH),
    of_leaf("nobody has a sample", leaf(x=[], y=[]), "holds no sample", "femnist", "run LEAF's preprocess.sh again"),
    of_leaf("ragged images", leaf([[0.1], [0.1, 0.2]], [1, 2]), "must be a LEAF file", "ValueError", FETCH),
    of_leaf(
        "small images", leaf([[0.1] * 10]), "samples must have shape (28, 28, 1)", "got (10,)", "reshape or replace"
    ),
    of_leaf("label 62", leaf(y=[62]), "labels must lie in 0..61", "has label 62", "correct or replace the file"),
    of_leaf("pixel 7", leaf([[7.0] * 784]), "must lie in [0, 1]", "got 7 to 7", "divide by 255"),
    of_leaf(
        "pixel NaN", leaf([[float("nan")] * 784]), "pixels must be numbers", "sample 0 holds NaN", "replace the file"
    ),
    of_leaf("deep nesting", "[" * 100_000, "must be a LEAF file", "RecursionError", FETCH),
    of_leaf("bytes", bytes(range(255, 0, -1)), "must be a LEAF file", "UnicodeDecodeError", FETCH),
    of_leaf("empty", "", "must be a LEAF file", "JSONDecodeError", FETCH),
    of_mnist("labels too few", {"y_train": np.arange(3)}, "every sample needs one label", "4 samples", "replace it"),
    of_mnist("labels 10", {"y_train": np.full(4, 10)}, "labels must lie in 0..9", "has label 10", "correct or replace"),
    of_mnist("labels as floats", {"y_train": np.ones(4)}, "must be integers", "float64", "convert them"),
    of_mnist("labels one number", {"y_train": np.array(3)}, "every sample needs one label", "()", "replace it"),
    of_mnist("images one number", {"x_train": np.array(3)}, "samples must have shape (28, 28, 1)", "got ()", "replace"),
    of_mnist("objects", {"x_train": np.array([None] * 4, object)}, "must be an npz file", OBJECTS, FETCH),
    of_mnist(
        "complex", {"x_train": np.zeros((4, 28, 28), complex)}, "uint8 or floating point", "complex128", "convert"
    ),
    of_mnist(
        "small images", {"x_train": np.zeros((4, 8, 8), np.uint8)}, "must have shape (28, 28, 1)", "got (8, 8, 1)"
    ),
    of_copy(
        "writers, as text",
        {
            "mnist.npz": saved(**MNIST),
            "mnist_writers.npz": saved(writer_train=np.array(["a"] * 4), writer_test=np.array(["a"] * 2)),
        },
        "labels and groups must be integers",
        "<U1",
        "convert them",
        data="mnist-writers",
    ),
    of_copy(
        "writers, too few",
        {"mnist.npz": saved(**MNIST), "mnist_writers.npz": saved(writer_train=np.arange(3), writer_test=np.arange(2))},
        "one label (and one group)",
        "(3,)",
        "replace it",
        data="mnist-writers",
    ),
    of_copy(
        "an IDX file of nothing",
        {"mnist/train-images-idx3-ubyte.gz": b"\x1f\x8b"},
        "must be an IDX file",
        FETCH,
        data="mnist",
    ),
    of_copy(
        "an IDX file missing",
        {"mnist/train-images-idx3-ubyte": bytes([0, 0, 8, 1, 0, 0, 0, 1, 7])},
        "must hold",
        "train-labels-idx1-ubyte.gz",
        "add that file",
        data="mnist",
        code=MISSING,
    ),
    of_copy("CIFAR, a call", CIFAR, "must be CIFAR-10 for Python", "refused to load os.system", FETCH, data="cifar10"),
    of_copy(
        "CIFAR, no archive",
        {"cifar-10-python.tar.gz": b"\x1f\x8b\x08 no"},
        "must be CIFAR-10 for Python",
        FETCH,
        data="cifar10",
    ),
    of_copy(
        "absent", {}, "femnist was not found", "has none of femnist", "preprocess.sh", data="femnist", code=MISSING
    ),
    of_copy("unknown", {}, "must be one of digits", "got 'minst'", "did you mean 'mnist'", data="minst"),
    Case(
        "data: no directory",
        ("data directory must exist", "nowhere does not", "create it"),
        ("data", "verify", "heart", "--data-dir", "nowhere"),
        code=MISSING,
    ),
    Case(
        "data: a file as directory",
        ("data directory must exist", "f does not", "correct data_dir"),
        ("data", "verify", "heart", "--data-dir", "f"),
        files={"f": "x"},
        code=MISSING,
    ),
]
