"""Haiku functions as parts of a network."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, NoReturn

import haiku as hk
import jax
from jax import Array

from ..errors import InputError
from .parts import Part, modes, parameters, refuse_state

RNG = "rng"


class Haiku(Part):
    """What `hk.transform` makes of a function, with or without state that stays empty."""

    library = "Haiku"
    remedy = "the first layer takes the inputs as they are (hk.Flatten() before hk.Linear); check its sizes"

    def __init__(
        self, module: Any, *, training: Mapping[str, Any] | None, evaluating: Mapping[str, Any] | None, variables: Any
    ) -> None:
        if isinstance(module, type) or not (callable(module) or isinstance(module, _TRANSFORMED)):
            name = getattr(module, "__name__", repr(module)[:80])
            raise InputError(
                f"a Haiku module lives inside a function: give hk.transform(lambda x: {name}(…)(x)) in place of {name}"
            )
        if not isinstance(module, _TRANSFORMED):
            module = hk.transform_with_state(module)
        super().__init__(module, "function")
        self.variables = variables
        self.stateful = isinstance(module, hk.TransformedWithState)
        taken = parameters(module.init)[1:]  # the key comes first
        self.flags = modes(str(self), _Signature(taken), training, evaluating)
        self.takes_rng = any(one.name == RNG for one in parameters(module.apply))

    @property
    def held(self) -> Any:
        return self.variables

    @property
    def differs(self) -> bool:
        return self.flags[0] != self.flags[1]

    def init(self, key: Array) -> Any:
        if self.variables is not None:
            return self.variables
        batch = jax.ShapeDtypeStruct((1, *self.sample.shape), self.sample.dtype)
        return jax.jit(lambda own: self._started(own, jax.numpy.zeros(batch.shape, batch.dtype)))(key)

    def _started(self, key: Array, x: Array) -> Any:
        keepers: list[str] = []
        with hk.intercept_methods(_noting(keepers)):
            try:
                found = self.module.init(key, x, **self.flags[0])  # BatchNorm cannot begin with an evaluation
            except Exception as error:
                if type(error).__name__ != "NonEmptyStateError":  # it has no public name
                    raise
                refuse_state(self, keepers or ["a function that calls hk.set_state"], "state")
        if not self.stateful:
            return found
        params, state = found
        if jax.tree.leaves(state):
            refuse_state(self, keepers or state, "state")
        return params

    def apply(self, params: Any, x: Array, key: Array | None = None) -> Array:
        arguments = self.flags[1 if key is None else 0]
        before: tuple[Any, ...] = ({},) if self.stateful else ()
        rng = (key,) if self.takes_rng else ()
        output = self.module.apply(params, *before, *rng, x, **arguments)
        return output[0] if self.stateful else output

    def rebuilt(self, params: Any) -> Any:
        return lambda x: self.apply(params, x)

    def explain(self, error: Exception, doing: str) -> NoReturn:
        if type(error).__name__ == "MissingRNGError" and doing == "evaluate":
            raise InputError(
                f"{self} draws in evaluations too: give the function an argument is_training, and draw (hk.dropout, "
                "hk.next_rng_key) only where it is true; or say by evaluating={…} which argument stops it"
            ) from error
        super().explain(error, doing)


_TRANSFORMED = (hk.Transformed, hk.TransformedWithState)


class _Signature:
    """A callable that is known by its parameters alone."""

    def __init__(self, taken: list[inspect.Parameter]) -> None:
        self.__signature__ = inspect.Signature(taken)

    def __call__(self) -> None: ...


def _noting(keepers: list[str]) -> Any:
    """Notes the innermost modules that hold state once they were called, and not the means that BatchNorm is made of."""

    def note(method: Any, arguments: Any, named: Any, context: Any) -> Any:
        before = len(keepers)
        done = method(*arguments, **named)
        module = context.module
        layer = context.method_name == "__call__" and not isinstance(module, hk.ExponentialMovingAverage)
        if layer and len(keepers) == before and module.state_dict():
            keepers.append(f"{module.module_name} ({type(module).__name__})")
        return done

    return note
