"""How fast this machine multiplies matrices: the limit that everything else can be held against."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from .measure import Report, Row, in_turns

SIZE = 2048


def run(repeat: int) -> Report:
    rng = np.random.default_rng(0)
    host = {dtype: rng.standard_normal((SIZE, SIZE)).astype(dtype) for dtype in ("float32", "float64")}
    product = jax.jit(jnp.matmul)
    with jax.enable_x64(True):
        device = {dtype: jnp.asarray(a) for dtype, a in host.items()}
        candidates = {f"JAX {t}": lambda a=a: product(a, a).block_until_ready() for t, a in device.items()}
        candidates |= {f"NumPy {t}": lambda a=a: a @ a for t, a in host.items()}
        seconds = in_turns(candidates, repeat)
    rows = [Row(name, 2 * SIZE**3 / float(np.median(s)) / 1e9, "GFLOP/s") for name, s in seconds.items()]
    return Report("peak", f"product of two {SIZE} × {SIZE} matrices", rows)
