"""Linear models on data sets with a name: logistic regression and least squares, by hospital or by a partition."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..errors import InputError, unknown
from ..gate import Count, NotNegative, Seed
from ..problems.base import Problem
from .federated import federated
from .networks import natural_partition
from .schema import Partition
from .sites import Sites
from .table_words import Marks, marks_in

if TYPE_CHECKING:
    from ..data import Dataset


def logistic(
    data: str = "heart",
    clients: Count | None = None,
    partition: Partition | None = None,
    positive: Marks | None = None,
    l2: NotNegative = 1.0,
    intercept: bool = True,
    standardise: Literal["federated", "none"] = "federated",
    weights: Literal["samples", "clients"] = "samples",
    data_seed: Seed = 0,
    data_dir: str | None = None,
) -> Problem:
    """Logistic regression on a data set with a name (`undrift data`): its training split, shared out among clients.

    `positive`: the class or classes that are told from all others, by name or number; needed where there are more than two.
    `partition`: by group where the groups are clients (the hospitals of heart), else exdir:classes=2,alpha=10 among `clients`
    (20), drawn by `data_seed`. `l2`: of every client. Features are standardised over all clients together ("federated") or not
    ("none"), and an intercept follows them. `weights`: what counts alike, "samples" or "clients".
    """
    dataset = _loaded(data, data_dir)
    if not dataset.classes:
        raise InputError(
            f"logistic regression tells two classes apart, and {data} has a number to predict: say least_squares:data={data}"
        )
    labels, y = two_classes(dataset, marks_in(positive), "logistic regression")
    source = Sites("logistic", _features(dataset), labels=list(labels), intercept=intercept, l2=l2,
                   weights=_weights(weights), standardise=standardise)  # fmt: skip
    return _shared_out(source, dataset, y, clients, partition, data_seed)


def least_squares_on(
    data: str,
    clients: int | None,
    partition: Any,
    positive: Any,
    intercept: bool,
    standardise: Literal["federated", "none"],
    weights: Literal["samples", "clients"],
    data_seed: int,
    data_dir: str | None,
) -> Problem:
    """Least squares on a data set with a name: of the number to predict, or of +1 and −1 for two classes."""
    dataset = _loaded(data, data_dir)
    if dataset.classes:
        _, y = two_classes(dataset, marks_in(positive), "least squares")
    elif positive is not None:
        raise InputError(f"positive names classes, and {data} has a number to predict: leave it out")
    else:
        y = dataset.train.y
    source = Sites("least_squares", _features(dataset), intercept=intercept, weights=_weights(weights),
                   standardise=standardise)  # fmt: skip
    return _shared_out(source, dataset, y, clients, partition, data_seed)


def two_classes(dataset: Dataset, positive: Sequence[str], what: str) -> tuple[tuple[str, str], np.ndarray]:
    """Names of the two sides, and −1 or +1 for every sample of the training split."""
    names = dataset.class_names
    chosen = [_class(one, dataset) for one in positive]
    if not chosen and len(names) > 2:
        raise InputError(
            f"{what} tells two classes apart, and {dataset.name} has {len(names)} ({', '.join(map(repr, names[:6]))}, …): say "
            f"which are meant with positive=…, against all others, or take network:data={dataset.name},"
            "model=softmax_regression"
        )
    chosen = chosen or [1]
    rest = [number for number in range(len(names)) if number not in chosen]
    if not rest:
        raise InputError(f"positive names all classes of {dataset.name}: leave at least one for the rest")
    sides = [_sides([names[number] for number in one]) for one in (rest, sorted(set(chosen)))]
    return (sides[0], sides[1]), np.where(np.isin(dataset.train.y, chosen), 1.0, -1.0)


def _sides(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 10 else f"{names[0]}, … {names[-1]} ({len(names)} classes)"


def _class(word: str, dataset: Dataset) -> int:
    """The number of a class, from its name or its number."""
    if word in dataset.class_names:
        return dataset.class_names.index(word)
    if word.isdecimal() and int(word) < dataset.classes:
        return int(word)
    raise unknown(f"class of {dataset.name}", word, dataset.class_names)


def _loaded(name: str, data_dir: str | None) -> Dataset:
    from ..data import entry, load  # takes a second: only those wait who need it

    if entry(name).form == "text":
        raise InputError(f"{name} is text, and a linear model takes numbers: take network:data={name}")
    return load(name, data_dir=data_dir, progress=sys.stderr.isatty(), standardise=False)


def _features(dataset: Dataset) -> int | list[str]:
    return list(dataset.feature_names) if dataset.feature_names else int(np.prod(dataset.train.x.shape[1:]))


def _weights(words: str) -> Literal["samples", "sites"]:
    return "samples" if words == "samples" else "sites"


def _shared_out(
    source: Sites, dataset: Dataset, y: np.ndarray, clients: int | None, partition: Any, seed: int
) -> Problem:
    from .partition import draw_parts

    words = natural_partition(dataset) if partition is None else partition
    parts = draw_parts(words, dataset, clients, seed)
    x = dataset.train.x.reshape(len(y), -1).astype(np.float64)
    problem = federated(source, x, y, parts, _names(dataset, words, len(parts)))
    said = "a number" if source.kind == "least_squares" else f"{source.labels[1]} from {source.labels[0]}"  # type: ignore[index]
    problem.remarks = (
        f"{dataset.name}: {len(y)} samples of {len(parts)} clients ({words}), {source.expected.features} features, "
        f"{'standardised over all clients together' if source.federated else 'as they are'}; predicts {said}",
    )
    return problem


def _names(dataset: Dataset, words: Any, clients: int) -> list[str]:
    group, names = dataset.train.group, dataset.group_names
    if words == "by_group" and group is not None and names is not None and len(np.unique(group)) == clients:
        return [names[number] for number in np.unique(group)]
    return [f"client {number}" for number in range(clients)]
