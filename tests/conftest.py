"""Strict surroundings for all tests: no silent broadcasting, no global 64-bit switch, property tests that repeat."""

from __future__ import annotations

import os

# The suite compiles hundreds of small programs and runs each for milliseconds: the compiler's long passes do not pay here.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

import hypothesis
import jax
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")

hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=40, database=None)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _no_global_switch():
    """The library gives 64-bit results without JAX's global switch, and leaves the switch alone."""
    assert not jax.config.jax_enable_x64
    yield
    assert not jax.config.jax_enable_x64


@pytest.fixture(autouse=True, scope="module")
def _forget_compiled_programs():
    """Thousands of compiled programs at once exhaust the memory maps of a process."""
    yield
    jax.clear_caches()
