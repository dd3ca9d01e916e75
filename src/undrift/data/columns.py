"""One column of a table: numbers, words, what is missing, and what kind of column that makes."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from undrift.data.checks import Floats
from undrift.gate import MISSING, NUMBER

MOST_CATEGORIES = 50  # of a column that is taken as a category and not as free text
TRUTHS: Mapping[str, float] = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}  # in small letters
_DECIMAL_COMMA = re.compile(r"[+-]?([0-9]+,[0-9]*|,[0-9]+)([eE][+-]?[0-9]+)?")
_DATE = re.compile(
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?"
    r"|\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2})([T ]\d{1,2}:\d{2}(:\d{2})?)?"
)

Kind = Literal["number", "truth", "category", "text", "date", "decimal comma", "mixed", "empty", "nested"]


@dataclass
class Column:
    """A number or a word per row; a row with neither is missing.

    `numbers` is NaN where no number stands, `words` has what stands there instead. `given`: the kind, where the file says it.
    """

    name: str
    numbers: Floats
    words: dict[int, str]
    given: Kind | None = None

    @property
    def missing(self) -> np.ndarray:
        """Which rows have no value."""
        found = np.isnan(self.numbers)
        found[list(self.words)] = False
        return found

    def of(self, rows: np.ndarray) -> Column:
        """The same column with some of its rows."""
        new = {int(old): place for place, old in enumerate(rows)}
        return Column(
            self.name,
            self.numbers[rows],
            {new[row]: word for row, word in self.words.items() if row in new},
            self.given,
        )

    def marks(self) -> list[str | None]:
        """Every entry as a word, a whole number without its point; None where it is missing."""
        return [self.words.get(row, None if math.isnan(one) else written(one)) for row, one in enumerate(self.numbers)]


class Look(NamedTuple):
    """What a column holds."""

    name: str
    kind: Kind
    rows: int
    missing: int
    distinct: int
    least: float | None  # of its numbers
    mean: float | None
    greatest: float | None
    frequent: tuple[tuple[str, int], ...]  # words and how often they occur, the most frequent first
    strange: int | None  # of a mixed column: the first row with a word

    @property
    def constant(self) -> bool:
        return self.distinct == 1 and not self.missing


def cell(text: str) -> float | str | None:
    """What a cell of a text file holds: a finite number, a word, or None where the value is missing.

    >>> [cell(text) for text in (" 1.5 ", "-2e3", "NA", "1e999", "3 kg")]
    [1.5, -2000.0, None, '1e999', '3 kg']
    """
    text = text.strip()
    if NUMBER.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else text
    return None if text.lower() in MISSING else text


def numeric(name: str, values: Any) -> Column:
    """A column of numbers; infinities are no numbers that could be computed with, and stay as words."""
    numbers = np.array(values, np.float64)
    strange = np.flatnonzero(np.isinf(numbers))
    words = {int(row): str(numbers[row]) for row in strange}
    numbers[strange] = np.nan
    return Column(name, numbers, words)


def of_cells(name: str, cells: Iterable[float | str | None]) -> Column:
    """A column from what stands in its cells."""
    found = list(cells)
    numbers = np.array([one if isinstance(one, float) else np.nan for one in found], np.float64)
    return Column(name, numbers, {row: one for row, one in enumerate(found) if isinstance(one, str)})


def written(number: float) -> str:
    """A number as a person writes it, and as the same number is read again.

    >>> written(3.0), written(0.1), written(123456789.0)
    ('3', '0.1', '123456789')
    """
    return str(int(number)) if number == int(number) and abs(number) < 1e16 else repr(float(number))


def look(column: Column) -> Look:
    """The kind of a column and figures of its values.

    >>> look(Column("age", np.array([30.0, np.nan, 50.0]), {})).kind
    'number'
    >>> look(Column("drug", np.array([np.nan, np.nan]), {0: "a", 1: "b"})).frequent
    (('a', 1), ('b', 1))
    """
    numbers, words = column.numbers[~np.isnan(column.numbers)], Counter(column.words.values())
    kind = column.given or _kind(numbers, words)
    least = mean = greatest = None
    if numbers.size:
        with np.errstate(over="ignore"):
            least, mean, greatest = float(numbers.min()), float(numbers.mean()), float(numbers.max())
    return Look(
        column.name,
        kind,
        len(column.numbers),
        int(column.missing.sum()),
        len(np.unique(numbers)) + len(words),
        least,
        mean,
        greatest,
        tuple(words.most_common(5)),
        min(column.words, default=None) if kind == "mixed" else None,
    )


def _kind(numbers: Floats, words: Mapping[str, int]) -> Kind:
    if not words:
        return "number" if numbers.size else "empty"
    if all(_DECIMAL_COMMA.fullmatch(word) for word in words):
        return "decimal comma"
    if numbers.size:
        return "mixed"
    if {word.lower() for word in words} in ({"true", "false"}, {"true"}, {"false"}, {"yes", "no"}):
        return "truth"
    if all(_DATE.fullmatch(word) for word in words):
        return "date"
    names_rows = len(words) > 10 and sum(words.values()) == len(words)  # a name or a number of its own in every row
    return "text" if names_rows or len(words) > MOST_CATEGORIES else "category"


def with_decimal_comma(column: Column) -> Column:
    """The same column with words such as "1,5" read as numbers.

    >>> with_decimal_comma(Column("dose", np.array([np.nan, 2.0]), {0: "1,5"})).numbers.tolist()
    [1.5, 2.0]
    """
    numbers, words = column.numbers.copy(), {}
    for row, word in column.words.items():
        found: Any = cell(word.replace(",", ".")) if _DECIMAL_COMMA.fullmatch(word) else word
        if isinstance(found, float):
            numbers[row] = found
        else:
            words[row] = word
    return Column(column.name, numbers, words, column.given)
