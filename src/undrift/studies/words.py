"""One notation for named things with arguments, in study files and in flags.

    "top_k:75"      "top_k:75,memory=false"      { name = "top_k", k = 75 }      { top_k = 75, memory = false }

`construct` turns any of these into a call of the function of that name, with every argument checked against its signature.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import InputError, unknown
from ..gate import check, scalar, shown
from .own import MADE, is_own, own_factory
from .schema import table_of


@contextmanager
def located(where: str) -> Iterator[None]:
    """Say in every complaint where the words stand."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"{where}: {error}") from error


def split_word(word: str, inner: Mapping[str, Collection[str]] | None = None) -> tuple[str, list[Any], dict[str, Any]]:
    """The parts of "name:value,key=value".

    `inner`: keys whose value is such a word itself, and the keys that then belong to it.

    >>> split_word("top_k:75,memory=false")
    ('top_k', [75], {'memory': False})
    >>> split_word("my/file.py:factory:eta=0.1")
    ('my/file.py:factory', [], {'eta': 0.1})
    >>> split_word("network:model=net.py:Net,batch=5")
    ('network', [], {'model': 'net.py:Net', 'batch': 5})
    >>> split_word("network:partition=exdir:classes=2,alpha=10,batch=5", {"partition": ["classes", "alpha"]})
    ('network', [], {'partition': 'exdir:classes=2,alpha=10', 'batch': 5})
    """
    stem, colon, rest = word.partition(".py:")
    if "=" in stem:  # the file is that of an argument
        stem, colon, rest = "", "", ""
    name, _, arguments = rest.partition(":") if colon else word.partition(":")
    positional: list[Any] = []
    named: dict[str, Any] = {}
    last = ""
    for part in filter(None, arguments.split(",")):
        key, equals, value = part.partition("=")
        if last in (inner or {}) and (not equals or key.strip() in (inner or {})[last]):
            named[last] = f"{named[last]},{part.strip()}"
            continue
        last = key.strip() if equals else ""
        if equals:
            if last in named:
                raise InputError(f"{last} is given twice in {word!r}: leave one out")
            named[last] = scalar(value.strip())
        else:
            positional.append(scalar(part.strip()))
    return stem + colon + name if colon else name.strip(), positional, named


def construct(
    value: Any,
    choices: Mapping[str, Callable[..., Any]],
    kind: str,
    asked_by: str | None = None,
    check_made: Callable[[Any], bool] = lambda made: True,
) -> Any:
    """The object that a word or a table names; `asked_by`, `check_made`: of one's own, see `own_thing`."""
    name, positional, named = parts_of(value, choices, kind)
    if is_own(name):
        return own_thing(name, positional, named, kind, asked_by, check_made)
    if name not in choices:
        raise unknown(kind, name, choices)
    function = choices[name]
    return checked_call(function, _bound(function, positional, named, f"{kind} {name!r}"), f"{kind} {name!r}")


def _bound(function: Callable[..., Any], positional: list[Any], named: Mapping[str, Any], what: str) -> dict[str, Any]:
    """The arguments by name."""
    parameters = list(inspect.signature(function).parameters)
    if len(positional) > len(parameters):
        raise InputError(f"{what} takes {', '.join(parameters) or 'no arguments'}; got {shown(positional)}")
    given = dict(zip(parameters, positional, strict=False))
    for key in set(given) & set(named):
        raise InputError(f"{what}: {key} is given twice")
    return {**given, **named}


def own_thing(
    name: str,
    positional: list[Any],
    named: Mapping[str, Any],
    kind: str,
    asked_by: str | None,
    check_made: Callable[[Any], bool],
) -> Any:
    """What a factory in a user's own file returns. `asked_by`: the study file that names it; None: the user himself.

    The same words give the same object, and so the same program, while the file is unchanged.
    """
    factory, what = own_factory(name, kind, asked_by), f"{kind} {name.rpartition('/')[2]!r}"
    try:
        parameters = inspect.signature(factory, eval_str=True).parameters.values()
    except (ValueError, TypeError, NameError) as error:
        raise InputError(f"{what}: its parameters cannot be read ({error})") from error
    if any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters):
        raise InputError(f"{what}: a factory names its parameters, got *args or **kwargs")
    arguments = _bound(factory, positional, named, what)
    check(table_of(factory), arguments, what, f"{what}: ")
    call = (
        _called.__wrapped__ if kind == "problem" else _called
    )  # data are large, and nobody keeps them longer than needed
    made = call(factory, json.dumps(arguments, sort_keys=True, default=str), what)
    if not check_made(made):
        raise InputError(f"{what} must return {MADE[kind]}, got {shown(made)}")
    return made


@functools.lru_cache(maxsize=256)
def _called(factory: Callable[..., Any], arguments: str, what: str) -> Any:
    try:
        made = factory(**json.loads(arguments))
        hash(made) if not isinstance(made, list | np.ndarray) else None
    except InputError as error:
        raise InputError(f"{what}: {error}") from error
    except Exception as error:  # a user's program, which may do anything
        raise InputError(f"{what} fails: {type(error).__name__}: {error}") from error
    return made


def parts_of(value: Any, choices: Mapping[str, Any], kind: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Name, positional and named arguments of a word or a table."""
    if isinstance(value, str):
        return split_word(value)
    if not isinstance(value, Mapping):
        raise InputError(f'a {kind} is a word such as "name:value" or a table {{ name = … }}, got {shown(value)}')
    rest = dict(value)
    if "name" in rest:
        return str(rest.pop("name")), [], rest
    heads = [key for key in rest if key in choices]
    if len(heads) != 1:
        raise InputError(f"a {kind} needs a name, one of {', '.join(sorted(choices))}; got {shown(dict(value))}")
    return heads[0], [rest.pop(heads[0])], rest


def checked_call(function: Callable[..., Any], arguments: Mapping[str, Any], what: str) -> Any:
    """Call with arguments that were held against the signature."""
    check(table_of(function), arguments, what, f"{what}: ")
    with located(what):
        return function(**arguments)
