"""Networks without convolutions: multinomial logistic regression and the multi-layer perceptron."""

import numpy as np
from jax.typing import DTypeLike

from ..errors import InputError
from .convolutional import positive
from .layers import Dense, Flatten, Shape
from .model import Model


def softmax_regression(classes: int = 10, input: Shape = (28, 28, 1), dtype: DTypeLike = "float32") -> Model:
    """Multinomial logistic regression: one dense layer. `input` may be an image or (features,).

    >>> softmax_regression().parameter_count
    7850
    """
    return mlp((), classes, input, dtype)


def mlp(
    hidden: tuple[int, ...] = (200, 200),
    classes: int = 10,
    input: Shape = (28, 28, 1),
    dtype: DTypeLike = "float32",
) -> Model:
    """A multi-layer perceptron with ReLU. The default is the "2NN" of McMahan et al. 2017 (arXiv:1602.05629).

    >>> mlp().parameter_count, mlp((16,), classes=3, input=(4,)).layer_names
    (199210, ('flatten', 'dense1', 'dense2'))
    """
    if not input or min(input) < 1:
        raise InputError(f"the input has at least one feature; got input={input}. Give the shape of one sample.")
    widths = [*(positive("units of a hidden layer", width) for width in hidden), positive("classes", classes)]
    dense = (Dense(f"dense{n}", width, relu=n < len(widths)) for n, width in enumerate(widths, start=1))
    name = "mlp" if hidden else "softmax_regression"
    return Model(name, (Flatten(images=True), *dense), tuple(input), dtype=np.dtype(dtype).name)
