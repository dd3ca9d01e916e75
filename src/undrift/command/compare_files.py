"""What a comparison leaves in its directory."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import files
from ..errors import CheckpointError
from ..report.promise import Promise
from ..studies.comparison import TARGETS, Outcome
from ..studies.study import Study


class Finished:
    """Methods that were finished before an interruption: one checkpoint each, with a checksum.

    `identify`: what the runs of a method are known by, from its number.
    """

    def __init__(self, folder: Path, identify: Callable[[int], str]) -> None:
        self.folder, self.identify = folder, identify

    def path(self, number: int) -> Path:
        return self.folder / f"checkpoint-{number + 1:02d}.npz"

    def save(self, number: int, outcome: Outcome) -> None:
        words: dict[str, Any] = {
            "identity": self.identify(number),
            "label": outcome.label,
            "name": outcome.name,
            "points": outcome.points,
        }
        words |= {"seeds": outcome.seeds, "seconds": outcome.seconds, "colour": outcome.colour}
        arrays: dict[str, Any] = {f"column_{name}": column for name, column in outcome.history.items()}
        buffer = io.BytesIO()
        np.savez(buffer, state=np.array(json.dumps(words)), x=outcome.x, diverged=outcome.diverged, **arrays)
        content = buffer.getvalue()
        files.write_bytes(self.path(number), hashlib.sha256(content).digest() + content)

    def load(self, number: int) -> Outcome | None:
        path = self.path(number)
        if not path.exists():
            return None
        with files.storage(path):
            raw = path.read_bytes()
        if hashlib.sha256(raw[32:]).digest() != raw[:32]:
            raise CheckpointError(f"{path} is corrupt (its checksum does not fit): delete it to run this method again")
        try:
            with np.load(io.BytesIO(raw[32:]), allow_pickle=False) as archive:
                arrays = dict(archive)
        except (ValueError, OSError, zipfile.BadZipFile) as error:
            raise CheckpointError(f"{path} cannot be read: {error}") from error
        words = json.loads(str(arrays["state"]))
        if words["identity"] != self.identify(number):
            raise CheckpointError(f"{path} belongs to another comparison: choose another directory, or --overwrite")
        history = {name[len("column_") :]: column for name, column in arrays.items() if name.startswith("column_")}
        return Outcome(
            words["label"],
            words["name"],
            words["points"],
            words["seeds"],
            history,
            arrays["x"],
            arrays["diverged"],
            words["seconds"],
            words.get("colour"),
        )


def write_outcomes(folder: Path, outcomes: Sequence[Outcome]) -> None:
    """history.csv (every round at each method's best value), grid.csv (the end of every run), models.npz."""
    columns = list(dict.fromkeys(name for outcome in outcomes for name in outcome.history))
    keys = list(dict.fromkeys(key for outcome in outcomes for key in outcome.points[0]))
    files.write_csv(folder / "history.csv", _rounds(outcomes, keys, columns))
    files.write_csv(folder / "grid.csv", _ends(outcomes, keys, columns))
    files.write_arrays(folder / "models.npz", {outcome.label: outcome.x[outcome.chosen] for outcome in outcomes})


def _rounds(outcomes: Sequence[Outcome], keys: list[str], columns: list[str]) -> Iterator[list[Any]]:
    yield ["method", "label", *keys, "seed", "round", *columns]
    for outcome in outcomes:
        point = outcome.points[outcome.chosen]
        nothing = np.full(outcome.curve().shape[-1], np.nan)  # a column that only other methods have
        for i, seed in enumerate(outcome.seeds):
            rows = [outcome.column(name)[i] if name in outcome.history else nothing for name in columns]
            head = [outcome.name, outcome.label, *(point.get(key, "") for key in keys), seed]
            yield from ([*head, t, *map(_exact, values)] for t, values in enumerate(zip(*rows, strict=True)))


def _ends(outcomes: Sequence[Outcome], keys: list[str], columns: list[str]) -> Iterator[list[Any]]:
    yield ["method", "label", *keys, "seed", "best", "diverged", *columns]
    for outcome in outcomes:
        for p, point in enumerate(outcome.points):
            for i, seed in enumerate(outcome.seeds):
                bad = int(outcome.diverged[p, i])
                head = [outcome.name, outcome.label, *(point.get(key, "") for key in keys), seed]
                end = [_exact(outcome.history[name][p, i, -1]) if name in outcome.history else "" for name in columns]
                yield [*head, p == outcome.best, "" if bad < 0 else bad, *end]


def summary_of(
    study: Study, outcomes: Sequence[Outcome], resources: str, promises: Mapping[str, Promise]
) -> dict[str, Any]:
    """Everything of the table and more, for machines."""
    return {
        "study": study.words(),
        "seeds": {"run": study.seeds, "data": study.problem.get("data_seed", 0)},
        "resources": resources,
        "methods": [_method_summary(outcome) for outcome in outcomes],
        "diverged": [outcome.label for outcome in outcomes if outcome.best is None],
        "theorems": {label: promised.claim() for label, promised in promises.items()},
    }


def _method_summary(outcome: Outcome) -> dict[str, Any]:
    final = {name: _plain(np.median(outcome.column(name)[:, -1])) for name in outcome.history}
    return {
        "method": outcome.name,
        "label": outcome.label,
        "best": None if outcome.best is None else outcome.points[outcome.best],
        "grid": outcome.points,
        "diverged": [int(np.max(row)) if np.any(row >= 0) else None for row in outcome.diverged],
        "relative_gap": _plain(np.median(outcome.curve()[:, -1])) if outcome.measure == "gap" else None,
        "rounds_to": {f"{target:g}": outcome.rounds_to(target) for target in TARGETS},
        "final": final,
        "seconds": round(outcome.seconds, 3),
    }


def _plain(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _exact(value: Any) -> str:
    return "" if np.isnan(value) else repr(value.item())
