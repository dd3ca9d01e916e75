"""`import undrift` has no side effects, and 64-bit results need no global switch."""

from __future__ import annotations

import json
import subprocess
import sys

import jax
import numpy as np
import pytest

import undrift as ud


def in_a_fresh_process(script: str) -> dict[str, object]:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_importing_changes_nothing():
    seen = in_a_fresh_process("""
import json, logging, os, random, sys, warnings
import numpy as np
import jax
before = {k: v for k, v in jax.config.values.items()}
filters, environment, state = list(warnings.filters), dict(os.environ), random.getstate()
level, numpy_state = logging.getLogger().level, np.random.get_state()[1].tolist()
import undrift as ud
ud.run, ud.fedlin, ud.sweep, ud.problems, ud.plan
from jax._src import xla_bridge
print(json.dumps({
    "config": before == {k: v for k, v in jax.config.values.items()},
    "x64": bool(jax.config.jax_enable_x64),
    "backends": xla_bridge.backends_are_initialized(),
    "filters": filters == list(warnings.filters),
    "environment": environment == dict(os.environ),
    "random": state == random.getstate() and numpy_state == np.random.get_state()[1].tolist(),
    "logging": level == logging.getLogger().level,
    "heavy": [m for m in ("matplotlib", "sklearn", "pooch", "pandas", "torch", "rich") if m in sys.modules],
}))
""")
    assert seen == {
        "config": True, "x64": False, "backends": False, "filters": True, "environment": True, "random": True,
        "logging": True, "heavy": [],
    }  # fmt: skip


FIRST = ["engine.interpret", "problems.base", "recipe", "plan", "algorithms.fedlin", "wire"]


def test_any_file_may_be_imported_first():
    seen = in_a_fresh_process(f"""
import importlib, json, sys
seen = {{}}
for first in {FIRST}:
    for name in [name for name in sys.modules if name.partition(".")[0] == "undrift"]:
        del sys.modules[name]
    importlib.import_module("undrift." + first)
    import undrift as ud
    seen[first] = [ud.fedlin(eta=0.1).name, callable(ud.method), ud.plan.__name__]
print(json.dumps(seen))
""")
    assert seen == {first: ["fedlin", True, "undrift.plan"] for first in FIRST}


def test_results_are_64_bit_without_the_global_switch():
    assert not jax.config.jax_enable_x64
    p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    r = ud.run(ud.fedlin(eta=0.1), p, rounds=300, steps=[50, 30])
    assert r.x.dtype == np.float64
    assert abs(r.x[0] - 103 / 3) < 1e-13
    assert not jax.config.jax_enable_x64


def test_every_public_name_exists():
    for name in ("data", "models", *ud.METHODS, "run", "sweep", "loopback", "compressed", "top_k"):
        assert getattr(ud, name) is not None, name
    with pytest.raises(AttributeError, match="no attribute 'fedlim'"):
        _ = ud.fedlim


def test_the_names_that_are_promised_are_those_that_are_there():
    from undrift import _api

    assert sorted(ud.__all__) == sorted(_api.__all__)
