"""A cohort too large for the cache is merged in blocks, which changes nothing but rounding."""

from __future__ import annotations

import numpy as np
import pytest

import undrift as ud
from everyday import share
from undrift import vectorise
from undrift.engine import simulate
from undrift.engine.programs import Programs

CLIENTS, COHORT = 9, 7  # blocks of two: the last one is filled up


CASES = {
    "scaffold": (ud.scaffold(eta=0.1), {"steps": ud.plan.random_steps(1, 3), "oracle": ud.oracles.minibatch(2)}),
    "fedtrack": (ud.fedtrack(eta=0.05), {}),
}


@pytest.mark.parametrize("name", share(CASES, 1, of=2))
def test_a_cohort_in_blocks_agrees_with_the_whole(name, monkeypatch):
    rng = np.random.default_rng(5)
    problem = ud.problems.logistic(rng.normal(size=(CLIENTS, 6, 3)), rng.choice([-1, 1], size=(CLIENTS, 6)), l2=0.1)
    method, arguments = CASES[name]
    arguments = {**arguments, "participation": ud.plan.uniform(COHORT), "failures": 0.2, "keep_iterates": True}
    whole = ud.run(method, problem, rounds=4, **arguments)
    sizes, in_blocks = [], vectorise.in_blocks

    def counted(function, *rows):
        sizes.append(len(rows[0]))
        return in_blocks(function, *rows)

    monkeypatch.setattr(vectorise, "in_blocks", counted)
    monkeypatch.setattr(vectorise, "BLOCK", 2)
    monkeypatch.setattr(vectorise, "IN_CACHE", 0)
    monkeypatch.setattr(simulate, "compiled_advance", Programs(simulate._spread_advance, static=2, donate=3))
    blocked = ud.run(method, problem, rounds=4, **arguments)
    assert set(sizes) == {COHORT}
    np.testing.assert_allclose(blocked.iterates, whole.iterates, rtol=1e-12, atol=1e-13)
    for column_name, column in whole.history.items():
        np.testing.assert_allclose(blocked.history[column_name], column, rtol=1e-10, atol=1e-12, err_msg=column_name)
