"""The problem "csv": one's own tables, one file per client, a column that says whose each row is, or rows dealt out."""

from __future__ import annotations

import dataclasses
import glob
import inspect
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..errors import InputError, unknown
from ..gate import NUMBER, Count, NotNegative, Seed, shown
from ..problems.base import Problem
from .federated import Parts, federated
from .schema import Partition
from .site_words import Hidden, Word
from .sites import Sites
from .table_words import Marks, Names, Paths, marks_in, names_in

if TYPE_CHECKING:
    from ..data.columns import Look
    from ..data.table import Table
    from ..data.table_numbers import Features, Target
    from ..data.table_report import Treatment

LABELS = ("label", "target", "y", "class", "outcome")  # what a label is called where nobody says it
MOST_FILES = 100_000


@dataclasses.dataclass(frozen=True)
class Tables:
    """The table [problem] with name = "csv"."""

    path: Paths
    label: Word | None = None
    client: Word | None = None
    features: Names | None = None
    without: Names | None = None
    kind: Literal["auto", "logistic", "least_squares", "softmax", "network"] = "auto"
    positive: Marks | None = None
    missing: Literal["error", "drop", "mean"] = "error"
    categories: Literal["error", "onehot"] = "error"
    onehot: Names | None = None
    intercept: bool = True
    standardise: Literal["federated", "none"] = "federated"
    l2: NotNegative | None = None
    weights: Literal["samples", "clients"] = "samples"
    hidden: Hidden | None = None
    batch: Count | None = None
    clients: Count | None = None
    partition: Partition | None = None
    data_seed: Seed = 0
    separator: Literal["auto", "comma", "semicolon", "tab"] = "auto"
    decimal: Literal["auto", "point", "comma"] = "auto"
    encoding: Literal["utf-8", "cp1252", "latin-1", "utf-16"] = "utf-8"

    def make(self) -> Problem:
        """The problem of these files."""
        files = files_at(self.path)
        tables, label = self._read(files)
        table, owner, notes = self._one(tables, label)
        names, parts_of_files = self._owners(table, owner, files)
        chosen = [name for name in table.columns if name not in (label, self.client)]
        found, target = self._numbers(table, chosen, label)
        names, parts = self._clients(names, parts_of_files, target, label)
        source = self._source(found, target, label)
        problem = federated(source, found.x, target.y, parts, names)
        problem.columns = {**(problem.columns or {}), **_details(found, target)}
        problem.remarks = (*notes, *self._remarks(problem, names, target), *found.notes)
        return problem

    # ----- what is read
    def _read(self, files: Mapping[str, Path]) -> tuple[list[Table], str]:
        """The tables, each with the columns that are used, and the name of the label's."""
        from ..data.table import read_table  # the room of data takes a second: only those wait who need it

        tables = [read_table(path, self.separator, self.decimal, self.encoding) for path in files.values()]
        label = self._label(tables[0])
        used = self._used(tables[0], label)
        for table in tables:
            for name in (label, self.client, *names_in(self.features)):
                if name is not None and name not in table.columns:
                    raise unknown(f"column of {table.source},", name, table.columns)
            if used is not None:
                table.columns = {name: table.columns[name] for name in used}
            for name in names_in(self.without):
                table.columns.pop(name, None)
        return tables, label

    def _label(self, table: Table) -> str:
        if self.label is not None:
            return self.label
        likely = [name for name in LABELS if name in table.columns]
        if len(likely) != 1:
            columns = ", ".join(list(table.columns)[:20])
            raise InputError(
                f"which column of {table.source} is to be predicted? Say label=…, one of {columns}"
                f"{', …' if len(table.columns) > 20 else ''} (`undrift data describe {table.source}` shows what they hold)"
            )
        return likely[0]

    def _used(self, table: Table, label: str) -> list[str] | None:
        """The columns that the user chose, features in his order; None: all that are not left out."""
        chosen, left_out = names_in(self.features), names_in(self.without)
        keys = [name for name in (label, self.client) if name is not None]
        for name in (*left_out, *names_in(self.onehot)):
            if name not in table.columns:
                raise unknown(f"column of {table.source},", name, table.columns)
        for name in (*chosen, *left_out, *names_in(self.onehot)):
            if name in keys:
                raise InputError(
                    f"{name!r} is the {'label' if name == label else 'client'}: leave it out of the others"
                )
        if twice := {name for name in chosen if chosen.count(name) > 1 or name in left_out}:
            raise InputError(f"features name {shown(sorted(twice)[0])} twice, or leave it out too: name it once")
        if self.client == label:
            raise InputError(f"{label!r} cannot be the label and the client: name two columns")
        return [*chosen, *keys] if chosen else None

    def _one(self, tables: Sequence[Table], label: str) -> tuple[Table, np.ndarray, list[str]]:
        """All rows that are used as one table, the file of each, and what was done; all complaints at once."""
        from ..data.columns import look
        from ..data.table import Table, joined
        from ..data.table_report import of_feature, of_key, refuse

        table, owner = joined(tables)
        if not table.rows:
            raise InputError(
                f"{table.source} must hold at least one row below the column names, and holds none: add some"
            )
        looks = [look(column) for column in table.columns.values()]
        treatment = self._treatment
        complaints = [
            one
            for seen in looks
            for one in (
                of_key(seen, "label" if seen.name == label else "client", treatment)
                if seen.name in (label, self.client)
                else of_feature(seen, table, treatment)
            )
        ]
        refuse(table, complaints, len(looks))
        notes = list(table.notes)
        if self.missing != "drop" or not any(seen.missing for seen in looks):
            return table, owner, notes
        whole = ~np.any([column.missing for column in table.columns.values()], axis=0)
        rows = np.flatnonzero(whole)
        notes.append(
            f"{table.rows - len(rows)} of {table.rows} rows have missing values and are left out (missing=drop)"
        )
        if not len(rows):
            raise InputError(
                f"every row of {table.source} has a missing value, and missing=drop leaves none: say missing=mean, or "
                "leave columns out with without=…"
            )
        kept = {name: column.of(rows) for name, column in table.columns.items()}
        return Table(table.source, kept, len(rows)), owner[rows], notes

    @property
    def _treatment(self) -> Treatment:
        from ..data.table_report import Treatment

        return Treatment(self.missing, self.categories, names_in(self.onehot))

    # ----- what it means
    def _numbers(self, table: Table, chosen: Sequence[str], label: str) -> tuple[Features, Target]:
        from ..data.columns import look
        from ..data.table_numbers import features_of, target_of

        looks: list[Look] = [look(table.columns[name]) for name in chosen]
        found = features_of(table, looks, self._treatment)
        if not found.names:
            raise InputError(
                f"{table.source} has no column beside {label!r} to predict it from: add one, or leave out fewer"
            )
        kind: Any = "softmax" if self.kind == "network" else self.kind
        return found, target_of(table.columns[label], kind, marks_in(self.positive))

    def _owners(self, table: Table, owner: np.ndarray, files: Mapping[str, Path]) -> tuple[list[str], np.ndarray]:
        """The names of clients and the number of each row's."""
        from ..data.table_numbers import clients_of

        if self.client is None:
            return list(files), owner
        return clients_of(table.columns[self.client])

    def _clients(self, names: list[str], owner: np.ndarray, target: Target, label: str) -> tuple[list[str], Parts]:
        if self.clients is None and self.partition is None:
            if len(names) == 1 and self.client is None:
                raise InputError(
                    "one file is one client: say which column tells whose each row is with client=…, name one file per "
                    "client (csv:a.csv,b.csv or a folder), or deal the rows out with clients=5 (clients=1 means one)"
                )
            parts = [np.flatnonzero(owner == number) for number in range(len(names))]
            if empty := [name for name, rows in zip(names, parts, strict=True) if not len(rows)]:
                raise InputError(
                    f"every client needs at least one row, and {shown(empty[0])} has none (left): leave its file out"
                )
            return names, parts
        if len(names) > 1:
            raise InputError(
                f"clients and partition deal the rows of one file out, but here are {len(names)} clients already "
                f"({', '.join(names[:4])}{', …' if len(names) > 4 else ''}): leave them out"
            )
        dealt = _dealt(self.partition or "iid", target, self.clients, self.data_seed)
        return [f"client {number}" for number in range(len(dealt))], dealt

    def _source(self, found: Features, target: Target, label: str) -> Sites:
        kind: Any = "network" if target.kind == "softmax" else target.kind
        if self.l2 and kind != "logistic":
            remedy = (
                "leave it out" if kind == "network" else "leave it out, or add rows √l2·I with the label 0 to the file"
            )
            raise InputError(f"l2 belongs to kind=logistic, and this is {target.kind}: {remedy}")
        if kind != "network" and (self.hidden is not None or self.batch is not None):
            raise InputError(
                f"hidden and batch belong to kind=softmax or kind=network, and this is {kind}: leave them out"
            )
        if self.kind == "softmax" and self.hidden:
            raise InputError("softmax has no hidden layers: say kind=network for a network with hidden=…")
        return Sites(
            kind=kind,
            features=found.names,
            label=label,
            labels=None if target.labels is None else list(target.labels),
            intercept=None if kind == "network" else self.intercept,
            l2=(1.0 if self.l2 is None else self.l2) if kind == "logistic" else None,
            weights="samples" if self.weights == "samples" else "sites",
            standardise=self.standardise,
            hidden=hidden_layers(self.kind, self.hidden) if kind == "network" else None,
            batch=self.batch,
        )

    def _remarks(self, problem: Problem, names: Sequence[str], target: Target) -> list[str]:
        sizes = [f"{name} {size}" for name, size in zip(names, problem.sizes.tolist(), strict=True)]
        some = ", ".join(sizes[:8]) + (", …" if len(sizes) > 8 else "")
        features = len((problem.columns or {})["features"])
        rows = f"{int(problem.sizes.sum())} rows of {len(names)} clients ({some}), {features} features"
        scaled = "standardised over all clients together" if self.standardise == "federated" else "taken as they are"
        said = [f"{rows}, {scaled}", target.note]
        if target.kind == "logistic" and self.l2 is None:
            said.append("l2 = 1 of every client was not given; l2=0 for none")
        return said


def hidden_layers(kind: str, hidden: Sequence[int] | None) -> list[int] | None:
    """The hidden layers of a network, those that were not named too; None: there are none."""
    return list(hidden) if hidden else [16] if kind == "network" else None


def _dealt(words: Any, target: Target, clients: int | None, seed: int) -> Parts:
    """The rows of one file dealt out by a partition."""
    from ..data import Dataset, Split
    from .partition import draw_parts

    y = target.y if target.kind == "least_squares" else np.where(target.y > 0, target.y, 0).astype(np.int32)
    classes = target.labels or ("0", "1")
    table = Dataset("this file", Split(np.empty((len(y), 0)), y), Split(np.empty((0, 0)), y[:0]), classes)
    return draw_parts(words, table, clients, seed)


def _details(found: Features, target: Target) -> dict[str, Any]:
    """What the file of the columns says beside means and scales."""
    columns = [
        {"column": one.column}
        | ({} if one.categories is None else {"categories": list(one.categories)})
        | ({"fill": list(one.fill)} if one.fill else {})
        | ({"truth": True} if one.truth else {})
        for one in found.encoded
    ]
    labels = {} if target.labels is None else {"labels": [_number(one) for one in target.labels]}
    return {**labels, "columns": columns}


def _number(word: str) -> str | int | float:
    """A label as it is meant: numbers are numbers."""
    if not NUMBER.fullmatch(word):
        return word
    return int(float(word)) if float(word).is_integer() else float(word)


# ----- which files
def files_at(path: str | Iterable[str]) -> dict[str, Path]:
    """The files that such words name, by the name of their client.

    Folders give all their tables, patterns what they match, in alphabetical order.
    """
    from ..data.table import TABLES

    found: dict[str, Path] = {}
    for word in [path] if isinstance(path, str) else path:
        for file in _files(word, TABLES):
            if file.suffix.lower() == ".npz":
                raise InputError(f"{file} is an .npz file and no table: say npz:{file}")
            if file.stem in found:
                raise InputError(
                    f"two files are named {file.stem} ({found[file.stem]}, {file}): rename one of the clients"
                )
            found[file.stem] = file
    if len(found) > MOST_FILES:
        raise InputError(f"at most {MOST_FILES} files are read, {path!r:.80} names {len(found)}: name fewer")
    return found


def _files(word: str, endings: Sequence[str]) -> list[Path]:
    path = Path(word).expanduser()
    try:
        if path.is_dir():
            inside = sorted(
                one for one in path.iterdir() if one.suffix.lower() in endings and not one.name.startswith(".")
            )
            if not inside:
                raise InputError(
                    f"the folder {path} must hold one table per client ({', '.join(endings)}), and holds none"
                )
            return inside
        if path.exists() or not glob.has_magic(word):
            return [path]
        matched = sorted(Path(one) for one in glob.glob(str(path)))
    except (OSError, ValueError) as error:
        raise InputError(f"{shown(word)} cannot be a path ({error}): correct it") from None
    if not matched:
        raise InputError(f"no file matches {word!r}: correct the pattern")
    return matched


def csv(**words: Any) -> Problem:
    """Your own tables (CSV, Parquet): logistic regression, least squares or a network, one client per file or by a column.

    `path`: a file, several, a folder, or a pattern such as data/*.csv; clients are called as their files. `client`: the column
    that says whose each row is, where one file has all; or `clients` and `partition` deal its rows out. `label`: the column to
    predict; `kind`: "logistic", "least_squares", "softmax", "network", or "auto" by the label; `positive`: the label or labels
    counted as 1. `features`: columns to use, else all but those in `without`. `missing`: "error", "drop" rows, or "mean";
    `categories`: "error" or "onehot" for columns of words; `onehot`: columns that are categories whatever they look like.
    `standardise`: "federated" (over all clients together) or "none"; `intercept` (true); `l2` of a logistic regression (1, for
    every client); `weights`: what counts alike, "samples" or "clients"; `hidden`, `batch`: of networks. `separator`, `decimal`,
    `encoding`: of text files, where they are not found out.
    """
    return Tables(**words).make()


csv.__signature__ = inspect.signature(Tables, eval_str=True)  # type: ignore[attr-defined]  # a table's keys are its fields
