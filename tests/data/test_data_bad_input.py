"""Bad input: each error names the rule, the value received and the remedy."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from undrift import data

LABELS = np.repeat(np.arange(4), 10)
ALL = {
    "iid": lambda **kw: data.iid(LABELS, **kw),
    "dirichlet": lambda **kw: data.dirichlet(LABELS, alpha=1.0, **kw),
    "pathological": lambda **kw: data.pathological(LABELS, classes=1, **kw),
    "exdir": lambda **kw: data.exdir(LABELS, classes=1, alpha=1.0, **kw),
}
BY_LABEL = {
    "dirichlet": lambda labels, **kw: data.dirichlet(labels, clients=4, alpha=1.0, **kw),
    "pathological": lambda labels, **kw: data.pathological(labels, clients=4, classes=1, **kw),
    "exdir": lambda labels, **kw: data.exdir(labels, clients=4, classes=1, alpha=1.0, **kw),
    "describe": lambda labels, **kw: data.describe([np.arange(len(labels))], labels, **kw),
}


@pytest.mark.parametrize("name", BY_LABEL)
@pytest.mark.parametrize(("wrong", "value"), [(7, "7"), (-1, "-1")])
def test_label_outside_the_classes(name: str, wrong: int, value: str) -> None:
    labels = LABELS.copy()
    labels[5] = wrong
    with pytest.raises(data.DataError, match=rf"in 0\.\.3, but sample 5 has label {value}.*set num_classes"):
        BY_LABEL[name](labels, num_classes=4)


@pytest.mark.parametrize("name", BY_LABEL)
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([0.5, 1.0]), "labels must be integers, got dtype float64: convert"),
        (np.zeros((2, 2), int), r"one non-empty axis of integers, got shape \(2, 2\)"),
        (np.zeros(0, int), r"got shape \(0,\)"),
    ],
)
def test_labels_of_the_wrong_form(name: str, labels: np.ndarray, message: str) -> None:
    with pytest.raises(data.DataError, match=message):
        BY_LABEL[name](labels)


@pytest.mark.parametrize("name", ALL)
def test_more_clients_than_samples(name: str) -> None:
    with pytest.raises(data.PartitionError, match=r"no client may be empty: 41 clients need 41 samples, got 40\. Take"):
        ALL[name](clients=41)


@pytest.mark.parametrize("name", ALL)
def test_minimum_that_cannot_be(name: str) -> None:
    with pytest.raises(data.PartitionError, match="needs min_size=11 samples: 4 clients need 44 samples, got 40"):
        ALL[name](clients=4, min_size=11)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": 0}, "clients must be at least 1, got 0"),
        ({"clients": 2.5}, "clients must be a whole number, got 2.5"),
        ({"clients": 4, "min_size": -1}, "min_size must be at least 0, got -1"),
        ({"clients": 4, "seed": -3}, "seed must be at least 0, got -3"),
    ],
)
def test_numbers_out_of_range(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(data.PartitionError, match=message):
        ALL[name](**options)


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan"), float("inf")])
def test_concentration(alpha: float) -> None:
    with pytest.raises(data.PartitionError, match="alpha must be finite and above 0, got"):
        data.dirichlet(LABELS, clients=4, alpha=alpha)


@pytest.mark.parametrize("draw", [data.pathological, lambda *a, **kw: data.exdir(*a, alpha=1.0, **kw)])
def test_classes_a_client(draw: Callable[..., data.Parts]) -> None:
    with pytest.raises(data.PartitionError, match="cannot hold classes=5 different classes of 4: take classes <= 4"):
        draw(LABELS, clients=4, classes=5)
    with pytest.raises(data.PartitionError, match=r"every class (needs|has) a client.*clients"):
        draw(LABELS, clients=2, classes=1)


def test_pathological_with_too_few_samples_for_its_places() -> None:
    with pytest.raises(data.PartitionError, match=r"must lie in 2..4.*got 3 \* 2 = 6: change clients or classes"):
        data.pathological(np.array([0, 1, 1, 1]), clients=3, classes=2)


def test_minimum_against_classes() -> None:
    labels = np.array([0] * 2 + [1] * 98)
    with pytest.raises(
        data.PartitionError, match=r"min_size=5 cannot be reached: client \d may hold only classes \[0\]"
    ):
        data.exdir(labels, clients=4, classes=1, alpha=1.0, min_size=5)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"0": [0, 1], "1": [2]}, "sample 3 belongs to none .1 of 4 are missed.: add them"),
        ({"0": [0, 1], "1": [1, 2, 3]}, "sample 1 appears 2 times .1 samples are repeated.: remove the copies"),
        ({"0": [0, 1, 2, 3], "1": []}, "at least 1 samples, but client 1 has 0: remove the client or lower min_size"),
        ({"0": [0, 1, 2, 4]}, r"lie in 0\.\.3, got 4 .*another data set"),
        ({"0": [0, 1, 2, -1]}, r"lie in 0\.\.3, got -1"),
        ({"0": [0.5, 1, 2, 3]}, "flat list of integers, but client 0 has dtype float64"),
        ({"0": [[0, 1], [2, 3]]}, r"flat list of integers.*shape \(2, 2\)"),
        ({"0": [[0, 1], [2]]}, "flat list of integers"),
        ({"0": ["a"]}, "flat list of integers"),
        ({}, "at least one client, got none"),
    ],
)
def test_maps_that_are_no_cover(table: dict[str, list[int]], message: str, tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    path.write_text(json.dumps(table))
    for source in (table, path):
        with pytest.raises(data.PartitionError, match=message):
            data.from_map(source, samples=4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("[1, 2]", "must hold an object .* got a list"),
        ('{"0": [0, 1], "0": [2, 3]}', "'0' appears more than once: join its lists"),
    ],
)
def test_map_files_of_the_wrong_form(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "map.json").write_text(text)
    with pytest.raises(data.PartitionError, match=message):
        data.from_map(tmp_path / "map.json", samples=4)


def test_absent_map_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist: check the path"):
        data.from_map(tmp_path / "none.json", samples=4)


@pytest.mark.parametrize(
    ("groups", "message"),
    [([], "one non-empty column"), ([[1], [2]], "shape .2, 1."), ([1.0, float("nan")], "but sample 1 has NaN")],
)
def test_groups_of_the_wrong_form(groups: list[object], message: str) -> None:
    with pytest.raises(data.PartitionError, match=message):
        data.by_group(groups)


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [("minst", "mnist"), ("MNIST", "mnist"), ("cifar", "cifar10"), ("fashion-mnist", "fmnist"), ("digit", "digits")],
)
def test_unknown_name(wrong: str, nearest: str) -> None:
    for call in (data.load, data.status, data.fetch, data.verify):
        with pytest.raises(data.DataError, match=f"got '{wrong}': did you mean '"):
            call(wrong)
    with pytest.raises(data.DataError, match=re.escape(f"did you mean '{nearest}'?")):
        data.load(wrong)


def test_hopeless_name_lists_all() -> None:
    with pytest.raises(data.DataError, match=r"must be one of digits, mnist, .*; got 'xyz': choose one"):
        data.load("xyz")
