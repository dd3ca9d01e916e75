"""A study from flags, from a file, or from a file with flags over it."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..gate import scalar
from ..recipe import RULES
from ..studies.method import StudyMethod
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
    "model": ("narrower", "dropout", "dense"),
}


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
        if name == "npz" and len(positional) == 1:
            named["path"], positional = str(positional[0]), []
        if positional:
            raise InputError(f"write arguments as key=value, got {positional[0]!r} in {word!r}")
        return checked_problem({"name": name, **named})  # a path in a flag means: from where the user stands


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
