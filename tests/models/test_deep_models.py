"""Residual networks, VGG-9 and the character model against their definitions, and what their layers refuse."""

from __future__ import annotations

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from undrift import models
from undrift.errors import InputError


def start(model, batch=2):
    params = jax.jit(model.init)(jax.random.key(1))
    shape = (batch, *model.input)
    if model.tokens:
        return params, jax.random.randint(jax.random.key(2), shape, 0, model.vocabulary)
    return params, jax.random.normal(jax.random.key(2), shape)


def test_parameter_counts_are_the_papers():
    assert (
        models.resnet().parameter_count == 269_722
    )  # He et al.: 0.27M, with γ and β of GroupNorm for those of BatchNorm
    assert models.resnet(depth=56).parameter_count == 853_018  # 0.85M
    assert models.resnet(depth=110).parameter_count == 1_727_962  # 1.7M
    assert models.resnet(depth=18).parameter_count == 11_173_962
    assert models.resnet(classes=100, depth=18).parameter_count == 11_220_132
    assert models.vgg9().parameter_count == 3_491_530  # the count of the FedMA paper
    assert models.char_lstm().parameter_count == 817_872


def test_the_character_model_counts_as_leaf_defines_it():
    characters, embedding, hidden = 80, 8, 256
    table = characters * embedding
    first, second = (4 * hidden * (size + hidden + 1) for size in (embedding, hidden))
    assert models.char_lstm().parameter_count == table + first + second + (hidden + 1) * characters
    # with 82 symbols, as where two more mark the padding and what is unknown
    assert models.char_lstm(82).parameter_count == 818_402


class Block(nn.Module):
    channels: int
    stride: int
    groups: int
    projects: bool

    @nn.compact
    def __call__(self, x):
        def conv(size, stride, channels=self.channels):
            return nn.Conv(channels, (size, size), stride, padding=size // 2, use_bias=False)

        norm = partial(nn.GroupNorm, self.groups, epsilon=1e-5)
        y = nn.relu(norm()(conv(3, self.stride)(x)))
        y = norm()(conv(3, 1)(y))
        if x.shape != y.shape and self.projects:
            x = norm()(conv(1, self.stride)(x))
        elif x.shape != y.shape:
            x = x[:, :: self.stride, :: self.stride]
            x = jnp.pad(x, ((0, 0), (0, 0), (0, 0), (0, self.channels - x.shape[-1])))
        return nn.relu(x + y)


class ResNet(nn.Module):
    """The same network in Flax, channels last."""

    stages: tuple[int, ...]
    width: int
    projects: bool
    groups: int = 2

    @nn.compact
    def __call__(self, x):
        x = nn.Conv(self.width, (3, 3), padding=1, use_bias=False)(x)
        x = nn.relu(nn.GroupNorm(self.groups, epsilon=1e-5)(x))
        for stage, count in enumerate(self.stages):
            for number in range(count):
                stride = 2 if stage and not number else 1
                x = Block(self.width * 2**stage, stride, self.groups, self.projects)(x)
        return nn.Dense(10)(x.mean((1, 2)))


def in_flax(params):
    """Our parameters in the order and the layout of Flax's."""
    arrays = []
    for leaf in jax.tree.leaves(params):
        arrays.append(leaf.transpose(2, 3, 1, 0) if leaf.ndim == 4 else leaf.T if leaf.ndim == 2 else leaf)
    return arrays


def flax_leaves(tree):
    """The names of Flax's arrays in the order in which its layers are made."""
    order = ["Conv_0", "GroupNorm_0", "Conv_1", "GroupNorm_1", "Conv_2", "GroupNorm_2"]
    for name in ("Conv_0", "GroupNorm_0"):
        yield from sorted(((name, kind) for kind in tree[name]), reverse=True)
    blocks = sorted((name for name in tree if name.startswith("Block")), key=lambda name: int(name[6:]))
    for block in blocks:
        for name in (n for n in order if n in tree[block]):
            yield from ((block, *path) for path in sorted(((name, kind) for kind in tree[block][name]), reverse=True))
    yield from (("Dense_0", "kernel"), ("Dense_0", "bias"))


@pytest.mark.parametrize(
    ("model", "reference"),
    [
        (models.resnet(depth=8, width=4, input=(9, 8, 3)), ResNet((1, 1, 1), 4, projects=False)),
        (models.resnet(depth=18, width=2, input=(9, 8, 3)), ResNet((2, 2, 2, 2), 2, projects=True)),
    ],
    ids=["resnet8", "resnet18"],
)
def test_residual_networks_are_those_of_flax(model, reference):
    params, images = start(model)
    shapes = jax.eval_shape(reference.init, jax.random.key(0), images)["params"]
    tree: dict = {}
    paths = list(flax_leaves(shapes))
    assert len(paths) == len(jax.tree.leaves(params))
    for path, array in zip(paths, in_flax(params), strict=True):
        place = tree
        for name in path[:-1]:
            place = place.setdefault(name, {})
        place[path[-1]] = array
    assert jax.tree.map(jnp.shape, tree) == jax.tree.map(lambda leaf: leaf.shape, dict(shapes))
    expected = jax.jit(reference.apply)({"params": tree}, images)
    np.testing.assert_allclose(jax.jit(model.apply)(params, images), expected, rtol=2e-4, atol=2e-5)


def test_group_norm_is_that_of_flax():
    layer = models.GroupNorm("norm", groups=3)
    params, _ = layer.outline((6, 5, 4))
    assert params.weight.shape == params.bias.shape == (6,)
    x = jax.random.normal(jax.random.key(0), (6, 5, 4, 2)) * 3 + 1
    weight, bias = jnp.arange(6.0), jnp.arange(6.0) - 2
    ours = jax.jit(layer.apply)(models.Affine(weight, bias), x).transpose(3, 1, 2, 0)
    theirs = jax.jit(nn.GroupNorm(3, epsilon=1e-5).apply)(
        {"params": {"scale": weight, "bias": bias}}, x.transpose(3, 1, 2, 0)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_the_character_model_is_an_embedding_two_lstms_and_a_dense_layer():
    model = models.char_lstm(7, (5,), embedding=3, hidden=4)
    params, text = start(model, batch=3)
    table, first, second, dense = jax.tree.map(np.asarray, params)
    x = table[np.asarray(text)]
    for weight, bias in (first, second):
        h = c = np.zeros((3, 4))
        states = []
        for t in range(5):
            i, j, f, o = np.split(np.concatenate([x[:, t], h], axis=1) @ weight.T + bias, 4, axis=1)
            c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
            h = sigmoid(o) * np.tanh(c)
            states.append(h)
        x = np.stack(states, axis=1)
    expected = x[:, -1] @ dense.weight.T + dense.bias
    np.testing.assert_allclose(jax.jit(model.apply)(params, text), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "model",
    [models.resnet(depth=8, width=2, input=(8, 8, 1)), models.char_lstm(7, (5,), embedding=3, hidden=4)],
    ids=["resnet", "char_lstm"],
)
def test_two_halves_are_the_whole_at_every_cut(model):
    params, inputs = start(model)
    whole = model.apply(params, inputs)
    for cut in range(1, len(model.layers) + 1):
        client, server = model.split(cut)
        own, others = model.split_params(params, cut)
        crossing = client.apply(own, inputs)
        assert crossing.shape == model.activation_shape(cut, len(inputs))
        np.testing.assert_array_equal(server.apply(others, crossing), whole)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("size", [(7, 8), (9, 6)])
def test_both_routes_stride_alike(stride, size):
    x = jax.random.normal(jax.random.key(0), (3, *size, 2))
    weight = jax.random.normal(jax.random.key(1), (4, 3, 3, 3))
    ours, theirs = (models.convolve(x, weight, padding=1, stride=stride, route=r) for r in ("patches", "xla"))
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_both_routes_give_the_same_residual_network():
    model = models.resnet(depth=18, width=2, input=(8, 8, 1))
    params, images = start(model)
    ours, theirs = (jax.jit(model.with_route(route).apply)(params, images) for route in ("patches", "xla"))
    np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)
    assert model.with_route("xla") != model.with_route("patches")


def test_norms_start_as_the_identity():
    layers = dict(zip((m := models.resnet(depth=8)).layer_names, m.init(jax.random.key(0)), strict=True))
    np.testing.assert_array_equal(layers["norm1"].weight, 1)
    np.testing.assert_array_equal(layers["norm1"].bias, 0)
    np.testing.assert_allclose(layers["conv1"].weight.std(), (2 / (16 * 9)) ** 0.5, rtol=0.15)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (partial(models.resnet, depth=19), r"depth of a residual network is 18, 34 or 6n \+ 2 .* got 19"),
        (partial(models.resnet, groups=3), r"'norm1': groups divide the channels, 16 here; got groups=3"),
        (partial(models.resnet, width=0), r"width must be at least 1; got 0"),
        (
            partial(models.vgg9, narrower=64),
            r"narrower divides VGG-9's 32 channels, so it is one of 1, 2, 4, 8, 16, 32; got 64",
        ),
        (partial(models.char_lstm, input=(8, 8)), r"a text is a sequence of characters, input=\(length,\)"),
        (partial(models.char_lstm, hidden=0), r"hidden must be at least 1; got 0"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_text_model_wants_whole_numbers():
    model = models.char_lstm(7, (5,), embedding=3, hidden=4)
    with pytest.raises(InputError, match="looks its inputs up, so they are whole numbers; got float32"):
        model.apply(model.init(jax.random.key(0)), jnp.zeros((2, 5)))
