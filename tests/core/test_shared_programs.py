"""A program is compiled once, whatever objects it was made of; programs that differ in anything are never taken for one."""

from __future__ import annotations

import gc
import logging
import runpy
from contextlib import contextmanager
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import undrift as ud
from undrift.engine import programs, simulate
from undrift.engine.programs import Programs

LOG = "jax._src.dispatch"


def problem():
    return ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))


@contextmanager
def compiled(name: str):
    """The programs of this name that XLA compiles, by JAX's own log."""
    found: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if f"Finished XLA compilation of jit({name})" in record.getMessage():
                found.append(record.getMessage())

    logger, listener = logging.getLogger(LOG), Listener()
    before, logger.propagate = logger.propagate, False
    logger.addHandler(listener)
    try:
        with jax.log_compiles():
            yield found
    finally:
        logger.removeHandler(listener)
        logger.propagate = before


def test_fresh_solvers_run_the_program_that_is_there():
    name = simulate.compiled_advance.__name__

    def play(rate: float) -> np.ndarray:
        return ud.run(ud.fedavg(eta=0.1, solver=optax.sgd(rate, momentum=0.5)), problem(), rounds=2, steps=3).x

    with compiled(name) as log:
        ends = [play(0.0123) for _ in range(3)]
        assert len(log) == 1
        other = play(0.0124)
        assert len(log) == 2
    assert ends[0] == ends[1] == ends[2] != other


def test_a_sweep_of_fresh_solvers_runs_the_program_that_is_there():
    def play() -> np.ndarray:
        made = lambda eta: ud.fedavg(eta=eta, solver=optax.sgd(0.0456))  # noqa: E731
        return ud.sweep(made, problem(), grid={"eta": [0.1, 0.2]}, rounds=2).x

    with compiled("_spread_advance") as log:  # every solver is another recipe, so points are played as single runs
        np.testing.assert_array_equal(play(), play())
    assert len(log) == 1


OWN = """
import undrift as ud
from undrift.protocol import Account, once

def client(memory, x, local):
    return memory, {factor} * local.gradient(x)

@ud.method
def mine(eta: float) -> ud.Algorithm:
    def receive(x, slots, gradients, cohort):
        return x - eta * cohort.mean(gradients), slots

    return ud.Algorithm((ud.Exchange("gradient", lambda x, slot: x, client, receive, Account(once)),))
"""


def test_methods_of_a_file_that_is_run_anew_are_the_same_program(tmp_path):
    file = tmp_path / "own.py"

    def play(factor: float) -> np.ndarray:
        file.write_text(OWN.format(factor=factor))
        return ud.run(runpy.run_path(str(file))["mine"](eta=0.1), problem(), rounds=2).x

    with compiled(simulate.compiled_advance.__name__) as log:
        first, again, other, back = play(1.0), play(1.0), play(2.0), play(1.0)
    assert first == again == back != other
    assert len(log) == 2


# ----- what must never be taken for one
@pytest.fixture
def counted() -> Programs:
    def apply(static, function, x):
        return function(x)

    return Programs(apply, static=1, donate=2)


class Box:
    """An argument that is a function."""

    def __init__(self, function):
        self.function = function

    def __call__(self, x):
        return self.function(x)


jax.tree_util.register_pytree_node(Box, lambda box: ((), box.function), lambda function, _: Box(function))
SAMPLE = np.float32([1.0, 2.0])


def scaled(table):
    held = np.asarray(table)
    return Box(lambda x: x * jnp.asarray(held))


def test_equal_programs_are_one_and_other_constants_are_not(counted):
    one, same, other = scaled([1.0, 2.0]), scaled([1.0, 2.0]), scaled([1.0, 3.0])
    ends = [counted(0, box, SAMPLE.copy()).tolist() for box in (one, same, other)]
    assert ends == [[1.0, 4.0], [1.0, 4.0], [1.0, 6.0]]
    assert len(counted._by_identity) == 2


def test_host_callbacks_of_one_name_are_kept_apart(counted):
    def asking(number):
        def answer(x):
            return np.float32(x) + np.float32(number)

        return Box(lambda x: jax.pure_callback(answer, jax.ShapeDtypeStruct((2,), jnp.float32), x))

    assert counted(0, asking(1), SAMPLE.copy()).tolist() == [2.0, 3.0]
    assert counted(0, asking(2), SAMPLE.copy()).tolist() == [3.0, 4.0]
    assert not counted._by_identity


def test_names_of_what_comes_out_are_part_of_a_program(counted):
    named = [counted(0, Box(lambda x, name=name: {name: 2 * x}), SAMPLE.copy()) for name in ("a", "b")]
    assert [list(out) for out in named] == [["a"], ["b"]]


def test_settings_of_jax_are_part_of_a_program(counted):
    """Two functions that are the same under one precision of products are not under another one."""
    plain, exact = Box(lambda x: x * jnp.dot(x, x)), Box(lambda x: x * jnp.dot(x, x, precision="highest"))
    with jax.default_matmul_precision("highest"):
        for box in (plain, exact):
            counted(0, box, SAMPLE.copy())
    assert len(counted._by_identity) == 1
    for box in (plain, exact):
        counted(0, box, SAMPLE.copy())
    assert len(counted._by_identity) == 3


def test_no_more_programs_are_kept_than_that(counted, monkeypatch):
    monkeypatch.setattr(programs, "MOST_PROGRAMS", 2)
    for factor in (1.0, 2.0, 3.0, 1.0):
        assert counted(0, scaled([factor, factor]), SAMPLE.copy()).tolist() == [factor, 2 * factor]
    assert len(counted._by_identity) == len(counted._by_objects) == 2


def resident() -> int:
    """Bytes of memory that this process holds."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux to measure memory")
def test_200_runs_with_fresh_solvers_and_methods_stay_in_the_same_memory(tmp_path):
    file = tmp_path / "own.py"
    file.write_text(OWN.format(factor=1.5))
    given = problem()

    def play(times: int) -> int:
        for _ in range(times):
            ud.run(ud.fedavg(eta=0.1, solver=optax.sgd(0.0789)), given, rounds=2)
            ud.run(runpy.run_path(str(file))["mine"](eta=0.1), given, rounds=2)
        return resident()

    before, after = play(50), play(200)
    assert after - before < 30e6  # a program takes 4 MB, and would be compiled 200 times
