"""Random choices that depend on where they are made and on nothing else.

A draw is a pure function of coordinates such as (seed, round, client): no generator is advanced, so a resumed run, another
interpreter or another number of devices makes the same choice. The integer arithmetic below is fixed by this file and does
not change with the version of a library.

Random order is the *swap-or-not* shuffle (Hoang, Morris, Rogaway: "An enciphering scheme based on a card shuffle", CRYPTO
2012): it gives the image of one index under a random permutation of {0, …, n−1} without laying the permutation out. Ten
clients out of a million cost ten indices, and a client's next mini-batch costs its own length, whatever n is.
"""

from __future__ import annotations

import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

SHUFFLE_ROUNDS = 32
GEOMETRIC_BITS = 31  # of the longest row of tails


def tag(name: str) -> int:
    """A number for a name, the same on every machine."""
    return zlib.crc32(name.encode()) & 0x7FFFFFFF


def key_of(seed: int) -> jax.Array:
    """`jax.random.key` of a seed below 2³², without the two programs that JAX would compile or load for it.

    >>> bool(key_of(7) == jax.random.key(7))
    True
    """
    settings: Any = jax.config
    if settings.jax_default_prng_impl != "threefry2x32":
        return jax.random.key(seed)
    words: Any = np.array([0, seed], np.uint32)
    return jax.random.wrap_key_data(words)


def bits64(seed: int, *coordinates: Any) -> np.ndarray:
    """64 random bits for each point of the broadcast coordinates (host side, NumPy).

    >>> bits64(0, 1, np.arange(2)).dtype, bool(np.all(bits64(0, 1, 2) == bits64(0, 1, 2)))
    (dtype('uint64'), True)
    """
    state = _finalise64(np.asarray(seed, np.int64).astype(np.uint64)[None])
    for coordinate in coordinates:
        step = np.asarray(coordinate, np.int64).astype(np.uint64)
        state = _finalise64(state ^ _finalise64(step + np.uint64(0x9E3779B97F4A7C15)))
    return state if state.ndim and any(np.ndim(c) for c in coordinates) else state.reshape(())


def uniform(seed: int, *coordinates: Any) -> np.ndarray:
    """Uniform numbers in [0, 1), 53 bits each."""
    return (bits64(seed, *coordinates) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def integers(seed: int, low: int, high: int, *coordinates: Any) -> np.ndarray:
    """Uniform integers in [low, high], both ends included."""
    return low + np.floor(uniform(seed, *coordinates) * (high - low + 1)).astype(np.int64)


def geometric(seed: int, chance: float, *coordinates: Any) -> np.ndarray:
    """How often a coin is tossed until it shows heads, which it does with this chance: P(k) = (1 − chance)^{k−1} chance.

    k − 1 is the number of powers of q = 1 − chance above a uniform u, for P(u < q^k) = q^k. It is found bit by bit from
    the squares of q, with products and comparisons alone: a logarithm may differ in its last place between machines, and a draw
    may not. Draws end at 2³¹ − 1.

    >>> geometric(0, 1.0, np.arange(3)), float(np.round(geometric(0, 0.25, np.arange(100_000)).mean(), 1))
    (array([1, 1, 1]), 4.0)
    """
    below = uniform(seed, *coordinates)
    squares = [1.0 - chance]
    while len(squares) < GEOMETRIC_BITS:
        squares.append(squares[-1] * squares[-1])
    failures, power = np.zeros(below.shape, np.int64), np.ones(below.shape)
    for bit in reversed(range(GEOMETRIC_BITS)):
        longer = below < power * squares[bit]
        failures += longer * np.int64(2**bit)
        power = np.where(longer, power * squares[bit], power)
    return 1 + np.minimum(failures, 2**31 - 2)


def shuffled(index: Any, n: Any, keys: Any, xp: Any = np) -> Any:
    """The image of `index` under a random permutation of {0, …, n−1}.

    `keys` is (SHUFFLE_ROUNDS, 2, …) uint32; axes after the second broadcast against `index`, one permutation for each.

    >>> keys = shuffle_keys(7, 1)
    >>> sorted(shuffled(np.arange(5), 5, keys).tolist())
    [0, 1, 2, 3, 4]
    """
    return swap_or_not(index, n, keys[:, 0] % xp.asarray(n, xp.uint32), keys[:, 1], xp)


def swap_or_not(index: Any, n: Any, pivots: Any, words: Any, xp: Any) -> Any:
    """The shuffle itself: the first halves of the keys are given modulo n, for a division costs more than a whole round.

    On a device the rounds are a loop of the program. Written out one after the other they took most of the time of tracing, and
    XLA (from JAX 0.12 on) did not finish compiling them inside a client's local steps.
    """
    index, n = xp.asarray(index, xp.uint32), xp.asarray(n, xp.uint32)
    if xp is np:
        for pivot, word in zip(pivots, words, strict=True):
            index = _swapped(index, n, pivot, word, np)
        return index.astype(np.int32)
    pivots, words = jnp.asarray(pivots), jnp.asarray(words)
    assert len(pivots) == len(words)
    everywhere = jnp.broadcast_shapes(index.shape, n.shape, pivots.shape[1:], words.shape[1:])
    index = jax.lax.fori_loop(
        0, len(pivots), lambda r, at: _swapped(at, n, pivots[r], words[r], jnp), jnp.broadcast_to(index, everywhere)
    )
    return index.astype(jnp.int32)


def _swapped(index: Any, n: Any, pivot: Any, word: Any, xp: Any) -> Any:
    """One round: i and pivot − i (mod n) change places or not, by a bit that both have in common."""
    partner = pivot + n - index
    partner = xp.where(partner >= n, partner - n, partner)
    swap = _finalise32(xp.maximum(index, partner) ^ word, xp) & xp.uint32(1)
    return xp.where(swap == 1, partner, index)


def shuffle_keys(seed: int, *coordinates: Any) -> np.ndarray:
    """Host-side keys of a shuffle, or of one shuffle for each point of the broadcast coordinates."""
    rounds = np.arange(SHUFFLE_ROUNDS).reshape(-1, *(1 for _ in range(max(map(np.ndim, coordinates), default=0))))
    words = bits64(seed, *coordinates, rounds)
    return np.stack([words >> np.uint64(32), words & np.uint64(0xFFFFFFFF)], axis=1).astype(np.uint32)


def device_shuffle_keys(key: jax.Array) -> jax.Array:
    """Keys of a shuffle from a JAX key."""
    return jax.random.bits(key, (SHUFFLE_ROUNDS, 2), jnp.uint32)


def _finalise64(x: np.ndarray) -> np.ndarray:
    """The output function of SplitMix64 (Steele, Lea, Flood 2014)."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def _finalise32(x: Any, xp: Any) -> Any:
    """The finaliser of MurmurHash3 (Appleby 2011)."""
    with np.errstate(over="ignore"):  # NumPy warns of single numbers that wrap around, as they should here
        x = (x ^ (x >> xp.uint32(16))) * xp.uint32(0x85EBCA6B)
        x = (x ^ (x >> xp.uint32(13))) * xp.uint32(0xC2B2AE35)
        return x ^ (x >> xp.uint32(16))
