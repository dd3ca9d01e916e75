"""A site's file is read as the study says, and every complaint names the place."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from undrift.data.errors import MissingDataError
from undrift.errors import InputError
from undrift.studies.sites import Sites, read_site_data

LOGISTIC = {"name": "sites", "kind": "logistic", "features": 2, "label": "ill"}
NAMED = {**LOGISTIC, "features": ["pulse", "age"]}
SQUARES = {"name": "sites", "kind": "least_squares", "features": 2, "label": "ill"}
NETWORK = {"name": "sites", "kind": "network", "features": 2, "classes": 3, "label": "ill"}
WORDS = {**NAMED, "labels": ["no", "yes"]}
GOOD = "age,pulse,ill\n40,70.5,0\n\n50,-8e1,1\n"


@pytest.fixture
def read(tmp_path):
    def read(text, words, name="a.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_site_data(path, words)

    return read


def test_csv(read):
    data = read(GOOD, LOGISTIC)
    assert data.x.tolist() == [[40, 70.5], [50, -80]]
    assert data.y.tolist() == [-1, 1]


def test_columns_that_the_study_names_are_found_wherever_they_stand_and_others_are_not_read(read):
    data = read("\ufeffname, ill ,age,pulse\r\nAnn,1,40,70\r\n", NAMED)
    assert data.x.tolist() == [[70, 40]]
    assert data.y.tolist() == [1]


@pytest.mark.parametrize(
    ("words", "labels", "expected"),
    [
        (LOGISTIC, "-1 1 1.0", [-1, 1, 1]),
        (LOGISTIC, "0 0", [-1, -1]),
        (LOGISTIC, "1", [1]),
        (WORDS, "yes no", [1, -1]),
        ({**LOGISTIC, "labels": ["2", "4"]}, "4 2", [1, -1]),
        (SQUARES, "0.25 -1e3", [0.25, -1000]),
        (NETWORK, "2 0 1", [2, 0, 1]),
        ({**NETWORK, "classes": None, "labels": ["x", "y", "z"]}, "z x", [2, 0]),
    ],
)
def test_labels(read, words, labels, expected):
    words = {key: entry for key, entry in words.items() if entry is not None}
    data = read("pulse,age,ill\n" + "".join(f"1,2,{label}\n" for label in labels.split()), words)
    assert data.y.tolist() == expected
    assert len(Sites.of(words).facts(data)) > 0


BAD = {
    r"a\.csv, line 3, column 'age' must be a finite number, got 'old'.*as a num": (LOGISTIC, "age,pulse,ill\n1,2,0\nold,2,0\n"),
    r"line 2, column 'pulse': the value is missing \(got ''\): fill it in": (LOGISTIC, "age,pulse,ill\n1,,0\n"),
    r"line 2, column 'pulse': the value is missing \(got 'NA'\)": (LOGISTIC, "age,pulse,ill\n1,NA,0\n"),
    r"line 2, column 'pulse': the value is missing \(got 'nan'\)": (LOGISTIC, "age,pulse,ill\n1,nan,0\n"),
    r"line 2, column 'age' must be a finite number, got 'inf'": (LOGISTIC, "age,pulse,ill\ninf,2,0\n"),
    r"line 2, column 'age' must be a finite number, got '1e999'": (LOGISTIC, "age,pulse,ill\n1e999,2,0\n"),
    r"line 2, column 'age' must be a finite number, got '1_0'": (LOGISTIC, "age,pulse,ill\n1_0,2,0\n"),
    r"line 2, column 'age' must be a finite number, got '1,5'": (LOGISTIC, 'age,pulse,ill\n"1,5",2,0\n'),
    r"line 5, column 'ill' must be 0 or 1, or −1 or 1, got 2: correct it": (LOGISTIC, "age,pulse,ill\n1,2,0\n\n\n1,2,2\n"),
    r"line 2, column 'ill' is 0 and .* line 3, column 'ill' is −1": (LOGISTIC, "age,pulse,ill\n1,2,0\n1,2,-1\n"),
    r"line 2, column 'ill' must be one of the study's labels 'no', 'yes', got 'maybe'": (WORDS, "age,pulse,ill\n1,2,maybe\n"),
    r"line 2, column 'ill' must be one of the study's labels 'no', 'yes', got ''": (WORDS, "age,pulse,ill\n1,2,\n"),
    r"line 2, column 'ill' must be a whole number from 0 to 2, got 3": (NETWORK, "age,pulse,ill\n1,2,3\n"),
    r"line 2, column 'ill' must be a whole number from 0 to 2, got 0.5": (NETWORK, "age,pulse,ill\n1,2,0.5\n"),
    r"line 2: the header has 3 columns, this line 2": (LOGISTIC, "age,pulse,ill\n1,2\n"),
    r"unknown column of .*a\.csv, which the study's label names, 'ill': did you mean 'ills'": (LOGISTIC, "age,pulse,ills\n"),
    r"which the study's features name, 'pulse'": (NAMED, "age,puls,ill\n1,2,0\n"),
    r"has 3 columns beside 'ill', the study 2 features": (LOGISTIC, "age,pulse,size,ill\n1,2,3,0\n"),
    r"the column 'age' is there twice": (LOGISTIC, "age,age,ill\n1,2,0\n"),
    r"must begin with a line of column names, got '1,2,0'": (LOGISTIC, "1,2,0\n3,4,1\n"),
    r"must begin with a line of column names, and it is empty": (LOGISTIC, ""),
    r"separated by commas": (LOGISTIC, "age;pulse;ill\n1;2;0\n"),
    r"at least one sample": (LOGISTIC, "age,pulse,ill\n"),
    r"not a CSV file in UTF-8": (LOGISTIC, b"age,pulse,ill\n\xff\xfe,2,0\n"),
    r"is not a CSV file": (LOGISTIC, 'age,pulse,ill\n"1"x,2,0\n'),
}  # fmt: skip


@pytest.mark.parametrize("complaint", list(BAD))
def test_what_is_wrong_in_a_csv_file_is_said_with_its_place(read, complaint):
    words, text = BAD[complaint]
    with pytest.raises(InputError, match=complaint):
        read(text, words)


@given(st.text(alphabet='age,pulsi\n"\r01.-e;\0', max_size=60))
def test_any_text_is_data_or_refused_by_name(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_text("age,pulse,ill\n" + text, encoding="utf-8", newline="")
    try:
        data = read_site_data(path, LOGISTIC)
    except InputError:  # the only way to say no
        return
    assert data.x.shape == (len(data.y), 2)
    assert np.isfinite(data.x).all()
    assert set(data.y) <= {-1.0, 1.0}


# ----- npz
def npz(tmp_path, **arrays):
    np.savez(tmp_path / "a.npz", **arrays)
    return tmp_path / "a.npz"


@pytest.mark.parametrize(("words", "y", "expected"), [
    (LOGISTIC, np.array([0, 1]), [-1, 1]),
    (WORDS, np.array(["no", "yes"]), [-1, 1]),
    ({**LOGISTIC, "labels": ["0", "1"]}, np.array([1.0, 0.0]), [1, -1]),
    (NETWORK, np.array([2.0, 0.0]), [2, 0]),
])  # fmt: skip
def test_npz(tmp_path, words, y, expected):
    data = read_site_data(npz(tmp_path, x=np.ones((2, 2), np.float32), y=y), words)
    assert data.x.dtype == np.float64
    assert data.y.tolist() == expected


@pytest.mark.parametrize(("complaint", "arrays"), [
    (r"a\.npz must hold arrays x and y; it holds A", {"A": np.ones(2)}),
    (r"x must be \(samples, features\) and y \(samples,\), got \(2,\)", {"x": np.ones(2), "y": np.ones(2)}),
    (r"got \(2, 2\) and \(3,\)", {"x": np.ones((2, 2)), "y": np.ones(3)}),
    (r"the study has 2 features, x has 3", {"x": np.ones((2, 3)), "y": np.ones(2)}),
    (r"x must be finite, row 1, column 0 is nan", {"x": np.array([[1, 1], [np.nan, 1]]), "y": np.ones(2)}),
    (r"y in row 1 must be 0 or 1, or −1 or 1, got 3", {"x": np.ones((2, 2)), "y": np.array([1, 3])}),
    (r"at least one sample", {"x": np.ones((0, 2)), "y": np.ones(0)}),
    (r"y must be real numbers", {"x": np.ones((1, 2)), "y": np.array(["ill"])}),
    (r"x must be real numbers", {"x": np.ones((1, 2), complex), "y": np.ones(1)}),
    (r"must be an \.npz file of numbers.*objects", {"x": np.array([[None, 1]]), "y": np.ones(1)}),
])  # fmt: skip
def test_what_is_wrong_in_an_npz_file_is_named(tmp_path, complaint, arrays):
    with pytest.raises(InputError, match=complaint):
        read_site_data(npz(tmp_path, **arrays), LOGISTIC)


# ----- functions
@pytest.fixture
def module(monkeypatch):
    found = types.ModuleType("our_register")
    monkeypatch.setitem(sys.modules, "our_register", found)
    return found


def test_a_function_installed_at_the_site(module):
    module.patients = lambda: ([[1, 2], [3, 4]], [True, False])
    data = read_site_data("our_register:patients", LOGISTIC)
    assert data.x.tolist() == [[1, 2], [3, 4]]
    assert data.y.tolist() == [1, -1]


def test_what_is_wrong_with_a_function_is_named(module):
    module.fails, module.three = lambda: 1 / 0, lambda: (1, 2, 3)
    for word, complaint in {
        "our_register:fails": r"our_register:fails failed: ZeroDivisionError",
        "our_register:three": r"must return a pair \(x, y\)",
        "our_register:nobody": r"is not installed at this site",
        "no_such_register:patients": r"is not installed at this site",
        "patients.xlsx": r"\.csv or \.npz, or module:function, got 'patients\.xlsx'",
    }.items():
        with pytest.raises(InputError, match=complaint):
            read_site_data(word, LOGISTIC)


def test_a_file_that_is_not_there_is_named(tmp_path):
    for name in ("a.csv", "a.npz"):
        with pytest.raises(MissingDataError, match=name):
            read_site_data(tmp_path / name, LOGISTIC)
