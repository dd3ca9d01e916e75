"""Partitions by name: "exdir:classes=2,alpha=10", "by_group", "from_map:path/to/parts.json"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .. import data
from ..data import Dataset, PartitionError, Parts
from ..gate import Count, Positive, Seed, check_value
from .words import construct, parts_of

CLIENTS = 20  # where nobody says how many


class Wanted(NamedTuple):
    """What every partition is drawn from."""

    dataset: Dataset
    clients: int | None
    seed: int

    @property
    def labels(self) -> Any:
        return self.dataset.train.y

    @property
    def how_many(self) -> int:
        return CLIENTS if self.clients is None else self.clients


Draw = Callable[[Wanted], Parts]


def iid(min_size: Count = 1) -> Draw:
    """Equal random shares."""
    return lambda w: data.iid(w.labels, w.how_many, seed=w.seed, min_size=min_size)


def dirichlet(alpha: Positive, min_size: Count = 1) -> Draw:
    """Of every class a share p_c ~ Dir(α)."""
    return lambda w: data.dirichlet(
        w.labels, w.how_many, alpha, seed=w.seed, min_size=min_size, num_classes=w.dataset.classes
    )


def pathological(classes: Count, min_size: Count = 1) -> Draw:
    """Exactly so many classes a client, sizes nearly equal."""
    return lambda w: data.pathological(
        w.labels, w.how_many, classes, seed=w.seed, min_size=min_size, num_classes=w.dataset.classes
    )


def exdir(classes: Count, alpha: Positive, min_size: Count = 1, min_clients: Count = 1, cap: bool = False) -> Draw:
    """ExDir(C, α): C classes a client, then of each class a share p_c ~ Dir(α q_c)."""
    return lambda w: data.exdir(
        w.labels,
        w.how_many,
        classes,
        alpha,
        seed=w.seed,
        min_size=min_size,
        num_classes=w.dataset.classes,
        min_clients=min_clients,
        cap=cap,
    )


def by_group(min_size: Count = 1) -> Draw:
    """Everything of one writer or hospital; only for data that have groups."""

    def draw(w: Wanted) -> Parts:
        group = w.dataset.train.group
        if group is None:
            raise PartitionError(f"by_group needs data with groups, and {w.dataset.name} has none: try mnist-writers")
        return _as_many(data.by_group(group, min_size=min_size), w, "the groups of the data")

    return draw


def from_map(path: str, min_size: Count = 1) -> Draw:
    """What a JSON file {"client": [sample indices]} says; `undrift partition --out` writes one."""
    return lambda w: _as_many(data.from_map(path, w.labels, min_size=min_size), w, path)


PARTITIONS: dict[str, Callable[..., Draw]] = {
    "iid": iid,
    "dirichlet": dirichlet,
    "pathological": pathological,
    "exdir": exdir,
    "by_group": by_group,
    "from_map": from_map,
}


def drawing(words: Any) -> Callable[[Dataset, int | None, int], Parts]:
    """What the words do to a data set, for so many clients and a seed; words that are none are refused at once."""
    draw: Draw = construct(words, PARTITIONS, "partition")
    return lambda dataset, clients, seed: draw(Wanted(dataset, clients, seed))


def draw_parts(words: Any, dataset: Dataset, clients: int | None, seed: int) -> Parts:
    """The partition of the training split that the words describe."""
    check_value("clients", clients, Count | None)
    check_value("the seed of a partition", seed, Seed)
    return drawing(words)(dataset, clients, seed)


def with_absolute_map(words: Any, folder: Path) -> Any:
    """The same words; the path of a map file, relative to `folder`, in full."""
    if not isinstance(words, str | Mapping):
        return words  # refused later, where it is used
    name, positional, named = parts_of(words, PARTITIONS, "partition")
    path = named.get("path", positional[0] if positional else None)
    if name != "from_map" or not isinstance(path, str):
        return words
    return {"name": name, **named, "path": str((folder / Path(path).expanduser()).resolve())}


def _as_many(parts: Parts, wanted: Wanted, source: str) -> Parts:
    if wanted.clients not in (None, len(parts)):
        raise PartitionError(
            f"the number of clients comes from {source}: {len(parts)}, not {wanted.clients}; leave clients out, or say another "
            "partition"
        )
    return parts
