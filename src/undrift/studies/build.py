"""From words to objects: problems, plans, oracles, compressors and methods."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import itertools
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .. import compression, oracles, plan, precision
from ..algorithms import METHODS
from ..compression import Compressor
from ..engine.ledger import message_shapes
from ..engine.setup import prepare
from ..errors import InputError, unknown
from ..links import compressed
from ..oracles import Oracle
from ..problems.base import Problem
from ..recipe import THEOREM, Factory, Method, method
from ..resources import Resources
from ..theory.known import Known
from ..theory.methods import known_of
from .catalogue import PROBLEMS
from .paths import absolute_paths
from .solver import OPTIONS, solver_from
from .spec import METHOD_WORDS, MethodSpec, RunSpec, Study
from .words import check_kind, construct, located

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
    "permuted": plan.permuted,
}
STEP_KEYS = ("low", "high", "fixed", "seed")
LINKS = ("up", "down")


def build_problem(study: Study) -> Problem:
    """The problem of the table [problem]."""
    words = dict(study.problem)
    if not words:
        raise InputError("which problem? Name one, for example --problem least_squares; `undrift list` shows them")
    with located(study.place("[problem]")):
        seed = words.get("data_seed", 0)
        if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
            raise InputError(f"data_seed must be a whole number ≥ 0, got {seed!r}")
        return construct(absolute_paths(words, study.folder), PROBLEMS, "problem")


def run_arguments(study: Study, problem: Problem) -> dict[str, Any]:
    """The arguments that `ud.run` and `ud.sweep` share."""
    run: RunSpec = study.run
    with located(study.place("[run]")):
        for key, kind in (("rounds", int), ("seed", int), ("record_every", int), ("failures", float)):
            check_kind("the run", key, getattr(run, key), kind)
        if isinstance(run.seeds, bool) or not isinstance(run.seeds, int) or run.seeds < 1:
            raise InputError(f"seeds must be a whole number ≥ 1, got {run.seeds!r}")
        return {
            "rounds": run.rounds,
            "steps": build_steps(run.steps, problem.clients),
            # Everyone: in a fixed order at once, or one after the other in a fresh order, as the method wants it.
            "participation": None
            if run.participation == "full"
            else construct(run.participation, PARTICIPATION, "participation"),
            "failures": run.failures,
            "oracle": None if run.oracle is None else construct(run.oracle, ORACLES, "oracle"),
            "record_every": run.record_every,
            "resources": Resources.of(problem.clients, run.speeds, run.link),
        }


def build_steps(words: Any, clients: int) -> Any:
    """τ: 20, "20", [5, 10, …], "5,10,…", "2..100" (anew every round), "2..100:fixed" (once per client), or a table.

    >>> build_steps("2..100", clients=3)
    RandomSteps(low=2, high=100)
    >>> len(build_steps({"low": 2, "high": 9, "fixed": True}, clients=3))
    3
    """
    if isinstance(words, str):
        return _steps_from_word(words, clients)
    if isinstance(words, Mapping):
        for key in words:
            if key not in STEP_KEYS:
                raise unknown("key of steps", key, STEP_KEYS)
        if not {"low", "high"} <= set(words):
            raise InputError(f"random steps need low and high, got {dict(words)}")
        for key in ("low", "high", "seed"):
            check_kind("steps", key, words.get(key, 0), int)
        drawn = plan.random_steps(words["low"], words["high"])
        if not words.get("fixed", False):
            return drawn
        rng = np.random.default_rng(words.get("seed", 0))
        return rng.integers(drawn.low, drawn.high + 1, clients).tolist()
    return words


def _steps_from_word(word: str, clients: int) -> Any:
    span, _, tail = word.partition(":")
    try:
        if ".." in span:
            if tail not in ("", "fixed"):
                raise unknown("word after the range of steps", tail, ["fixed"])
            low, high = (int(part) for part in span.split(".."))
            return build_steps({"low": low, "high": high, "fixed": tail == "fixed"}, clients)
        numbers = [int(part) for part in word.split(",")]
    except InputError:
        raise
    except ValueError:
        raise InputError(
            f"steps are written 20, or 5,10,20 (one per client), or 2..100, or 2..100:fixed; got {word!r}"
        ) from None
    return numbers[0] if len(numbers) == 1 else numbers


def method_factory(name: str, folder: Path = Path()) -> Callable[..., Method]:
    """A method by its name, or one's own as path/to/file.py:factory."""
    path, colon, attribute = name.rpartition(".py:")
    if not colon:
        if name not in METHODS:
            raise unknown("method", name, METHODS)
        return METHODS[name]
    file = (folder / Path(path + ".py").expanduser()).resolve()
    if not file.is_file():
        raise InputError(f"the method's file {file} does not exist")
    spec = importlib.util.spec_from_file_location(f"undrift_user_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"{file} cannot be imported: {type(error).__name__}: {error}") from error
    if not hasattr(module, attribute):
        names = [word for word, thing in vars(module).items() if callable(thing) and not word.startswith("_")]
        raise unknown(f"factory in {file.name}", attribute, names)
    found: Any = getattr(module, attribute)
    return found if isinstance(found, Factory) else method(found)


def parameters_of(factory: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters that can be written in a study file: numbers, whole numbers, truth values, strings, compressors.

    Where the method takes a local solver, its weight decay and clipping too.
    """
    signature = inspect.signature(inspect.unwrap(factory), eval_str=True)
    own = {name: p for name, p in signature.parameters.items() if _plain(p.annotation) or name in LINKS}
    return {**own, **OPTIONS} if "solver" in signature.parameters else own


def traced_by(factory: Callable[..., Any]) -> tuple[str, ...]:
    """The parameters that are numbers of the compiled program, and can be left to a theorem."""
    return getattr(factory, "traced", ("eta",))


def _plain(annotation: Any) -> bool:
    return any(kind in (int, float, bool, str) for kind in (annotation, *typing.get_args(annotation)))


@dataclasses.dataclass(frozen=True)
class MethodMaker:
    """A method of a study whose parameters are known, up to those that a grid varies."""

    spec: MethodSpec
    factory: Callable[..., Method]
    up: Compressor | None
    down: Compressor | None

    @classmethod
    def of(cls, spec: MethodSpec, folder: Path = Path()) -> MethodMaker:
        factory = method_factory(spec.name, folder)
        valid = parameters_of(factory)
        for key, entry in spec.parameters.items():
            if key not in valid:
                raise unknown(f"key of {spec.name}", key, [*valid, *METHOD_WORDS])
            for single in entry if isinstance(entry, list) else [entry]:
                if single == THEOREM and key in traced_by(factory):
                    continue
                check_kind(spec.name, key, single, valid[key].annotation)
        links = (None if c is None else construct(c, COMPRESSORS, "compressor") for c in (spec.up, spec.down))
        return cls(spec, factory, *links)

    @property
    def traced(self) -> tuple[str, ...]:
        """The parameters that are numbers."""
        return traced_by(self.factory)

    @property
    def known(self) -> Known:
        """What is known of the method."""
        return known_of(self.factory)

    @property
    def own_links(self) -> bool:
        """Whether the method knows compression itself (FedLin), or has it put around it."""
        return set(LINKS) <= set(parameters_of(self.factory))

    @property
    def solves(self) -> bool:
        """Whether the method takes a local solver, whose weight decay and clipping can be said."""
        return "solver" in inspect.signature(inspect.unwrap(self.factory)).parameters

    @property
    def grid(self) -> dict[str, list[Any]]:
        """What varies: the parameters given as lists."""
        return {key: entry for key, entry in self.spec.parameters.items() if isinstance(entry, list)}

    def points(self) -> list[dict[str, Any]]:
        """All points of the grid, in order; one without anything where nothing varies."""
        return [dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())]

    @property
    def fixed(self) -> dict[str, Any]:
        return {key: entry for key, entry in self.spec.parameters.items() if not isinstance(entry, list)}

    @property
    def missing(self) -> list[str]:
        """Parameters that have no value and no default."""
        return [
            name
            for name, parameter in parameters_of(self.factory).items()
            if parameter.default is parameter.empty and name not in self.spec.parameters
        ]

    def make(self, **point: Any) -> Method:
        """The method at one point of the grid."""
        links = {"up": self.up, "down": self.down} if self.own_links else {}
        values = {**self.fixed, **point}
        options = {key: values.pop(key) for key in OPTIONS if key in values and self.solves}
        if options:
            values["solver"] = solver_from(**options)
        made = self.factory(**values, **links)
        if self.own_links or (self.up is None and self.down is None):
            return made
        return compressed(made, up=self.up, down=self.down, exchange=self.spec.exchange)

    def with_parameters(self, **parameters: Any) -> MethodMaker:
        spec = dataclasses.replace(self.spec, parameters={**self.spec.parameters, **parameters})
        return dataclasses.replace(self, spec=spec)

    @property
    def label(self) -> str:
        """A short name for tables and figures."""
        if self.spec.label:
            return self.spec.label
        own = self.spec.name.rpartition(".py:")[2]
        links = [f"{arrow}{c}" for arrow, c in (("↑", self.up), ("↓", self.down)) if c is not None]
        return " ".join([own, *links])


def check_together(made: Method, problem: Problem, seed: int, on_divergence: str, setting: Mapping[str, Any]) -> None:
    """Refuse now what would be refused when the program is built: a k beyond the dimension, a missing closed form."""
    setup = prepare(made, problem, seed=seed, on_divergence=on_divergence, **setting)
    with precision.scope(setup.problem.dtype):
        message_shapes(setup.algorithm, setup.problem, setup.oracle)
