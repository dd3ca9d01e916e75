"""A method of a study: its words, and the methods that they make."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta
from msgspec.inspect import type_info

from ..algorithms import METHODS
from ..compression import Compressor
from ..errors import InputError, unknown
from ..gate import Table, check, check_sound, rule_of, shown
from ..links import compressed
from ..privacy import private
from ..protocol import exchanges
from ..recipe import Factory, Method, Surroundings, method
from ..theory.known import Known
from ..theory.methods import known_of
from . import schema
from .build import build_compressor, build_schedule
from .own import absolute_own, is_own, names_own, own_factory
from .schema import WORDS, MethodWords, field_types, is_plain, kind_of, make_table
from .solver import OPTIONS, solver_from

OWN_WORDS = (
    "name",
    "label",
    "up",
    "down",
    "exchange",
    "private",
    "asked",
)  # every other key is a parameter of the method
LINKS = ("up", "down")
OPEN = "open"  # what was asked for where nothing was given
NUMBERS_RULE = 'a number, "theorem", "certified", a schedule { schedule = … }, or a list of these (a grid)'


@dataclasses.dataclass(frozen=True)
class StudyMethod:
    """One table [[method]]."""

    name: str
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # lists are grids
    label: str | None = None
    up: Any = None
    down: Any = None
    exchange: str | None = None
    private: Mapping[str, Any] | None = None  # clip, noise, …
    asked: Mapping[str, Any] | None = None  # of parameters that were chosen for the user: what stood there before
    asked_by: str | None = dataclasses.field(default=None, compare=False)  # the file that it stands in; None: the user

    @classmethod
    def of(cls, words: Mapping[str, Any], folder: Path = Path(), asked_by: str | None = None) -> StudyMethod:
        """From the words of the table; a file is relative to `folder`."""
        if not isinstance(words.get("name"), str):
            raise InputError(
                f'a method needs name = "…", got {shown(words.get("name"))}; `undrift list` shows the names'
            )
        own = {key: words[key] for key in OWN_WORDS if key in words}
        parameters = {key: entry for key, entry in words.items() if key not in OWN_WORDS}
        check(MethodWords, own, "a method")
        for key, entry in parameters.items():
            check_sound(key, entry)
            if isinstance(entry, list) and (not entry or any(isinstance(one, list) for one in entry)):
                raise InputError(f"{key} must be {NUMBERS_RULE}, got {shown(entry)}")
        for key in own.get("asked") or {}:
            if key not in parameters:
                raise unknown("parameter that was chosen (asked)", key, parameters)
        for key in ("name", *LINKS):
            if key in own:
                own[key] = absolute_own(own[key], folder)
        made = cls(**own, parameters=absolute_own(parameters, folder), asked_by=asked_by)
        return made if made.names_programs else made.checked()  # of a program only once it may run

    def words(self) -> dict[str, Any]:
        own = {"name": self.name, "label": self.label, **self.parameters}
        own |= {
            "up": self.up,
            "down": self.down,
            "exchange": self.exchange,
            "private": self.private,
            "asked": self.asked,
        }
        return {key: entry for key, entry in own.items() if entry is not None}

    def with_parameters(self, **parameters: Any) -> StudyMethod:
        return dataclasses.replace(self, parameters={**self.parameters, **parameters})

    def as_asked(self) -> StudyMethod:
        """The method before values were chosen for the user."""
        asked = self.asked or {}
        kept = {key: asked.get(key, entry) for key, entry in self.parameters.items() if asked.get(key) != OPEN}
        return dataclasses.replace(self, parameters=kept, asked=None)

    def as_chosen(self, before: StudyMethod, names: Iterable[str]) -> StudyMethod:
        """The method, which says of these parameters what stood there before."""
        asked = {name: before.parameters.get(name, OPEN) for name in names}
        return dataclasses.replace(self, asked=asked or None)

    # ----- what it is
    @property
    def names_programs(self) -> bool:
        """Whether files of the user's own have to run before it can be checked."""
        return names_own([self.name, self.up, self.down, dict(self.parameters)])

    @cached_property
    def factory(self) -> Callable[..., Method]:
        return method_factory(self.name, self.asked_by)

    @property
    def known(self) -> Known:
        """What is known of the method."""
        single = {key: entry for key, entry in self.parameters.items() if not isinstance(entry, list)}
        return known_of(self.factory).under(single)

    @cached_property
    def compressors(self) -> tuple[Compressor | None, Compressor | None]:
        """Of what clients send, and of what the server sends."""
        up, down = (None if c is None else build_compressor(c, self.asked_by) for c in (self.up, self.down))
        return up, down

    @property
    def own_links(self) -> tuple[str, ...]:
        """The compressors that the method takes itself (FedLin, EF21); others are put around it."""
        return tuple(name for name, one in parameters_of(self.factory).items() if is_link(one.annotation))

    @property
    def draws_steps(self) -> bool:
        """Whether its local steps are its own: the table [run] says none for it."""
        return getattr(self.factory, "draws", None) is not None

    @property
    def title(self) -> str:
        """A short name for tables and figures."""
        arrows = [f"{arrow}{c}" for arrow, c in zip("↑↓", self.compressors, strict=True) if c is not None]
        noised = [] if self.private is None else ["private"]
        own = [] if is_own(self.name) else [self.variant] if self.variant else []
        return self.label or " ".join([self.name.rpartition(".py:")[2], *own, *noised, *arrows])

    @property
    def variant(self) -> str:
        """What the user chose of it besides numbers, in a few words.

        >>> StudyMethod("fedlin", {"eta": 0.1, "table": True, "exchanges": 1}).variant
        'table exchanges=1'
        """
        numbers = (*traced_by(self.factory), *self.grid, *OPTIONS, *(self.asked or ()))
        settings = {k: v for k, v in self.parameters.items() if k not in numbers and v is not False}
        return " ".join(k if v is True else f"{k}={shown_word(v)}" for k, v in settings.items())

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
        given = {*self.parameters, *(name for name in LINKS if getattr(self, name) is not None)}
        needed = (name for name, one in parameters_of(self.factory).items() if one.default is one.empty)
        return [name for name in needed if name not in given]

    def checked(self) -> StudyMethod:
        """The same; refuses parameters that the method does not have, and values that it cannot take."""
        check(method_table(self.factory), self.words(), self.name, f"{self.name}: ")
        for key, entry in self.parameters.items():
            for single in entry if isinstance(entry, list) else [entry]:
                if key in self.own_links:
                    build_compressor(single, self.asked_by)
                elif isinstance(single, Mapping):
                    if not is_schedule(single):
                        raise InputError(f"{self.name}: {key} must be {NUMBERS_RULE}, got {shown(single)}")
                    build_schedule(single, self.asked_by)
        self.compressors  # noqa: B018 (refuses words that are none)
        return self

    def make(self, **point: Any) -> Method:
        """The method at one point of the grid."""
        fixed = {key: entry for key, entry in self.parameters.items() if key not in self.grid}
        values: dict[str, Any] = {
            k: build_schedule(v, self.asked_by) if is_schedule(v) else v for k, v in {**fixed, **point}.items()
        }
        solves = "solver" in inspect.signature(inspect.unwrap(self.factory)).parameters
        options = {key: values.pop(key) for key in OPTIONS if key in values and solves}
        if (
            options.get("clip_cut") is not None
            and "halves" in inspect.signature(inspect.unwrap(self.factory)).parameters
        ):
            raise InputError(f"{self.name} clips each half of the model by itself already: leave out clip_cut")
        if options:
            values["solver"] = solver_from(**options)
        values |= {k: build_compressor(values[k], self.asked_by) for k in self.own_links if k in values}
        links = {name: link for name, link in zip(LINKS, self.compressors, strict=True) if link is not None}
        made = self.factory(**values, **{name: link for name, link in links.items() if name in self.own_links})
        if self.private is not None:  # noise before compression: what is made of it tells no more
            made = private(made, **self.private)
        around = {name: link for name, link in links.items() if name not in self.own_links}
        if not around:
            self._check_exchange(made)
            return made
        return compressed(made, **around, exchange=self.exchange)

    def _check_exchange(self, made: Method) -> None:
        """Refuse the name of an exchange that nothing would be done with."""
        if self.exchange is None:
            return
        why = "places its compressors itself" if self.own_links else "has no compressor: give up or down"
        names = ", ".join(step.name for step in exchanges(made.build().round))
        raise InputError(
            f"{self.name} {why}, so exchange = {self.exchange!r} means nothing: leave it out (its exchanges: {names})"
        )


def is_link(annotation: Any) -> bool:
    """Whether a parameter takes a compressor."""
    return annotation in (Compressor, Compressor | None)


def shown_word(entry: Any) -> str:
    """A value in a few letters: of a compressor's table its name and its values.

    >>> shown_word("top_k:5"), shown_word({"name": "top_k", "k": 5, "memory": "difference"})
    ('top_k:5', 'top_k:5,difference')
    """
    if not isinstance(entry, Mapping):
        return str(entry)
    inside = ",".join(str(value) for key, value in entry.items() if key != "name")
    return f"{entry.get('name', '')}:{inside}"


def is_schedule(entry: Any) -> bool:
    """Whether a value is the table of a schedule."""
    return isinstance(entry, Mapping) and "schedule" in entry


def method_factory(name: str, asked_by: str | None = None) -> Callable[..., Method]:
    """A method by its name, or one's own as path/to/file.py:factory; `asked_by`: the study file that names it, if one does."""
    if not is_own(name):
        if name not in METHODS:
            raise unknown("method", name, METHODS)
        return METHODS[name]
    found = own_factory(name, "method", asked_by)
    return found if isinstance(found, Factory) else method(found)


def parameters_of(factory: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters that can be written in a study file: numbers, whole numbers, truth values, strings, compressors.

    Where the method takes a local solver, its weight decay and clipping too.
    """
    given = inspect.signature(inspect.unwrap(factory), eval_str=True).parameters
    own = {
        name: parameter
        for name, parameter in given.items()
        if (is_plain(parameter.annotation) or is_link(parameter.annotation)) and name not in Surroundings._fields
    }
    return {**own, **OPTIONS} if "solver" in given else own


def method_table(factory: Callable[..., Any], name: str = "method", kind: Any = str) -> type[Table]:
    """The table [[method]] of a method: the keys of every method, and its own parameters, each a value or a grid of them.

    What is missing is chosen by a rule, where there is one, so that no parameter is needed. `kind`: of the key `name`.
    """
    traced = traced_by(factory)
    keys: dict[str, tuple[Any, Any]] = {
        key: (of, None) for key, of in field_types(MethodWords).items() if key != "name"
    }
    for key, one in parameters_of(factory).items():
        if is_link(one.annotation):
            keys[key] = (schema.Compressor | None, None)
        elif key not in keys:
            keys[key] = (_or_grid(one.annotation, key in traced), None if one.default is one.empty else one.default)
    return make_table(name, factory, {"name": kind}, keys)


def _or_grid(annotation: Any, traced: bool) -> Any:
    single: Any = float | Literal["theorem", "certified"] | dict[str, Any] if traced else kind_of(annotation)
    rule = NUMBERS_RULE if traced else f"{rule_of(type_info(single))}, or a list of these (a grid)"
    about = Meta(extra={"rule": rule}, extra_json_schema={WORDS: "numbers"} if traced else None)
    return Annotated[single | Annotated[list[single], Meta(min_length=1)], about]


def traced_by(factory: Callable[..., Any]) -> tuple[str, ...]:
    """The parameters that are numbers of the compiled program: a theorem or a certificate can choose them, and they can
    change by round."""
    return getattr(factory, "traced", ("eta",))
