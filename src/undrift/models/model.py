"""A network as a value: a tuple of layers that can be initialised, applied and cut in two."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ..errors import InputError
from .conv import Route, chosen_route
from .initial import Start, draw
from .layers import Conv, Dropout, Layer, Shape
from .recurrent import Embedding
from .residual import Residual

Params = tuple[Any, ...]


@dataclass(frozen=True)
class Model:
    """Layers in order, and the shape of one input.

    Models are values: two with the same content are equal and hash alike, so they can be static arguments of `jax.jit`
    without a second compilation. The parameters are a tuple with one entry per layer, in order. Raveled to a
    vector they keep that order, so the cut of split learning is an index into the vector.

    >>> from undrift import models
    >>> model = models.lenet5()
    >>> params = model.init(jax.random.key(0))
    >>> model.apply(params, jax.numpy.zeros((20, 28, 28, 1))).shape
    (20, 10)
    >>> model.parameter_count
    44426
    """

    name: str
    layers: tuple[Layer, ...]
    input: Shape
    paper_cut: int | None = None
    dtype: str = "float32"

    @property
    def layer_names(self) -> tuple[str, ...]:
        return tuple(layer.name for layer in self.layers)

    def init(self, key: Array) -> Params:
        """Fresh parameters, one entry per layer; layers without parameters hold ()."""
        if jax.dtypes.canonicalize_dtype(self.dtype) != self.dtype:
            raise InputError(
                f"model {self.name!r} wants parameters in {self.dtype}, which JAX has switched off. "
                "Work inside `with jax.enable_x64(True):`, or use dtype='float32'."
            )
        plan, shape = jax.tree.flatten(self._outline[0], is_leaf=lambda leaf: isinstance(leaf, Start))
        return jax.tree.unflatten(shape, draw(key, tuple(plan), self.dtype))

    @property
    def random(self) -> bool:
        """Whether training draws: it has dropout."""
        return any(isinstance(layer, Dropout) and layer.rate > 0 for layer in self.layers)

    @property
    def tokens(self) -> bool:
        """Whether inputs are whole numbers that the first layer looks up."""
        return bool(self.layers) and isinstance(self.layers[0], Embedding)

    @property
    def vocabulary(self) -> int | None:
        """How many whole numbers the first layer knows, if it looks them up."""
        first = self.layers[0] if self.layers else None
        return first.vocabulary if isinstance(first, Embedding) else None

    def apply(self, params: Params, images: Array, key: Array | None = None) -> Array:
        """Logits (batch, classes) of images (batch, height, width, channels), in the dtype of the parameters.

        A server's half, see `split`, takes the activations that its client's half returns. key: while training, from which
        dropout draws; without it nothing is dropped.
        """
        if len(params) != len(self.layers):
            raise InputError(
                f"model {self.name!r} has {len(self.layers)} layers, the parameters {len(params)} entries. "
                "Use the parameters of `init`, cut where the model is cut."
            )
        self._check(images)
        for number, (layer, layer_params) in enumerate(zip(self.layers, params, strict=True)):
            if key is not None and isinstance(layer, Dropout):
                images = layer.thinned(jax.random.fold_in(key, number), images)
            else:
                images = layer.apply(layer_params, images)
        return images

    def split(self, cut: int | None = None) -> tuple["Model", "Model"]:
        """The client's half, the first `cut` layers, and the server's half. Without `cut`, where the paper cuts.

        What crosses the cut is one array in the inner layout (see `activation_shape`).

        >>> from undrift import models
        >>> model = models.lenet5()
        >>> client, server = model.split()
        >>> client.layer_names
        ('channels_first', 'conv1', 'pool1', 'conv2', 'pool2')
        >>> client.parameter_count, server.parameter_count
        (2572, 41854)
        """
        cut = self._valid(cut)
        client = replace(self, name=f"{self.name}[:{cut}]", layers=self.layers[:cut], paper_cut=None)
        server = replace(
            self, name=f"{self.name}[{cut}:]", layers=self.layers[cut:], input=self._outline[1][cut], paper_cut=None
        )
        return client, server

    def split_params(self, params: Params, cut: int | None = None) -> tuple[Params, Params]:
        """The parameters of the two halves of `split`."""
        cut = self._valid(cut)
        return params[:cut], params[cut:]

    def activation_shape(self, cut: int | None = None, batch: int = 1) -> Shape:
        """The shape of the array that crosses the cut.

        >>> from undrift import models
        >>> models.lenet5().activation_shape(batch=20)
        (16, 4, 4, 20)
        """
        client, _ = self.split(cut)
        images = jax.ShapeDtypeStruct(self._batched(batch), "int32" if self.tokens else self.dtype)
        return tuple(jax.eval_shape(client.apply, jax.eval_shape(client.init, jax.random.key(0)), images).shape)

    @cached_property
    def parameter_count(self) -> int:
        """The number of parameters: d, or, of a client's half, the index in the flat vector where the server's begins."""
        starts = jax.tree.leaves(self._outline[0], is_leaf=lambda leaf: isinstance(leaf, Start))
        return sum(start.size for start in starts)

    def with_route(self, route: Route) -> "Model":
        """The same network with its convolutions computed by the given route (see `conv`), for tests and timing."""
        chosen_route(route)
        return replace(self, layers=_routed(self.layers, route))

    @cached_property
    def _outline(self) -> tuple[Params, tuple[Shape, ...]]:
        """How the parameters start, and the shape of one sample before each layer and after the last."""
        params, shapes = [], [self.input]
        for layer in self.layers:
            layer_params, shape = layer.outline(shapes[-1])
            params.append(layer_params)
            shapes.append(shape)
        return tuple(params), tuple(shapes)

    @property
    def _batch_axis(self) -> int:
        return self.layers[0].batch_axis if self.layers else 0

    def _batched(self, batch: int) -> Shape:
        return (*self.input, batch) if self._batch_axis else (batch, *self.input)

    def _check(self, x: Array) -> None:
        if self.layers and x.shape != self._batched(x.shape[self._batch_axis] if x.ndim else 0):
            wanted = ", ".join(str(size) if size else "batch" for size in self._batched(0))
            raise InputError(
                f"model {self.name!r} takes arrays of shape ({wanted}); got {x.shape}. "
                "Reshape the images, or make the model with input=(height, width, channels) of your images."
            )
        if self.tokens and not jnp.issubdtype(x.dtype, jnp.integer):
            raise InputError(f"model {self.name!r} looks its inputs up, so they are whole numbers; got {x.dtype}.")

    def _valid(self, cut: int | None) -> int:
        if cut is None:
            cut = self.paper_cut
        if cut is None:
            raise InputError(f"model {self.name!r} has no cut from a paper; give one between 0 and {len(self.layers)}.")
        if not 0 <= cut <= len(self.layers):
            raise InputError(
                f"a cut lies between 0 and the number of layers, {len(self.layers)} for model {self.name!r}; got {cut}. "
                f"The layers are {', '.join(self.layer_names)}."
            )
        return cut


def _routed(layers: tuple[Layer, ...], route: Route) -> tuple[Layer, ...]:
    """The layers, those inside blocks too, with their convolutions by this route."""
    return tuple(
        replace(layer, route=route)
        if isinstance(layer, Conv)
        else replace(layer, layers=_routed(layer.layers, route), shortcut=_routed(layer.shortcut, route))
        if isinstance(layer, Residual)
        else layer
        for layer in layers
    )
