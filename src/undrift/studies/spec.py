"""A study as it is written: plain words, checked for unknown keys, not yet turned into objects."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError, unknown
from . import toml
from .words import located

TABLES = ("problem", "run", "method")
METHOD_WORDS = ("name", "label", "up", "down", "exchange")  # every other key is a parameter of the method


@dataclasses.dataclass(frozen=True)
class RunSpec:
    """The table [run]: the plan, the gradients and the seeds."""

    rounds: int = 100
    steps: Any = 10
    participation: Any = "full"
    failures: float = 0.0
    oracle: Any = None
    seed: int = 0
    seeds: int = 1  # compare: how many, from `seed` on
    record_every: int = 1
    on_divergence: str = "stop"
    speeds: Any = 100.0  # gradients per second of the clients, and their link: for virtual seconds
    link: Any = None


@dataclasses.dataclass(frozen=True)
class MethodSpec:
    """One table [[method]]."""

    name: str
    parameters: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # lists are grids
    label: str | None = None
    up: Any = None
    down: Any = None
    exchange: str | None = None

    def words(self) -> dict[str, Any]:
        own = {"name": self.name, "label": self.label, **self.parameters}
        own |= {"up": self.up, "down": self.down, "exchange": self.exchange}
        return {key: entry for key, entry in own.items() if entry is not None}


@dataclasses.dataclass(frozen=True)
class Study:
    """Problem, plan and methods, with the name of the file for complaints and its folder for relative paths."""

    problem: Mapping[str, Any]
    run: RunSpec = RunSpec()
    methods: tuple[MethodSpec, ...] = ()
    source: str = "command line"
    folder: Path = Path()

    def place(self, table: str) -> str:
        """Where a table stands, for complaints."""
        return f"{self.source}, table {table}"

    def method_place(self, number: int) -> str:
        return self.place(f"[[method]] number {number + 1} ({self.methods[number].name})")

    def words(self) -> dict[str, Any]:
        defaults = RunSpec()
        run = {
            field.name: getattr(self.run, field.name)
            for field in dataclasses.fields(RunSpec)
            if field.name in ("rounds", "steps", "seed")
            or getattr(self.run, field.name) != getattr(defaults, field.name)
        }
        return {"problem": dict(self.problem), "run": run, "method": [method.words() for method in self.methods]}

    def to_toml(self, comments: tuple[str, ...] = ()) -> str:
        return toml.document(self.words(), comments)


def read_study(path: str | Path) -> Study:
    """A study from a file."""
    file = Path(path)
    try:
        content = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the study file {file} cannot be read: {error}") from error
    try:
        tables = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{file} is not valid TOML: {error}") from error
    return study_from(tables, str(file), file.resolve().parent)


def study_from(tables: Mapping[str, Any], source: str, folder: Path) -> Study:
    """A study from the tables of a file."""
    for name in tables:
        if name not in TABLES:
            with located(source):
                raise unknown("table", name, TABLES)
    problem, run, methods = tables.get("problem", {}), tables.get("run", {}), tables.get("method", [])
    for name, table in (("problem", problem), ("run", run)):
        if not isinstance(table, Mapping):
            raise InputError(f"{source}: {name} must be a table [{name}], got {table!r}")
    if isinstance(methods, Mapping):
        methods = [methods]  # [method] for a single one
    if not isinstance(methods, list) or not all(isinstance(method, Mapping) for method in methods):
        raise InputError(f"{source}: methods are tables [[method]], got {methods!r}")
    with located(f"{source}, table [problem]"):
        _checked_name(problem, "problem", needed=bool(problem))
    with located(f"{source}, table [run]"):
        run_spec = run_from(run)
    specs = []
    for number, method in enumerate(methods):
        with located(f"{source}, table [[method]] number {number + 1}"):
            specs.append(method_from(method))
    return Study(dict(problem), run_spec, tuple(specs), source, folder)


def run_from(words: Mapping[str, Any], base: RunSpec | None = None) -> RunSpec:
    """The table [run] over a base."""
    fields = [field.name for field in dataclasses.fields(RunSpec)]
    for key in words:
        if key not in fields:
            raise unknown("key", key, fields)
    return dataclasses.replace(base or RunSpec(), **words)


def method_from(words: Mapping[str, Any]) -> MethodSpec:
    """One table [[method]]."""
    _checked_name(words, "method", needed=True)
    own = {key: words[key] for key in METHOD_WORDS if key in words}
    parameters = {key: entry for key, entry in words.items() if key not in METHOD_WORDS}
    return MethodSpec(**own, parameters=parameters)


def _checked_name(words: Mapping[str, Any], what: str, needed: bool) -> None:
    if needed and not isinstance(words.get("name"), str):
        raise InputError(f'a {what} needs name = "…"; `undrift list` shows the names')
