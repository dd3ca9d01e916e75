"""What the adapters for other libraries have in common: how a module is traced, what it may hold, and what is refused."""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
from jax import Array

from ..errors import InputError

# How modules call the argument that tells training from evaluation: True while training, or True in evaluations
TRAINING = ("train", "training", "is_training")
EVALUATING = ("deterministic", "inference", "eval_mode", "use_running_average")
DRAWS = ("key", "rng", "rngs")  # arguments for what a module draws
SAMPLES = 2  # in the batch that a module is tried on
STATISTICS = (
    "its numbers are not parameters but follow from the data that passed by: averaged over clients whose data differ they fit "
    "nobody's, and they tell of each client's data"
)


class Part(ABC):
    """A module of another library: how its parameters start, and what it makes of a batch. Parts are equal if they are one."""

    library = ""
    remedy = "make the module fit the inputs"

    def __init__(self, module: Any, name: str) -> None:
        self.module, self.name = module, name
        self.random = False  # whether training differs from evaluation: it then gets a key
        self.sample = jax.ShapeDtypeStruct((), "float32")  # one input
        self.shapes: Any = ()  # of the parameters

    @abstractmethod
    def init(self, key: Array) -> Any:
        """Parameters to start from, as the library has them."""

    @abstractmethod
    def apply(self, params: Any, x: Array, key: Array | None = None) -> Array:
        """Outputs for a batch, whose axis comes first; with a key as training has it."""

    @abstractmethod
    def rebuilt(self, params: Any) -> Any:
        """The user's own module with these parameters."""

    @property
    def held(self) -> Any:
        """The parameters that it holds already, whose dtype x gets."""
        return ()

    @property
    def differs(self) -> bool:
        """Whether training is told from evaluation by anything but a key."""
        return False

    def tried(self, sample: jax.ShapeDtypeStruct, dtype: Any) -> jax.ShapeDtypeStruct:
        """What it makes of such a sample; refuses what cannot be a part of a network whose x is of this dtype."""
        self.sample = sample
        key = jax.eval_shape(lambda: jax.random.key(0))
        started = self.traced(self.init, key, doing="initialise")
        check_parameters(self, started)
        self.shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, dtype), started)
        given = self.shapes, self._batch
        output = self.traced(self.apply, *given, doing="evaluate")
        self._check_output(output)
        self.traced(self.apply, *given, key, doing="train")
        self.random = depends_on_last(self.apply, *given, key) or (
            self.differs and program(self.apply, *given, key) != program(self.apply, *given)
        )
        return jax.ShapeDtypeStruct(output.shape[1:], output.dtype)

    @property
    def _batch(self) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((SAMPLES, *self.sample.shape), self.sample.dtype)

    def _check_output(self, found: Any) -> None:
        if not isinstance(found, jax.ShapeDtypeStruct):
            raise InputError(
                f"{self} returns {type(found).__name__}, and a network one array (batch, …): return the logits or the "
                "prediction alone"
            )
        if not found.shape or found.shape[0] != SAMPLES:
            raise InputError(
                f"{self} returns the shape {found.shape} for {SAMPLES} samples of shape {self.sample.shape}: outputs begin "
                "with the batch"
            )

    def traced(self, function: Callable[..., Any], *shapes: Any, doing: str) -> Any:
        """Shapes of what a function of the user's returns; what the library says against it is told with a remedy."""
        try:
            return jax.eval_shape(function, *shapes)
        except InputError:
            raise
        except Exception as error:  # modules raise whatever their libraries do
            self.explain(error, doing)

    def explain(self, error: Exception, doing: str) -> NoReturn:
        """Say what a library has against the module, and what to do."""
        sizes = "".join(f", {size}" for size in self.sample.shape)
        raise InputError(
            f"{self} cannot {doing} on inputs of shape (batch{sizes}), {self.sample.dtype}: {type(error).__name__}: "
            f"{first_line(error)}. Remedy: {self.remedy}"
        ) from error

    def __str__(self) -> str:
        return f"the {self.library} module {self.name}"


class Function(Part):
    """A step without parameters in a list of modules: an activation, a reshape. For a library of single samples, on each."""

    library, remedy = "", "give a function of one array (batch, …)"

    def __init__(self, function: Callable[..., Any], each: bool) -> None:
        super().__init__(function, getattr(function, "__name__", type(function).__name__))
        self.each = each

    def init(self, key: Array) -> Any:
        return ()

    def apply(self, params: Any, x: Array, key: Array | None = None) -> Array:
        done: Array = (jax.vmap(self.module) if self.each else self.module)(x)
        return done

    def rebuilt(self, params: Any) -> Any:
        return self.module

    def __str__(self) -> str:
        return f"the function {self.name}"


def refuse_state(part: Part, layers: Iterable[str], what: str) -> NoReturn:
    """Refuse what is neither parameter nor constant, by the name of the layers that keep it."""
    names = ", ".join(dict.fromkeys(layers))
    raise InputError(
        f"{part} keeps {what} in {names}, which cannot be federated: {STATISTICS}. Use GroupNorm (or LayerNorm) in place of "
        "BatchNorm, and no other layers that keep state"
    )


def check_parameters(part: Part, shapes: Any) -> None:
    """Refuse parameters that are no float32 or float64: x is one vector of such numbers."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(shapes)[0]:
        if jnp.dtype(leaf.dtype).name not in ("float32", "float64"):
            raise InputError(
                f"the parameters of {part} are float32 or float64, because x is one vector of them, but "
                f"{place(path)} is {jnp.dtype(leaf.dtype).name}: {_other_kind(leaf.dtype)}"
            )


def _other_kind(dtype: Any) -> str:
    if jnp.issubdtype(dtype, jnp.floating):
        return "keep parameters in float32 (param_dtype=jnp.float32); computing in half precision is fine"
    return "keep numbers that are not trained outside the parameters, as constants of the module"


def place(path: Any) -> str:
    """Where a leaf stands in a tree, as a reader writes it.

    >>> place(jax.tree_util.tree_flatten_with_path({"a": [1]})[0][0][0])
    'a.0'
    """
    text = jax.tree_util.keystr(path)
    return re.sub(r"\[['\"]?([^]'\"]*)['\"]?\]", r".\1", text).removesuffix(".value").strip(".")


def first_line(error: Exception) -> str:
    """The first line of what an exception says, shortened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else "no message")[:300].rstrip(".")


def modes(
    part: str,
    function: Callable[..., Any],
    training: Mapping[str, Any] | None,
    evaluating: Mapping[str, Any] | None,
    has_modes: bool = False,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments by which training and evaluation are told apart: those given, or the usual names of the signature.

    has_modes: the library has modes of its own, to which an argument that is None by default leaves it.

    >>> modes("it", lambda x, train: x, None, None)
    ({'train': True}, {'train': False})
    """
    if training is not None or evaluating is not None:
        return dict(training or {}), dict(evaluating or {})
    _, *others = parameters(function)
    named = [one for one in others if one.name in (*TRAINING, *EVALUATING)]
    known = [one.name for one in named if not (has_modes and one.default is None)]
    for one in others:
        if one.default is one.empty and one.name not in (*known, *DRAWS) and one.kind in NEEDED:
            raise InputError(
                f"{part} takes the inputs alone, and perhaps one of {', '.join((*TRAINING, *EVALUATING))} and "
                f"{', '.join(DRAWS)}; it wants {one.name!r} too: give that a default, or say it by training={{…}} and "
                "evaluating={…}"
            )
    return {name: name in TRAINING for name in known}, {name: name in EVALUATING for name in known}


NEEDED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_ONLY)


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a call; one that nothing is known of where its signature cannot be read."""
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        found = []
    return found or [inspect.Parameter("inputs", inspect.Parameter.POSITIONAL_ONLY)]


def depends_on_last(function: Callable[..., Any], *shapes: Any) -> bool:
    """Whether what a function returns depends on its last argument, an array.

    >>> one = jax.ShapeDtypeStruct((), "float32")
    >>> depends_on_last(lambda a, b: a * 2, one, one), depends_on_last(lambda a, b: a * b, one, one)
    (False, True)
    """
    jaxpr = jax.make_jaxpr(function)(*shapes).jaxpr
    return id(jaxpr.invars[-1]) in _alive(jaxpr)[1]


def program(function: Callable[..., Any], *shapes: Any) -> list[str]:
    """What a function computes, step by step, in words that agree where the steps do; what comes to nothing is left out."""
    steps, _ = _alive(jax.make_jaxpr(function)(*shapes).jaxpr)
    words = (f"{one.primitive} {one.params} {[getattr(v, 'val', v.aval) for v in one.invars]}" for one in steps)
    return [re.sub(r"0x[0-9a-f]+", "", word) for word in words]


def _alive(jaxpr: Any) -> tuple[list[Any], set[int]]:
    """The steps on which the results depend, and the identities of the variables on which they do."""
    steps, alive = [], {id(variable) for variable in jaxpr.outvars}
    for equation in reversed(jaxpr.eqns):
        if any(id(variable) in alive for variable in equation.outvars):
            steps.append(equation)
            alive |= {id(variable) for variable in equation.invars}
    return steps, alive


def made_by(function: Any, source: Any, taker: str) -> Any:
    """What a user's function makes of a source of draws; what it raises is told."""
    if not callable(function):
        raise InputError(f"{taker} takes a module, or a function that makes one; got {function!r:.80}")
    try:
        return function(source)
    except Exception as error:  # the user's own code
        raise InputError(
            f"{taker} cannot make a module by {function!r:.80}: {type(error).__name__}: {first_line(error)}. Remedy: mend the "
            "function, or give an instance"
        ) from error


def missing(library: str, extra: str) -> InputError:
    """The complaint about a library that is not installed.

    >>> str(missing("Flax", "flax"))
    "Flax is not installed: pip install 'undrift[flax]'"
    """
    return InputError(f"{library} is not installed: pip install 'undrift[{extra}]'")
