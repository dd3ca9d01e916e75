"""A study as it is written: plain words in three tables, and the problem and the runs that they describe."""

from __future__ import annotations

import dataclasses
import tomllib
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..api import describe
from ..engine.description import Arguments, Run
from ..errors import InputError, unknown
from ..problems.base import Problem
from ..recipe import Method
from ..resources import Resources
from . import toml
from .build import ORACLES, PARTICIPATION, build_steps, build_stop
from .catalogue import PROBLEMS
from .method import StudyMethod
from .paths import absolute_paths
from .words import check_kind, construct, located

TABLES = ("problem", "run", "method")
# The table [run]: what `ud.run` can be told, in words. Beyond that: `seeds` (of a comparison: how many, from `seed` on), and
# `speeds` and `link` (gradients per second of the clients, and their link: for virtual seconds).
DEFAULTS: Mapping[str, Any] = {
    "rounds": 100, "steps": 10, "participation": "full", "failures": 0.0, "oracle": None, "seed": 0, "seeds": 1,
    "record_every": 1, "per_client": False, "diagnostics": False, "keep_iterates": False, "stop": None,
    "on_divergence": "stop", "speeds": 100.0, "link": None,
}  # fmt: skip
ALWAYS_WRITTEN = ("rounds", "steps", "seed")
KINDS = {**typing.get_type_hints(Arguments), "rounds": int, "seeds": int}


@dataclasses.dataclass(frozen=True)
class Study:
    """Problem, plan and methods, with the name of the file for complaints. Paths in it are absolute."""

    problem: Mapping[str, Any]
    run: Mapping[str, Any] = dataclasses.field(default_factory=lambda: DEFAULTS)  # every word of it
    methods: tuple[StudyMethod, ...] = ()
    source: str = "command line"

    def but(self, **changes: Any) -> Study:
        """The same study with some of its tables changed."""
        return dataclasses.replace(self, **changes)

    def with_run(self, words: Mapping[str, Any]) -> Study:
        """The same study with these words over its table [run]."""
        for key in words:
            if key not in DEFAULTS:
                raise unknown("key", key, DEFAULTS)
        return self.but(run={**self.run, **words})

    def trusted(self) -> Study:
        """The same study; the user says that the files of methods which it names may run."""
        return self.but(methods=tuple(dataclasses.replace(method, asked_by=None) for method in self.methods))

    # ----- what it means
    def make_problem(self) -> Problem:
        """The problem of the table [problem]."""
        if not self.problem:
            raise InputError("which problem? Name one, for example --problem least_squares; `undrift list` shows them")
        with located(self.place("[problem]")):
            seed = self.problem.get("data_seed", 0)
            if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
                raise InputError(f"data_seed must be a whole number ≥ 0, got {seed!r}")
            return construct(self.problem, PROBLEMS, "problem")

    def arguments(self, problem: Problem) -> Arguments:
        """What the table [run] tells a run, besides its rounds."""
        said = dict(self.run)
        with located(self.place("[run]")):
            for key, entry in said.items():
                check_kind("the run", key, entry, KINDS.get(key))
            read: dict[str, Any] = {
                "steps": build_steps(said["steps"], problem.clients),
                # Everyone: in a fixed order at once, or one after the other in a fresh order, as the method wants it.
                "participation": None
                if said["participation"] == "full"
                else construct(said["participation"], PARTICIPATION, "participation"),
                "oracle": None if said["oracle"] is None else construct(said["oracle"], ORACLES, "oracle"),
                "stop": None if said["stop"] is None else build_stop(said["stop"]),
                "resources": Resources.of(problem.clients, said["speeds"], said["link"]),
            }
        plain = {key: entry for key, entry in said.items() if key in KINDS and key not in ("rounds", "seeds")}
        return typing.cast(Arguments, {**plain, **read})

    def describe(self, method: Method, problem: Problem) -> Run:
        """The run of this method."""
        return describe(method, problem, rounds=self.run["rounds"], **self.arguments(problem))

    @property
    def seeds(self) -> list[int]:
        """Of a comparison."""
        seed, count = self.run["seed"], self.run["seeds"]
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InputError(f"{self.place('[run]')}: seeds must be a whole number ≥ 1, got {count!r}")
        return list(range(seed, seed + count))

    # ----- as words
    def place(self, table: str) -> str:
        """Where a table stands, for complaints."""
        return f"{self.source}, table {table}"

    def method_place(self, number: int) -> str:
        return self.place(f"[[method]] number {number + 1} ({self.methods[number].name})")

    @property
    def title(self) -> str:
        """The problem in a line, for tables and figures."""
        inside = ", ".join(f"{key} = {toml.value(entry)}" for key, entry in self.problem.items() if key not in HIDDEN)
        return f"{self.problem['name']}{f' ({inside})' if inside else ''}"

    def words(self) -> dict[str, Any]:
        run = {key: self.run[key] for key in DEFAULTS if key in ALWAYS_WRITTEN or self.run[key] != DEFAULTS[key]}
        return {"problem": dict(self.problem), "run": run, "method": [method.words() for method in self.methods]}

    def to_toml(self, comments: tuple[str, ...] = ()) -> str:
        return toml.document(self.words(), comments)


HIDDEN = ("name", "path", "data_dir")


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


def study_from(tables: Mapping[str, Any], source: str, folder: Path = Path()) -> Study:
    """A study from the tables of a file; paths in them are relative to `folder`."""
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
    study = Study({}, source=source)
    with located(study.place("[problem]")):
        if problem and not isinstance(problem.get("name"), str):
            raise InputError('a problem needs name = "…"; `undrift list` shows the names')
        study = study.but(problem=absolute_paths(problem, folder))
    with located(study.place("[run]")):
        study = study.with_run(run)
    entries = []
    for number, words in enumerate(methods):
        with located(study.place(f"[[method]] number {number + 1}")):
            entries.append(StudyMethod.of(words, folder, asked_by=source))
    return study.but(methods=tuple(entries))
