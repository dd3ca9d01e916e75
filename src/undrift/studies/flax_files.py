"""A trained model for Flax: its parameters as a tree of Linen's, and the program of the module that takes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InputError
from ..models.layers import ChannelsFirst, Conv, Dense, Dropout, Flatten, MaxPool
from ..models.model import Model
from .estimators import parameters
from .raw_columns import in_words
from .trained import LINEAR, Trained

HEAD = '''"""{title}

{words}

    from {stem} import Model, load

    variables = load("{data}")
    outputs = Model().apply(variables, inputs)  # {outputs}

Written by `undrift export`. In 64 bits: `jax.config.update("jax_enable_x64", True)` before anything else.
"""

from pathlib import Path

import jax.numpy as jnp
from flax import linen as nn
from flax import serialization

FEATURES = {features}
CLASSES = {classes}


def load(path):
    """The variables of the model."""
    return serialization.msgpack_restore(Path(path).read_bytes())


class Model(nn.Module):
    """{shape}"""

    @nn.compact
    def __call__(self, x):
'''


def variables_of(model: Trained) -> dict[str, Any]:
    """The tree that Linen's `apply` takes: params and, of standardised features, scaling."""
    meaning = model.meaning
    if meaning.net is not None:
        params = _of_network(meaning.net, model.x)
    elif meaning.kind in LINEAR:
        coefficients, intercept = model.parts()
        params = {"linear": {"kernel": coefficients[:, None], "bias": np.array([intercept])}}
    else:
        raise InputError(
            f"a run on {model.study.problem.get('name')!r} leaves a vector of {model.x.size} numbers, of which no network is "
            "known: export it with --to npz"
        )
    if meaning.mean is None or meaning.scale is None:
        return {"params": params}
    return {"params": params, "scaling": {"mean": meaning.mean, "scale": meaning.scale}}


def packed(model: Trained) -> bytes:
    """The tree as bytes, by Flax's own serialisation."""
    try:
        from flax import serialization
    except ImportError as error:
        raise InputError(
            'this export is written by Flax, which is not installed: pip install "undrift[flax]", or use --to npz'
        ) from error
    content: bytes = serialization.msgpack_serialize(variables_of(model))
    return content


def program_of(model: Trained, stem: str, data: str) -> str:
    """A Python file with the module, and how it is used; it needs Flax and nothing of undrift's."""
    meaning = model.meaning
    lines = []
    if meaning.mean is not None:
        entries = (int(model.raw_features or 0),)
        lines += [
            f'mean = self.variable("scaling", "mean", jnp.zeros, {entries}).value',
            f'scale = self.variable("scaling", "scale", jnp.ones, {entries}).value',
            "x = (x - mean[None, :]) / scale[None, :]",
        ]
    if meaning.net is None:
        lines += ['return nn.Dense(1, name="linear")(x)[:, 0]']
    else:
        lines += [line for layer in meaning.net.layers for line in _lines(layer, meaning.net)] + ["return x"]
    head = HEAD.format(
        title=_safe(f"{model.label} on {model.study.problem.get('name')}, trained by undrift."),
        words=_safe(_words(model)),
        stem=stem,
        data=data,
        outputs=_outputs(model),
        features=None if meaning.features is None else [str(name) for name in meaning.features],
        classes=None if meaning.classes is None else list(meaning.classes),
        shape=_safe(_shape(model)),
    )
    return head + "".join(f"        {line}\n" for line in lines)


def _safe(text: str) -> str:
    """For the inside of a documentation string: names are the user's, and must not end it."""
    return text.replace("\\", "/").replace('"', "'")


def _words(model: Trained) -> str:
    scaled = "Inputs are raw features, which it standardises itself." if model.meaning.mean is not None else ""
    named = "" if model.meaning.features is None else " Their order is that of FEATURES."
    before = [f"\nBefore, of the column {clause}." for clause in in_words(model.meaning.columns)]
    return (f"{scaled}{named}".strip() or "Inputs are as they were in training.") + "".join(before)


def _outputs(model: Trained) -> str:
    if model.meaning.kind == "logistic":
        return "one number z per row: class CLASSES[1] with probability 1/(1 + exp(-z))"
    return (
        "one number per row"
        if model.meaning.net is None
        else "one row of outputs per input: logits, in the order of CLASSES"
    )


def _shape(model: Trained) -> str:
    if model.meaning.net is None:
        return f"A linear model of {model.raw_features} features."
    return f"{model.meaning.net.name}, for inputs of shape (batch, {', '.join(map(str, model.meaning.net.input))})."


# ----- networks, layer by layer
def _of_network(net: Model, x: np.ndarray) -> dict[str, Any]:
    found: dict[str, Any] = {}
    layers = {layer.name: layer for layer in net.layers}
    for name, own in parameters(net, x).items():
        if "weight" not in own:  # of a pool, which adds the bias of the convolution before it
            found[f"{name}_bias"] = own["bias"]
            continue
        axes = (2, 3, 1, 0) if isinstance(layers[name], Conv) else (1, 0)
        kernel = {"kernel": np.ascontiguousarray(own["weight"].transpose(axes))}
        found[name] = kernel | ({"bias": own["bias"]} if "bias" in own else {})
    return found


def _lines(layer: Any, net: Model) -> list[str]:
    """The program of one layer."""
    make: dict[type, Callable[[Any], list[str]]] = {
        ChannelsFirst: lambda one: [],  # Flax has channels last
        Conv: _conv,
        MaxPool: _pool,
        Flatten: lambda one: [f"x = {'x' if one.images else 'x.transpose(0, 3, 1, 2)'}.reshape(x.shape[0], -1)"],
        Dense: lambda one: _activated(f"nn.Dense({one.features}, name={one.name!r})(x)", one.relu),
        Dropout: lambda one: [],  # a trained model drops nothing
    }
    if type(layer) not in make:
        raise InputError(
            f"{net.name!r} has a layer {type(layer).__name__} that is not known for Flax: export it with --to npz"
        )
    return make[type(layer)](layer)


def _activated(made: str, relu: bool) -> list[str]:
    return [f"x = nn.relu({made})" if relu else f"x = {made}"]


def _conv(layer: Conv) -> list[str]:
    kernel, padding = (layer.kernel, layer.kernel), ((layer.padding, layer.padding),) * 2
    words = f"{layer.channels}, {kernel}, padding={padding}, use_bias={layer.bias}, name={layer.name!r}"
    return _activated(f"nn.Conv({words})(x)", layer.relu)


def _pool(layer: MaxPool) -> list[str]:
    lines = ["x = nn.max_pool(x, (2, 2), strides=(2, 2))"]
    if layer.fan_in is None:
        return lines
    bias = f'self.param("{layer.name}_bias", nn.initializers.zeros, (x.shape[-1],)).reshape(1, 1, 1, -1)'
    return lines + _activated(f"x + {bias}", layer.relu)
