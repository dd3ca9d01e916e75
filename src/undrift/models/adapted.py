"""Modules of Flax, Equinox and Haiku as networks: taken as they are, their parameters one after the other in the flat x."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.util import find_spec
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike

from .. import precision
from ..errors import InputError
from .layers import Shape
from .parts import SAMPLES, Function, Part, missing, program

NOTHING = jax.ShapeDtypeStruct((), "float32")
TOKENS = "int32"  # the dtype of inputs that are whole numbers and stay so


class Whole(NamedTuple):
    """How a sequence that was taken apart is put together: the module of its modules, and the parameters of such a module."""

    module: Callable[[list[Any]], Any]
    params: Callable[[Any], Any]


@dataclass(frozen=True)
class Adapted:
    """Modules in order, mostly one, and the shape of one input. See `from_flax`, `from_equinox` and `from_haiku`.

    It does what a `Model` does. The parameters are a tuple with one entry per module, each as its library has it; raveled to a
    vector they keep that order, and each module's parameters that of `jax.tree.leaves`.
    """

    name: str
    parts: tuple[Part, ...]
    input: Shape
    dtype: str = "float32"
    tokens: bool = False  # inputs are whole numbers
    output: jax.ShapeDtypeStruct = NOTHING  # of one sample
    whole: Whole | None = None  # of a sequence that was taken apart
    paper_cut: ClassVar[None] = None

    @property
    def layer_names(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts)

    @property
    def random(self) -> bool:
        """Whether training draws."""
        return any(part.random for part in self.parts)

    def init(self, key: Array) -> tuple[Any, ...]:
        """Parameters to start from: fresh ones, or those that the module holds already."""
        keys = [key] if len(self.parts) == 1 else [jax.random.fold_in(key, n) for n in range(len(self.parts))]
        started = tuple(part.init(one) for part, one in zip(self.parts, keys, strict=True))
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, self.dtype), started)

    def apply(self, params: Sequence[Any], inputs: Array, key: Array | None = None) -> Array:
        """Outputs (batch, …) of a batch, in the dtype of the parameters; key: while training, from which dropout draws."""
        for number, (part, own) in enumerate(zip(self.parts, params, strict=True)):
            drawn = None if key is None or not part.random else jax.random.fold_in(key, number)
            inputs = part.apply(own, inputs, drawn)
        return inputs.astype(self._leaf_dtype(params))

    def _leaf_dtype(self, params: Any) -> Any:
        return next((leaf.dtype for leaf in jax.tree.leaves(params)), jnp.dtype(self.dtype))

    def unravel(self, x: Any) -> Any:
        """The parameters as the library has them, from the flat vector: of one module its own tree, of a list a list of trees.

        >>> import equinox as eqx
        >>> model = from_equinox(eqx.nn.Linear(3, 2, key=jax.random.key(0)), input=(3,))
        >>> model.unravel(np.arange(8.0)).bias
        Array([6., 7.], dtype=float32)
        """
        if self.whole is not None:
            return self.whole.params(self.to_module(x))
        trees = self._trees(x)
        return trees[0] if len(trees) == 1 else list(trees)

    def to_module(self, x: Any) -> Any:
        """The user's own module with the parameters of the flat vector; of a list, a list of modules.

        Of Linen it is bound to them, of NNX and Equinox a copy of the module, of Haiku a function of the inputs.

        >>> import equinox as eqx
        >>> module = eqx.nn.Linear(3, 2, key=jax.random.key(0))
        >>> from_equinox(module, input=(3,)).to_module(np.ones(8))(jnp.ones(3))
        Array([4., 4.], dtype=float32)
        """
        made = [part.rebuilt(tree) for part, tree in zip(self.parts, self._trees(x), strict=True)]
        if self.whole is not None:
            return self.whole.module(made)
        return made[0] if len(made) == 1 else made

    def _trees(self, x: Any) -> tuple[Any, ...]:
        with precision.scope(self.dtype):
            leaves, structure = jax.tree.flatten(self._shapes)
            flat = np.asarray(x)
            if flat.shape != (self.parameter_count,):
                raise InputError(
                    f"x of model {self.name!r} is a vector of {self.parameter_count} numbers; got the shape {flat.shape}"
                )
            ends = np.cumsum([leaf.size for leaf in leaves])[:-1]
            pieces = zip(np.split(flat, ends), leaves, strict=True)
            arrays = [jnp.asarray(piece.reshape(shape.shape), shape.dtype) for piece, shape in pieces]
            trees: tuple[Any, ...] = jax.tree.unflatten(structure, arrays)
            return trees

    def split(self, cut: int | None = None) -> tuple[Adapted, Adapted]:
        """The client's half, the first `cut` modules, and the server's half."""
        cut = self._valid(cut)
        client = replace(self, name=f"{self.name}[:{cut}]", parts=self.parts[:cut], whole=None)
        crossing = self._before(cut)
        whole = not jnp.issubdtype(crossing.dtype, jnp.floating)
        server = replace(
            client, name=f"{self.name}[{cut}:]", parts=self.parts[cut:], input=crossing.shape, tokens=whole
        )
        return replace(client, output=crossing), server

    def split_params(self, params: Sequence[Any], cut: int | None = None) -> tuple[Any, Any]:
        """The parameters of the two halves of `split`."""
        cut = self._valid(cut)
        return params[:cut], params[cut:]

    def activation_shape(self, cut: int | None = None, batch: int = 1) -> Shape:
        """The shape of the array that crosses the cut."""
        return (batch, *self._before(self._valid(cut)).shape)

    @cached_property
    def parameter_count(self) -> int:
        """The number of parameters: d, or, of a client's half, the index in the flat vector where the server's begins."""
        return sum(leaf.size for leaf in jax.tree.leaves(self._shapes))

    @cached_property
    def convolutional(self) -> bool:
        """Whether there are convolutions in it."""
        with precision.scope(self.dtype):
            batch = jax.ShapeDtypeStruct((SAMPLES, *self.input), self.sample.dtype)
            return any("conv_general_dilated" in step for step in program(self.apply, self._shapes, batch))

    @property
    def sample(self) -> jax.ShapeDtypeStruct:
        """One input."""
        return jax.ShapeDtypeStruct(self.input, TOKENS if self.tokens else self.dtype)

    @property
    def _shapes(self) -> tuple[Any, ...]:
        return tuple(part.shapes for part in self.parts)

    def _before(self, cut: int) -> jax.ShapeDtypeStruct:
        """One sample at the cut."""
        return self.parts[cut].sample if cut < len(self.parts) else self.output

    def _valid(self, cut: int | None) -> int:
        if len(self.parts) < 2:
            raise InputError(
                f"model {self.name!r} is one module, of which nobody outside knows where to cut it: give a list of modules, an "
                "nnx.Sequential or an eqx.nn.Sequential, or one of ud.models"
            )
        if cut is None or isinstance(cut, bool) or not 0 <= cut <= len(self.parts):
            raise InputError(
                f"a cut lies between 0 and the number of modules, {len(self.parts)} for model {self.name!r}; got {cut}. "
                f"They are {', '.join(self.layer_names)}."
            )
        return cut


def from_flax(
    module: Any,
    input: Shape,
    *,
    variables: Any = None,
    training: Mapping[str, Any] | None = None,
    evaluating: Mapping[str, Any] | None = None,
    dtype: DTypeLike | None = None,
    tokens: bool = False,
) -> Adapted:
    """A Flax module, Linen or NNX, for inputs of this shape (without the batch), as it is.

    module: an instance, or a list of instances and functions that follow each other and can be cut between two for split
    learning; an `nnx.Sequential` is such a list
    itself. Linen modules start fresh from the seed of a run, or, where they are bound or
    `variables` are given, from those; NNX modules start from the parameters they hold, and a function of `nnx.Rngs` that makes
    one starts fresh from the seed. training, evaluating: arguments of the call in either case; without them the usual names are
    found in its signature (train, training, is_training, deterministic). While training, dropout and its kin draw from the
    key of (seed, round, exchange, client, step); in evaluations nothing may draw. BatchNorm and other layers that keep state
    are refused. dtype: of x, float32 unless the parameters are float64. tokens: inputs are whole numbers, as embeddings want.

    >>> import flax.linen as nn
    >>> model = from_flax(nn.Sequential([nn.Dense(16), nn.relu, nn.Dense(10)]), input=(64,))
    >>> model.parameter_count
    1210
    """
    if not _installed("flax"):
        raise missing("Flax", "flax")
    from .flax_linen import Linen, is_linen
    from .flax_nnx import NNX, elements

    if isinstance(module, tuple) and len(module) == 2 and variables is None and is_linen(module[0]):
        module, variables = module
    whole, given = (None, module) if isinstance(module, list) else elements(module)

    def made(one: Any) -> Part:
        kind = Linen if is_linen(one) else NNX
        return kind(one, training=training, evaluating=evaluating, variables=variables)

    return _assembled(_parts(given, made, each=False), input, dtype, tokens, whole)


def from_equinox(
    module: Any,
    input: Shape,
    *,
    training: Mapping[str, Any] | None = None,
    evaluating: Mapping[str, Any] | None = None,
    dtype: DTypeLike | None = None,
    tokens: bool = False,
) -> Adapted:
    """An Equinox module for inputs of this shape, as it is: a function of one sample, which is mapped over the batch.

    module: an instance, which starts from the parameters it holds; a function of a key that makes one, which starts fresh from
    the seed of a run; or a list of instances and functions, see `from_flax`. An `eqx.nn.Sequential` is such a list. Parameters
    are its floating arrays; whatever else it holds is constant. While training every sample has a key of its own, in
    evaluations the module is in inference mode.

    >>> import equinox as eqx
    >>> from_equinox(eqx.nn.MLP(4, 3, 8, 1, key=jax.random.key(0)), input=(4,)).parameter_count
    67
    """
    if not _installed("equinox"):
        raise missing("Equinox", "equinox")
    from .equinox import Equinox, elements

    whole, given = (None, module) if isinstance(module, list) else elements(module)
    made = partial(Equinox, training=training, evaluating=evaluating)
    return _assembled(_parts(given, made, each=True), input, dtype, tokens, whole)


def from_haiku(
    module: Any,
    input: Shape,
    *,
    variables: Any = None,
    training: Mapping[str, Any] | None = None,
    evaluating: Mapping[str, Any] | None = None,
    dtype: DTypeLike | None = None,
    tokens: bool = False,
) -> Adapted:
    """A Haiku function for inputs of this shape: what `hk.transform` returns, or the function itself; or a list of them.

    It starts fresh from the seed of a run, or from the parameters given as `variables`. For the other options see `from_flax`.

    >>> import haiku as hk
    >>> from_haiku(hk.transform(lambda x: hk.nets.MLP([8, 3])(x)), input=(4,)).parameter_count
    67
    """
    if not _installed("haiku"):
        raise missing("Haiku", "haiku")
    from .haiku import Haiku

    given = module if isinstance(module, list) else [module]
    made = partial(Haiku, training=training, evaluating=evaluating, variables=variables)
    return _assembled(_parts(given, made, each=False), input, dtype, tokens)


ADAPTERS: dict[str, Callable[..., Adapted]] = {"flax": from_flax, "equinox": from_equinox, "haiku": from_haiku}


def library_of(model: Any) -> str | None:
    """Which of the libraries a module (or class of modules, or list that has one) comes from, if any.

    A module of a library that nobody has imported does not exist, so that nothing is imported here.

    >>> library_of(lambda x: x) is None
    True
    """
    if isinstance(model, list):
        return next(filter(None, map(library_of, model)), None)
    if isinstance(model, tuple) and not hasattr(
        model, "_fields"
    ):  # (module, state) of Equinox, (module, variables) of Linen
        return library_of(model[0]) if len(model) == 2 else None
    kinds = model.__mro__ if isinstance(model, type) else type(model).__mro__
    roots = {kind.__module__.partition(".")[0] for kind in kinds}
    return next((name for name in ADAPTERS if name in roots and name in sys.modules), None)


def adapt(model: Any, input: Shape, tokens: bool = False) -> Adapted:
    """The model of a module of Flax, Equinox or Haiku (see `library_of`), for inputs of this shape."""
    library = library_of(model)
    if library is None:
        raise InputError(f"a module is one of Flax, Equinox or Haiku; got {model!r:.80}")
    return ADAPTERS[library](model, input, tokens=tokens)


def _parts(given: list[Any], made: Callable[[Any], Part], each: bool) -> list[Part]:
    """A part of every module; what stands between modules and is none is a function (of each sample, if `each`)."""
    return [Function(one, each) if len(given) > 1 and _plain(one) else made(one) for one in given]


def _assembled(parts: list[Part], input: Shape, dtype: DTypeLike | None, tokens: bool, whole: Any = None) -> Adapted:
    """The parts in order, each tried on what the one before it returns."""
    if not parts:
        raise InputError("a list of modules names at least one, got none")
    wanted = np.dtype(dtype) if dtype is not None else _held_dtype(parts)
    if wanted.name not in ("float32", "float64"):
        raise InputError(f"x is a vector of float32 or float64, got dtype={dtype!r}: take one of them")
    made = Adapted("+".join(part.name for part in parts)[:60], (), tuple(input), wanted.name, tokens)
    with precision.scope(wanted.name):
        sample = made.sample
        for part in parts:
            sample = part.tried(sample, wanted)
    made = replace(made, parts=tuple(parts), output=sample, whole=None if whole is None else Whole(*whole))
    if not made.parameter_count:
        raise InputError(f"model {made.name!r} has no parameters: there is nothing to train in it")
    return made


def _held_dtype(parts: list[Part]) -> np.dtype[Any]:
    """float64 where parameters are held in it already."""
    held = {str(leaf.dtype) for part in parts for leaf in jax.tree.leaves(part.held)}
    return np.dtype("float64" if "float64" in held else "float32")


def _plain(one: Any) -> bool:
    """Whether it is a function between modules rather than a module."""
    return callable(one) and not isinstance(one, type) and library_of(one) is None


def _installed(package: str) -> bool:
    return sys.modules[package] is not None if package in sys.modules else find_spec(package) is not None
