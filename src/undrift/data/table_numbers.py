"""From a table to arrays: features as numbers, the label as a target, and what was decided on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from undrift.data.checks import Floats, Ints
from undrift.data.columns import TRUTHS, Column, Look, look, written
from undrift.data.errors import DataError
from undrift.data.table import Table
from undrift.data.table_report import Treatment
from undrift.errors import unknown
from undrift.gate import check_sound, shown

LinearKind = Literal["logistic", "least_squares"]
TargetKind = Literal["logistic", "least_squares", "softmax"]
MOST_CLASSES = 20  # whole numbers 0, 1, …: up to so many different ones are taken as classes unasked


class Encoded(NamedTuple):
    """A column of the file and what became of it: itself, or a column of 0 and 1 for each category but the first."""

    column: str
    categories: tuple[str, ...] | None = None  # in order; None: numbers
    fill: tuple[float, ...] = ()  # with missing=mean: what stands for a missing value, in each of its columns
    truth: bool = False  # words for true became 1, those for false 0

    @property
    def names(self) -> list[str]:
        """Of the features that it became."""
        return [self.column] if self.categories is None else [f"{self.column}={one}" for one in self.categories[1:]]


class Features(NamedTuple):
    """Samples as numbers (n, d), where each feature comes from, and what was done on the way."""

    x: Floats
    encoded: tuple[Encoded, ...]
    notes: list[str]

    @property
    def names(self) -> list[str]:
        return [name for one in self.encoded for name in one.names]


class Target(NamedTuple):
    """What is predicted, as a problem counts it: −1 and +1, classes 0, 1, …, or numbers."""

    kind: TargetKind
    y: np.ndarray
    labels: tuple[str, ...] | None  # what the classes are called in the file; None: 0 and 1, or a number is predicted
    note: str


def features_of(table: Table, looks: Sequence[Look], treatment: Treatment) -> Features:
    """The columns that were looked at, as numbers. All complaints have been made before."""
    blocks, encoded, notes = [], [], []
    for seen in looks:
        block, one = _block(table.columns[seen.name], seen, treatment)
        gaps = np.isnan(block).any(axis=1)
        if gaps.any():
            fill = np.nanmean(block, axis=0)
            block = np.where(np.isnan(block), fill, block)
            one = one._replace(fill=tuple(fill.tolist()))
            notes.append(f"{seen.name}: {int(gaps.sum())} missing values became the mean of all others")
        if one.categories is not None:
            rest = ", ".join(one.names) or "none"
            notes.append(f"{seen.name}: columns of 0 and 1 for {rest}; {shown(one.categories[0])} is all 0")
        elif seen.constant:
            notes.append(
                f"{seen.name} is {_value(seen)} in every row and says nothing: without={seen.name} leaves it out"
            )
        blocks.append(block)
        encoded.append(one)
    x = np.concatenate(blocks, axis=1) if blocks else np.empty((table.rows, 0))
    return Features(x, tuple(encoded), notes)


def _block(column: Column, seen: Look, treatment: Treatment) -> tuple[Floats, Encoded]:
    if treatment.encodes(seen):
        marks = column.marks()
        categories = tuple(sorted({mark for mark in marks if mark is not None}))
        for one in categories:
            check_sound(f"a value of the column {seen.name!r}", one)
        place = {one: number for number, one in enumerate(categories)}
        codes = np.array([np.nan if mark is None else place[mark] for mark in marks])
        block = (codes[:, None] == np.arange(1, len(categories))).astype(np.float64)
        block[np.isnan(codes)] = np.nan
        return block, Encoded(seen.name, categories)
    numbers = column.numbers.copy()
    if seen.kind == "truth":
        for row, word in column.words.items():
            numbers[row] = TRUTHS[word.lower()]
    return numbers[:, None], Encoded(seen.name, truth=seen.kind == "truth")


def _value(seen: Look) -> str:
    return written(seen.least) if seen.least is not None else shown(seen.frequent[0][0])


def clients_of(column: Column) -> tuple[list[str], Ints]:
    """The names of clients, sorted (numbers by size), and the number of each row's."""
    marks = ["(missing)" if mark is None else mark for mark in column.marks()]
    names = sorted(set(marks), key=_by_number)
    for name in names:
        check_sound(f"a client's name in the column {column.name!r}", name)
    place = {name: number for number, name in enumerate(names)}
    return names, np.array([place[mark] for mark in marks], np.int64)


def _by_number(word: str) -> tuple[float, str]:
    try:
        return float(word), word
    except ValueError:
        return np.inf, word


# ----- what is predicted
def target_of(column: Column, kind: TargetKind | Literal["auto"], positive: Sequence[str]) -> Target:
    """The target in the column of the label; where its kind is left open it is guessed, and said."""
    seen = look(column)
    if seen.kind in ("text", "date", "mixed", "decimal comma"):
        raise DataError(
            f"the label {column.name!r} must hold numbers or up to a few words, but it holds {seen.kind}: "
            f"{shown([word for word, _ in seen.frequent[:3]])}. Choose another column with label=…, or mend it."
        )
    if seen.distinct == 1:
        raise DataError(
            f"the label {column.name!r} is {_value(seen)} in every row, and nothing can be learnt from it: choose another "
            "column with label=…, or add rows with other labels."
        )
    wanted = kind if kind != "auto" else _guess(seen, column, positive)
    if wanted == "least_squares":
        return _number_target(column, seen, positive, kind)
    return _class_target(column, seen, wanted, positive, kind)


def _guess(seen: Look, column: Column, positive: Sequence[str]) -> TargetKind:
    if positive or seen.distinct == 2:
        return "logistic"
    if seen.kind != "number":
        return "softmax"
    values = np.unique(column.numbers)
    counts_up = np.array_equal(values, np.arange(len(values)) + values[0]) and values[0] in (0, 1)
    return "softmax" if counts_up and len(values) <= MOST_CLASSES and seen.rows >= 5 * len(values) else "least_squares"


def _number_target(column: Column, seen: Look, positive: Sequence[str], asked: str) -> Target:
    if positive:
        raise DataError(
            "positive names classes, and least squares predicts a number: leave it out, or say kind=logistic."
        )
    if seen.kind != "number":
        raise DataError(
            f"kind=least_squares predicts a number, but the label {column.name!r} holds the words "
            f"{shown([word for word, _ in seen.frequent[:3]])}: say kind=logistic or kind=softmax."
        )
    why = "" if asked != "auto" else _said("a number is predicted by least squares", "kind=logistic or kind=softmax")
    note = (
        f"{column.name}: {why or 'a number'}, from {written(column.numbers.min())} to {written(column.numbers.max())}"
    )
    return Target("least_squares", column.numbers, None, note)


def _said(choice: str, other: str) -> str:
    return f"{choice} (a guess; say {other} for another model)"


def _class_target(column: Column, seen: Look, kind: TargetKind, positive: Sequence[str], asked: str) -> Target:
    marks = [str(mark) for mark in column.marks()]
    classes = sorted(set(marks), key=_by_number)
    for one in positive:
        if one not in classes:
            raise unknown(f"value of the label {column.name!r}, named by positive,", one, classes)
    if kind == "softmax":
        return _softmax(column, marks, classes, positive, asked)
    if not positive and len(classes) > 2:
        raise DataError(
            f"logistic regression tells two classes apart, and the label {column.name!r} has {len(classes)} "
            f"({', '.join(classes[:8])}{', …' if len(classes) > 8 else ''}): say which are meant with positive=…, against "
            "all others, or take kind=softmax (kind=least_squares predicts a number)."
        )
    if len(set(positive)) == len(classes):
        raise DataError(
            f"positive names all {len(classes)} classes of {column.name!r}: leave at least one for the rest."
        )
    ones = list(positive) or classes[1:]
    zeros = [one for one in classes if one not in ones]
    y = np.where(np.isin(marks, ones), 1.0, -1.0)
    labels = (_or(zeros), _or(ones))
    share = float((y > 0).mean())
    guess = "" if asked != "auto" or positive else "; logistic regression is a guess: say kind=… for another model"
    turned = (
        "" if positive or labels == ("0", "1") or labels == ("-1", "1") else f"; positive={zeros[0]} turns it round"
    )
    note = f"{column.name}: {labels[1]} is counted as 1, {labels[0]} as 0 ({share:.0%} are 1){turned}{guess}"
    return Target("logistic", y, None if labels == ("0", "1") else labels, note)


def _or(classes: Sequence[str]) -> str:
    return " or ".join(classes) if len(classes) <= 4 else f"{classes[0]} … {classes[-1]}"


def _softmax(
    column: Column, marks: Sequence[str], classes: Sequence[str], positive: Sequence[str], asked: str
) -> Target:
    if positive:
        raise DataError("positive tells two classes apart, and softmax tells all: leave it out, or say kind=logistic.")
    if len(classes) > 1000:
        raise DataError(f"the label {column.name!r} has {len(classes)} classes, at most 1000 are taken: is it one?")
    for one in classes:
        check_sound(f"a value of the label {column.name!r}", one)
    place = {one: number for number, one in enumerate(classes)}
    choice = f"{len(classes)} classes, {', '.join(classes[:8])}{', …' if len(classes) > 8 else ''}"
    said = _said(choice, "kind=least_squares, or positive=…,") if asked == "auto" else choice
    return Target(
        "softmax", np.array([place[mark] for mark in marks], np.int64), tuple(classes), f"{column.name}: {said}"
    )
