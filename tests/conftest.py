"""Strict surroundings for all tests: no silent broadcasting, no global 64-bit switch, property tests that repeat."""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import shutil
import tempfile
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

# The suite compiles hundreds of small programs and runs each for milliseconds: the compiler's long passes do not pay here.
# Tests marked `computes` are the exception: see `_optimised`.
if "XLA_FLAGS" not in os.environ:
    os.environ["XLA_FLAGS"] = (
        "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
        " --xla_cpu_parallel_codegen_split_count=1"
    )
    if version("jaxlib").startswith("0.10."):  # its older emitter takes half the time; later ones have no such switch
        os.environ["XLA_FLAGS"] += " --xla_cpu_use_fusion_emitters=false"

# The workers, and the commands that tests start, share what they have compiled, in a folder of this run alone.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="undrift-tests-")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)

# Programs that tests say yes to are remembered in a folder of this run, not in the user's.
if "UNDRIFT_TESTS_STATE" not in os.environ:
    os.environ["UNDRIFT_TESTS_STATE"] = os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="undrift-state-")
    atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)

import hypothesis
import jax
import pytest
from xdist.scheduler import LoadFileScheduling

import browser as chromium
from undrift.engine import programs

jax.config.update("jax_numpy_rank_promotion", "raise")

hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=40, database=None)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _no_global_switch():
    """The library gives 64-bit results without JAX's global switch, and leaves the switch alone."""
    assert not jax.config.jax_enable_x64
    yield
    assert not jax.config.jax_enable_x64


@pytest.fixture(autouse=True)
def _optimised(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that computes for seconds has its programs of rounds optimised as a user's are."""
    if request.node.get_closest_marker("computes"):
        monkeypatch.setattr(programs, "_compiler_options", lambda: {programs.LEVEL: 1})


@pytest.fixture(scope="session")
def browser():
    """One headless Chromium for all tests of pages."""
    yield from chromium.started()


LARGEST_WORKER = 0.9e9  # bytes; the libraries alone are half of it
TOGETHER = ("tests/core/", "tests/cli/", "tests/pages/")  # share compiled programs, or the site


class ByRoom(LoadFileScheduling):
    """A worker gets a whole file, or all files of a folder whose tests share something that is costly to make."""

    def _split_scope(self, nodeid: str) -> str:
        return next((room for room in TOGETHER if nodeid.startswith(room)), super()._split_scope(nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByRoom | None:
    """Where files are to stay whole (`--dist loadfile`), so do these rooms."""
    return ByRoom(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(autouse=True, scope="module")
def _forget_compiled_programs():
    """A program takes 5 MB and a hundred memory maps: files share what is compiled until a worker has grown too large."""
    yield
    statm = Path("/proc/self/statm")
    if statm.exists() and int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") > LARGEST_WORKER:
        jax.clear_caches()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # what is free goes back to the system


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly what was not tested here, and what would be needed for it."""
    skipped = terminalreporter.stats.get("skipped", [])
    if not skipped:
        return
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    terminalreporter.write_sep("!", f"{len(skipped)} TESTS WERE SKIPPED", red=True, bold=True)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count:4} × {reason}", yellow=True)
    terminalreporter.write_sep("!", red=True, bold=True)
