"""Gradient oracles: unbiased, with the variance they state."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import DIM

import undrift as ud
from undrift import precision

SIZES = (3, 8, 5)
X = np.linspace(-1, 1, DIM)


def problems():
    rng = np.random.default_rng(0)
    A = [rng.normal(size=(n, DIM)) for n in SIZES]
    y = [np.where(rng.normal(size=n) > 0, 1, -1) for n in SIZES]
    samples = [np.column_stack([a, b]) for a, b in zip(A, y, strict=True)]
    return {
        "least squares": ud.problems.least_squares(A, y),
        "logistic": ud.problems.logistic(A, y, l2=0.2),
        "custom": ud.problems.custom(_loss, samples, DIM, per_sample=True),
    }


def _loss(x, row):
    return jnp.log1p(jnp.exp(-row[-1] * (row[:-1] @ x)))


def client(problem, i):
    return problem.client(jax.tree.map(lambda leaf: leaf[i], problem.stack))


@pytest.mark.parametrize(("name", "i", "size"), [("least squares", 0, 1), ("logistic", 1, 4), ("custom", 2, 5)])
def test_an_epoch_of_reshuffled_batches_is_the_full_gradient(name, i, size):
    problem, oracle = problems()[name], ud.oracles.minibatch(size)
    with precision.scope("float64"):
        loss, x = client(problem, i), jnp.asarray(X)
        steps = jnp.arange(SIZES[i] // size)
        batches = jax.jit(jax.vmap(lambda k: oracle.gradient(loss, x, jax.random.key(1), k)))(steps)
        np.testing.assert_allclose(np.mean(batches, axis=0), loss.gradient(x), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(("n", "size"), [(8, 3), (3, 7), (1, 2), (6, 6)])
def test_reshuffled_batches_walk_through_the_data(n, size):
    oracle, key = ud.oracles.minibatch(size), jax.random.key(2)
    walk = np.asarray(_walk(oracle, n, key)).ravel()
    assert walk.min() >= 0
    assert walk.max() < n
    if size <= n:
        for epoch in range(len(walk) // n):
            assert sorted(walk[epoch * n : (epoch + 1) * n]) == list(range(n))
        orders = {tuple(walk[e * n : (e + 1) * n]) for e in range(len(walk) // n)}
        assert len(orders) > 1
    else:
        assert set(walk[:n]) == set(range(n))


@partial(jax.jit, static_argnums=0)
def _walk(oracle, n, key):
    return jax.vmap(lambda step: oracle.indices(n, key, step))(jnp.arange(12))


@pytest.mark.parametrize(("n", "size"), [(8, 3), (3, 7), (1, 2), (6, 6), (7, 2)])
def test_an_epoch_whose_last_batch_is_short_has_every_component_once(n, size):
    oracle, key, steps = ud.oracles.minibatch(size, last="short"), jax.random.key(2), np.arange(3 * -(-n // size))
    drawn, present = np.asarray(_indices(oracle, n, key, steps)), np.asarray(oracle.present(n, steps))
    epochs = np.split(np.arange(len(steps)), 3)
    walks = [np.concatenate([drawn[k][present[k]] for k in epoch]) for epoch in epochs]
    assert all(sorted(walk) == list(range(n)) for walk in walks)
    assert present.sum(axis=1)[epochs[0]].tolist() == [size] * (n // size) + [n % size] * (n % size > 0)
    if n > 5:
        assert len({tuple(walk) for walk in walks}) > 1


@partial(jax.jit, static_argnums=0)
def _indices(oracle, n, key, steps):
    return oracle.indices(n, key, steps)


@pytest.mark.parametrize("name", ["least squares", "logistic", "custom"])
def test_a_short_batch_is_the_mean_of_what_it_has(name):
    problem, oracle = problems()[name], ud.oracles.minibatch(3, last="short")
    with precision.scope("float64"):
        loss, x, key = client(problem, 1), jnp.asarray(X), jax.random.key(1)
        found = jax.jit(jax.vmap(lambda k: oracle.gradient(loss, x, key, k)))(jnp.arange(3))
        # Batches of 3, 3 and 2 of 8: weighted by their sizes they are the full gradient.
        np.testing.assert_allclose(np.array([3, 3, 2]) @ found / 8, loss.gradient(x), rtol=1e-11, atol=1e-12)


def test_the_last_batch_of_what_has_no_epochs():
    with pytest.raises(ud.InputError, match="with replacement there are no epochs"):
        ud.oracles.minibatch(3, replace=True, last="short")
    with pytest.raises(ud.InputError, match="last"):
        ud.oracles.minibatch(3, last="long")
    assert str(ud.oracles.minibatch(3, last="short")) == "minibatch(3, last=short)"


def mean_of_draws(oracle, loss, x, draws=20000):
    """Mean and standard error over keys."""
    with precision.scope("float64"):
        keys = jax.random.split(jax.random.key(3), draws)
        sample = np.asarray(jax.jit(jax.vmap(lambda key: oracle.gradient(loss, jnp.asarray(x), key, 1)))(keys))
    return sample, sample.mean(axis=0), sample.std(axis=0) / np.sqrt(draws)


@pytest.mark.parametrize(
    ("name", "oracle"),
    [
        ("least squares", ud.oracles.minibatch(2, replace=True)),
        ("logistic", ud.oracles.minibatch(3)),
        ("custom", ud.oracles.minibatch(11)),
    ],
    ids=str,
)
def test_mini_batches_are_unbiased(name, oracle):
    loss = client(problems()[name], 1)
    _, mean, error = mean_of_draws(oracle, loss, X)
    with precision.scope("float64"):
        full = np.asarray(loss.gradient(jnp.asarray(X)))
    assert np.all(np.abs(mean - full) <= 5 * error + 1e-10)


def test_pooled_mini_batches_are_unbiased_with_weights():
    A, b = [np.ones((2, 1)), 2 * np.ones((6, 1))], [np.array([0.0, 1.0]), np.arange(6.0)]
    problem = ud.problems.least_squares(A, b, weights=[3, 1])
    pooled = problem.pooled()
    with precision.scope("float64"):
        loss = client(pooled, 0)
    for oracle in (ud.oracles.minibatch(1, replace=True), ud.oracles.minibatch(3)):
        _, mean, error = mean_of_draws(oracle, loss, np.array([0.7]))
        assert np.all(np.abs(mean - problem.gradient([0.7])) <= 5 * error)


def test_noise_has_the_stated_variance():
    loss = client(problems()["logistic"], 0)
    sample, mean, error = mean_of_draws(ud.oracles.noisy(2.5), loss, X)
    with precision.scope("float64"):
        full = np.asarray(loss.gradient(jnp.asarray(X)))
    assert np.all(np.abs(mean - full) <= 5 * error)
    assert np.mean(np.sum((sample - full[None]) ** 2, axis=1)) == pytest.approx(2.5, rel=0.05)


def test_noise_differs_by_client_step_round_and_exchange():
    zero = ud.problems.quadratic(np.zeros((2, 3, 3)), np.zeros((2, 3)))
    r = ud.run(ud.fedsgd(eta=1.0), zero, rounds=4, oracle=ud.oracles.noisy(1.0), keep_iterates=True)
    moves = np.diff(r.iterates, axis=0).ravel()
    assert len(np.unique(np.round(moves, 12))) == len(moves)
    one = ud.problems.quadratic(np.zeros((1, 3, 3)), np.zeros((1, 3)))
    steps = [ud.run(ud.fedavg(eta=1.0), one, rounds=1, steps=k, oracle=ud.oracles.noisy(1.0)).x for k in (1, 2, 3)]
    assert not np.allclose(steps[1], 2 * steps[0])
    assert not np.allclose(steps[2] - steps[1], steps[0])


def test_the_noise_of_a_gradient_does_not_choose_what_is_sent_of_it():
    """Random-k sees coordinates chosen independently of the noise: zero gradients stay zero on average."""
    m, d, rounds = 200, 8, 40
    zero = ud.problems.quadratic(np.zeros((m, d, d)), np.zeros((m, d)))
    method = ud.compressed(ud.fedsgd(eta=1.0), up=ud.random_k(1, memory=False))
    x = ud.run(method, zero, rounds=rounds, oracle=ud.oracles.noisy(float(d))).x
    # Each round adds the mean of m vectors whose entries have variance d (scale d/k, chosen with probability k/d).
    assert np.abs(x).max() < 5 * np.sqrt(rounds * d / m)
    assert abs(x.mean()) < 5 * np.sqrt(rounds / m)
