"""One notation for named things with arguments, in study files and in flags.

    "top_k:75"      "top_k:75,memory=false"      { name = "top_k", k = 75 }      { top_k = 75, memory = false }

`construct` turns any of these into a call of the function of that name, with every argument checked against its signature.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..errors import InputError, unknown
from ..gate import check, scalar, shown
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


def construct(value: Any, choices: Mapping[str, Callable[..., Any]], kind: str) -> Any:
    """The object that a word or a table names."""
    name, positional, named = parts_of(value, choices, kind)
    if name not in choices:
        raise unknown(kind, name, choices)
    function = choices[name]
    parameters = list(inspect.signature(function).parameters)
    if len(positional) > len(parameters):
        raise InputError(f"{kind} {name!r} takes {', '.join(parameters) or 'no arguments'}; got {shown(positional)}")
    given = dict(zip(parameters, positional, strict=False))
    for key in set(given) & set(named):
        raise InputError(f"{kind} {name!r}: {key} is given twice")
    return checked_call(function, {**given, **named}, f"{kind} {name!r}")


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
