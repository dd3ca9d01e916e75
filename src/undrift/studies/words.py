"""One notation for named things with arguments, in study files and in flags.

    "top_k:75"      "top_k:75,memory=false"      { name = "top_k", k = 75 }      { top_k = 75, memory = false }

`construct` turns any of these into a call of the function of that name, with every argument checked against its signature.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..errors import InputError, unknown


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
    >>> split_word("network:partition=exdir:classes=2,alpha=10,batch=5", {"partition": ["classes", "alpha"]})
    ('network', [], {'partition': 'exdir:classes=2,alpha=10', 'batch': 5})
    """
    stem, colon, rest = word.partition(".py:")
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
            named[key.strip()] = scalar(value.strip())
        else:
            positional.append(scalar(part.strip()))
    return stem + colon + name if colon else name.strip(), positional, named


def scalar(text: str) -> Any:
    """The number, truth value or string that a word stands for.

    >>> [scalar(w) for w in ("75", "1e-3", "true", "prox-point")]
    [75, 0.001, True, 'prox-point']
    """
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def construct(value: Any, choices: Mapping[str, Callable[..., Any]], kind: str) -> Any:
    """The object that a word or a table names."""
    name, positional, named = parts_of(value, choices, kind)
    if name not in choices:
        raise unknown(kind, name, choices)
    function = choices[name]
    parameters = list(inspect.signature(function).parameters)
    if len(positional) > len(parameters):
        raise InputError(f"{kind} {name!r} takes {', '.join(parameters) or 'no arguments'}; got {positional}")
    given = dict(zip(parameters, positional, strict=False))
    for key in set(given) & set(named):
        raise InputError(f"{kind} {name!r}: {key} is given twice")
    return checked_call(function, {**given, **named}, f"{kind} {name!r}")


def parts_of(value: Any, choices: Mapping[str, Any], kind: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Name, positional and named arguments of a word or a table."""
    if isinstance(value, str):
        return split_word(value)
    if not isinstance(value, Mapping):
        raise InputError(f'a {kind} is a word such as "name:value" or a table {{ name = … }}, got {value!r}')
    rest = dict(value)
    if "name" in rest:
        return str(rest.pop("name")), [], rest
    heads = [key for key in rest if key in choices]
    if len(heads) != 1:
        raise InputError(f"a {kind} needs a name, one of {', '.join(sorted(choices))}; got {dict(value)}")
    return heads[0], [rest.pop(heads[0])], rest


def checked_call(function: Callable[..., Any], arguments: Mapping[str, Any], what: str) -> Any:
    """Call with arguments whose names and kinds were compared with the signature."""
    signature = inspect.signature(function, eval_str=True)
    for key, value in arguments.items():
        if key not in signature.parameters:
            raise unknown(f"key of {what}", key, signature.parameters)
        check_kind(what, key, value, signature.parameters[key].annotation)
    missing = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.default is parameter.empty and name not in arguments
    ]
    if missing:
        raise InputError(f"{what} needs {', '.join(missing)}")
    with located(what):
        return function(**arguments)


def check_kind(what: str, key: str, value: Any, annotation: Any) -> None:
    """Refuse a value that the annotation does not allow; only plain kinds are looked at."""
    union = isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union
    kinds = typing.get_args(annotation) if union else (annotation,)
    plain = {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}
    wanted = [kind for kind in kinds if kind in plain]
    if not wanted or len(wanted) != len([kind for kind in kinds if kind is not type(None)]):
        return
    if value is None and type(None) in kinds:
        return
    if not any(_fits(value, kind) for kind in wanted):
        raise InputError(f"{what}: {key} must be {' or '.join(plain[kind] for kind in wanted)}, got {value!r}")


def _fits(value: Any, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, int | float) if kind is float else isinstance(value, kind)
