"""The JSON Schema of study files, from which editors complete: made from the same types that check them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from ..algorithms import METHODS
from ..gate import LARGEST, Table
from ..recipe import RULES
from ..schedules import Inverse
from .build import COMPRESSORS, ORACLES, PARTICIPATION
from .catalogue import PROBLEMS
from .method import method_table
from .own import MARK
from .partition import PARTITIONS
from .schema import WORDS, CoinTable, DeployTable, MethodWords, RandomSteps, RunTable, table_of

KINDS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "compressor": COMPRESSORS,
    "oracle": ORACLES,
    "participation": PARTICIPATION,
    "partition": PARTITIONS,
}
OPTAX = ["exponential_decay", "cosine_decay_schedule", "linear_schedule", "piecewise_constant_schedule"]


def document() -> dict[str, Any]:
    """The schema of a whole study file.

    >>> sorted(document()["properties"])
    ['deploy', 'method', 'problem', 'run']
    """
    problems = [table_of(make, f"problem_{name}", name=Literal[name]) for name, make in PROBLEMS.items()]
    methods = [method_table(make, f"method_{name}", Literal[name]) for name, make in METHODS.items()]
    things = {kind: [table_of(f, f"{kind}_{name}", name=Literal[name]) for name, f in choices.items()]
              for kind, choices in KINDS.items()}  # fmt: skip
    inverse = table_of(Inverse, "schedule_inverse", schedule=Literal["inverse"])
    named = [table for tables in things.values() for table in tables]
    tables: list[type[Table]] = [
        RunTable, DeployTable, MethodWords, RandomSteps, CoinTable, *problems, *methods, inverse, *named,
    ]  # fmt: skip
    _, parts = msgspec.json.schema_components(tables, ref_template="#/$defs/{name}")
    parts["schedule"] = {"anyOf": [_ref(inverse), _optax()]}
    parts["number"] = {"anyOf": [{"type": "number"}, {"enum": [*RULES]}, {"$ref": "#/$defs/schedule"}]}
    for kind, choices in things.items():
        short = [_headed(parts[table.__name__]) for table in choices if len(parts[table.__name__]["properties"]) > 1]
        parts[kind] = {
            "anyOf": [{"type": "string"}, *map(_ref, choices), *short, *([] if kind == "partition" else [_own()])]
        }
    parts["steps"] = _steps(parts)
    parts["own_method"] = _open(parts.pop(MethodWords.__name__))
    parts["problem"] = {"anyOf": [_ref(table) for table in problems]}
    parts["method"] = {"anyOf": [*map(_ref, methods), {"$ref": "#/$defs/own_method"}]}
    one = {"$ref": "#/$defs/method"}
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Study file of undrift",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "problem": {"$ref": "#/$defs/problem"},
            "run": _ref(RunTable),
            "deploy": _ref(DeployTable),
            "method": {"anyOf": [{"type": "array", "items": one}, one]},
        },
        "$defs": {name: parts[name] for name in sorted(parts)},
    }
    return dict(_spelled(schema))


def _ref(table: type[Table]) -> dict[str, str]:
    return {"$ref": f"#/$defs/{table.__name__}"}


def _headed(named: Mapping[str, Any]) -> dict[str, Any]:
    """The short form of a named thing: { top_k = 75, memory = false } for { name = "top_k", k = 75, memory = false }."""
    (_, choice), (first, kind), *others = named["properties"].items()
    head = choice["enum"][0]
    needed = [key for key in named["required"] if key not in ("name", first)]
    return {"type": "object", "properties": {head: kind, **dict(others)}, "required": [head, *needed],
            "additionalProperties": False}  # fmt: skip


def _own() -> dict[str, Any]:
    """A thing of one's own by name, { name = "file.py:factory", … }: its parameters are not known here."""
    name = {"type": "string", "pattern": MARK.replace(".", r"\."), "description": "path/to/file.py:factory"}
    return {"type": "object", "properties": {"name": name}, "required": ["name"]}


def _steps(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Local steps: numbers, words and tables."""
    count = {"type": "integer", "minimum": 1, "maximum": LARGEST}
    coin = parts[CoinTable.__name__]
    named = {**coin, "properties": {"name": {"const": "geometric"}, **coin["properties"]}, "required": ["name", "p"]}
    p, *others = coin["properties"].items()
    short = {**coin, "properties": {"geometric": p[1], **dict(others)}, "required": ["geometric"]}
    tables = [_ref(RandomSteps), named, short, {"$ref": "#/$defs/schedule"}, _own()]
    examples = [20, [5, 10, 20], "2..100:fixed", "geometric:0.1"]
    return {"anyOf": [count, {"type": "array", "items": count}, {"type": "string"}, *tables], "examples": examples}


def _open(words: Mapping[str, Any]) -> dict[str, Any]:
    """The table of a method of one's own: its parameters are not known here."""
    name = {"type": "string", "pattern": MARK.replace(".", r"\."), "description": "path/to/file.py:factory"}
    return {**words, "properties": {**words["properties"], "name": name}, "additionalProperties": True}


def _optax() -> dict[str, Any]:
    """A schedule of Optax, whose keys are the affair of the version that is installed."""
    name = {"type": "string", "not": {"const": "inverse"}, "examples": OPTAX}
    return {"type": "object", "properties": {"schedule": name}, "required": ["schedule"]}


def _spelled(node: Any) -> Any:
    """The schema with its kinds of words spelled out, and without the nulls that TOML does not have."""
    if isinstance(node, list):
        return [_spelled(inner) for inner in node if inner != {"type": "null"}]
    if not isinstance(node, Mapping):
        return node
    if WORDS in node:
        kept = {key: inner for key, inner in node.items() if key in ("description", "default") and inner is not None}
        return {**_kind(node[WORDS]), **kept}
    inside = {key: _spelled(inner) for key, inner in node.items() if not (key == "default" and inner is None)}
    if list(inside) == ["anyOf"] and len(inside["anyOf"]) == 1:
        return inside["anyOf"][0]
    return inside


def _kind(kind: str) -> dict[str, Any]:
    if kind == "numbers":
        one = {"$ref": "#/$defs/number"}
        return {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]}
    return {"$ref": f"#/$defs/{kind}"}
