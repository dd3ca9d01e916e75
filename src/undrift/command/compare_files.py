"""What a comparison leaves in its directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from .. import files
from ..engine.stored import Stored, write
from ..errors import CheckpointError
from ..report.clients import Clients
from ..report.promise import Promise
from ..report.verdict_words import comparison_words
from ..studies.comparison import TARGETS, Outcome
from ..studies.study import Study


class State(msgspec.Struct, forbid_unknown_fields=True):
    """What a finished method is, besides arrays."""

    identity: str
    label: str
    name: str
    points: Annotated[list[dict[str, Any]], msgspec.Meta(min_length=1)]
    seeds: Annotated[list[int], msgspec.Meta(min_length=1)]
    seconds: float
    colour: str | None = None
    origins: list[str] = []
    numbers: list[str] = []
    pooled: bool = False


class Finished:
    """Methods that were finished before an interruption: one checkpoint each, with a checksum.

    `identify`: what the runs of a method are known by, from its number.
    """

    def __init__(self, folder: Path, identify: Callable[[int], str]) -> None:
        self.folder, self.identify = folder, identify

    def path(self, number: int) -> Path:
        return self.folder / f"checkpoint-{number + 1:02d}.npz"

    def save(self, number: int, outcome: Outcome) -> None:
        state = State(
            self.identify(number),
            outcome.label,
            outcome.name,
            outcome.points,
            outcome.seeds,
            outcome.seconds,
            outcome.colour,
            outcome.origins,
            outcome.numbers,
            outcome.pooled,
        )
        arrays: dict[str, Any] = {f"column_{name}": column for name, column in outcome.history.items()}
        write(self.path(number), state, {"x": outcome.x, "diverged": outcome.diverged, **arrays})

    def load(self, number: int) -> Outcome | None:
        path = self.path(number)
        if not path.exists():
            return None
        stored = Stored(path, "delete it to run this method again")
        state = stored.state(State)
        if state.identity != self.identify(number):
            raise CheckpointError(f"{path} belongs to another comparison: choose another directory, or --overwrite")
        runs = len(state.points), len(state.seeds)
        history = {"loss": stored.take("column_loss", (*runs, None), None)}
        length = history["loss"].shape[-1]
        history |= {name: stored.take(f"column_{name}", (*runs, length), None) for name in stored.names("column_")}
        x, diverged = stored.take("x", (*runs, None), None), stored.take("diverged", runs, None)
        stored.finish()
        if not length:
            stored.refuse("it holds no round")
        if len(state.origins) != len(state.points):
            stored.refuse("it does not say of every point where it comes from")
        return Outcome(
            state.label,
            state.name,
            state.points,
            state.seeds,
            history,
            x,
            diverged,
            state.seconds,
            state.colour,
            state.origins,
            state.numbers,
            state.pooled,
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
    yield ["method", "label", *keys, "seed", "origin", "best", "diverged", *columns]
    for outcome in outcomes:
        for p, point in enumerate(outcome.points):
            for i, seed in enumerate(outcome.seeds):
                bad = int(outcome.diverged[p, i])
                head = [outcome.name, outcome.label, *(point.get(key, "") for key in keys), seed]
                end = [_exact(outcome.history[name][p, i, -1]) if name in outcome.history else "" for name in columns]
                yield [*head, outcome.origins[p], p == outcome.best, "" if bad < 0 else bad, *end]


def summary_of(
    study: Study,
    outcomes: Sequence[Outcome],
    resources: str,
    promises: Mapping[str, Promise],
    served: Mapping[str, Clients],
) -> dict[str, Any]:
    """Everything of the table and more, for machines; `served`: how well each method's model serves the clients."""
    return {
        "verdict": comparison_words(outcomes)._asdict(),
        "study": study.words(),
        "seeds": {"run": study.seeds, "data": study.problem.get("data_seed", 0)},
        "resources": resources,
        "methods": [
            {**_method_summary(outcome), "clients": served[outcome.label].words() if outcome.label in served else None}
            for outcome in outcomes
        ],
        "diverged": [outcome.label for outcome in outcomes if outcome.best is None],
        "theorems": {label: promised.claim() for label, promised in promises.items()},
    }


def _method_summary(outcome: Outcome) -> dict[str, Any]:
    final = {name: _plain(np.median(outcome.column(name)[:, -1])) for name in outcome.history}
    return {
        "method": outcome.name,
        "label": outcome.label,
        "pooled": outcome.pooled,
        "best": None if outcome.best is None else outcome.points[outcome.best],
        "edges": outcome.edges,
        "grid": outcome.points,
        "origins": outcome.origins,
        "diverged": [int(np.max(row)) if np.any(row >= 0) else None for row in outcome.diverged],
        "relative_gap": _plain(np.median(outcome.curve()[:, -1])) if outcome.measure == "gap" else None,
        "rounds_to": {f"{target:g}": outcome.rounds_to(target) for target in TARGETS},
        "final": final,
        "seeds": _of_seeds(outcome),
        "seconds": round(outcome.seconds, 3),
    }


def _of_seeds(outcome: Outcome) -> dict[str, Any]:
    """What the medians above are made of, in the order of the seeds."""
    gaps: Any = outcome.curve()[:, -1] if outcome.measure == "gap" else []
    return {
        "relative_gap": [_plain(gap) for gap in gaps],
        "rounds_to": {f"{target:g}": outcome.rounds_of_seeds(target) for target in TARGETS},
        "final": {name: [_plain(end) for end in outcome.column(name)[:, -1]] for name in outcome.history},
    }


def _plain(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _exact(value: Any) -> str:
    return "" if np.isnan(value) else repr(value.item())
