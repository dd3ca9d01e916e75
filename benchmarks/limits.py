"""What this machine can do: how fast it multiplies, copies, reads from disk, and sums between two processes.

docs/scale.md computes from these what was not measured.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .collectives import SIZES, collectives
from .disturbance import cores
from .measure import Report, Row, in_turns, timed

SIZE = 2048  # of the matrices
COPIED = 400_000_000  # bytes: far more than any cache
FILE = 1_000_000_000


def run(repeat: int) -> Report:
    rows = [*products(repeat), *copies(repeat), *reads(repeat)]
    for (what, size), samples in collectives(repeat).items():
        if size == max(SIZES):
            rows.append(Row.of(f"{what}, two processes", size / samples / 1e9, "GB/s", "limit", "collectives (gloo)"))
        else:
            rows.append(Row.of(f"{what} of {size:,} bytes, two processes", 1e3 * samples, "ms"))
    notes = [
        f"Products of two {SIZE} × {SIZE} matrices. A copy counts the bytes read and the bytes written.",
        "The disk is read after the kernel was told to forget the file; a host below a virtual machine may remember it.",
        "Collectives: bytes of one process's vector per second, JAX with gloo, over the loopback network.",
    ]
    return Report("limits", f"what {cores()} cores can do", rows, notes=notes)


def products(repeat: int) -> list[Row]:
    host = {t: np.random.default_rng(0).standard_normal((SIZE, SIZE)).astype(t) for t in ("float32", "float64")}
    product = jax.jit(jnp.matmul)
    with jax.enable_x64(True):
        device = {dtype: jnp.asarray(a) for dtype, a in host.items()}
        candidates: dict[str, Callable[[], Any]] = {
            f"JAX, {t}": lambda a=a: product(a, a).block_until_ready() for t, a in device.items()
        }
        candidates |= {f"NumPy, {t}": lambda a=a: a @ a for t, a in host.items()}
        seconds = in_turns(candidates, repeat)
    return [Row.of(name, 2e-9 * SIZE**3 / s, "GFLOP/s", "limit", "matrix product") for name, s in seconds.items()]


def copies(repeat: int) -> list[Row]:
    source, target = np.ones(COPIED // 8), np.zeros(COPIED // 8)
    seconds = in_turns({"one core": lambda: np.copyto(target, source)}, repeat)["one core"]
    return [Row.of("copy in memory, one core", 2 * COPIED / seconds / 1e9, "GB/s", "limit", "memory and disk")]


def reads(repeat: int) -> list[Row]:
    """A file of a gigabyte, which the kernel is asked to forget before every turn."""
    if not hasattr(os, "posix_fadvise"):
        return []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        with path.open("wb") as file:
            for _ in range(FILE // 10**8):
                file.write(os.urandom(10**8))
            file.flush()
            os.fsync(file.fileno())
        buffer = bytearray(16 * 2**20)

        def forget() -> None:
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

        def read() -> None:
            with path.open("rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass

        found = []
        for _ in range(min(repeat, 3)):
            forget()
            found.append(timed(read))
    return [Row.of("read from disk", FILE / np.asarray(found) / 1e9, "GB/s", "limit", "memory and disk")]
