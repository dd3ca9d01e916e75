"""The one gate for input: words from study files, flags and calls are held against types before anything is computed.

A table of input is a `Table`: its keys, their types and their ranges. `check` refuses what does not fit, with the rule, the
value and a remedy; the same types make the JSON Schema of study files.
"""

from __future__ import annotations

import difflib
import math
import operator
import re
import unicodedata
from collections.abc import Mapping
from typing import Annotated, Any, NoReturn

import msgspec
from msgspec import Meta
from msgspec.inspect import (
    BoolType,
    DictType,
    Field,
    FloatType,
    IntType,
    ListType,
    LiteralType,
    Metadata,
    NoneType,
    StrType,
    StructType,
    Type,
    UnionType,
    type_info,
)

from .errors import InputError, nearest, unknown

LARGEST = 2**31 - 1  # counts are 32-bit numbers inside programs
Count = Annotated[int, Meta(ge=1, le=LARGEST)]
Whole = Annotated[int, Meta(ge=0, le=LARGEST)]
Seed = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Failures = Annotated[float, Meta(ge=0, lt=1, extra={"rule": "a probability in [0, 1)"}, examples=[0.1])]
DEEPEST = 8  # tables in tables: no input needs more
LONGEST = 120  # letters of a value that a complaint repeats
MISSING = frozenset(
    {"", "?", "na", "n/a", "nan", "null", "none"}
)  # cells of a table that hold no value, in small letters
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")  # in a cell of a table
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(inf|infinity|nan)", re.IGNORECASE)


class Table(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A table of input: what has no default must be given."""


class Link(Table):
    """The link of a client: bytes per second, and seconds that an exchange takes on its way."""

    up: Positive = 1e6
    down: Positive = 1e7
    latency: NotNegative = 0.05


def check(table: type[Table], words: Mapping[str, Any], what: str, before: str = "") -> None:
    """Refuse words that the table does not allow; `before`: how a complaint about the value of a key begins.

    >>> class Plan(Table):
    ...     rounds: Count = 100
    >>> check(Plan, {"rounds": 0}, "plan")
    Traceback (most recent call last):
    undrift.errors.InputError: rounds must be a whole number ≥ 1 and ≤ 2147483647, got 0: leave it out for 100
    >>> check(Plan, {"ronds": 5}, "plan")
    Traceback (most recent call last):
    undrift.errors.InputError: unknown key of plan 'ronds': did you mean 'rounds'? (valid: rounds)
    """
    fields = {field.name: field for field in type_info(table).fields}  # type: ignore[attr-defined]
    types = {field.name: field.type for field in msgspec.structs.fields(table)}
    for key, value in words.items():
        if key not in fields:
            raise unknown(f"key of {what}", key, fields)
        _check_field(f"{before}{key}", value, types[key], fields[key])
    if missing := [name for name, field in fields.items() if field.required and name not in words]:
        raise InputError(f"{what} needs {', '.join(missing)}")


def check_value(key: str, value: Any, kind: Any) -> Any:
    """The value, as plain Python of this kind (a number of NumPy's too); refuses one that is not.

    >>> check_value("eta", float("nan"), Positive)
    Traceback (most recent call last):
    undrift.errors.InputError: eta must be a finite number, got nan
    """
    plain = value.item() if getattr(value, "ndim", None) == 0 else value
    return _check_field(key, plain, kind, Field(key, key, type_info(kind)))


def _check_field(key: str, value: Any, kind: Any, field: Field) -> Any:
    check_sound(key, value)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        _complain(key, value, field)


def _complain(key: str, value: Any, field: Field) -> NoReturn:
    kinds = _kinds(field.type)
    choices = [choice for kind in kinds if isinstance(kind, LiteralType) for choice in kind.values]
    tables = [kind.cls for kind in kinds if isinstance(kind, StructType) and issubclass(kind.cls, Table)]
    if isinstance(value, Mapping) and tables:
        check(tables[0], value, key)
    rule = rule_of(field.type)
    if isinstance(value, str) and choices and difflib.get_close_matches(value, map(str, choices), cutoff=0.5):
        raise InputError(f"{key} must be {rule}, got {shown(value)}: {nearest(value, map(str, choices))}")
    raise InputError(f"{key} must be {rule}, got {shown(value)}{_remedy(field)}")


def _remedy(field: Field) -> str:
    about = field.type.extra_json_schema if isinstance(field.type, Metadata) else None
    if about and about.get("examples"):
        return f": for example {' or '.join(map(shown, about['examples']))}"
    if not field.required and isinstance(field.default, int | float | str):
        return f": leave it out for {shown(field.default)}"
    return ""


def check_sound(where: str, value: Any, depth: int = 0) -> None:
    """Refuse what no input may hold: numbers that are none, control characters, tables without end."""
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{where} must be a finite number, got {value}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InputError(f"{where} must be a number of at most 64 bits, got {shown(value)}")
    if isinstance(value, str):
        for letter in value:
            if unicodedata.category(letter) in ("Cc", "Cs"):
                raise InputError(f"{where} holds the character U+{ord(letter):04X}, got {shown(value)}: leave it out")
    if isinstance(value, Mapping | list | tuple):
        if depth >= DEEPEST:
            raise InputError(f"{where} holds tables or lists more than {DEEPEST} deep: write it flatter")
        for key, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
            check_sound(f"{where}[{key}]" if not isinstance(value, Mapping) else f"{where}.{key}", inner, depth + 1)


def rule_of(kind: Type) -> str:
    """What a value of this kind must be, in words.

    >>> rule_of(type_info(Annotated[float, Meta(gt=0)])), rule_of(type_info(int | list[int]))
    ('a number > 0', 'a whole number or a list of whole numbers')
    """
    match kind:
        case Metadata(extra={"rule": rule}):
            return str(rule)
        case Metadata(type=inner):
            return rule_of(inner)
        case IntType():
            return f"a whole number{_range(kind)}"
        case FloatType():
            return f"a number{_range(kind)}"
        case BoolType():
            return "true or false"
        case StrType(min_length=least, max_length=most):
            size = f" of 1 to {most} letters" if most else " that is not empty" if least else ""
            return f"a string{size}"
        case LiteralType(values=values):
            return ("one of " if len(values) > 1 else "") + ", ".join(map(repr, values))
        case ListType(item_type=item):
            return f"a list of {rule_of(item).removeprefix('a ').replace('number', 'numbers', 1)}"
        case DictType() | StructType():
            return "a table"
        case UnionType(types=types):
            rules = list(dict.fromkeys(rule_of(one) for one in types if not isinstance(one, NoneType)))
            return " or ".join([", ".join(rules[:-1]), rules[-1]] if len(rules) > 1 else rules)
    return "something else"


def _range(kind: IntType | FloatType) -> str:
    bounds = ((">", kind.gt), ("≥", kind.ge), ("<", kind.lt), ("≤", kind.le))
    found = [f"{sign} {bound}" for sign, bound in bounds if bound is not None]
    return f" {' and '.join(found)}" if found else ""


def _kinds(kind: Type) -> list[Type]:
    if isinstance(kind, Metadata):
        return _kinds(kind.type)
    return [inner for one in kind.types for inner in _kinds(one)] if isinstance(kind, UnionType) else [kind]


def whole(what: str, value: Any, least: int, most: int = LARGEST) -> int:
    """A whole number in this range, or the error that says so.

    >>> whole("rounds must be a whole number", 2**40, 0)
    Traceback (most recent call last):
    undrift.errors.InputError: rounds must be a whole number ≥ 0 and ≤ 2147483647, got 1099511627776
    """
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise InputError(f"{what} ≥ {least}, got {shown(value)}")
    if number > most:
        raise InputError(f"{what} ≥ {least} and ≤ {most}, got {shown(value)}")
    return number


def shown(value: Any) -> str:
    """A value in a complaint, cut where it is long.

    >>> shown("a" * 500)[-5:], shown(16**9000)
    ('aaa …', 'a whole number of 36001 bits')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 4 * LONGEST:
        return f"a whole number of {value.bit_length()} bits"
    try:
        text = repr(value)
    except ValueError:  # it holds a number that Python does not write
        text = f"a {type(value).__name__} with very large numbers"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


def scalar(text: str) -> Any:
    """The number, truth value or string that a word stands for.

    >>> [scalar(w) for w in ("75", "1e-3", "true", "prox-point", "1_000")]
    [75, 0.001, True, 'prox-point', '1_000']
    """
    if text in ("true", "false"):
        return text == "true"
    if _WHOLE.fullmatch(text):
        if len(text) > LONGEST:
            raise InputError(f"a number has at most {LONGEST} digits, got one with {len(text)}: {text[:20]} …")
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text
