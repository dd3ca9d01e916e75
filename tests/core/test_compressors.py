"""Compressors keep what they promise: contraction, unbiasedness, the largest entries, their size."""

from __future__ import annotations

from functools import partial

import hypothesis
import hypothesis.strategies as st
import jax
import numpy as np
import pytest

import undrift as ud
from undrift.compression import feedback

D, DRAWS = 7, 4000
entries = st.floats(min_value=-1e6, max_value=1e6, allow_nan=False).map(lambda v: 0.0 if abs(v) < 1e-6 else v)
vectors = st.lists(entries, min_size=D, max_size=D).map(np.array)
deterministic = [ud.top_k(1), ud.top_k(3, memory=False), ud.top_k(D), ud.scaled_sign()]
unbiased = [ud.random_k(2, memory=False), ud.random_k(5, memory=False), ud.quantise(1), ud.quantise(3), ud.quantise(16)]
random = [*unbiased, ud.random_k(2), ud.random_k(D), ud.quantise(1, memory=True), ud.quantise(3, memory=True)]


def apply(compressor, v, key=0):
    with jax.enable_x64(True):
        return np.asarray(compressor.compress(jax.numpy.asarray(v), jax.random.key(key)).dense())


def draws(compressor, v):
    with jax.enable_x64(True):
        return np.asarray(_draws(compressor, v, jax.random.split(jax.random.key(1), DRAWS)))


@partial(jax.jit, static_argnums=0)
def _draws(compressor, v, keys):
    return jax.vmap(lambda key: compressor.compress(v, key).dense())(keys)


@pytest.mark.parametrize("compressor", deterministic, ids=str)
@hypothesis.given(v=vectors)
def test_deterministic_compressors_contract(compressor, v):
    delta = compressor.contraction(D)
    assert np.sum((apply(compressor, v) - v) ** 2) <= (1 - 1 / delta) * (v @ v) * (1 + 1e-12) + 1e-300


@hypothesis.given(v=vectors, k=st.integers(1, D))
def test_top_k_keeps_the_largest(v, k):
    sent = apply(ud.top_k(k), v)
    kept = sent != 0
    np.testing.assert_array_equal(sent[kept], v[kept])
    assert np.sum(kept) <= k
    assert np.sort(np.abs(sent))[::-1][:k].sum() == pytest.approx(np.sort(np.abs(v))[::-1][:k].sum(), rel=1e-12)


def test_ties_go_to_the_lower_index():
    np.testing.assert_array_equal(apply(ud.top_k(2), np.array([1.0, -2.0, 2.0, -2.0])), [0, -2, 2, 0])


@pytest.mark.parametrize("compressor", random, ids=str)
def test_random_compressors_contract_on_average(compressor):
    delta = compressor.contraction(D)
    assert delta >= 1
    for spread in (0.0, 1.0, 3.0):
        v = np.exp(spread * np.random.default_rng(0).normal(size=D)) * np.array([1, -1, 1, 1, -1, 1, -1])
        errors = np.sum((draws(compressor, v) - v[None]) ** 2, axis=1)
        slack = 5 * errors.std() / np.sqrt(DRAWS) + 1e-12 * (v @ v)
        if np.isfinite(delta):
            assert errors.mean() <= (1 - 1 / delta) * (v @ v) + slack


@pytest.mark.parametrize("compressor", unbiased, ids=str)
def test_unbiased_compressors_are_unbiased(compressor):
    v = np.array([3.0, -1.0, 0.5, 0.0, -2.0, 0.01, 1.0])
    sample = draws(compressor, v)
    slack = 5 * sample.std(axis=0) / np.sqrt(DRAWS) + 1e-12
    assert np.all(np.abs(sample.mean(axis=0) - v) <= slack)


@pytest.mark.parametrize("levels", [1, 3, 16])
def test_quantise_stays_within_its_variance(levels):
    compressor, v = ud.quantise(levels), np.random.default_rng(1).normal(size=D)
    errors = np.sum((draws(compressor, v) - v[None]) ** 2, axis=1)
    assert errors.mean() <= compressor.variance(D) * (v @ v) + 5 * errors.std() / np.sqrt(DRAWS)


@pytest.mark.parametrize("compressor", [*deterministic, *random], ids=str)
def test_zero_is_sent_as_zero(compressor):
    np.testing.assert_array_equal(apply(compressor, np.zeros(D)), np.zeros(D))


def test_quantise_never_leaves_its_range():
    """One large entry: rounding of the norm must not push it above the highest level."""
    compressor = ud.quantise(1)
    levels = jax.jit(jax.vmap(lambda v, key: compressor.compress(v, key).level))
    v = np.zeros((2000, D), np.float32)
    v[:, 2] = np.random.default_rng(0).normal(size=2000)
    assert np.abs(np.asarray(levels(v, jax.random.split(jax.random.key(0), 2000)))).max() == 1


@pytest.mark.parametrize("compressor", [ud.top_k(2), ud.random_k(2), ud.scaled_sign()], ids=str)
@hypothesis.given(first=vectors, second=vectors)
def test_error_feedback_loses_nothing(compressor, first, second):
    with jax.enable_x64(True):
        error, sent = np.zeros(D), np.zeros(D)
        for i, v in enumerate((first, second)):
            message, error = feedback(compressor, error, jax.numpy.asarray(v), jax.random.key(i))
            sent = sent + message.dense()
    np.testing.assert_allclose(sent + error, first + second, rtol=1e-12, atol=1e-8)


def test_sizes_on_the_wire():
    assert ud.top_k(10).wire_size(1000) == 10 * 8 + 10 * 2  # 2-byte indices are shorter than a bitmap of 125 bytes
    assert ud.top_k(200).wire_size(1000) == 200 * 8 + 125
    assert ud.top_k(3).wire_size(6) == 3 * 8 + 1
    assert ud.top_k(1).wire_size(100_000) == 8 + 4
    assert ud.random_k(10).wire_size(1000, "float32") == 10 * 4 + 10 * 2
    assert ud.scaled_sign().wire_size(1000) == 125 + 8
    assert ud.quantise(1).wire_size(1000) == 250 + 8  # three levels: two bits
    assert ud.quantise(7).wire_size(10, "float32") == 5 + 4  # fifteen levels: four bits


@pytest.mark.parametrize("bad", [0, -1, 1.5, True])
def test_k_must_be_a_whole_number(bad):
    for factory in (ud.top_k, ud.random_k, ud.quantise):
        with pytest.raises(ud.InputError, match="must be a whole number ≥ 1"):
            factory(bad)
