"""From words to objects: plans, oracles, compressors, rules that end a run, schedules."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import compression, oracles, plan, stop
from ..compression import Compressor
from ..errors import InputError, unknown
from ..gate import check, check_value, scalar, shown
from ..oracles import Oracle
from ..recipe import Schedule
from ..schedules import Inverse
from .schema import Ends, Steps, table_of
from .words import checked_call, located, split_word

COMPRESSORS: dict[str, Callable[..., Compressor]] = {
    "top_k": compression.top_k,
    "random_k": compression.random_k,
    "scaled_sign": compression.scaled_sign,
    "quantise": compression.quantise,
}
ORACLES: dict[str, Callable[..., Oracle]] = {
    "full": oracles.full,
    "minibatch": oracles.minibatch,
    "noisy": oracles.noisy,
}
PARTICIPATION: dict[str, Callable[..., plan.Participation]] = {
    "full": plan.full,
    "uniform": plan.uniform,
    "weighted": plan.weighted,
    "permuted": plan.permuted,
}
PATIENCE = ("patience", "column", "least", "keep")


def build_steps(words: Any, clients: int) -> Any:
    """τ: 20, "20", [5, 10, …], "5,10,…", "2..100" (anew every round), "2..100:fixed" (once per client), or a table.

    >>> build_steps("2..100", clients=3)
    RandomSteps(low=2, high=100)
    >>> len(build_steps({"low": 2, "high": 9, "fixed": True}, clients=3))
    3
    """
    if isinstance(words, str):
        words = _steps_from_word(words)
    check_value("steps", words, Steps)
    if not isinstance(words, Mapping):
        return words
    drawn = plan.random_steps(words["low"], words["high"])
    if not words.get("fixed", False):
        return drawn
    rng = np.random.default_rng(words.get("seed", 0))
    return rng.integers(drawn.low, drawn.high + 1, clients).tolist()


def _steps_from_word(word: str) -> Any:
    """The number, the list or the table that a word stands for."""
    span, colon, tail = word.partition(":")
    if ".." in span:
        if tail not in ("", "fixed"):
            raise unknown("word after the range of steps", tail, ["fixed"])
        numbers = [scalar(part.strip()) for part in span.split("..")]
        found: Any = dict(zip(("low", "high"), numbers, strict=False), fixed=tail == "fixed")
    else:
        numbers = [scalar(part.strip()) for part in word.split(",")]
        found = numbers[0] if len(numbers) == 1 else numbers
    if (colon and ".." not in span) or any(isinstance(n, str) for n in numbers) or (".." in span and len(numbers) != 2):
        raise InputError(
            f"steps are written 20, or 5,10,20 (one per client), or 2..100, or 2..100:fixed; got {shown(word)}"
        )
    return found


def build_stop(words: Any) -> stop.Stop:
    """When a run may end: at these values of these columns, or where a column has not become better for so many rounds.

    >>> print(build_stop("gap=1e-6"))
    gap ≤ 1e-06
    >>> print(build_stop({"accuracy": 0.9, "patience": 20, "column": "test_loss"}))
    accuracy ≥ 0.9, or test_loss no better for 20 rounds
    """
    if isinstance(words, str):
        name, positional, words = split_word(f":{words}")
        if name or positional:
            raise InputError(f"stop is written column=value or patience=rounds, got {positional[0]!r}")
    if not words:
        raise InputError("stop is a word such as gap=1e-6 or a table { gap = 1e-6, patience = 20 }, got nothing")
    check_value("stop", words, Ends)
    targets = {key: entry for key, entry in words.items() if key not in PATIENCE}
    rules = [stop.at(**targets)] if targets else []
    waiting = {key: words[key] for key in PATIENCE if key in words}
    if waiting and "patience" not in waiting:
        raise InputError(f"{', '.join(waiting)} of stop belongs to patience = rounds, which is missing")
    if waiting:
        rules.append(checked_call(stop.patience, {"rounds": waiting.pop("patience"), **waiting}, "stop"))
    return functools.reduce(lambda one, other: one | other, rules)


@functools.cache
def schedules() -> dict[str, Callable[..., Schedule]]:
    """Those that can be named: one of undrift's, and Optax's, which takes a while to import."""
    import optax

    return {
        "inverse": Inverse,
        **{
            name: function
            for name, function in vars(optax.schedules).items()
            if name == "exponential_decay" or (name.endswith("_schedule") and callable(function))
        },
    }


def build_schedule(words: Mapping[str, Any]) -> Schedule:
    """A number that changes by round: `inverse`, or any schedule of Optax, which counts rounds from 0.

    >>> halved = build_schedule({"schedule": "exponential_decay", "init_value": 0.5, "transition_steps": 1, "decay_rate": 0.5})
    >>> float(halved(1))
    0.25
    """
    check_value("schedule", words["schedule"], str)
    if words["schedule"] not in schedules():
        raise unknown("schedule", words["schedule"], schedules())
    arguments = {key: entry for key, entry in words.items() if key != "schedule"}
    what = f"schedule {words['schedule']!r}"
    check(table_of(schedules()[words["schedule"]]), arguments, what, f"{what}: ")
    return _schedule(json.dumps(words, sort_keys=True))


@functools.cache
def _schedule(words: str) -> Schedule:
    """The same words give the same object, and so the same program."""
    arguments = json.loads(words)
    name = arguments.pop("schedule")
    for key, entry in arguments.items():
        if isinstance(entry, dict):  # rounds as keys, which TOML writes as strings
            if not all(isinstance(scalar(when), int) for when in entry):
                raise InputError(f"schedule {name!r}: the keys of {key} are rounds, got {', '.join(entry)}")
            arguments[key] = {int(when): number for when, number in entry.items()}
    with located(f"schedule {name!r}"):
        try:
            return schedules()[name](**arguments)
        except InputError:
            raise
        except Exception as error:  # Optax looks at its arguments in its own ways
            raise InputError(f"Optax refuses {shown(arguments)}: {type(error).__name__}: {error}") from error
