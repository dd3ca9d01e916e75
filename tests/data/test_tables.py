"""One's own tables: how files are read, what their columns are taken for, and what becomes of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from undrift.data.columns import look
from undrift.data.errors import DataError
from undrift.data.table import Table, joined, read_table
from undrift.data.table_npz import read_npz_table
from undrift.data.table_numbers import clients_of, features_of, target_of
from undrift.data.table_report import Treatment
from undrift.errors import InputError


@pytest.fixture
def table(tmp_path: Path):
    def table(text: str | bytes, name: str = "t.csv", **words: str) -> Table:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_table(path, **words)  # type: ignore[arg-type]

    return table


def kinds(found: Table) -> dict[str, str]:
    return {name: look(column).kind for name, column in found.columns.items()}


def test_what_columns_are_taken_for(table):
    found = table(
        "number,truth,words,day,mixed,empty,id\n"
        + "".join(
            f"{row},{'yes' if row % 2 else 'no'},{'abc'[row % 3]},{row + 1}.3.2020,{row if row else '<1'},NA,p{row}\n"
            for row in range(12)
        )
    )
    assert kinds(found) == {
        "number": "number", "truth": "truth", "words": "category", "day": "date", "mixed": "mixed", "empty": "empty",
        "id": "text",
    }  # fmt: skip
    assert look(found.columns["mixed"]).strange == 0
    assert found.place(0).endswith("t.csv, line 2")


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ("a,b\n1.5,2\n", {}, []),
        ("\ufeffa,b\r\n1.5,2\r\n", {}, []),
        ("a;b\n1,5;2\n", {}, ["separated by semicolons", "decimal comma"]),
        ("a\tb\n1.5\t2\n", {}, ["separated by tabs"]),
        ('a,b\n"1,5",2\n', {"decimal": "comma"}, []),
        (" a , b \n 1.5 , 2 \n\n", {}, []),
        ("a,b\n1.5,2\n".encode("utf-16"), {"encoding": "utf-16"}, []),
        ("a,b,é\n1.5,2,3\n".encode("cp1252"), {"encoding": "cp1252"}, []),
        (",a,b\n0,1.5,2\n", {}, ["has no name and numbers the rows"]),
    ],
)
def test_every_dialect_gives_the_same_numbers_and_says_what_it_was(table, text, words, said):
    found = table(text, **words)
    assert [found.columns[name].numbers.tolist() for name in "ab"] == [[1.5], [2.0]]
    assert len(found.notes) == len(said)
    for note, part in zip(found.notes, said, strict=True):
        assert part in note


def test_decimal_commas_stay_words_where_commas_separate(table):
    assert kinds(table('a,b\n"1,5",2\n'))["a"] == "decimal comma"


def test_files_are_joined_by_the_names_of_their_columns(table):
    one, two = table("a,b\n1,x\n", "one.csv"), table("b,a\ny,2\n", "two.csv")
    both, owner = joined([one, two])
    assert both.columns["a"].numbers.tolist() == [1, 2]
    assert both.columns["b"].words == {0: "x", 1: "y"}
    assert owner.tolist() == [0, 1]
    assert both.place(1).endswith("two.csv, line 2")


def numbers(found: Table, **words):
    return features_of(found, [look(column) for column in found.columns.values()], Treatment(**words))


def test_features(table):
    found = numbers(
        table("n,t,w,code\n1,yes,b,7\n,no,a,8\n5,no,,7\n"), missing="mean", categories="onehot", onehot=("code",)
    )
    assert found.names == ["n", "t", "w=b", "code=8"]
    np.testing.assert_array_equal(found.x, [[1, 1, 1, 0], [3, 0, 0, 1], [5, 0, 0.5, 0]])
    assert [one.fill for one in found.encoded] == [(3.0,), (), (0.5,), ()]
    assert any("w: columns of 0 and 1 for w=b; 'a' is all 0" in note for note in found.notes)


def test_a_constant_column_is_named(table):
    assert "c is 4 in every row" in numbers(table("a,c\n1,4\n2,4\n")).notes[0]


def target(table, labels, kind="auto", positive=()):
    return target_of(table("y\n" + "".join(f"{label}\n" for label in labels)).columns["y"], kind, positive)


@pytest.mark.parametrize(
    ("labels", "words", "kind", "y", "names"),
    [
        ("0 1 1", {}, "logistic", [-1, 1, 1], None),
        ("-1 1 1", {}, "logistic", [-1, 1, 1], ("-1", "1")),
        ("1 2 2", {}, "logistic", [-1, 1, 1], ("1", "2")),
        ("no yes", {}, "logistic", [-1, 1], ("no", "yes")),
        ("True False", {}, "logistic", [1, -1], ("False", "True")),
        ("ill well", {"positive": ("ill",)}, "logistic", [1, -1], ("well", "ill")),
        ("a b c", {}, "softmax", [0, 1, 2], ("a", "b", "c")),
        ("a b c", {"positive": ("b", "c")}, "logistic", [-1, 1, 1], ("a", "b or c")),
        ("0 1 2 " * 5, {}, "softmax", [0, 1, 2] * 5, ("0", "1", "2")),
        ("1.5 2 9", {}, "least_squares", [1.5, 2, 9], None),
        ("0 1 1", {"kind": "least_squares"}, "least_squares", [0, 1, 1], None),
        ("10 9 10", {"kind": "softmax"}, "softmax", [1, 0, 1], ("9", "10")),
    ],
)
def test_what_is_predicted(table, labels, words, kind, y, names):
    found = target(table, labels.split(), **words)
    assert (found.kind, found.y.tolist(), found.labels) == (kind, y, names)
    guessed = "kind" not in words and "positive" not in words
    assert ("a guess" in found.note) == guessed


def test_clients_are_sorted_by_number_where_they_are_numbers(table):
    names, owner = clients_of(table("c\n10\n9\n10\nx\n").columns["c"])
    assert names == ["9", "10", "x"]
    assert owner.tolist() == [1, 0, 1, 2]


@given(st.text(alphabet='ab,;01."\n\r-e?\t', max_size=60))
def test_any_text_is_a_table_or_refused_by_name(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_text("a,b\n" + text, encoding="utf-8", newline="")
    try:
        found = read_table(path)
    except InputError:  # the only way to say no
        return
    assert all(len(column.numbers) == found.rows for column in found.columns.values())
    assert all(0 <= row < found.rows for column in found.columns.values() for row in column.words)
    json.dumps([look(column)._asdict() for column in found.columns.values()])


# ----- other forms
def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    columns = {
        "n": pa.array([1, None, 3]),
        "f": pa.array([0.5, float("inf"), None]),
        "b": pa.array([True, False, None]),
        "w": pa.array(["x", None, "y"]).dictionary_encode(),
        "s": pa.array(["1.5", "2", "NA"]),
        "d": pa.array([0, 1, 2], pa.date32()),
        "l": pa.array([[1], [2], []]),
    }
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    found = read_table(tmp_path / "t.parquet")
    assert kinds(found) == {
        "n": "number", "f": "mixed", "b": "number", "w": "category", "s": "number", "d": "date", "l": "nested",
    }  # fmt: skip
    assert [int(column.missing.sum()) for column in found.columns.values()] == [1, 1, 1, 1, 1, 0, 0]
    assert found.columns["s"].numbers[:2].tolist() == [1.5, 2]


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(DataError, match=r"pip install 'undrift\[parquet\]'"):
        read_table(tmp_path / "t.parquet")


def test_npz_looked_at_as_a_table(tmp_path):
    np.savez(tmp_path / "a.npz", A=np.arange(12.0).reshape(2, 3, 2), y=np.ones((2, 3)))
    found = read_npz_table(tmp_path / "a.npz")
    assert list(found.columns) == ["client", "A0", "A1", "y"]
    assert found.columns["client"].numbers.tolist() == [0, 0, 0, 1, 1, 1]
    assert found.columns["A1"].numbers.tolist() == [1, 3, 5, 7, 9, 11]
    np.savez(tmp_path / "b.npz", x=np.ones((3, 1)), who=np.array(["u", "v", "u"]), names=np.array(["one"]))
    found = read_npz_table(tmp_path / "b.npz")
    assert list(found.columns) == ["x0", "who"]
    assert "names" in found.notes[0]
