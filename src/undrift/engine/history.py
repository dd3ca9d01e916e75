"""What a run leaves behind."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import files
from ..errors import unknown
from ..problems.evaluation import AGAINST_OPTIMUM

COST_COLUMNS = {  # what a round costs in all, and the columns whose sum it is
    "bytes": ("bytes_up", "bytes_down", "bytes_peer"),
    "gradients": ("gradients",),
    "seconds": ("seconds_computing", "seconds_latency", "seconds_transfer"),
}


FIRST_COLUMNS = (
    "loss", "gap", "sq_distance", "grad_norm", "test_loss", "accuracy", "dissimilarity", "drift",
)  # fmt: skip


def in_order(columns: Iterable[str]) -> list[str]:
    """Names as people want to read them: what is measured, costs, and what is known of the clients behind."""
    names = list(columns)
    first = [name for name in FIRST_COLUMNS if name in names]
    costs = [name for name in names if name.startswith(("bytes", "gradients", "component", "seconds"))]
    return [*first, *costs, *(name for name in names if name not in first and name not in costs)]


def totals(history: Mapping[str, Any]) -> dict[str, Any]:
    """Bytes, gradients and virtual seconds in all, from the columns of a history that they are the sums of."""
    found = {}
    for axis, parts in COST_COLUMNS.items():
        known = [history[part] for part in parts if part in history]
        if known:
            found[axis] = np.sum(known, axis=0)
    return found


class History(Mapping[str, np.ndarray]):
    """name -> array over rounds, index 0 before the first round; costs are running totals.

    | column | meaning |
    |---|---|
    | loss | f(x_t); of networks on a fixed sample of the training data |
    | gap | f(x_t) − f*, where f* is known |
    | sq_distance | ‖x_t − x*‖², where x* is known |
    | grad_norm | ‖∇f(x_t)‖ |
    | drift | mean_i ‖y_i − mean y‖ at the end of the local steps |
    | dissimilarity | max_i ‖∇f_i(x_t) − ∇f(x_t)‖ |
    | loss_worst, loss_spread | the largest f_i(x_t), and the standard deviation of the f_i(x_t) over clients |
    | loss_q10, loss_q50, loss_q90 | quantiles of the f_i(x_t) over clients; of networks these five only with per_client |
    | test_loss, accuracy | of networks, on the test data; a problem's own metrics under their names |
    | accuracy_worst, accuracy_spread, accuracy_q10, … | of classifiers with per_client: over clients, each on its own samples |
    | bytes_up, bytes_down, bytes_peer | bytes sent so far, all clients together |
    | gradients | gradient evaluations so far (calls of the oracle) |
    | component_gradients | gradients of single components f_ij so far |
    | epsilon | of `private` methods: ε at their δ, for one client's whole data, after this round |
    | seconds_computing, seconds_latency, seconds_transfer | virtual seconds so far, by cause; their sum is the time |
    """

    def __init__(self, columns: Mapping[str, np.ndarray], latest: Mapping[str, np.ndarray] | None = None) -> None:
        self._columns = dict(columns)
        self.latest = dict(latest or {})  # name -> what is recorded of every client in the last round, for observers

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._columns:
            hint = ". It takes x*: where that is not found unasked, look at problem.optimum once before the run"
            raise KeyError(str(unknown("column", str(name), self._columns)) + (hint if name in AGAINST_OPTIMUM else ""))
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"<history of {', '.join(self._columns)}>"

    @property
    def length(self) -> int:
        """Rounds + 1."""
        return int(next(iter(self._columns.values())).shape[-1])

    def write_csv(self, path: Path) -> None:
        """One row per round; numbers are written so that they read back exactly. `pandas.read_csv(path)` reads it."""
        rows = ([t, *(_exact(column[t]) for column in self.values())] for t in range(self.length))
        files.write_csv(path, [["round", *self], *rows])


def _exact(value: Any) -> str:
    return "" if np.isnan(value) else repr(value.item())


class Best(NamedTuple):
    """The best round of a column that a rule of patience watched."""

    round: int
    column: str
    value: float
    kept: bool  # whether the model is that of this round

    def __str__(self) -> str:
        kept = "" if self.kept else "not "
        return f"the best round was {self.round} ({self.column} = {self.value:.6g}); its model was {kept}kept"


@dataclasses.dataclass(frozen=True)
class Result:
    """The outcome of a run."""

    x: np.ndarray  # final model (d,), or that of the best round, where that was asked for (`best`)
    history: History
    iterates: np.ndarray | None  # (rounds + 1, d) if they were kept
    rounds: int  # rounds that were played
    setting: dict[str, Any]  # what was run, in words
    seconds: float
    diverged: tuple[int, int | None] | None = None  # (round, client) where the loss was first seen not to be finite
    stopped: str | None = None  # why it ended before its last round, if a rule or an observer stopped it
    clients: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)  # per client: name -> (rounds + 1, m)
    best: Best | None = None  # where a rule of patience looked for it

    @property
    def diverged_between(self) -> tuple[int, int] | None:
        """The first and the last round in which the loss can have stopped being finite; one, where every round is evaluated.

        With `record_every` nobody looks at the rounds in between, so all that is known is the last one whose loss was finite.
        """
        if self.diverged is None:
            return None
        seen = np.flatnonzero(np.isfinite(self.history["loss"][: self.diverged[0]]))
        return (int(seen[-1]) + 1 if seen.size else 0), self.diverged[0]

    def save(self, directory: str | Path) -> Path:
        """history.csv, model.npy, iterates.npy and clients.npz (if kept) and, last, summary.json in this directory."""
        folder = Path(directory)
        with files.storage(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self.save_arrays(folder)
        files.write_json(folder / "summary.json", self.summary())
        return folder

    def save_arrays(self, folder: Path) -> None:
        """All but the summary, which says that the rest is there."""
        self.history.write_csv(folder / "history.csv")
        files.write_array(folder / "model.npy", self.x)
        if self.iterates is not None:
            files.write_array(folder / "iterates.npy", self.iterates)
        if self.clients:
            files.write_arrays(folder / "clients.npz", self.clients)

    def summary(self) -> dict[str, Any]:
        """The last round in numbers, with the setting."""
        last = {name: _plain(column[-1]) for name, column in self.history.items()}
        diverged: dict[str, Any] | None = None
        if self.diverged is not None and self.diverged_between is not None:
            diverged = {"round": self.diverged[0], "client": self.diverged[1], "not_before": self.diverged_between[0]}
        return {
            "setting": self.setting,
            "rounds": self.rounds,
            "final": last,
            "diverged": diverged,
            "stopped": self.stopped,
            "best_round": None if self.best is None else self.best._asdict(),
            "seconds": round(self.seconds, 3),
        }


def _plain(value: Any) -> float | int | None:
    number = value.item()
    return number if np.isfinite(number) else None
