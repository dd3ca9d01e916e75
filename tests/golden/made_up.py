"""Results that nobody computed, so that tables of them are the same on every machine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from undrift.engine.history import History, Result
from undrift.studies.comparison import Outcome

T = np.arange(251)
GAPS = {
    "fedavg": 0.0234 + 0.5**T,
    "fedsplit inner_steps=10": 8.75e-8 + 0.75**T,
    "gd": 0.125**T,
    "scaffold": 0.75**T,
    "fedlin": 0.5**T,
    "fedlin ↑top_k(32)": 9.75e-6 + 0.5**T,
}
COLOURS = {"fedavg": "#E69F00", "fedsplit": "#009E73", "gd": "#8C8C8C", "scaffold": "#0072B2", "fedlin": "#D55E00"}


def _outcome(
    label: str, values: np.ndarray, columns: dict[str, np.ndarray], number: int, lost: bool = False
) -> Outcome:
    t, pooled, name = np.arange(values.size), label == "gd", label.split()[0]
    sent = 0 if pooled else 10_400
    history = {"loss": 1 + values, **columns}
    history |= {"bytes_up": sent * t, "bytes_down": 2 * sent * t, "gradients": (20 + 215 * (not pooled)) * t}
    history = {key: np.asarray(column, float)[None, None] for key, column in history.items()}
    diverged, x = np.array([[17 if lost else -1]]), np.zeros((1, 1, 2))
    point = [{"eta": 0.5**number}]
    return Outcome(label, name, point, [0], history, x, diverged, 1.0, COLOURS.get(name), pooled=pooled)


def outcomes() -> list[Outcome]:
    """A comparison with a known optimum: methods that arrive, settle and diverge."""
    made = [_outcome(label, gap, {"gap": 8 * gap}, number) for number, (label, gap) in enumerate(GAPS.items())]
    lost = np.where(T < 17, 2.0**T, np.inf)
    return [*made, _outcome("fedprox", lost, {"gap": lost}, 7, lost=True)]


def trained() -> list[Outcome]:
    """A comparison of networks: loss and accuracy."""
    ends = {"fedavg": 0.75, "sequential_fl": 0.5, "ssl mode=peer": 0.625}
    t = np.arange(21)
    return [
        _outcome(label, end + 0.5**t, {"accuracy": 0.96875 - end / 8 - 0.5 ** (t + 1)}, number)
        for number, (label, end) in enumerate(ends.items())
    ]


def result() -> Result:
    """A run of 60 rounds."""
    t = np.arange(61)
    gap = 8 * 0.5**t
    columns = {"gap": gap, "loss": 1 + gap, "grad_norm": 4 * 0.5 ** (t / 2), "drift": 0.25 * 0.5**t}
    columns |= {"bytes_up": 3200.0 * t, "bytes_down": 6400.0 * t, "gradients": 20.0 * t}
    return Result(np.zeros(3), History(columns), None, 60, {}, 1.0, None)


def _candidate(name: str, label: str, steps: str, step: float | None, rounds: int | None, promised: int | None) -> Any:
    """As much of a candidate of the adviser as its table asks for."""
    known = SimpleNamespace(colour=COLOURS.get(name))
    option = SimpleNamespace(known=known, name=name, reference=name == "gd")
    costs = None
    if rounds is not None:
        sent = 0 if name == "gd" else 20_800 * rounds
        costs = SimpleNamespace(bytes_up=sent, bytes_down=2 * sent, gradients=250 * rounds, seconds=0.125 * rounds)
    bound = SimpleNamespace(certified=name == "fedlin")
    guarantee = None if promised is None else SimpleNamespace(bound=bound, rounds=promised)
    forecast = SimpleNamespace(rounds=rounds, floor=6.5e-5)
    return SimpleNamespace(option=option, label=label, local_steps=steps, step=step, costs=costs, forecast=forecast,
                           measured=None, guarantee=guarantee)  # fmt: skip


def advice() -> Any:
    """What the adviser's table shows."""
    candidates = [
        _candidate("fedavg", "fedavg", "1", None, None, None),
        _candidate("scaffold", "scaffold", "5", 0.0125, 105, 12_867),
        _candidate("fedlin", "fedlin", "2", 0.16, 41, 149),
        _candidate("fedlin", "fedlin ↑top_k(16, memory='difference')", "2..50", 0.139, 65, None),
        _candidate("gd", "gd", "1", 0.08, 80, 128),
    ]
    return SimpleNamespace(
        how="estimated",
        target_text="f − f* ≤ 2.02e-05 = 1e-06·(f₀ − f*)",
        resources="100 gradients/s, 1 MB/s up, 10 MB/s down, latency 50 ms",
        best_of_each=lambda: candidates,
        recommended=candidates[2],
    )
