"""A dialogue that is played as steps of both ends is the dialogue of messages, whoever is silent or drawn twice."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import undrift as ud
from undrift.engine.description import Run
from undrift.engine.rounds import carry_shapes
from undrift.engine.simulate import compiled_advance, padded_plan


def small() -> ud.problems.Problem:
    rng = np.random.default_rng(2)
    data = rng.normal(size=(20, 6)), rng.integers(0, 3, 20)
    model = ud.models.mlp((5,), classes=3, input=(6,), dtype="float64")
    parts = [np.arange(0, 4), np.arange(4, 10), np.arange(10, 16), np.arange(16, 20)]  # of two sizes
    return ud.problems.network(model, data, parts, batch=2, cut=2, weights=[3, 1, 2, 0])


@pytest.mark.slow
@pytest.mark.parametrize("make", [ud.ssl, ud.sflv2])
def test_with_silence_and_clients_drawn_twice(make):
    given = {"rounds": 6, "steps": [1, 3, 2, 2], "failures": 0.3, "participation": ud.plan.weighted(4)}
    drawn = Run.of(make(eta=0.2), small(), **given).plan.draw(1, 6)
    assert any(len(set(row)) < len(row) for row in drawn.ids.tolist())
    assert not drawn.answered.all()
    played, sent = (play(make(eta=0.2), small(), **given) for play in (ud.run, ud.loopback))
    np.testing.assert_allclose(played.x, sent.x, rtol=0, atol=1e-13)
    for column in ("loss", "bytes_up", "drift"):
        np.testing.assert_allclose(played.history[column], sent.history[column], rtol=1e-12)


def test_a_step_computes_each_product_once():
    """As many in a program with a cut as in one without: the client's forward pass is not repeated."""
    products = {name: _products(getattr(ud, name)) for name in ("ssl", "sequential_fl")}
    assert products["ssl"] == products["sequential_fl"] > 0


def _products(make) -> int:
    """Matrix products in the compiled program, the evaluation's included."""
    run = Run.of(make(eta=0.1), small(), rounds=2, steps=3)
    with jax.enable_x64(True):
        arguments = (1, False, run, carry_shapes(run), padded_plan(run, 0, 1, 1), 1, 2)
        text = compiled_advance.trace(*arguments).lower().compile().as_text()
    return sum(" dot(" in line or "__cpu$" in line for line in text.splitlines())
