"""The network of a network problem: its parameters as one flat vector, whole or cut in two."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import precision
from ..errors import InputError
from ..models.adapted import TOKENS, Adapted, adapt, library_of
from ..models.layers import Conv
from ..models.model import Model
from ..models.parts import first_line
from ..oracles import LastBatch
from ..vectorise import spread
from .augment import Augment
from .network_loss import Criterion, PerSample, cross_entropy

EVALUATION_BATCH = 250


class Net(NamedTuple):
    """Any pair (init, apply): init(key) -> parameters, apply(parameters, inputs) -> outputs (batch, …).

    With dropout or the like, apply(parameters, inputs, key=None): a key while training, None where nothing is to be dropped.
    """

    init: Callable[[Any], Any]
    apply: Callable[..., Any]
    random: bool = False  # whether `apply` takes a key: training then draws
    tokens: bool = False  # whether inputs are whole numbers that stay so


class Architecture(NamedTuple):
    """The hashable part of a network problem."""

    net: Net | Model | Adapted
    capacity: int  # samples of the largest client
    batch: int
    cut: int | None
    augment: Augment | None = None
    criterion: Criterion = Criterion()
    sample_capacity: int = 1  # the most samples of one client on which the training loss is measured
    last_batch: LastBatch = "full"

    def unravel(self, x: Any) -> Any:
        """The network's parameters, from the flat vector; they themselves are let through."""
        if not isinstance(x, jax.Array | np.ndarray):
            return x
        return unraveler(self.net, str(x.dtype))(jnp.asarray(x))

    def losses(self, x: jax.Array, inputs: jax.Array, targets: jax.Array, key: jax.Array | None = None) -> jax.Array:
        """One number per sample of a batch; with a key (of a network that draws) as training sees it."""
        drawn = {} if key is None else {"key": key}
        return self.criterion.loss(self.net.apply(self.unravel(x), inputs, **drawn), targets)

    @property
    def varies(self) -> bool:
        """Whether a mini-batch is seen in another way every time: the images, or what the network makes of them."""
        return self.augment is not None or self.net.random

    def measure(self, x: jax.Array, inputs: Any, targets: Any, places: jax.Array) -> dict[str, jax.Array]:
        """Loss and metrics of the samples at these places, one number each, in batches that stay in the cache."""
        params = self.unravel(x)

        def one(place: jax.Array) -> dict[str, jax.Array]:
            found = self.criterion(self.net.apply(params, inputs[place][None]), targets[place][None])
            return {name: value[0].astype(x.dtype) for name, value in found.items()}

        found = spread(one, places, block=EVALUATION_BATCH)
        return {name: found[name] for name in self.criterion.names}  # JAX has sorted them

    @property
    def convolutional(self) -> bool:
        """Whether the network has (or, as far as one can see, may have) convolutions."""
        if isinstance(self.net, Adapted):
            return self.net.convolutional
        return isinstance(self.net, Net) or any(isinstance(layer, Conv) for layer in self.net.layers)

    @property
    def halves(self) -> Halves:
        if self.cut is None or isinstance(self.net, Net):
            raise InputError("this problem is not cut: make it with network(…, cut=number of layers at the client)")
        return Halves(self.net, self.cut, self.batch, self.criterion.loss)


class Halves(NamedTuple):
    """A model cut in two: the first `cut` layers at the client, the others at the server."""

    model: Model | Adapted
    cut: int
    batch: int
    loss: PerSample = cross_entropy

    @property
    def boundary(self) -> int:
        """Where the server's half begins in x."""
        return self.model.split(self.cut)[0].parameter_count

    @property
    def activation_shape(self) -> tuple[int, ...]:
        return self.model.activation_shape(self.cut, self.batch)

    def client(self, x_c: jax.Array, inputs: jax.Array) -> jax.Array:
        """Activations at the cut."""
        half = self.model.split(self.cut)[0]
        return half.apply(unraveler(half, str(x_c.dtype))(x_c), inputs)

    def server_loss(self, x_s: jax.Array, activations: jax.Array, labels: jax.Array) -> jax.Array:
        """Mean loss from the activations on."""
        half = self.model.split(self.cut)[1]
        return jnp.mean(self.loss(half.apply(unraveler(half, str(x_s.dtype))(x_s), activations), labels))

    def batch_of(self, local: Any, step: Any) -> tuple[jax.Array, jax.Array]:
        """The client's batch at a local step: the one that FedAvg would take there."""
        # A client that hears what became of its words asks for the same batch again, and no compiler sees that two draws agree.
        known: dict[int, Any] = local.__dict__.setdefault("batches", {})
        if id(step) not in known:
            indices = local.oracle.indices(local.loss.size, local.steps_key, step)
            known[id(step)] = step, local.loss.varied(local.steps_key, step).samples(indices)
        batch: tuple[jax.Array, jax.Array] = known[id(step)][1]
        return batch


@functools.lru_cache(maxsize=64)
def unraveler(net: Net | Model | Adapted, dtype: str) -> Callable[[jax.Array], Any]:
    """From the flat vector to the network's parameters."""
    leaves, structure = jax.tree.flatten(parameter_shapes(net))
    ends = np.cumsum([int(np.prod(leaf.shape)) for leaf in leaves])

    def unravel(x: jax.Array) -> Any:
        pieces = jnp.split(x, ends[:-1]) if leaves else []
        return jax.tree.unflatten(structure, [p.reshape(leaf.shape) for p, leaf in zip(pieces, leaves, strict=True)])

    return unravel


def parameter_shapes(net: Net | Model | Adapted) -> Any:
    """The shapes of the network's parameters."""
    with precision.scope(getattr(net, "dtype", "float32")):
        return jax.eval_shape(net.init, jax.eval_shape(lambda: jax.random.key(0)))


def output_shapes(net: Net | Model | Adapted, inputs: np.ndarray, dtype: Any) -> Any:
    """What the network returns for a batch of two such inputs."""
    shapes = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, dtype), parameter_shapes(net))
    batch = jax.ShapeDtypeStruct((2, *inputs.shape[1:]), input_dtype(net, dtype))
    if isinstance(net, Model):
        return jax.eval_shape(net.apply, shapes, batch)
    try:
        return jax.eval_shape(net.apply, shapes, batch)
    except InputError:
        raise
    except Exception as error:  # of a user's own function, anything
        raise InputError(
            f"the model cannot be applied to inputs of shape {batch.shape}, {batch.dtype}: {type(error).__name__}: "
            f"{first_line(error)}. Remedy: make it for inputs of shape {inputs.shape[1:]} with a batch before it"
        ) from error


def input_dtype(net: Net | Model | Adapted, dtype: Any) -> np.dtype[Any]:
    """As what the inputs are kept: whole numbers for embeddings, else real numbers as the parameters are."""
    return np.dtype(TOKENS if net.tokens else dtype)


def as_net(model: Any, inputs: np.ndarray) -> Net | Model | Adapted:
    """A model of `ud.models`, a module of Flax, Equinox or Haiku, or any pair of functions, for these inputs."""
    if isinstance(model, Model | Adapted):
        return model
    shape, whole = tuple(inputs.shape[1:]), inputs.dtype.kind in "iu"
    if library_of(model) is not None:
        try:
            return adapt(model, shape)
        except InputError:
            if not whole:
                raise
        # Whole numbers that it does not take as real ones: it looks them up
        return adapt(model, shape, tokens=True)
    net = _pair(model)
    if whole and not _applies(net, inputs) and _applies(net._replace(tokens=True), inputs):
        return net._replace(tokens=True)
    return net


def _pair(model: Any) -> Net:
    if hasattr(model, "init") and hasattr(model, "apply") and not isinstance(model, type):
        return Net(model.init, model.apply, _takes_key(model.apply))
    if isinstance(model, tuple) and len(model) == 2 and all(callable(part) for part in model):
        return Net(*model, _takes_key(model[1]))
    raise InputError(
        "a model is one of ud.models, a module of Flax, Equinox or Haiku, or a pair of functions (init, apply); got "
        f"{model!r:.80}"
    )


def _applies(net: Net, inputs: np.ndarray) -> bool:
    """Whether the network can be traced on such inputs."""
    try:
        output_shapes(net, inputs, np.float32)
    except InputError:
        return False
    return True


def _takes_key(apply: Callable[..., Any]) -> bool:
    """Whether it can be called without a key and with one."""
    try:
        known = inspect.signature(apply).parameters.get("key")
    except (TypeError, ValueError):  # of some built-in callables nothing is known
        return False
    return known is not None and known.default is None and known.kind is not inspect.Parameter.POSITIONAL_ONLY
