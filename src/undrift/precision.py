"""64-bit arithmetic exactly where the user's arrays are 64-bit, without touching JAX's global switch."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import jax
import numpy as np

from . import compiled


def scope(dtype: Any) -> AbstractContextManager[Any]:
    """The context in which everything of this dtype is computed; the first one says where compiled programs are kept.

    >>> with scope("float64"):
    ...     print(jax.numpy.ones(1).dtype)
    float64
    """
    compiled.prepare()
    return jax.enable_x64(np.dtype(dtype).itemsize == 8)


def working_dtype(*arrays: Any) -> np.dtype[Any]:
    """float32 if every floating array is at most 32-bit, else float64; integers count as 64-bit.

    >>> working_dtype(np.zeros(2, np.float32)), working_dtype([1, 2])
    (dtype('float32'), dtype('float64'))
    """
    kinds = {np.dtype(getattr(a, "dtype", None) or np.asarray(a).dtype) for a in arrays}
    narrow = all(k.kind == "f" and k.itemsize <= 4 for k in kinds)
    return np.dtype(np.float32) if narrow else np.dtype(np.float64)
