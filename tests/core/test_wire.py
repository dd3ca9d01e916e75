"""decode(encode(m)) == m, and its length is the size that the ledger counts."""

from __future__ import annotations

from typing import Any, NamedTuple

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import undrift as ud
from undrift import wire
from undrift.messages import Levels, Signs, Sparse


class Message(NamedTuple):
    model: Any
    rest: Any


def packed(draw, rng, dtype):
    """A compressed vector of any kind."""
    dim = draw(st.integers(1, 300))
    kind = draw(st.sampled_from(["sparse", "signs", "levels"]))
    if kind == "signs":
        return Signs(rng.random(dim) > 0.5, dtype(rng.random()))
    if kind == "levels":
        levels = draw(st.integers(1, 40))
        return Levels(rng.integers(-levels, levels + 1, dim).astype(np.int32), dtype(rng.random()), levels)
    k = draw(st.integers(1, dim))
    places = np.sort(rng.choice(dim, k, replace=False)).astype(np.int32)
    return Sparse(rng.normal(size=k).astype(dtype), places, dim)


@st.composite
def messages(draw):
    """A nested message with plain arrays and one compressed vector."""
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = tuple(draw(st.lists(st.integers(0, 4), max_size=3)))
    plain = rng.normal(size=shape).astype(dtype)
    rest = {"a": plain, "b": (np.int32(rng.integers(-9, 9)), rng.random(5) > 0.5, ())}
    return Message(packed(draw, rng, dtype), rest)


@hypothesis.given(messages())
def test_round_trip(message):
    payload = wire.encode(message)
    assert len(payload) == wire.size(message)
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(np.shape(leaf), leaf.dtype), message)
    assert wire.size(shapes) == len(payload)
    back = wire.decode(payload, shapes)
    assert jax.tree.structure(back) == jax.tree.structure(message)
    for sent, arrived in zip(jax.tree.leaves(message), jax.tree.leaves(back), strict=True):
        np.testing.assert_array_equal(np.asarray(sent), np.asarray(arrived))
        assert np.asarray(arrived).dtype == np.asarray(sent).dtype


@pytest.mark.parametrize("compressor", [ud.top_k(3), ud.random_k(3), ud.scaled_sign(), ud.quantise(5)], ids=str)
def test_what_arrives_stands_for_the_same_vector(compressor):
    v = np.random.default_rng(0).normal(size=20)
    with jax.enable_x64(True):
        message = compressor.compress(jnp.asarray(v), jax.random.key(0))
        back = wire.decode(wire.encode(message), message)
        assert len(wire.encode(message)) == compressor.wire_size(20)
        np.testing.assert_array_equal(back.dense(), message.dense())


@hypothesis.given(messages(), st.integers(1, 8))
def test_cut_and_padded_payloads_are_refused(message, bytes_off):
    payload = wire.encode(message)
    for wrong in (payload[:-bytes_off], payload + b"\0" * bytes_off):
        with pytest.raises(ud.InputError, match=rf"has {len(payload)} bytes, got {len(wrong)}: it was cut or padded"):
            wire.decode(wrong, message)


def test_values_travel_in_little_endian_order():
    assert wire.encode(np.array([1, 256], ">i4")) == b"\x01\0\0\0\0\x01\0\0"


@pytest.mark.parametrize("levels", [1, 2, 3, 7, 8, 1000])
def test_every_level_travels(levels):
    level = np.arange(-levels, levels + 1, dtype=np.int32)
    packed = Levels(level, np.float64(0.5), levels)
    back = wire.decode(wire.encode(packed), packed)
    np.testing.assert_array_equal(back.level, level)
    assert back.step == 0.5


@pytest.mark.parametrize("dim", [1, 8, 9, 255, 256, 257, 65536, 65537])
def test_the_last_place_of_a_sparse_vector_travels(dim):
    packed = Sparse(np.array([2.0]), np.array([dim - 1], np.int32), dim)
    back = wire.decode(wire.encode(packed), packed)
    np.testing.assert_array_equal(back.indices, [dim - 1])
