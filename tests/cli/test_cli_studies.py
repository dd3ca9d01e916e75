"""Study files: written, read back, and the notation of flags."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from undrift.errors import InputError
from undrift.studies import toml
from undrift.studies.build import COMPRESSORS, build_steps
from undrift.studies.catalogue import digits, fedsplit, figure1, least_squares, logistic_synthetic, quadratic
from undrift.studies.study import study_from
from undrift.studies.words import construct

letters = st.text(st.sampled_from("ab0_- .\"'\\#=[]{}\n\t\r\x00\x1f\x7féτ\U0001f600"))
scalars = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), letters)
keys = letters.filter(bool)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=6
)


@given(st.dictionaries(keys, st.dictionaries(keys, values, max_size=4), max_size=3))
def test_toml_reads_back(tables):
    assert tomllib.loads(toml.document(tables)) == tables


@given(st.lists(st.dictionaries(keys, values, max_size=3), min_size=1, max_size=3))
def test_lists_of_tables_read_back(methods):
    assert tomllib.loads(toml.document({"method": methods}, ["a comment"])) == {"method": methods}


def test_a_study_survives_writing():
    text = """
    [problem]
    name = "least_squares"
    alpha = 10.0
    [run]
    rounds = 50
    steps = { low = 2, high = 100 }
    participation = { uniform = 10 }
    [[method]]
    name = "fedlin"
    eta = [1e-3, 1e-2]
    up = "top_k:75"
    down = { name = "top_k", k = 50, memory = false }
    """
    study = study_from(tomllib.loads(text), "text", Path())
    again = study_from(tomllib.loads(study.to_toml(("why",))), "text", Path())
    assert again == study


@pytest.mark.parametrize(
    "words", ["top_k:5,memory=false", {"name": "top_k", "k": 5, "memory": False}, {"top_k": 5, "memory": False}]
)
def test_three_ways_to_say_the_same(words):
    assert str(construct(words, COMPRESSORS, "compressor")) == "top_k(5, memory=False)"


@pytest.mark.parametrize("words", ["top_k:5,6,7", "top_k:k=5,k2=3", "top_k", {"k": 5}, 17, "top_k:5,k=5", "top_k:2.5"])
def test_nonsense_is_refused(words):
    with pytest.raises(InputError):
        construct(words, COMPRESSORS, "compressor")


def test_steps():
    assert build_steps("20", 3) == 20
    assert build_steps("5,10,20", 3) == [5, 10, 20]
    assert build_steps("2..4:fixed", 50) == build_steps({"low": 2, "high": 4, "fixed": True}, 50)
    assert set(build_steps("2..4:fixed", 50)) == {2, 3, 4}
    assert build_steps({"low": 2, "high": 400, "fixed": True, "seed": 1}, 5) != build_steps("2..400:fixed", 5)


def test_named_problems_are_what_the_papers_say():
    assert figure1().optimum.x[0] == pytest.approx(103 / 3)
    assert fedsplit().constants.L == 1000
    p = least_squares(alpha=50.0)
    assert (p.clients, p.dim, p.sizes[0]) == (20, 100, 500)
    q = quadratic(clients=3, dim=5, L=8.0, mu=0.5)
    assert pytest.approx(8) == q.constants.L
    assert q.constants.mu == pytest.approx(0.5)
    apart = quadratic(clients=3, dim=5, heterogeneity=0.0)
    assert np.allclose(apart.optimum.x, np.linalg.solve(apart.stack["hessian"][0], apart.stack["linear"][0]), atol=1e-5)
    k = logistic_synthetic(clients=2, samples=30, dim=4)
    assert (k.clients, k.dim) == (2, 4)
    d = digits(clients=8, classes=3)
    assert (d.clients, d.dim, d.sizes.sum()) == (8, 65, 1797)
    assert not np.array_equal(digits(data_seed=1).sizes, digits(data_seed=2).sizes)
