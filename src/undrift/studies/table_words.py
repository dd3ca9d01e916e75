"""The kinds of words in a table [problem] with name = "csv"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from .site_words import Word

Paths = Annotated[
    str | Annotated[list[Word], Meta(min_length=1)],
    Meta(
        extra={"rule": "a file, a folder, a pattern such as data/*.csv, or a list of files"},
        examples=["patients.csv", ["a.csv", "b.csv"]],
    ),
]
Names = Annotated[
    str | list[Word],
    Meta(
        extra={"rule": "a column name, several with commas between them, or a list of names"},
        examples=[["age", "pulse"]],
    ),
]
Marks = Annotated[
    str | int | float | list[str | int | float],
    Meta(extra={"rule": "a label or a list of labels"}, examples=["malignant", [3, 4]]),
]


def names_in(words: str | Sequence[str] | None) -> tuple[str, ...]:
    """The names that such words mean.

    >>> names_in("age, pulse"), names_in(["a, b"]), names_in(None)
    (('age', 'pulse'), ('a, b',), ())
    """
    if words is None:
        return ()
    return tuple(name.strip() for name in words.split(",") if name.strip()) if isinstance(words, str) else tuple(words)


def marks_in(words: str | float | Sequence[str | float] | None) -> tuple[str, ...]:
    """Labels as they are written in a file.

    >>> marks_in(3), marks_in("3,4"), marks_in([1.0, "b"])
    (('3',), ('3', '4'), ('1', 'b'))
    """
    if words is None:
        return ()
    if isinstance(words, int | float | str):
        words = [words] if not isinstance(words, str) else [one.strip() for one in words.split(",") if one.strip()]
    return tuple(one if isinstance(one, str) else f"{float(one):g}" for one in words)
