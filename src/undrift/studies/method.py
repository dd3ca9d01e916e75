"""A method of a study: its words, and the methods that they make."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import itertools
import typing
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from ..algorithms import METHODS
from ..compression import Compressor
from ..errors import InputError, unknown
from ..links import compressed
from ..recipe import THEOREM, Factory, Method, Surroundings, method
from ..theory.known import Known
from ..theory.methods import known_of
from .build import COMPRESSORS, build_schedule
from .paths import absolute_method
from .solver import OPTIONS, solver_from
from .words import check_kind, construct

OWN_WORDS = ("name", "label", "up", "down", "exchange")  # every other key is a parameter of the method
LINKS = ("up", "down")


@dataclasses.dataclass(frozen=True)
class StudyMethod:
    """One table [[method]]."""

    name: str
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # lists are grids
    label: str | None = None
    up: Any = None
    down: Any = None
    exchange: str | None = None

    @classmethod
    def of(cls, words: Mapping[str, Any], folder: Path = Path()) -> StudyMethod:
        """From the words of the table; a file is relative to `folder`."""
        if not isinstance(words.get("name"), str):
            raise InputError('a method needs name = "…"; `undrift list` shows the names')
        own = {key: words[key] for key in OWN_WORDS if key in words}
        parameters = {key: entry for key, entry in words.items() if key not in OWN_WORDS}
        return cls(**{**own, "name": absolute_method(own["name"], folder)}, parameters=parameters)

    def words(self) -> dict[str, Any]:
        own = {"name": self.name, "label": self.label, **self.parameters}
        own |= {"up": self.up, "down": self.down, "exchange": self.exchange}
        return {key: entry for key, entry in own.items() if entry is not None}

    def with_parameters(self, **parameters: Any) -> StudyMethod:
        return dataclasses.replace(self, parameters={**self.parameters, **parameters})

    # ----- what it is
    @cached_property
    def factory(self) -> Callable[..., Method]:
        return method_factory(self.name)

    @property
    def known(self) -> Known:
        """What is known of the method."""
        return known_of(self.factory)

    @cached_property
    def compressors(self) -> tuple[Compressor | None, Compressor | None]:
        """Of what clients send, and of what the server sends."""
        up, down = (None if c is None else construct(c, COMPRESSORS, "compressor") for c in (self.up, self.down))
        return up, down

    @property
    def own_links(self) -> bool:
        """Whether the method knows compression itself (FedLin), or has it put around it."""
        return set(LINKS) <= set(parameters_of(self.factory))

    @property
    def title(self) -> str:
        """A short name for tables and figures."""
        arrows = [f"{arrow}{c}" for arrow, c in zip("↑↓", self.compressors, strict=True) if c is not None]
        return self.label or " ".join([self.name.rpartition(".py:")[2], *arrows])

    # ----- its values
    @property
    def grid(self) -> dict[str, list[Any]]:
        """What varies: the parameters given as lists."""
        return {key: entry for key, entry in self.parameters.items() if isinstance(entry, list)}

    def points(self) -> list[dict[str, Any]]:
        """All points of the grid, in order; one without anything where nothing varies."""
        return [dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())]

    @property
    def missing(self) -> list[str]:
        """Parameters that have no value and no default."""
        needed = (name for name, one in parameters_of(self.factory).items() if one.default is one.empty)
        return [name for name in needed if name not in self.parameters]

    def checked(self) -> StudyMethod:
        """The same; refuses parameters that the method does not have, and values that it cannot take."""
        valid, traced = parameters_of(self.factory), traced_by(self.factory)
        for key, entry in self.parameters.items():
            if key not in valid:
                raise unknown(f"key of {self.name}", key, [*valid, *OWN_WORDS])
            for single in entry if isinstance(entry, list) else [entry]:
                if key in traced and (single == THEOREM or is_schedule(single)):
                    continue
                check_kind(self.name, key, single, valid[key].annotation)
        self.compressors  # noqa: B018 (refuses words that are none)
        return self

    def make(self, **point: Any) -> Method:
        """The method at one point of the grid."""
        fixed = {key: entry for key, entry in self.parameters.items() if key not in self.grid}
        values: dict[str, Any] = {k: build_schedule(v) if is_schedule(v) else v for k, v in {**fixed, **point}.items()}
        solves = "solver" in inspect.signature(inspect.unwrap(self.factory)).parameters
        options = {key: values.pop(key) for key in OPTIONS if key in values and solves}
        if options:
            values["solver"] = solver_from(**options)
        up, down = self.compressors
        if self.own_links:
            return self.factory(**values, up=up, down=down)
        made = self.factory(**values)
        return made if up is None and down is None else compressed(made, up=up, down=down, exchange=self.exchange)


def is_schedule(entry: Any) -> bool:
    """Whether a value is the table of a schedule."""
    return isinstance(entry, Mapping) and "schedule" in entry


def method_factory(name: str) -> Callable[..., Method]:
    """A method by its name, or one's own as path/to/file.py:factory."""
    path, colon, attribute = name.rpartition(".py:")
    if not colon:
        if name not in METHODS:
            raise unknown("method", name, METHODS)
        return METHODS[name]
    file = Path(path + ".py").expanduser().resolve()
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
    given = inspect.signature(inspect.unwrap(factory), eval_str=True).parameters
    own = {
        name: parameter
        for name, parameter in given.items()
        if (_plain(parameter.annotation) or name in LINKS) and name not in Surroundings._fields
    }
    return {**own, **OPTIONS} if "solver" in given else own


def traced_by(factory: Callable[..., Any]) -> tuple[str, ...]:
    """The parameters that are numbers of the compiled program: a theorem can choose them, and they can change by round."""
    return getattr(factory, "traced", ("eta",))


def _plain(annotation: Any) -> bool:
    return any(kind in (int, float, bool, str) for kind in (annotation, *typing.get_args(annotation)))
