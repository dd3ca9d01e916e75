"""The tables of a study file: keys, types and ranges. What depends on a name comes from the signature of the function it names.

Nothing here needs JAX: the flags of the command line are of these types too.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Union

import msgspec
from msgspec import Meta

from ..gate import LARGEST, Count, Failures, Link, NotNegative, Positive, Seed, Table

PLAIN = (int, float, bool, str)


def words(kind: str, example: str) -> Meta:
    """Of a named thing with arguments: "name:value,key=value", { name = …, key = … } or { name = value }."""
    name, _, value = example.partition(":")
    rule = f'a word such as "{example}" or a table {{ {name} = {value} }}'
    return Meta(extra={"rule": rule}, extra_json_schema={WORDS: kind})


WORDS = "x-words"  # in the schema: which kind of word it is
Compressor = Annotated[str | dict[str, Any], words("compressor", "top_k:75")]
Participation = Annotated[str | dict[str, Any], words("participation", "uniform:10")]
Oracle = Annotated[str | dict[str, Any], words("oracle", "minibatch:20")]
Partition = Annotated[str | dict[str, Any], words("partition", "dirichlet:0.5")]
Rounds = Annotated[int, Meta(ge=0, le=LARGEST - 1, examples=[100])]
Label = Annotated[str, Meta(min_length=1, max_length=100)]
StepSize = Annotated[
    float | Literal["theorem", "certified"],
    Meta(extra={"rule": 'a number > 0, "theorem" or "certified"'}, examples=[0.01]),
]


class RandomSteps(Table):
    """Local steps that are drawn: anew in every round, for each client or in common, or once per client."""

    low: Count
    high: Count
    fixed: bool = False
    common: bool = False
    seed: Seed = 0


class CoinTable(Table):
    """Local steps by a coin that is tossed after each, heads with probability p: one's own, or in common."""

    p: Annotated[float, Meta(gt=0, le=1, extra={"rule": "a probability in (0, 1]"}, examples=[0.1])]
    common: bool = False


Steps = Annotated[
    Count | list[Count] | dict[str, Any] | str,
    Meta(
        extra={"rule": "a whole number ≥ 1, a list of them (one per client), { low = 2, high = 100 } or a word"},
        extra_json_schema={WORDS: "steps", "examples": [20, [5, 10, 20], "2..100:fixed"]},
    ),
]


class AvailabilityTable(Table):
    """A CSV file of who is there when, what becomes of who is not, and what comes after its last round."""

    file: Annotated[str, Meta(min_length=1)]
    absent: Literal["undrawn", "silent"] = "undrawn"
    after: Literal["repeat", "end"] | None = None


There = Annotated[
    str | AvailabilityTable,
    Meta(extra={"rule": 'a file "trace.csv", or a table { file = "trace.csv", absent = "undrawn", after = "repeat" }'}),
]
Speeds = Annotated[
    Positive | Annotated[list[Positive], Meta(min_length=1)] | str,
    Meta(extra={"rule": "a number > 0 (gradients per second), a list of them (one per client) or a word"},
         examples=[100, [10, 20, 40], "10..1000"]),
]  # fmt: skip
Ends = Annotated[
    str | dict[str, float | str],
    Meta(extra={"rule": 'a word such as "gap=1e-6" or a table of numbers { gap = 1e-6, patience = 20 }'}),
]
Means = Annotated[str | Link, Meta(extra={"rule": "a word or a table, { up = 1e6, down = 1e7, latency = 0.05 }"})]


class RunTable(Table):
    """How a method is run: rounds, local steps, who takes part, what is recorded."""

    # What `ud.run` can be told, in words. Beyond that: of a comparison `seeds` (how many, from `seed` on) and `refine` (by
    # how many values a grid may grow), and `speeds` and `link` (gradients per second and the clients' link, for virtual
    # seconds).
    rounds: Rounds = 100
    steps: Steps = 10
    participation: Participation = "full"
    failures: Failures = 0.0
    availability: There | None = None
    oracle: Oracle | None = None
    seed: Seed = 0
    seeds: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    refine: Annotated[int, Meta(ge=0, le=1000)] = 0
    record_every: Count = 1
    per_client: bool | None = None  # without a word: where there are few clients (`studies.lanes`)
    diagnostics: bool = False
    keep_iterates: bool = False
    stop: Ends | None = None
    on_divergence: Literal["stop", "continue"] = "stop"
    speeds: Speeds = 100.0
    link: Means | None = None


SiteName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
        extra={"rule": "a name of letters, digits, dots, dashes and underscores, at most 63 of them"},
        examples=["cleveland"],
    ),
]


class DeployTable(Table):
    """Who takes part in a deployed run (`undrift serve`), and how long the server waits for them."""

    # `sites`: names of their certificates, client 0 first; `deadline`: seconds, without it everybody is waited for.
    sites: Annotated[list[SiteName], Meta(min_length=1)] | None = None
    deadline: Positive | None = None


Delta = Annotated[float, Meta(gt=0, lt=1, extra={"rule": "a number > 0 and < 1, far below 1/m"}, examples=[1e-5])]


class PrivateTable(Table):
    """What clients send is clipped and noised, see `undrift.private`."""

    clip: Positive
    noise: NotNegative
    delta: Delta = 1e-5
    where: Literal["client", "server"] = "client"
    cohorts: Literal["secret", "public"] = "secret"


Private = Annotated[
    PrivateTable, Meta(extra={"rule": "a table, { clip = 1.0, noise = 1.0, delta = 1e-5, where = 'client' }"})
]


class MethodWords(Table):
    """The keys that every table [[method]] has."""

    name: str
    label: Label | None = None
    up: Compressor | None = None
    down: Compressor | None = None
    exchange: str | None = None
    private: Private | None = None
    asked: dict[str, Any] | None = None  # written by undrift: of values it chose, what stood there before


class ProblemWords(Table):
    """The key that every table [problem] has."""

    name: str


def field_types(table: type[Table]) -> dict[str, Any]:
    """Types by key."""
    return {field.name: field.type for field in msgspec.structs.fields(table)}


def defaults(table: type[Table]) -> dict[str, Any]:
    """Values by key."""
    return {field.name: field.default for field in msgspec.structs.fields(table)}


def table_of(function: Callable[..., Any], called: str = "", **fixed: Any) -> type[Table]:
    """The table whose keys are the parameters of a function, after `fixed` ones (key=type).

    >>> from undrift.gate import check
    >>> def noisy(variance: float, often: bool = True): ...
    >>> check(table_of(noisy), {"variance": True}, "noisy")
    Traceback (most recent call last):
    undrift.errors.InputError: variance must be a number, got true
    """
    parameters = inspect.signature(function, eval_str=True).parameters
    keys = {key: (kind_of(one.annotation), one.default) for key, one in parameters.items()}
    return make_table(called or function.__name__, function, fixed, keys)


def make_table(
    name: str, function: Callable[..., Any], fixed: Mapping[str, Any], keys: Mapping[str, tuple[Any, Any]]
) -> type[Table]:
    """A table of `fixed` keys (types) and others (types and defaults); the function's documentation is its description."""
    fields: list[Any] = list(fixed.items())
    for key, (kind, default) in keys.items():
        fields.append((key, kind) if default is inspect.Parameter.empty else (key, kind, default))
    summary = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
    made = msgspec.defstruct(name, fields, bases=(Table,), kw_only=True, namespace={"__doc__": summary})
    return typing.cast("type[Table]", made)


def kind_of(annotation: Any) -> Any:
    """What a study file can say for a parameter with this annotation: plain kinds, tables by plain keys, or anything.

    >>> kind_of(int | None), kind_of(str | tuple[int, ...])
    (<class 'int'>, <class 'str'>)
    """
    if annotation in PLAIN or typing.get_origin(annotation) in (Annotated, Literal):
        return annotation
    if typing.get_origin(annotation) is dict:
        return dict[str, float]
    if typing.get_origin(annotation) not in (Union, types.UnionType):
        return Any
    inside = [kind for one in typing.get_args(annotation) if (kind := kind_of(one)) is not Any]
    if float in inside:  # Optax allows arrays, complex numbers and truth values where it means a number
        return float
    return Union[tuple(inside)] if inside else Any  # noqa: UP007


def is_plain(annotation: Any) -> bool:
    """Whether a study file can say it."""
    kind = kind_of(annotation)
    return kind is not Any and typing.get_origin(kind) is not dict
