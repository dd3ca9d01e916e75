"""One's own tables: CSV and Parquet files that are refused with the rule, the value and the remedy."""

from __future__ import annotations

from typing import Any

from hostile_case import Case
from hostile_files import MISSING

RUN = ("run", "--method", "fedlin:eta=0.01", "--rounds", "2", "--out", "r", "--problem")
GOOD = "hospital,age,pulse,ill\na,40,70,0\na,50,80,1\nb,60,75,1\nb,45,66,0\n"
OPTIONS = ",label=ill,client=hospital"


def of_table(name: str, content: Any, *says: str, options: str = OPTIONS, file: str = "t.csv", code: int = 2) -> Case:
    return Case(f"csv: {name}", says, (*RUN, f"csv:{file}{options}"), files={file: content}, code=code)


def of_options(name: str, options: str, *says: str) -> Case:
    return of_table(name, GOOD, *says, options=options)


def of_files(name: str, files: dict[str, Any], word: str, *says: str, code: int = 2) -> Case:
    return Case(f"csv: {name}", says, (*RUN, word), files=files, code=code)


def with_column(name: str, *cells: str) -> str:
    lines = GOOD.splitlines()
    return "\n".join(f"{line},{cell}" for line, cell in zip(lines, (name, *cells), strict=True)) + "\n"


NAMES = "must begin with a line of column names"
CASES = [
    # ----- the file
    of_table("empty", "", NAMES, "is empty", "write them there"),
    of_table("only a header", "hospital,age,pulse,ill\n", "at least one row", "holds none", "add some"),
    of_table("no header", "1,40,70,0\n2,50,80,1\n", NAMES, "got '1,40,70,0'"),
    of_table("a column twice", "a,age,age,ill\n1,2,3,0\n", "a name of its own", "'age'", "rename or remove"),
    of_table("a short line", GOOD + "b,1\n", "must have 4 cells", "line 6 has 2", "mend them"),
    of_table("two ragged lines", GOOD + "b,1\nb,1,2,3,4\n", "but 2 do not", "line 6 has 2, line 7 has 5"),
    of_table("an open quotation mark", GOOD + 'b,"1,2,0\n', "is not a CSV file", "mend its quotation marks"),
    of_table("text after a quotation mark", GOOD + 'b,"1"x,2,0\n', "is not a CSV file", "mend its quotation marks"),
    of_table("Latin-1", GOOD.encode() + "Zürich,1,2,0\n".encode("latin-1"), "not text in utf-8", "encoding=cp1252"),
    of_table("UTF-16", GOOD.encode("utf-16"), "is text in UTF-16", "encoding=utf-16"),
    of_table("Excel", b"PK\x03\x04" + bytes(100), "a zip archive or an Excel file", "save or unpack it as CSV"),
    of_table("gzipped", b"\x1f\x8b" + bytes(100), "is gzipped and no text", "save or unpack it as CSV"),
    of_table("Parquet by another name", b"PAR1" + bytes(100), "is a Parquet file", ".parquet"),
    of_table("no Parquet at all", b"not a parquet file", "must be a Parquet file", "save it again", file="t.parquet"),
    of_table("an escape sequence as a name", GOOD.replace("age", "a\x1bge"), "holds the character U+001B", "leave it out"),
    of_table("an escape sequence as a client", GOOD.replace("a,50", "\x1b,50"), "the character U+001B", "a client's name"),
    of_files("missing file", {}, "csv:nowhere.csv,label=ill", "nowhere.csv does not exist", "check the path", code=MISSING),
    of_files("an empty folder", {"d/readme": "x"}, "csv:d,label=ill", "must hold one table per client", "holds none"),
    of_files("a pattern for nothing", {}, "csv:d/*.csv,label=ill", "no file matches", "correct the pattern"),
    of_files("npz", {"a.npz": b""}, "csv:a.npz", "is an .npz file and no table", "say npz:"),
    of_files("CSV as npz", {"a.csv": GOOD}, "npz:a.csv", "is a table and no .npz file", "say csv:"),
    of_files("two of a name", {"x/a.csv": GOOD, "y/a.csv": GOOD}, "csv:x/a.csv,y/a.csv,label=ill",
             "two files are named a", "rename one"),
    of_files("other columns", {"a.csv": "x,ill\n1,0\n", "b.csv": "z,ill\n1,0\n"}, "csv:a.csv,b.csv,label=ill",
             "the same columns", "it lacks x and it has z more", "features="),
    of_files("no label anywhere", {"a.csv": GOOD}, "csv:a.csv", "which column", "Say label=…", "hospital, age", "describe"),
    of_files("one client", {"a.csv": GOOD}, "csv:a.csv,label=ill,without=hospital", "one file is one client", "client=…",
             "clients=5"),
    # ----- the columns
    of_table("missing", with_column("x", "1", "NA", "?", "2"), "1 of 5 columns", "2 of 4 values missing (50 %)",
             "missing=mean or missing=drop, or without=x", "all together: missing=mean"),
    of_table("words", with_column("x", "u", "v", "u", "v"), "words: 'u', 'v'", "categories=onehot, or without=x"),
    of_table("dates", with_column("x", *["2020-01-02"] * 4), "dates: '2020-01-02'", "without=x"),
    of_table("numbers and words", with_column("x", "1", "2", "<5", "4"), "words among them: '<5'", "line 4", "onehot=x"),
    of_table("infinite", with_column("x", "1", "inf", "3", "4"), "words among them: 'inf'", "mend them, or onehot=x"),
    of_table("out of range", with_column("x", "1", "1e999", "3", "4"), "words among them: '1e999'", "without=x"),
    of_table("nothing in it", with_column("x", "", "", "", ""), "no value at all", "without=x"),
    of_table("decimal commas", with_column("x", '"1,5"', '"2,5"', "3", "4"), "decimal comma", "decimal=comma"),
    of_table("several at once", with_column("x,y", "u,1", "v,", "u,3", "v,4"), "2 of 6 columns", "words: 'u', 'v'",
             "1 of 4 values missing (25 %)", "all together: categories=onehot,missing=mean"),
    of_table("a missing label", GOOD + "b,45,66,\n", "label: 1 of 5 values missing (20 %)", "never filled in", "missing=drop"),
    of_table("a missing client", GOOD + ",45,66,1\n", "client: 1 of 5 values missing", "missing=drop"),
    of_table("nothing left", GOOD.replace("40", "").replace("50", "").replace("60", "").replace("45", ""),
             "no value at all", "without=age", options=OPTIONS + ",missing=drop"),
    of_table("every row incomplete", "hospital,age,pulse,ill\na,1,,0\nb,,1,1\n", "every row", "missing=mean",
             options=OPTIONS + ",missing=drop"),
    of_table("constant label", GOOD.replace(",0\n", ",1\n"), "is 1 in every row", "label=…"),
    of_table("a label of dates", GOOD.replace(",0\n", ",2020-01-01\n").replace(",1\n", ",2020-01-02\n"), "holds date",
             "label=…"),
    of_table("three classes", GOOD + "b,1,2,2\n", "tells two classes apart", "has 3 (0, 1, 2)", "positive=…", "kind=softmax",
             options=OPTIONS + ",kind=logistic"),
    of_table("a number in words", GOOD.replace(",0\n", ",no\n"), "holds mixed", "label=…"),
    # ----- the words
    of_options("unknown label", ",label=il,client=hospital", "unknown column of", "'il'", "did you mean 'ill'"),
    of_options("unknown client", ",label=ill,client=hospitel", "'hospitel'", "did you mean 'hospital'"),
    of_options("unknown feature", OPTIONS + ",features=age,puls", "'puls'", "did you mean 'pulse'"),
    of_options("unknown column left out", OPTIONS + ",without=agee", "'agee'", "did you mean 'age'"),
    of_options("label as client", ",label=ill,client=ill", "cannot be the label and the client", "name two columns"),
    of_options("label as feature", OPTIONS + ",features=age,ill", "'ill' is the label", "leave it out"),
    of_options("a feature twice", OPTIONS + ",features=age,age", "features name 'age' twice", "name it once"),
    of_options("no feature left", OPTIONS + ",without=age,pulse", "no column beside 'ill'", "leave out fewer"),
    of_options("unknown positive", OPTIONS + ",positive=2", "named by positive, '2'", "valid: 0, 1"),
    of_options("all positive", OPTIONS + ",positive=0,1", "positive names all 2 classes", "leave at least one"),
    of_options("l2 of least squares", OPTIONS + ",kind=least_squares,l2=1", "l2 belongs to kind=logistic", "leave it out"),
    of_options("hidden layers of a line", OPTIONS + ",hidden=4", "hidden and batch belong to kind=softmax", "leave them out"),
    of_options("dealt out twice", OPTIONS + ",clients=2", "here are 2 clients already (a, b)", "leave them out"),
    of_options("unknown kind", OPTIONS + ",kind=logistc", "kind must be one of", "did you mean 'logistic'"),
    of_options("unknown treatment", OPTIONS + ",missing=zero", "missing must be one of", "'zero'"),
    of_options("unknown word", OPTIONS + ",lable=ill", "unknown key", "did you mean 'label'"),
    Case("csv: a path that is none", ("path must be a file, a folder", "got 3", "patients.csv"), ("run", "s.toml"),
         files={"s.toml": '[problem]\nname = "csv"\npath = 3\n[[method]]\nname = "fedlin"\n'}),
    # ----- looking at it
    Case("describe: nothing", ("which files?", "undrift data describe patients.csv"), ("data", "describe")),
    Case("describe: missing file", ("nowhere.csv does not exist", "check the path"),
         ("data", "describe", "nowhere.csv"), code=MISSING),
    Case("describe: unknown label", ("unknown column", "'il'", "did you mean 'ill'"),
         ("data", "describe", "t.csv", "--label", "il"), files={"t.csv": GOOD}),
    Case("describe: an npz file without samples", ("must hold samples (n, d)", "it holds nothing"),
         ("data", "describe", "t.npz"),
         files={"t.npz": b"PK\x05\x06" + bytes(18)}),
    # ----- data sets with a name
    *(
        Case(f"data: {word}", says, (*RUN, word))
        for word, says in (
            ("logistic:data=digits", ("tells two classes apart", "digits has 10", "positive=", "model=softmax_regression")),
            ("logistic:data=diabetes", ("has a number to predict", "least_squares:data=diabetes")),
            ("logistic:data=hart", ("did you mean 'heart'", "got 'hart'")),
            ("logistic:data=heart,clients=9", ("comes from the groups of the data: 4, not 9", "leave clients out")),
            ("logistic:data=heart,positive=ill", ("unknown class of heart 'ill'", "valid: disease, healthy")),
            ("logistic:data=shakespeare", ("is text", "network:data=shakespeare")),
            ("least_squares:data=diabetes,dim=3", ("dim belongs to data that are made up", "leave one of them out")),
            ("least_squares:partition=iid", ("belong to data sets with a name", "add data=")),
            ("least_squares:data=digits", ("least squares tells two classes apart", "positive=")),
        )
    ),
]  # fmt: skip
