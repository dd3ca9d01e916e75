"""From the columns of a user's table to the features of a model: words that became 0 and 1, values that were missing.

A feature of a model need not be a column: `drug` with the words a, b, c became `drug=b` and `drug=c`. What is made here takes
the columns as they stand in the table, with classes of scikit-learn and NumPy alone, so that who loads it needs nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..gate import MISSING, NUMBER
from .columns import FromColumn

if TYPE_CHECKING:
    from sklearn.compose import ColumnTransformer

TRUTHS = {"false": 0.0, "no": 0.0, "true": 1.0, "yes": 1.0}  # as the reader of tables has them


def as_they_stand(columns: Sequence[FromColumn] | None) -> bool:
    """Whether every column is a feature itself: nothing is to be done before."""
    return not any(one.categories is not None or one.fill or one.truth for one in columns or ())


def encoder_of(columns: Sequence[FromColumn]) -> ColumnTransformer:
    """The fitted first step of a pipeline: a table's columns become the features of the model.

    A DataFrame's columns are found by their names, whatever their order and whatever stands beside them; an array must have
    them in this order. A word that was not there in training is refused.

    >>> drug = FromColumn("drug", ["a", "b", "c"], [0.5, 0.25])
    >>> encoder_of([FromColumn("age"), drug]).transform(np.array([[30, "c"], [40, "a"], [50, None]], dtype=object))
    array([[30.  ,  0.  ,  1.  ],
           [40.  ,  0.  ,  0.  ],
           [50.  ,  0.5 ,  0.25]])
    """
    from sklearn.compose import ColumnTransformer  # takes a second: only those wait who need it

    steps = [(f"column_{place}", _step(one), [place]) for place, one in enumerate(columns)]
    example = np.array([[_example(one) for one in columns]], dtype=object)
    encoder = ColumnTransformer(steps, sparse_threshold=0).fit(example)
    encoder.feature_names_in_ = np.array([one.column for one in columns], dtype=object)
    return encoder


def _example(one: FromColumn) -> Any:
    """What may stand there; of a column that is filled the very number, as the mean of one row is what fills."""
    return next(iter(_book(one))) if _has_words(one) else one.fill[0] if one.fill else 0.0


def _has_words(one: FromColumn) -> bool:
    return one.categories is not None or one.truth


def _step(one: FromColumn) -> Any:
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

    if not _has_words(one):
        numbers = FunctionTransformer(np.asarray, kw_args={"dtype": np.float64})
        return make_pipeline(numbers, SimpleImputer()) if one.fill else numbers
    book = _book(one)
    return make_pipeline(
        FunctionTransformer(np.asarray, kw_args={"dtype": str}),  # the encoder wants words alone
        OneHotEncoder(categories=[np.array(list(book), dtype=object)], sparse_output=False),
        FunctionTransformer(np.dot, kw_args={"b": np.array(list(book.values()), np.float64).reshape(len(book), -1)}),
    )


def _book(one: FromColumn) -> dict[str, Sequence[float]]:
    """What may stand in a column of words, written out, and the features that it becomes."""
    book: dict[str, Sequence[float]] = {}
    for word, value in TRUTHS.items() if one.truth else ():
        book |= {variant: [value] for variant in _variants(word)}
    for number, word in enumerate(one.categories or ()):
        row = [float(number == place) for place in range(1, len(one.categories or ()))]
        book |= {word: row} | ({str(float(word)): row} if NUMBER.fullmatch(word) else {})  # 3 with gaps is read as 3.0
    missing = [variant for word in sorted(MISSING) for variant in _variants(word)]
    return book | {word: one.fill for word in (*missing, "<NA>", "NaN", "NaT") if one.fill and word not in book}


def _variants(word: str) -> tuple[str, str, str]:
    return word, word.upper(), word.capitalize()


def width(one: FromColumn) -> int:
    """How many features a column became."""
    return 1 if one.categories is None else len(one.categories) - 1


def in_words(columns: Sequence[FromColumn] | None) -> Iterator[str]:
    """What is to be done with columns of a table before they are features, a clause for each that is not one as it stands.

    >>> list(in_words([FromColumn("age", fill=[54.0]), FromColumn("drug", ["a", "b"])]))
    ['age: 54 where it is missing', "drug: 0 or 1 for each of 'b'; 'a' is all 0"]
    """
    for one in columns or ():
        said = []
        if one.categories is not None:
            rest = ", ".join(map(repr, one.categories[1:])) or "no word"
            said.append(f"0 or 1 for each of {rest}; {one.categories[0]!r} is all 0" if one.categories else "nothing")
        elif one.truth:
            said.append("1 for true or yes, 0 for false or no")
        if one.fill:
            said.append(f"{', '.join(f'{value:.6g}' for value in one.fill)} where it is missing")
        if said:
            yield f"{one.column}: {'; '.join(said)}"
