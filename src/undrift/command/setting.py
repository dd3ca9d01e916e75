"""A study from flags, from a file, or from a file with flags over it."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..studies.paths import absolute_paths
from ..studies.spec import MethodSpec, RunSpec, Study, read_study
from ..studies.words import located, scalar, split_word

RUN_FLAGS = tuple(field.name for field in dataclasses.fields(RunSpec))

# A value that is a word with arguments itself, and the keys that are its own.
INNER = {"partition": ("classes", "alpha", "min_size", "path")}


def study_from_arguments(arguments: argparse.Namespace, base: Study | None = None) -> Study:
    """The study that the arguments describe; `base` is used where no file is named."""
    study = read_study(arguments.study) if arguments.study else (base or Study(problem={}))
    if arguments.problem:
        study = dataclasses.replace(study, problem=problem_words(arguments.problem))
    given = {key: getattr(arguments, key, None) for key in RUN_FLAGS}
    if isinstance(given["steps"], str):
        given["steps"] = scalar(given["steps"])
    run: RunSpec = dataclasses.replace(study.run, **{key: entry for key, entry in given.items() if entry is not None})
    return dataclasses.replace(study, run=run)


def problem_words(word: str) -> dict[str, Any]:
    """The table [problem] that a flag stands for."""
    name, positional, named = split_word(word, INNER)
    if name == "npz" and len(positional) == 1:
        named["path"], positional = str(positional[0]), []
    if positional:
        raise InputError(f"--problem: write arguments as key=value, got {positional[0]!r} in {word!r}")
    return absolute_paths({"name": name, **named}, Path())  # a flag means: from where the user stands


def method_spec(word: str) -> MethodSpec:
    """The table [[method]] that a flag stands for."""
    name, positional, named = split_word(word)
    if positional:
        raise InputError(f"--method: write arguments as key=value, got {positional[0]!r} in {word!r}")
    with located("--method"):
        links = {key: named.pop(key) for key in ("label", "exchange") if key in named}
    return MethodSpec(_absolute(name, Path()), parameters=named, **links)


def with_flags(spec: MethodSpec, arguments: argparse.Namespace, eta: Any) -> MethodSpec:
    """A method with --up, --down and --eta put over it."""
    changes: dict[str, Any] = {key: getattr(arguments, key) for key in ("up", "down") if getattr(arguments, key)}
    if eta is not None:
        changes["parameters"] = {**spec.parameters, "eta": eta}
    return dataclasses.replace(spec, **changes)


def with_absolute_paths(study: Study) -> Study:
    """The same study, to be written into another directory."""
    methods = tuple(dataclasses.replace(spec, name=_absolute(spec.name, study.folder)) for spec in study.methods)
    return dataclasses.replace(study, problem=absolute_paths(study.problem, study.folder), methods=methods)


def _absolute(name: str, folder: Path) -> str:
    path, colon, attribute = name.rpartition(".py:")
    return f"{(folder / Path(path + '.py').expanduser()).resolve()}:{attribute}" if colon else name
