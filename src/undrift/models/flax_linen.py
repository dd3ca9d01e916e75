"""Flax Linen modules as parts of a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import flax.errors
import flax.linen as nn
import jax
from jax import Array

from ..errors import InputError
from .parts import Part, modes, place, refuse_state

PARAMS = "params"


class Linen(Part):
    """A Linen module; its parameters are the collection "params"."""

    library = "Flax"
    remedy = "the first layer takes the inputs as they are (Flatten: x.reshape((x.shape[0], -1))); check its sizes"

    def __init__(
        self, module: Any, *, training: Mapping[str, Any] | None, evaluating: Mapping[str, Any] | None, variables: Any
    ) -> None:
        if isinstance(module, type):
            raise InputError(f"the Flax module {module.__name__} is a class: give an instance, {module.__name__}(…)")
        if module.scope is not None:  # it is bound to its variables
            module, bound = module.unbind()
            variables = bound if variables is None else variables
        super().__init__(module, module.name or type(module).__name__)
        self.variables = None if variables is None else self._given(variables)
        self.flags = modes(str(self), type(module).__call__.__get__(module), training, evaluating)

    @property
    def held(self) -> Any:
        return self.variables

    @property
    def differs(self) -> bool:
        return self.flags[0] != self.flags[1]

    def init(self, key: Array) -> Any:
        if self.variables is not None:
            return self.variables
        return _initialised(self)(key)

    def apply(self, params: Any, x: Array, key: Array | None = None) -> Array:
        training, evaluating = self.flags
        if key is None:
            return self.module.apply({PARAMS: params}, x, **evaluating)
        # A stream that is not named is drawn from "params"
        streams = {"dropout": key, PARAMS: jax.random.fold_in(key, 0)}
        return self.module.apply({PARAMS: params}, x, rngs=streams, **training)

    def rebuilt(self, params: Any) -> Any:
        return self.module.bind({PARAMS: params})

    def started(self, key: Array, x: Array) -> Any:
        """Fresh parameters; refuses other collections."""
        return self._only_params(self.module.init({PARAMS: key, "dropout": key}, x, **self.flags[1]))

    def _given(self, variables: Any) -> Any:
        if not isinstance(variables, Mapping) or PARAMS not in variables:
            raise InputError(
                f"the variables of {self} are what its init returns, {{'params': …}}; got {variables!r:.80}"
            )
        return self._only_params(variables)

    def _only_params(self, variables: Any) -> Any:
        tree = dict(variables)
        for collection, content in tree.items():
            if collection != PARAMS and jax.tree.leaves(content):
                paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(content)[0]]
                layers = [place(path[:-1]) or self.name for path in paths]
                refuse_state(self, layers, f"the collection {collection!r}")
        return tree.get(PARAMS, {})

    def explain(self, error: Exception, doing: str) -> NoReturn:
        if isinstance(error, flax.errors.InvalidRngError) and doing == "evaluate":
            raise InputError(
                f"{self} draws in evaluations too ({error.args[0].partition(' (')[0]}): tell it when not to, by an argument "
                "train or deterministic of its call that reaches nn.Dropout(…, deterministic=not train), or by evaluating={…}"
            ) from error
        super().explain(error, doing)


def _initialised(part: Linen) -> Any:
    """init as one compiled program: step by step it takes seconds."""
    shape = (1, *part.sample.shape)
    return jax.jit(lambda key: part.started(key, jax.numpy.zeros(shape, part.sample.dtype)))


def is_linen(module: Any) -> bool:
    """Whether it is a Linen module, or a class of them."""
    return issubclass(module if isinstance(module, type) else type(module), nn.Module)
