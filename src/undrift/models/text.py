"""The character model of LEAF's Shakespeare task."""

import numpy as np
from jax.typing import DTypeLike

from ..errors import InputError
from .convolutional import checked, positive
from .layers import Dense, Layer, Shape
from .model import Model
from .recurrent import LSTM, Embedding


def char_lstm(
    classes: int = 80,
    input: Shape = (80,),
    dtype: DTypeLike = "float32",
    *,
    vocabulary: int | None = None,
    embedding: int = 8,
    hidden: int = 256,
    layers: int = 2,
) -> Model:
    """The next character from those before it: an embedding, LSTM layers above each other, a dense layer on the last state.

    The default is LEAF's network for Shakespeare: 80 characters, sequences of 80, an embedding of 8, two layers of 256.
    817,872 parameters: 80·8 + 4·256·(8 + 256 + 1) + 4·256·(256 + 256 + 1) + 80·(256 + 1). vocabulary: how many characters come
    in, `classes` unless given. Inputs are whole numbers (batch, time). It may be cut after any layer but before none.

    Reference: Caldas et al., LEAF: a benchmark for federated settings, arXiv:1812.01097 (models/shakespeare/stacked_lstm.py).

    >>> char_lstm().parameter_count, char_lstm(hidden=16, layers=1).layer_names
    (817872, ('embedding', 'lstm1', 'dense'))
    """
    if len(input) != 1 or min(input) < 1:
        raise InputError(f"a text is a sequence of characters, input=(length,); got input={input}.")
    known = positive("vocabulary", classes if vocabulary is None else vocabulary)
    positive("embedding", embedding), positive("hidden", hidden), positive("layers", layers)
    stacked = (LSTM(f"lstm{n}", hidden, last=n == layers) for n in range(1, layers + 1))
    dense = Dense("dense", positive("classes", classes), initial="glorot")
    made: tuple[Layer, ...] = (Embedding("embedding", known, embedding), *stacked, dense)
    return checked(Model("char_lstm", made, tuple(input), paper_cut=None, dtype=np.dtype(dtype).name))
