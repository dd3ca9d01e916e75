"""From words to objects: plans, oracles, compressors, rules that end a run, schedules."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .. import compression, oracles, plan, stop
from ..compression import Compressor
from ..errors import InputError, unknown
from ..gate import check, check_value, scalar, shown
from ..oracles import Oracle
from ..recipe import Schedule
from ..schedules import Inverse, piecewise
from .own import is_own, names_own
from .schema import CoinTable, Ends, RandomSteps, Steps, table_of
from .words import checked_call, construct, located, split_word

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
WRITTEN = (
    "steps are written 20, or 5,10,20 (one per client), or 2..100, or 2..100:fixed, or 2..100:common, or geometric:0.1, or "
    "piecewise:1=20,101=5, or the name of a schedule with its arguments, or file.py:rule"
)


def build_compressor(words: Any, asked_by: str | None = None) -> Compressor:
    """A compressor; `asked_by`, here and below: the study file that the words stand in, None: the user himself."""
    made = construct(words, COMPRESSORS, "compressor", asked_by, lambda made: isinstance(made, Compressor))
    return made


def build_participation(words: Any, asked_by: str | None = None) -> plan.Participation | None:
    """Who takes part. Everyone is None: in a fixed order at once, or in turn in a fresh one, as the method wants it."""
    if words == "full":
        return None
    made = construct(words, PARTICIPATION, "participation", asked_by, lambda made: isinstance(made, plan.Participation))
    return made


def build_oracle(words: Any, asked_by: str | None = None) -> Oracle | None:
    """What clients get when they ask for a gradient; None: what the method or the problem says."""
    if words is None:
        return None
    made = construct(words, ORACLES, "oracle", asked_by, lambda made: isinstance(made, Oracle))
    return made


def build_availability(words: Any, names: list[str] | None = None) -> plan.Availability | None:
    """Who is there when; `names`: of the clients, in their order."""
    if words is None:
        return None
    table = {"file": words} if isinstance(words, str) else dict(words)
    return plan.availability(Path(table.pop("file")), **table, names=names or ())


def build_steps(words: Any, clients: int, asked_by: str | None = None) -> Any:
    """τ: 20, "20", [5, 10, …], "5,10,…"; drawn anew every round "2..100" or "geometric:0.1", with ":common" for all clients
    alike; "2..100:fixed", once per client; a schedule; a rule of one's own; or tables of these.

    >>> print(build_steps("2..100:common", clients=3), build_steps({"geometric": 0.1}, clients=3))
    random_steps(2, 100, common=True) geometric_steps(0.1, common=False)
    >>> len(build_steps({"low": 2, "high": 9, "fixed": True}, clients=3))
    3
    >>> print(build_steps("piecewise:1=2..100,51=5", clients=3))
    piecewise_steps(1: random_steps(2, 100), 51: 5)
    """
    if isinstance(words, str) and not is_own(words):
        words = _steps_from_word(words)
    check_value("steps", words, Steps)
    if isinstance(words, str) or (isinstance(words, Mapping) and is_own(str(words.get("name", "")))):
        return construct(words, {}, "steps", asked_by, _are_steps)
    if not isinstance(words, Mapping):
        return words
    if words.get("schedule") == "piecewise":
        return _pieces(words, clients, asked_by)
    if "schedule" in words:
        return plan.scheduled_steps(build_schedule(words, asked_by))
    if "geometric" in words or words.get("name") == "geometric":
        coin = {("p" if key == "geometric" else key): entry for key, entry in words.items() if key != "name"}
        check(CoinTable, coin, "steps", "steps: ")
        return plan.geometric_steps(coin["p"], common=coin.get("common", False))
    return _ranged(words, clients)


def _ranged(words: Mapping[str, Any], clients: int) -> Any:
    check(RandomSteps, words, "steps")
    drawn = plan.random_steps(words["low"], words["high"], common=words.get("common", False))
    if not words.get("fixed", False):
        return drawn
    if drawn.common:
        raise InputError(
            "steps that are fixed belong each to a client, common ones to all of them: leave one of both out"
        )
    rng = np.random.default_rng(words.get("seed", 0))
    return rng.integers(drawn.low, drawn.high + 1, clients).tolist()


def _pieces(words: Mapping[str, Any], clients: int, asked_by: str | None) -> plan.PiecewiseSteps:
    """{ schedule = "piecewise", values = { 1 = 20, 101 = "2..100" } }: each piece is written as steps are."""
    values, others = words.get("values"), [key for key in words if key not in ("schedule", "values")]
    if not isinstance(values, Mapping) or others:
        raise InputError(f"pieces of steps are written values = {{ 1 = 20, 101 = 5 }}, got {shown(dict(words))}")
    built = {}
    for when, piece in values.items():
        with located(f"steps from round {when} on"):
            built[scalar(str(when))] = build_steps(piece, clients, asked_by)
    return plan.piecewise_steps(built)


def _are_steps(made: Any) -> bool:
    whole = isinstance(made, int) and not isinstance(made, bool)
    return whole or callable(made) or isinstance(made, plan.ChangingSteps | list | tuple | np.ndarray)


def _steps_from_word(word: str) -> Any:
    """The number, the list or the table that a word stands for."""
    span, colon, tail = word.partition(":")
    if span == "geometric":
        return _coin_from_word(word)
    if colon and span.isidentifier() and span in schedules():
        _, positional, named = split_word(word)
        if positional:
            raise InputError(f"{WRITTEN}; got {shown(word)}")
        return {"schedule": span, **({"values": named} if span == "piecewise" else named)}
    if ".." in span:
        if tail not in ("", "fixed", "common"):
            raise unknown("word after the range of steps", tail, ["fixed", "common"])
        numbers = [scalar(part.strip()) for part in span.split("..")]
        found: Any = dict(zip(("low", "high"), numbers, strict=False), **({tail: True} if tail else {}))
    else:
        numbers = [scalar(part.strip()) for part in word.split(",")]
        found = numbers[0] if len(numbers) == 1 else numbers
    if (colon and ".." not in span) or any(isinstance(n, str) for n in numbers) or (".." in span and len(numbers) != 2):
        raise InputError(f"{WRITTEN}; got {shown(word)}")
    return found


def _coin_from_word(word: str) -> dict[str, Any]:
    """geometric:0.1, geometric:p=0.1, geometric:0.1:common, geometric:p=0.1,common=true."""
    plain = word.removesuffix(":common")
    _, positional, named = split_word(plain)
    if len(positional) > 1 or (positional and "p" in named):
        raise InputError(f"{WRITTEN}; got {shown(word)}")
    given = {"p": positional[0]} if positional else {}
    return {"name": "geometric", **given, **named, **({"common": True} if plain != word else {})}


def build_stop(words: Any, asked_by: str | None = None) -> stop.Stop:
    """When a run may end: at these values of these columns, or where a column has not become better for so many rounds.

    >>> print(build_stop("gap=1e-6"))
    gap ≤ 1e-06
    >>> print(build_stop({"accuracy": 0.9, "patience": 20, "column": "test_loss"}))
    accuracy ≥ 0.9, or test_loss no better for 20 rounds
    """
    if names_own(words.get("name", "") if isinstance(words, Mapping) else words):
        made: stop.Stop = construct(words, {}, "stop", asked_by, lambda made: isinstance(made, stop.Stop))
        return made
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
    """Those that can be named: two of undrift's, and Optax's, which takes a while to import."""
    import optax

    return {
        "inverse": Inverse,
        "piecewise": piecewise,
        **{
            name: function
            for name, function in vars(optax.schedules).items()
            if name == "exponential_decay" or (name.endswith("_schedule") and callable(function))
        },
    }


def build_schedule(words: Mapping[str, Any], asked_by: str | None = None) -> Schedule:
    """A number that changes by round: `inverse`, `piecewise`, any schedule of Optax, which counts rounds from 0, or one's own.

    >>> halved = build_schedule({"schedule": "exponential_decay", "init_value": 0.5, "transition_steps": 1, "decay_rate": 0.5})
    >>> float(halved(1))
    0.25
    """
    check_value("schedule", words["schedule"], str)
    if is_own(words["schedule"]):
        named = {("name" if key == "schedule" else key): entry for key, entry in words.items()}
        own: Schedule = construct(named, {}, "schedule", asked_by, callable)
        return own
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
