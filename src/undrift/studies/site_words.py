"""The kinds of words in a table [problem] with name = "sites"."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from ..gate import Count, Table

OF_KIND = {  # keys that only some kinds of problem have
    "l2": ("logistic",),
    "intercept": ("logistic", "least_squares"),
    "labels": ("logistic", "network"),
    "classes": ("network",),
    "hidden": ("network",),
    "batch": ("network",),
    "cut": ("network",),
}
Word = Annotated[str, Meta(min_length=1, max_length=200)]
Features = Annotated[
    Count | Annotated[list[Word], Meta(min_length=1)],
    Meta(extra={"rule": "a whole number ≥ 1 or a list of column names"}, examples=[13, ["age", "pulse"]]),
]
Labels = Annotated[
    list[Word],
    Meta(
        min_length=2,
        extra={"rule": "a list of at least two words, that of class 0 (or −1) first"},
        examples=[["benign", "malignant"]],
    ),
]
Hidden = Annotated[list[Count], Meta(extra={"rule": "a list of whole numbers ≥ 1"}, examples=[[16, 16]])]


class Scaling(Table):
    """Means and scales of the features, agreed on beforehand: (x − mean)/scale."""

    mean: list[float]
    scale: list[Annotated[float, Meta(gt=0)]]


Standardise = Annotated[
    Literal["none", "federated"] | Scaling,
    Meta(extra={"rule": '"none", "federated" or a table { mean = […], scale = […] }'}, examples=["federated"]),
]
