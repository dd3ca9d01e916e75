"""Strict surroundings for all tests: no silent broadcasting, no global 64-bit switch, property tests that repeat."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

# The suite compiles hundreds of small programs and runs each for milliseconds: the compiler's long passes do not pay here.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

# The workers, and the commands that tests start, share what they have compiled, in a folder of this run alone.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="undrift-tests-")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)

import hypothesis
import jax
import pytest

from processes import listen_to_signals

jax.config.update("jax_numpy_rank_promotion", "raise")

hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=40, database=None)
hypothesis.settings.load_profile("repeatable")

listen_to_signals()


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
