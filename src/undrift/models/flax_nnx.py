"""Flax NNX modules as parts of a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
from flax import nnx
from jax import Array

from ..errors import InputError
from .parts import Part, made_by, modes, parameters, refuse_state

RNGS = "rngs"


class NNX(Part):
    """An NNX module; its parameters are its `nnx.Param`s."""

    library = "Flax"
    remedy = "the first layer takes the inputs as they are; check its sizes (in_features)"

    def __init__(
        self, module: Any, *, training: Mapping[str, Any] | None, evaluating: Mapping[str, Any] | None, variables: Any
    ) -> None:
        if isinstance(module, type):
            raise InputError(
                f"the Flax module {module.__name__} is a class: give an instance, {module.__name__}(…, rngs=nnx.Rngs(0)), or a "
                "function that makes one afresh for every seed: from_flax(lambda rngs: "
                f"{module.__name__}(…, rngs=rngs), input=…)"
            )
        if variables is not None:
            raise InputError(
                "an NNX module holds its parameters itself: leave variables out, or nnx.update(module, …) first"
            )
        self.make: Callable[[Any], Any] | None = None if isinstance(module, nnx.Module) else module
        if self.make is not None:
            module = self._made(nnx.Rngs(0))
        super().__init__(module, type(module).__name__)
        if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in jax.tree.leaves(nnx.state(module))):
            raise InputError(f"{self} holds shapes and no numbers: make it outside nnx.eval_shape")
        self._refuse_state(module)
        self.flags = modes(str(self), module.__call__, training, evaluating, has_modes=True)
        self.takes_rngs = any(one.name == RNGS for one in parameters(module.__call__))
        # What training and evaluation make of it, without its parameters
        self.trained, self.still = (self._without_numbers(module, mode) for mode in ("train", "eval"))

    def _made(self, rngs: Any) -> Any:
        module = made_by(self.make, rngs, "from_flax")
        if not isinstance(module, nnx.Module):
            raise InputError(
                f"from_flax takes a module of Flax, or a function of nnx.Rngs that makes one; got {self.make!r:.80}, which "
                f"returns {type(module).__name__}"
            )
        return module

    def _refuse_state(self, module: Any) -> None:
        found = nnx.to_flat_state(nnx.split(module, nnx.Param, nnx.RngState, ...)[-1])
        if len(found):
            layers = [f"{'.'.join(map(str, path[:-1]))} ({_kind(module, path[:-1])})" for path, _ in found]
            kinds = sorted({type(variable).__name__ for _, variable in found})
            refuse_state(self, layers, f"the state {', '.join(kinds)}")

    @staticmethod
    def _without_numbers(module: Any, mode: str) -> tuple[Any, Any]:
        copy = nnx.clone(module)
        getattr(copy, mode)()
        graph, *states = nnx.split(copy, nnx.Param, nnx.RngState)
        return graph, states[-1]

    @property
    def held(self) -> Any:
        return parameters_in(self.module)

    @property
    def differs(self) -> bool:
        return self.flags[0] != self.flags[1]

    def init(self, key: Array) -> Any:
        return self.held if self.make is None else parameters_in(self._made(nnx.Rngs(key)))

    def apply(self, params: Any, x: Array, key: Array | None = None) -> Array:
        graph, drawn = self.still if key is None else self.trained
        arguments = dict(self.flags[1 if key is None else 0])
        if key is not None:
            drawn = _reseeded(drawn, key)
            if self.takes_rngs:
                arguments[RNGS] = nnx.Rngs(key)
        module = nnx.merge(graph, params, jax.tree.map(lambda leaf: leaf, drawn))  # variables of this trace
        before = _counts(module)
        output = module(x, **arguments)
        if key is None and any(one is not other for one, other in zip(before, _counts(module), strict=True)):
            raise InputError(
                f"{self} draws in evaluations too: let it draw only where module.train() holds (nnx.Dropout does), or by an "
                "argument train or deterministic of its call"
            )
        return output

    def rebuilt(self, params: Any) -> Any:
        copy = nnx.clone(self.module)
        nnx.update(copy, params)
        return copy


def _counts(module: Any) -> list[Any]:
    """How often its streams have drawn."""
    return list(jax.tree.leaves(nnx.state(module, nnx.RngCount)))


def _reseeded(drawn: Any, key: Array) -> Any:
    """Every stream with a key of its own that follows from this one."""
    leaves, structure = jax.tree.flatten(drawn)
    fresh = [
        jax.random.fold_in(key, n) if jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        for n, leaf in enumerate(leaves)
    ]
    return jax.tree.unflatten(structure, fresh)


def _kind(module: Any, path: Any) -> str:
    """The name of the class of what lies at a path."""
    for step in path:
        module = getattr(module, str(step)) if hasattr(module, str(step)) else module[step]
    return type(module).__name__


def parameters_in(module: Any) -> Any:
    """The state of a module's `nnx.Param`s."""
    return nnx.state(module, nnx.Param)


def elements(module: Any) -> tuple[Any, list[Any]]:
    """Of an `nnx.Sequential` whose modules share nothing how it is put together, and its modules; of another the module."""
    if type(module) is not nnx.Sequential:
        return None, [module]
    layers = list(module.layers)
    owned = sum(len(jax.tree.leaves(parameters_in(one))) for one in layers if isinstance(one, nnx.Module))
    if owned != len(jax.tree.leaves(parameters_in(module))) or not all(map(callable, layers)):
        return None, [module]
    return (lambda parts: nnx.Sequential(*parts), parameters_in), layers
