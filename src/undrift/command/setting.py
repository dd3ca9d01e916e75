"""A study from flags, from a file, or from a file with flags over it."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..gate import scalar
from ..recipe import RULES
from ..studies.method import StudyMethod
from ..studies.networks import MODEL_OPTIONS
from ..studies.own import absolute_own, vouch
from ..studies.study import DEFAULTS, Study, checked_problem, read_study
from ..studies.words import located, split_word

PRIVATE = {
    "clip": "clip",
    "noise": "noise",
    "delta": "delta",
    "noise_by": "where",
}  # flag -> key of the table `private`
# A value that is a word with arguments itself, and the keys that are its own.
INNER = {
    "partition": ("classes", "alpha", "min_size", "path", "min_clients", "cap"),
    "model": MODEL_OPTIONS,
    **dict.fromkeys(("features", "without", "onehot", "positive", "hidden"), ()),  # lists: a,b,c
}
NAMES = (
    "path",
    "label",
    "client",
    "features",
    "without",
    "onehot",
)  # of the problem csv: words, whatever they look like


def says_what(arguments: argparse.Namespace) -> bool:
    """Whether flags or a file say what to run."""
    names = ("study", "method", "problem", "eta", "up", "down", *PRIVATE, *DEFAULTS)
    return any(getattr(arguments, name, None) is not None for name in names)


def study_from_arguments(arguments: argparse.Namespace, base: Study | None = None) -> Study:
    """The study that the arguments describe; `base` is used where no file is named."""
    study = vouched(read_study(arguments.study), arguments) if arguments.study else (base or Study(problem={}))
    if arguments.problem:
        named_by = {key: file for key, file in study.named_by.items() if key != "problem"}
        study = study.but(problem=problem_words(arguments.problem), named_by=named_by)
    given = {key: entry for key in DEFAULTS if (entry := getattr(arguments, key, None)) is not None}
    if "steps" in given:
        given["steps"] = scalar(given["steps"])
    return study.with_run(given)


def vouched(study: Study, arguments: argparse.Namespace) -> Study:
    """The study; with --trust the user vouches for the programs that it names."""
    return study.trusted() if getattr(arguments, "trust", False) else study


def problem_words(word: str) -> dict[str, Any]:
    """The table [problem] that a flag stands for."""
    with located("--problem"):
        name, positional, named = split_word(word, INNER)
        if name in ("npz", "csv") and positional and (name == "csv" or len(positional) == 1):
            paths = [_text(one) for one in positional]
            named, positional = {"path": paths[0] if len(paths) == 1 else paths, **named}, []
        if positional:
            raise InputError(f"write arguments as key=value, got {positional[0]!r} in {word!r}")
        if name == "csv":
            named |= {key: _text(named[key]) for key in NAMES if not isinstance(named.get(key, []), list)}
        if isinstance(named.get("hidden"), int | str):
            named["hidden"] = [scalar(part) for part in str(named["hidden"]).split(",")]
        return checked_problem({"name": name, **named})  # a path in a flag means: from where the user stands


def _text(value: Any) -> str:
    """What a user wrote, where it is a word and neither a number nor a truth value."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def problem_flag(problem: Mapping[str, Any]) -> str:
    """The flag that stands for a table [problem]: what `problem_words` reads.

    >>> problem_flag({"name": "csv", "path": ["a.csv", "b.csv"], "label": "ill", "intercept": False})
    'csv:a.csv,b.csv,label=ill,intercept=false'
    """
    rest = {key: entry for key, entry in problem.items() if key != "name"}
    words = _list(rest.pop("path")) if problem.get("name") == "csv" else []
    words += [f"{key}={','.join(_list(entry))}" for key, entry in rest.items()]
    return f"{problem.get('name', '')}{':' + ','.join(words) if words else ''}"


def _list(entry: Any) -> list[str]:
    return [_text(one) for one in entry] if isinstance(entry, list | tuple) else [_text(entry)]


def study_method(word: str, arguments: argparse.Namespace, eta: Any = None) -> StudyMethod:
    """The table [[method]] that a flag stands for."""
    with located("--method"):
        name, positional, named = split_word(word)
        if positional:
            raise InputError(f"write arguments as key=value, got {positional[0]!r} in {word!r}")
        return with_flags(StudyMethod.of({"name": name, **named}), arguments, eta)


def with_flags(method: StudyMethod, arguments: argparse.Namespace, eta: Any = None) -> StudyMethod:
    """A method with --up, --down, --eta and what makes it private put over it."""
    links = {key: absolute_own(getattr(arguments, key), Path()) for key in ("up", "down") if getattr(arguments, key)}
    vouch(list(links.values()))  # typed by the user himself, whoever names the method
    method = dataclasses.replace(method, **links, private=_private(method, arguments))
    return method if eta is None else with_step(method, eta)


def with_step(method: StudyMethod, eta: Any) -> StudyMethod:
    """The method with --eta; a rule (theorem, certified) is for its step whatever that is called, FedSplit's s."""
    return method.with_parameters(**{method.known.number if eta in RULES else "eta": eta})


def _private(method: StudyMethod, arguments: argparse.Namespace) -> dict[str, Any] | None:
    """The table `private` with --clip, --noise, --delta and --noise-by put over it; None: the method is not private."""
    given = {PRIVATE[name]: entry for name in PRIVATE if (entry := getattr(arguments, name, None)) is not None}
    words = {**(method.private or {}), **given}
    if not words:
        return None
    if missing := [key for key in ("clip", "noise") if key not in words]:
        raise InputError(f"a private method needs --clip and --noise, here --{missing[0]} is missing: for example 1.0")
    return words
