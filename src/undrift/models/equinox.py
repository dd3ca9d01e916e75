"""Equinox modules as parts of a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
from jax import Array

from ..errors import InputError
from .parts import Part, made_by, modes, parameters, place, refuse_state

KEY = "key"


class Equinox(Part):
    """An Equinox module of one sample; its parameters are its floating arrays."""

    library = "Equinox"
    remedy = (
        "an Equinox module takes one sample, without the batch, and its convolutions want channels first: begin with "
        "eqx.nn.Lambda(lambda x: x.transpose(2, 0, 1)) for images, eqx.nn.Lambda(jnp.ravel) for features"
    )

    def __init__(
        self, module: Any, *, training: Mapping[str, Any] | None, evaluating: Mapping[str, Any] | None
    ) -> None:
        if isinstance(module, tuple) and module and isinstance(module[-1], eqx.nn.State):
            module = module[0]  # of make_with_state: the layer that keeps the state is named below
        if isinstance(module, type):
            raise InputError(
                f"the Equinox module {module.__name__} is a class: give an instance, {module.__name__}(…, "
                "key=jax.random.key(0)), or a function that makes one afresh for every seed: from_equinox(lambda key: "
                f"{module.__name__}(…, key=key), input=…)"
            )
        self.make: Callable[[Array], Any] | None = None if isinstance(module, eqx.Module) else module
        if self.make is not None:
            module = self._made(jax.random.key(0))
        super().__init__(module, type(module).__name__)
        self._refuse_state(module)
        leaves = jax.tree.leaves(module)
        if any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves):
            raise InputError(f"{self} holds shapes and no numbers: make it outside eqx.filter_eval_shape")
        if not callable(module):
            raise InputError(f"{self} cannot be called: give it a method __call__(self, x)")
        self.flags = modes(str(self), module.__call__, training, evaluating, has_modes=True)
        self.takes_key = any(one.name == KEY for one in parameters(module.__call__))

    def _made(self, key: Array) -> Any:
        module = made_by(self.make, key, "from_equinox")
        if not isinstance(module, eqx.Module):
            raise InputError(
                f"from_equinox takes a module of Equinox, or a function of a key that makes one; got {self.make!r:.80}, which "
                f"returns {type(module).__name__}"
            )
        return module

    def _refuse_state(self, module: Any) -> None:
        found, _ = jax.tree_util.tree_flatten_with_path(module, is_leaf=lambda one: isinstance(one, eqx.nn.StateIndex))
        keepers = [path[:-1] for path, leaf in found if isinstance(leaf, eqx.nn.StateIndex)]
        if keepers:
            layers = [f"{place(path) or self.name} ({_kind(module, path)})" for path in keepers]
            refuse_state(self, layers, "an eqx.nn.State")

    @property
    def held(self) -> Any:
        return parameters_in(self.module)

    @property
    def differs(self) -> bool:
        return self.flags[0] != self.flags[1]

    def init(self, key: Array) -> Any:
        return self.held if self.make is None else parameters_in(self._made(key))

    def apply(self, params: Any, x: Array, key: Array | None = None) -> Array:
        module = eqx.nn.inference_mode(self.rebuilt(params), key is None)
        arguments = self.flags[1 if key is None else 0]
        if not self.takes_key:
            return jax.vmap(lambda one: module(one, **arguments))(x)
        if key is None:
            return jax.vmap(lambda one: module(one, key=None, **arguments))(x)
        keys = jax.random.split(key, x.shape[0])
        return jax.vmap(lambda one, own: module(one, key=own, **arguments))(x, keys)

    def rebuilt(self, params: Any) -> Any:
        return eqx.combine(params, eqx.filter(self.module, eqx.is_inexact_array, inverse=True))


def _kind(module: Any, path: Any) -> str:
    """The name of the class of what lies at a path."""
    for step in path:
        if isinstance(step, jax.tree_util.GetAttrKey):
            module = getattr(module, step.name)
        else:
            module = module[step.idx if isinstance(step, jax.tree_util.SequenceKey) else step.key]
    return type(module).__name__


def parameters_in(module: Any) -> Any:
    """The floating arrays of a module."""
    return eqx.filter(module, eqx.is_inexact_array)


def elements(module: Any) -> tuple[Any, list[Any]]:
    """Of an `eqx.nn.Sequential` how it is put together, and its modules; of another nothing, and the module."""
    if type(module) is not eqx.nn.Sequential:
        return None, [module]
    return (eqx.nn.Sequential, parameters_in), list(module.layers)
