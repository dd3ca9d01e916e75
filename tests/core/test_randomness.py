"""The shuffle is a uniformly random permutation, the same on host and device."""

from __future__ import annotations

from itertools import permutations

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from undrift import randomness


@hypothesis.given(n=st.integers(1, 600), seed=st.integers(0, 2**32 - 1))
def test_it_is_a_permutation_for_every_n(n, seed):
    image = randomness.shuffled(np.arange(n), n, randomness.shuffle_keys(seed, 5))
    np.testing.assert_array_equal(np.sort(image), np.arange(n))


def test_small_n_all_of_them():
    keys = randomness.shuffle_keys(1, 2)
    for n in range(1, 130):
        np.testing.assert_array_equal(np.sort(randomness.shuffled(np.arange(n), n, keys)), np.arange(n))


def test_large_n_does_not_overflow():
    n = 2**31 - 1
    image = randomness.shuffled(np.array([0, 1, n // 2, n - 1]), n, randomness.shuffle_keys(3))
    assert len(set(image.tolist())) == 4
    assert np.all((image >= 0) & (image < n))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_all_permutations_are_equally_likely(n):
    count = 6000
    keys = randomness.shuffle_keys(0, np.arange(count)[:, None])
    images = randomness.shuffled(np.arange(n), n, keys)
    np.testing.assert_array_equal(images[7], randomness.shuffled(np.arange(n), n, randomness.shuffle_keys(0, 7)))
    seen = [np.sum(np.all(images == np.array(p), axis=1)) for p in permutations(range(n))]
    from scipy import stats

    assert stats.chisquare(seen).pvalue > 1e-4


def test_host_and_device_agree():
    device = jax.jit(lambda i, n, k: randomness.shuffled(i, n, k, jnp))
    for n in (1, 2, 5, 64, 1000):
        keys, index = randomness.shuffle_keys(9, n), np.arange(1000) % n
        host = randomness.shuffled(index, n, keys)
        np.testing.assert_array_equal(host, device(jnp.asarray(index), n, jnp.asarray(keys)))


def test_one_index_does_not_need_the_others():
    keys = randomness.shuffle_keys(4)
    whole = randomness.shuffled(np.arange(100), 100, keys)
    assert [int(randomness.shuffled(i, 100, keys)) for i in (0, 17, 99)] == [whole[0], whole[17], whole[99]]


def test_uniform_numbers():
    u = randomness.uniform(0, 3, np.arange(20000))
    from scipy import stats

    assert stats.kstest(u, "uniform").pvalue > 1e-4
    assert abs(np.corrcoef(u, randomness.uniform(1, 3, np.arange(20000)))[0, 1]) < 0.03
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.03


def test_draws_are_fixed_for_all_time():
    """These numbers belong to saved runs: they may not change with a library's version, or with ours."""
    assert int(randomness.bits64(0, 1, 2)) == int(randomness.bits64(0, 1, np.array([2]))[0])
    assert randomness.tag("cohort") == 0x7FFFFFFF & __import__("zlib").crc32(b"cohort")
