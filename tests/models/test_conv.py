"""Convolution and pooling against loops that nobody could misread, by both routes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from undrift.errors import InputError
from undrift.models import convolve, max_pool
from undrift.models.conv import chosen_route

ROUTES = ["patches", "xla"]
CASES = [(1, 0, 5), (1, 2, 5), (2, 0, 5), (2, 2, 5), (1, 1, 3), (2, 1, 3), (1, 0, 1), (2, 0, 1)]


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def naive_convolve(x, weight, padding):
    x = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    out, _, kernel, _ = weight.shape
    rows, columns = (size - kernel + 1 for size in x.shape[1:3])
    y = np.zeros((out, rows, columns, x.shape[-1]))
    for o, i, j, b in np.ndindex(*y.shape):
        y[o, i, j, b] = (x[:, i : i + kernel, j : j + kernel, b] * weight[o]).sum()
    return y


def untiled(y):
    if y.ndim == 4:
        return y
    four, out, rows, columns, batch = y.shape
    assert four == 4
    return (
        y.reshape(2, 2, out, rows, columns, batch)
        .transpose(2, 3, 0, 4, 1, 5)
        .reshape(out, 2 * rows, 2 * columns, batch)
    )


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("tile", "padding", "kernel"), CASES)
def test_convolution_is_the_naive_loop(route, tile, padding, kernel):
    x, weight = numbers(2, 8, 10, 3), numbers(4, 2, kernel, kernel, seed=1)
    with jax.enable_x64(True):
        y = convolve(jnp.asarray(x), jnp.asarray(weight), padding=padding, tile=tile, route=route)
    np.testing.assert_allclose(untiled(np.asarray(y)), naive_convolve(x, weight, padding), atol=1e-12)


@pytest.mark.parametrize(("tile", "padding", "kernel"), CASES)
def test_both_routes_agree_in_value_and_gradient(tile, padding, kernel):
    x = jnp.asarray(numbers(2, 8, 10, 3), "float32")
    weight = jnp.asarray(numbers(4, 2, kernel, kernel, seed=1), "float32")

    def loss(route):
        return lambda x, weight: jnp.sin(convolve(x, weight, padding=padding, tile=tile, route=route)).sum()

    ours, theirs = (jax.jit(jax.value_and_grad(loss(route), argnums=(0, 1)))(x, weight) for route in ROUTES)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-4, rtol=2e-5), ours, theirs)


@pytest.mark.parametrize("tile", [1, 2])
def test_gradient_and_hessian_product_against_differences(tile):
    with jax.enable_x64(True):
        x, weight = jnp.asarray(numbers(2, 6, 6, 2)), jnp.asarray(numbers(3, 2, 3, 3, seed=1))
        v = jnp.asarray(numbers(3, 2, 3, 3, seed=2))

        def loss(weight):
            return jnp.sin(max_pool(convolve(x, weight, padding=1, tile=tile, route="patches"))).sum()

        h, loss, gradient = 1e-5, jax.jit(loss), jax.jit(jax.grad(loss))
        slope = (loss(weight + h * v) - loss(weight - h * v)) / (2 * h)
        np.testing.assert_allclose(jnp.vdot(gradient(weight), v), slope, rtol=1e-7)
        bend = (gradient(weight + h * v) - gradient(weight - h * v)) / (2 * h)
        product = jax.jvp(gradient, (weight,), (v,))[1]
        np.testing.assert_allclose(product, bend, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_blocks_of_channels_change_no_number_and_no_derivative(channels):
    """Whether the channels make blocks (see `_phases`) or not: value, gradient, forward derivative as by XLA's convolution."""
    with jax.enable_x64(True):
        x, weight = jnp.asarray(numbers(channels, 6, 8, 3)), jnp.asarray(numbers(2, channels, 3, 3, seed=1))
        dx = jnp.asarray(numbers(*x.shape, seed=2))

        def told(route):
            def loss(x):
                return jnp.sin(max_pool(convolve(x, weight, padding=1, tile=2, route=route))).sum()

            return *jax.value_and_grad(loss)(x), jax.jvp(loss, (x,), (dx,))[1]

        for ours, theirs in zip(*(jax.jit(told, static_argnums=0)(route) for route in ROUTES), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_clients_may_be_vectorised():
    x, weights = jnp.asarray(numbers(5, 2, 8, 8, 3)), jnp.asarray(numbers(5, 4, 2, 3, 3, seed=1))

    def gradient(weight, x):
        return jax.grad(lambda weight: max_pool(convolve(x, weight, tile=2, route="patches")).sum())(weight)

    together = jax.jit(jax.vmap(gradient))(weights, x)
    gradient = jax.jit(gradient)
    one_by_one = np.stack([gradient(weight, images) for weight, images in zip(weights, x, strict=True)])
    np.testing.assert_allclose(together, one_by_one, rtol=1e-5, atol=1e-5)


def test_pool_is_the_naive_loop_and_drops_an_odd_edge():
    x = numbers(2, 5, 7, 3).astype("float32")
    y = np.zeros((2, 2, 3, 3), "float32")
    for c, i, j, b in np.ndindex(*y.shape):
        y[c, i, j, b] = x[c, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2, b].max()
    np.testing.assert_array_equal(max_pool(jnp.asarray(x)), y)


def test_pool_gives_the_whole_gradient_to_the_first_of_equals():
    gradient = jax.grad(lambda x: max_pool(x).sum())(jnp.zeros((1, 2, 2, 1)))
    np.testing.assert_array_equal(gradient.ravel(), [1, 0, 0, 0])


def test_the_route_is_decided_by_the_machine_unless_told():
    assert chosen_route() == ("patches" if jax.default_backend() == "cpu" else "xla")
    with pytest.raises(InputError, match=r"one of the routes .* got 'fft'.* Use 'auto'"):
        chosen_route("fft")
