"""Draws and counts are the same on every Python, NumPy and JAX; models are equal to rounding."""

from __future__ import annotations

import json

import frozen
import numpy as np
import pytest
from core_cases import CASES

from everyday import only

EXPECTED = json.loads(frozen.FILE.read_text())


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("host", frozen.host_draws),
        ("device, 32 bits", lambda: frozen.device_draws("float32")),
        ("device, 64 bits", lambda: frozen.device_draws("float64")),
        ("partitions", frozen.partitions),
    ],
)
def test_draws_are_those_of_saved_runs(name, made):
    assert made() == EXPECTED[name]


def test_real_numbers_are_drawn_alike_to_rounding():
    for name, drawn in frozen.real_draws().items():
        np.testing.assert_allclose(drawn, EXPECTED["real"][name], rtol=1e-6, atol=1e-7, err_msg=name)


KINDS = {
    "unbiased runs": ("unbiased runs", list(CASES)),
    "runs": ("runs", list(CASES)),
    "some unbiased runs": ("unbiased runs", list(CASES)[::3]),
    "some runs": ("runs", list(CASES)[1::5]),
}


@pytest.mark.parametrize("which", only(KINDS, {"some unbiased runs", "some runs"}))
def test_every_method_counts_the_same_and_ends_at_the_same_model(which):
    kind, names = KINDS[which]
    assert list(EXPECTED[kind]) == list(CASES)
    found = frozen.runs(kind == "runs", names)
    for name in names:
        run = EXPECTED[kind][name]
        assert found[name]["counts"] == run["counts"], name
        np.testing.assert_allclose(found[name]["model"], run["model"], rtol=1e-9, atol=1e-12, err_msg=name)
