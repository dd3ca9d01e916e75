"""A study as it is written: plain words in three tables, and the problem and the runs that they describe."""

from __future__ import annotations

import dataclasses
import json
import tomllib
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from ..api import describe
from ..engine.description import Arguments, Run
from ..errors import InputError, unknown
from ..gate import Seed, check, check_sound, check_value, shown
from ..problems.base import Problem
from ..problems.population import Population
from ..recipe import Method
from ..resources import Resources
from .build import build_availability, build_oracle, build_participation, build_steps, build_stop
from .catalogue import PROBLEMS
from .lanes import records_each_client
from .method import StudyMethod
from .own import MARK, absolute_own, asking, is_own
from .paths import absolute_paths, absolute_run
from .schema import DeployTable, RunTable, defaults, table_of
from .sites import Sites
from .words import construct, located

TABLES = ("problem", "run", "method", "deploy")
DEFAULTS: Mapping[str, Any] = defaults(RunTable)
ALWAYS_WRITTEN = ("rounds", "seed")  # and steps, where a method takes them
LARGEST_FILE = 10_000_000  # bytes


@dataclasses.dataclass(frozen=True)
class Study:
    """Problem, plan and methods, with the name of the file for complaints. Paths in it are absolute."""

    problem: Mapping[str, Any]
    run: Mapping[str, Any] = dataclasses.field(default_factory=lambda: DEFAULTS)  # every word of it
    methods: tuple[StudyMethod, ...] = ()
    source: str = "command line"
    deploy: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    told: frozenset[str] = dataclasses.field(
        default=frozenset(), compare=False
    )  # the words of [run] that are no defaults
    named_by: Mapping[str, str] = dataclasses.field(
        default_factory=dict, compare=False
    )  # of words of [run] that a file says: which; others are the user's own

    def but(self, **changes: Any) -> Study:
        """The same study with some of its tables changed."""
        return dataclasses.replace(self, **changes)

    def with_run(self, words: Mapping[str, Any], folder: Path = Path(), asked_by: str | None = None) -> Study:
        """The same study with these words over its table [run]; files in them are relative to `folder`.

        `asked_by`: the file that the words stand in; None: the user says them himself.
        """
        check(RunTable, words, "the run")
        words = absolute_run(words, folder)
        others = {key: file for key, file in self.named_by.items() if key not in words}
        named_by = others if asked_by is None else {**others, **dict.fromkeys(words, asked_by)}
        return self.but(run={**self.run, **words}, told=self.told | words.keys(), named_by=named_by)

    def with_lanes(self, population: Population) -> Study:
        """The same study, which says whether a run of it records every client, where it does so unasked."""
        unsaid = self.run["per_client"] is None
        wanted = unsaid and records_each_client(population, self.run["rounds"])
        return self.with_run({"per_client": True}) if wanted else self

    def with_steps(self) -> Study:
        """The same study, which says its local steps where a method takes them (and not where all draw their own)."""
        return self if self.all_draw_steps else self.but(told=self.told | {"steps"})

    def with_deploy(self, words: Mapping[str, Any]) -> Study:
        """The same study with these words over its table [deploy]."""
        check(DeployTable, words, "the deployment")
        sites = words.get("sites") or []
        twice = next((name for name in sites if sites.count(name) > 1), None)
        if twice is not None:
            raise InputError(f"sites have different names, got {twice!r} more than once: name each once")
        return self.but(deploy={**self.deploy, **words})

    def trusted(self) -> Study:
        """The same study; the user says that the programs which it names may run."""
        methods = tuple(dataclasses.replace(method, asked_by=None) for method in self.methods)
        return self.but(methods=methods, named_by={})

    # ----- what it means
    def make_problem(self) -> Problem:
        """The problem of the table [problem]."""
        if not self.problem:
            raise InputError("which problem? Name one, for example --problem least_squares; `undrift list` shows them")
        with located(self.place("[problem]")):
            if self.problem.get("name") == "sites":  # in the order in which they are deployed
                return Sites.of(self.problem).simulated(self.deploy.get("sites"))
            by = self.named_by.get("problem")
            asked = asking.set(by)
            try:
                return construct(self.problem, PROBLEMS, "problem", by, lambda made: isinstance(made, Problem))
            finally:
                asking.reset(asked)

    def arguments(self, problem: Problem) -> Arguments:
        """What the table [run] tells a run, besides its rounds."""
        said, by = dict(self.run), self.named_by.get
        with located(self.place("[run]")):
            read: dict[str, Any] = {
                "steps": build_steps(said["steps"], problem.clients, by("steps")),
                "participation": build_participation(said["participation"], by("participation")),
                "oracle": build_oracle(said["oracle"], by("oracle")),
                "stop": None if said["stop"] is None else build_stop(said["stop"], by("stop")),
                "availability": build_availability(said["availability"], self.deploy.get("sites")),
                "resources": Resources.of(problem.clients, said["speeds"], said["link"]),
            }
        said["per_client"] = bool(said["per_client"])
        plain = {key: entry for key, entry in said.items() if key in Arguments.__annotations__}
        return typing.cast(Arguments, {**plain, **read})

    @property
    def all_draw_steps(self) -> bool:
        """Whether no method takes the local steps of the table [run]."""
        return bool(self.methods) and all(method.draws_steps for method in self.methods)

    def arguments_of(self, method: Method, problem: Problem) -> Arguments:
        """The same for one method: one that draws its local steps is given none, unless somebody meant it and no other."""
        arguments = self.arguments(problem)
        if method.recipe.draws is not None and not ("steps" in self.told and self.all_draw_steps):
            del arguments["steps"]
        return arguments

    def describe(self, method: Method, problem: Problem) -> Run:
        """The run of this method."""
        return describe(method, problem, rounds=self.run["rounds"], **self.arguments_of(method, problem))

    @property
    def seeds(self) -> list[int]:
        """Of a comparison."""
        first, last = self.run["seed"], self.run["seed"] + self.run["seeds"] - 1
        with located(self.place("[run]")):
            check_value("seed + seeds − 1, the last seed,", last, Seed)
        return list(range(first, last + 1))

    # ----- as words
    def place(self, table: str) -> str:
        """Where a table stands, for complaints."""
        return f"{self.source}, table {table}"

    def method_place(self, number: int) -> str:
        return self.place(f"[[method]] number {number + 1} ({self.methods[number].name})")

    @property
    def title(self) -> str:
        """The problem in a line, for tables and figures."""
        shown_words = {key: json.dumps(entry, ensure_ascii=False) for key, entry in self.problem.items()}
        inside = ", ".join(f"{key} = {entry}" for key, entry in shown_words.items() if key not in HIDDEN)
        name = self.problem["name"].rpartition(MARK)[2]
        return f"{name}{f' ({inside})' if inside else ''}"

    def words(self) -> dict[str, Any]:
        written = {*ALWAYS_WRITTEN, *(self.told & {"steps"})}
        run = {key: self.run[key] for key in DEFAULTS if key in written or self.run[key] != DEFAULTS[key]}
        deploy = {"deploy": dict(self.deploy)} if self.deploy else {}
        return {"problem": dict(self.problem), "run": run, **deploy, "method": [one.words() for one in self.methods]}

    def to_toml(self, comments: tuple[str, ...] = ()) -> str:
        words = _for_toml(self.words())
        tables = [tomli_w.dumps({name: table}) for name, table in words.items() if name != "method"]
        return "".join(f"# {line}\n" for line in comments) + "\n".join([*tables, *map(_method_table, words["method"])])


HIDDEN = ("name", "path", "data_dir", "folder")


def _method_table(words: dict[str, Any]) -> str:
    """A table [[method]], short ones too, which tomli-w would put into a line above all others."""
    tables = {key: entry for key, entry in words.items() if isinstance(entry, Mapping)}
    plain = {key: entry for key, entry in words.items() if key not in tables}
    below = "".join("\n" + tomli_w.dumps({"method": {key: table}}) for key, table in tables.items())
    return "[[method]]\n" + tomli_w.dumps(plain) + below


def read_study(path: str | Path) -> Study:
    """A study from a file."""
    file = Path(path)
    try:
        with file.open("rb") as opened:
            content = opened.read(LARGEST_FILE + 1)
        text = content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the study file {file} cannot be read: {error}") from error
    if len(content) > LARGEST_FILE:
        raise InputError(f"a study file has at most {LARGEST_FILE:,} bytes, and {file} has more: is it one?")
    return study_from(read_toml(text, str(file)), str(file), file.resolve().parent)


def read_toml(text: str, source: str) -> dict[str, Any]:
    """The tables of a TOML document."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise InputError(
            f"{source} is not valid TOML: it nests lists or tables without end; write it flatter"
        ) from None
    except ValueError as error:  # also a number that is too long for Python
        raise InputError(f"{source} is not valid TOML: {error}") from error


def study_from(tables: Mapping[str, Any], source: str, folder: Path = Path()) -> Study:
    """A study from the tables of a file; paths in them are relative to `folder`."""
    for name in tables:
        if name not in TABLES:
            with located(source):
                raise unknown("table", name, TABLES)
    problem, run, methods = tables.get("problem", {}), tables.get("run", {}), tables.get("method", [])
    deploy = tables.get("deploy", {})
    for name, table in (("problem", problem), ("run", run), ("deploy", deploy)):
        if not isinstance(table, Mapping):
            raise InputError(f"{source}: {name} must be a table [{name}], got {shown(table)}")
    if isinstance(methods, Mapping):
        methods = [methods]  # [method] for a single one
    if not isinstance(methods, list) or not all(isinstance(method, Mapping) for method in methods):
        raise InputError(f"{source}: methods are tables [[method]], got {shown(methods)}")
    study = Study({}, source=source)
    with located(study.place("[problem]")):
        study = study.but(problem=checked_problem(problem, folder) if problem else {}, named_by={"problem": source})
    with located(study.place("[run]")):
        study = study.with_run(run, folder, asked_by=source)
    with located(study.place("[deploy]")):
        study = study.with_deploy(deploy)
    entries = []
    for number, words in enumerate(methods):
        with located(study.place(f"[[method]] number {number + 1}")):
            entries.append(StudyMethod.of(words, folder, asked_by=source))
    return study.but(methods=tuple(entries))


def named_problem(name: str, **words: Any) -> Problem:
    """A problem with a name (`undrift list problems`), as study files and flags have them: one's own tables, data sets.

    What was decided on the way stands in `remarks`, what the numbers of the model mean in `columns`.

    >>> heart = named_problem("logistic", data="heart")
    >>> heart, list(heart.columns["clients"])
    (<logistic: 4 clients, d = 14, float64>, ['cleveland', 'hungarian', 'switzerland', 'va'])
    """
    return Study(checked_problem({"name": name, **words}), source="named_problem").make_problem()


def checked_problem(words: Mapping[str, Any], folder: Path = Path()) -> dict[str, Any]:
    """The words of a table [problem], checked, with paths (relative to `folder`) in full."""
    name = words.get("name")
    if not isinstance(name, str):
        raise InputError(f'a problem needs name = "…", got {shown(name)}; `undrift list` shows the names')
    if is_own(name):  # its parameters are known once it may run
        check_sound("a problem", dict(words))
        return {**words, "name": absolute_own(name, folder)}
    if name not in PROBLEMS:
        raise unknown("problem", name, PROBLEMS)
    check(table_of(PROBLEMS[name], name=str), words, f"problem {name!r}", f"problem {name!r}: ")
    return absolute_paths(words, folder)


def _for_toml(words: Any) -> Any:
    """The same in the kinds that TOML knows; what is None is left out."""
    if isinstance(words, np.generic | np.ndarray):
        return words.tolist()
    if isinstance(words, Mapping):
        return {key: _for_toml(entry) for key, entry in words.items() if entry is not None}
    return [_for_toml(entry) for entry in words] if isinstance(words, list | tuple) else words
