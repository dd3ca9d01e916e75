"""How parameters start: the schemes of PyTorch and Keras that the papers' networks use."""

from functools import partial
from math import prod, sqrt
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

Scheme = Literal["uniform", "he", "normal", "glorot"]
NARROW = 0.01  # the standard deviation of "normal"


class Start(NamedTuple):
    """One array of parameters before it has numbers: its shape, and the distribution and scale it starts from.

    "uniform" is on ±scale; "normal" has the standard deviation `scale`; "constant" is `scale` everywhere.
    """

    shape: tuple[int, ...]
    kind: Literal["uniform", "normal", "constant"]
    scale: float

    @property
    def size(self) -> int:
        return prod(self.shape)


def starts(weight: tuple[int, ...], scheme: Scheme = "uniform") -> tuple[Start, Start]:
    """The start of a weight (out, in, ...) and of its bias (out,).

    - "uniform": both uniform on ±1/√fan_in, where fan_in counts the inputs of one output. This is the default of PyTorch's
      `Linear` and `Conv2d` (Kaiming-uniform with a = √5).
    - "he": weights N(0, 2/fan_out) with fan_out = out·k², biases zero (He et al. 2015, arXiv:1502.01852), as torchvision
      starts the convolutions of its VGG. Deep networks without normalisation need it to begin to learn.
    - "normal": weights N(0, 0.01²), biases zero, as torchvision starts the dense layers of its VGG.
    - "glorot": weights uniform on ±√(6/(fan_in + fan_out)), biases zero (Glorot, Bengio 2010), the default of Keras.

    >>> starts((6, 1, 5, 5))
    (Start(shape=(6, 1, 5, 5), kind='uniform', scale=0.2), Start(shape=(6,), kind='uniform', scale=0.2))
    """
    if scheme == "he":
        fan_out = weight[0] * prod(weight[2:])
        return Start(weight, "normal", sqrt(2 / fan_out)), Start(weight[:1], "normal", 0.0)
    if scheme == "normal":
        return Start(weight, "normal", NARROW), Start(weight[:1], "normal", 0.0)
    if scheme == "glorot":
        fans = prod(weight[1:]) + weight[0] * prod(weight[2:])
        return Start(weight, "uniform", sqrt(6 / fans)), Start(weight[:1], "uniform", 0.0)
    bound = 1 / sqrt(prod(weight[1:]))
    return Start(weight, "uniform", bound), Start(weight[:1], "uniform", bound)


@partial(jax.jit, static_argnames=("plan", "dtype"))
def draw(key: Array, plan: tuple[Start, ...], dtype: str) -> list[Array]:
    """Numbers for every array of the plan, out of one long draw: compiling one draw per array takes seconds.

    >>> [values.shape for values in draw(jax.random.key(0), starts((6, 1, 5, 5)), "float32")]
    [(6, 1, 5, 5), (6,)]
    """
    above_minus_one = np.nextafter(np.array(-1, dtype), np.array(0, dtype))  # erf⁻¹(−1) is not a number to start from
    drawn = sum(start.size for start in plan if start.kind != "constant")
    numbers = jax.random.uniform(key, (drawn,), dtype, above_minus_one, 1)
    arrays, index = [], 0
    for start in plan:
        if start.kind == "constant":
            arrays.append(jnp.full(start.shape, start.scale, dtype))
            continue
        values = numbers[index : index + start.size].reshape(start.shape)
        if start.kind == "normal":
            values = sqrt(2) * jax.scipy.special.erfinv(values)
        arrays.append(jnp.asarray(start.scale * values, dtype))
        index += start.size
    return arrays
