"""Shapes, counts, cuts, starts and errors of the networks."""

from functools import cache, partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from everyday import only
from undrift import models
from undrift.errors import InputError

FACTORIES = {
    "lenet5": models.lenet5,
    "lenet5_odd": partial(models.lenet5, input=(27, 29, 1)),
    "femnist_cnn": partial(models.femnist_cnn, input=(12, 12, 1)),
    "femnist_cnn_unpadded": partial(models.femnist_cnn_unpadded, input=(18, 16, 1)),
    "vgg11": models.vgg11,
    "mlp": partial(models.mlp, (16, 8), input=(6, 6, 1)),
    "softmax_regression": models.softmax_regression,
}
DTYPES = ("float32", "float64")
HALVED = [("lenet5_odd", "float32"), ("femnist_cnn", "float32"), ("mlp", "float64")]  # every day
SMALL = ["lenet5", "lenet5_odd", "mlp", "softmax_regression"]


@cache
def start(model, batch=3):
    params = jax.jit(model.init)(jax.random.key(1))
    return params, jax.random.uniform(jax.random.key(2), (batch, *model.input), model.dtype)


@pytest.mark.parametrize(
    ("model", "count"),
    [
        (models.lenet5(), 44_426),
        (models.lenet5(input=(32, 32, 1)), 61_706),  # the count of textbooks, whose images are 32 × 32
        (models.vgg11(), 9_750_922),
        (models.vgg11(narrower=8), 153_530),
        (models.vgg11(dropout=0.5, dense="normal"), 9_750_922),
        (models.femnist_cnn(), 6_603_710),
        (models.femnist_cnn_unpadded(), 608_702),
        (models.mlp(), 199_210),
        (models.softmax_regression(), 7_850),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_parameter_counts(model, count):
    assert model.parameter_count == count


@pytest.mark.parametrize(("model", "share"), [(models.lenet5(), 6), (models.vgg11(), 10)], ids=["lenet5", "vgg11"])
def test_the_papers_cut_leaves_the_papers_share_at_the_client(model, share):
    client, server = model.split()
    assert client.layer_names[-1] == {"lenet5": "pool2", "vgg11": "pool3"}[model.name]
    assert round(100 * client.parameter_count / model.parameter_count) == share
    assert client.parameter_count + server.parameter_count == model.parameter_count


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *HALVED,
        *(pytest.param(*case, marks=pytest.mark.slow) for case in product(FACTORIES, DTYPES) if case not in HALVED),
    ],
)
def test_two_halves_are_the_whole_at_every_cut(name, dtype):
    with jax.enable_x64(dtype == "float64"):
        model = FACTORIES[name](dtype=dtype)
        params, images = start(model, batch=1 if name == "vgg11" else 3)
        whole = model.apply(params, images)
        assert whole.dtype == dtype
        assert whole.shape == (len(images), model.layers[-1].features)
        for cut in range(len(model.layers) + 1):
            client, server = model.split(cut)
            client_params, server_params = model.split_params(params, cut)
            crossing = client.apply(client_params, images)
            assert crossing.shape == model.activation_shape(cut, len(images))
            np.testing.assert_array_equal(server.apply(server_params, crossing), whole)


def flat(params):
    """What `ravel_pytree` gives, without a program for every shape."""
    return np.concatenate([np.zeros(0, "float32"), *(np.ravel(leaf) for leaf in jax.tree.leaves(params))])


@pytest.mark.parametrize("name", SMALL)
def test_the_cut_is_an_index_into_the_vector(name):
    model = FACTORIES[name]()
    params, _ = start(model)
    x = np.asarray(ravel_pytree(params)[0])
    for cut in range(len(model.layers) + 1):
        client, _ = model.split(cut)
        client_params, server_params = model.split_params(params, cut)
        index = client.parameter_count
        np.testing.assert_array_equal(x[:index], flat(client_params))
        np.testing.assert_array_equal(x[index:], flat(server_params))


def test_halves_can_be_cut_again():
    model = models.lenet5()
    _, server = model.split(4)
    middle, _ = server.split(2)
    assert middle.layer_names == model.layer_names[4:6]
    assert server.activation_shape(1, batch=7) == model.activation_shape(5, batch=7)


CONVOLUTIONAL = ["lenet5", "lenet5_odd", "femnist_cnn", "femnist_cnn_unpadded"]


@pytest.mark.parametrize("name", only(CONVOLUTIONAL, {"lenet5_odd", "femnist_cnn_unpadded"}))
def test_both_routes_give_the_same_network(name):
    model = FACTORIES[name]()
    params, images = start(model, batch=2)
    ours, theirs = (jax.jit(model.with_route(route).apply)(params, images) for route in ("patches", "xla"))
    np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)


def test_lenet5_is_convolution_relu_pool_as_written_in_textbooks():
    model = models.lenet5()
    params, images = start(model)
    _, conv1, bias1, conv2, bias2, _, *dense = params
    x = images
    for weight, bias in ((conv1.weight, bias1), (conv2.weight, bias2)):
        x = jax.lax.conv_general_dilated(x, weight, (1, 1), "VALID", dimension_numbers=("NHWC", "OIHW", "NHWC"))
        x = jax.nn.relu(x + bias.reshape(1, 1, 1, -1))
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = x.transpose(0, 3, 1, 2).reshape(len(x), -1)
    for weight, bias in dense[:-1]:
        x = jax.nn.relu(x @ weight.T + bias.reshape(1, -1))
    logits = x @ dense[-1].weight.T + dense[-1].bias.reshape(1, -1)
    np.testing.assert_allclose(model.apply(params, images), logits, rtol=1e-4, atol=1e-6)


def test_the_unpadded_network_has_no_activation_after_its_convolutions():
    model = FACTORIES["femnist_cnn_unpadded"]()
    params, images = start(model)
    _, conv1, _, conv2, _, _, first, second = params
    x = images - 0.5  # with signs, so that a ReLU would be seen
    for weight in (conv1.weight, conv2.weight):
        x = jax.lax.conv_general_dilated(x, weight, (1, 1), "VALID", dimension_numbers=("NHWC", "OIHW", "NHWC"))
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = jax.nn.relu(x.transpose(0, 3, 1, 2).reshape(len(x), -1) @ first.weight.T)
    np.testing.assert_allclose(model.apply(params, images - 0.5), x @ second.weight.T, rtol=1e-4, atol=1e-6)


def thinning(rate=0.5):
    layers = (models.Flatten(images=True), models.Dense("dense1", 400), models.Dropout("dropout1", rate))
    return models.Model("thinning", layers, (3,))


def test_dropout_drops_while_training_only():
    model = thinning(0.25)
    params, rows = start(model, batch=50)
    still = model.apply(params, rows)
    np.testing.assert_array_equal(still, thinning(0.0).apply(params, rows))
    seen = model.apply(params, rows, jax.random.key(1))
    kept = np.asarray(seen) != 0
    assert abs(kept.mean() - 0.75) < 0.02  # of 20,000 entries
    np.testing.assert_allclose(seen[kept], still[kept] / 0.75, rtol=1e-6)
    assert not np.array_equal(seen, model.apply(params, rows, jax.random.key(2)))
    assert model.random
    assert not thinning(0.0).random


def test_vgg11_as_published_drops_behind_its_hidden_dense_layers_and_starts_narrow():
    model = models.vgg11(narrower=16, dropout=0.5, dense="normal")
    assert model.layer_names[model.paper_cut - 1] == "pool3"
    layers = dict(zip(model.layer_names, model.init(jax.random.key(0)), strict=True))
    assert list(layers)[-5:] == ["dense1", "dropout1", "dense2", "dropout2", "dense3"]
    assert layers["dropout1"] == ()
    np.testing.assert_allclose(layers["dense2"].weight.std(), 0.01, rtol=0.1)
    assert not layers["dense2"].bias.any()
    assert models.vgg11(narrower=16).layer_names == models.vgg11().layer_names


@pytest.mark.parametrize("name", ["lenet5", "mlp"])
def test_gradients_against_differences(name):
    with jax.enable_x64(True):
        model = FACTORIES[name](dtype="float64")
        params, images = start(model)
        x, unravel = ravel_pytree(params)

        @jax.jit
        def loss(x):
            return jax.nn.logsumexp(model.apply(unravel(x), images), axis=1).sum()

        gradient = jax.jit(jax.grad(loss))(x)
        for seed in range(3):
            v = jax.random.normal(jax.random.key(seed), x.shape, "float64") / x.size**0.5
            h = 1e-6
            slope = (loss(x + h * v) - loss(x - h * v)) / (2 * h)
            np.testing.assert_allclose(jnp.vdot(gradient, v), slope, rtol=1e-6, atol=1e-9)


def test_parameters_start_as_in_pytorch():
    model = models.lenet5()
    params, _ = start(model)
    layers = dict(zip(model.layer_names, params, strict=True))
    for values, fan_in in [
        (layers["conv1"].weight, 25),
        (layers["pool1"], 25),
        (layers["conv2"].weight, 150),
        (layers["pool2"], 150),
        (layers["dense1"].weight, 256),
        (layers["dense3"].bias, 84),
    ]:
        bound = fan_in**-0.5
        assert abs(values).max() <= bound
        assert abs(values).max() > 0.6 * bound
    np.testing.assert_allclose(layers["dense1"].weight.std(), 256**-0.5 / 3**0.5, rtol=0.02)
    assert abs(layers["dense1"].weight.mean()) < 1e-3


def test_parameters_start_as_in_keras():
    model = models.femnist_cnn_unpadded(classes=10)
    params, _ = start(model)
    layers = dict(zip(model.layer_names, params, strict=True))
    for values, fans in ((layers["conv1"].weight, 25 + 32 * 25), (layers["dense1"].weight, 1024 + 512)):
        bound = (6 / fans) ** 0.5
        assert 0.95 * bound < abs(values).max() <= bound
    assert not layers["pool2"].any()
    assert not layers["dense2"].bias.any()


def test_deep_convolutions_start_wide_enough_to_pass_a_signal_on():
    model = models.vgg11()
    layers = dict(zip(model.layer_names, model.init(jax.random.key(0)), strict=True))
    for name, fan_out in (("conv2", 128 * 9), ("conv8", 512 * 9)):
        np.testing.assert_allclose(layers[name].weight.std(), (2 / fan_out) ** 0.5, rtol=0.02)
        assert not layers[name].bias.any()
    assert abs(layers["dense1"].weight).max() <= 512**-0.5


@pytest.mark.parametrize("name", FACTORIES)
def test_equal_models_are_equal_values(name):
    one, two = FACTORIES[name](), FACTORIES[name]()
    assert one == two
    assert hash(one) == hash(two)
    assert one != FACTORIES[name](classes=3)


def test_equal_models_share_one_compilation():
    traces = []

    @partial(jax.jit, static_argnums=0)
    def logits(model, params, images):
        traces.append(model.name)
        return model.apply(params, images)

    for _ in range(2):
        model = models.mlp((4,), input=(5,))
        logits(model, *start(model))
    assert traces == ["mlp"]


@pytest.mark.parametrize("batch", [4, 11, 250])
def test_predict_is_apply_in_batches(batch):
    model = FACTORIES["mlp"]()
    params, images = start(model, batch=11)
    together = models.predict(model, params, images, batch=batch)
    np.testing.assert_allclose(together, model.apply(params, images), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cut", [-1, 10])
def test_a_cut_outside_the_model(cut):
    with pytest.raises(InputError, match=rf"between 0 and the number of layers, 9 .* got {cut}\. The layers are"):
        models.lenet5().split(cut)


def test_a_model_without_a_papers_cut():
    with pytest.raises(InputError, match=r"'mlp' has no cut from a paper; give one between 0 and 4"):
        models.mlp().split()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            partial(models.lenet5, input=(12, 12, 1)),
            r"'conv2': its 5×5 kernel must fit .* gets 4×4 .* Use larger images",
        ),
        (partial(models.vgg11, input=(16, 16, 3)), r"'pool5': a 2×2 max-pool needs .* gets 1×1\. Use larger images"),
        (partial(models.vgg11, narrower=3), r"narrower divides VGG-11's 64 channels, so it is one of 1, 2, .* got 3"),
        (partial(models.vgg11, dropout=1.0), r"'dropout1': the rate of dropout is a probability, .* got 1\.0"),
        (partial(models.lenet5, input=(28, 28)), r"shape \(height, width, channels\).* got input=\(28, 28\)"),
        (partial(models.lenet5, classes=0), r"classes must be at least 1; got 0"),
        (partial(models.mlp, (0,)), r"units of a hidden layer must be at least 1; got 0"),
        (partial(models.mlp, input=()), r"at least one feature; got input=\(\)"),
    ],
)
def test_models_that_cannot_be(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_images_of_another_shape():
    model = models.lenet5()
    params, _ = start(model)
    with pytest.raises(InputError, match=r"shape \(batch, 28, 28, 1\); got \(3, 28, 28, 3\)\. Reshape"):
        model.apply(params, jnp.zeros((3, 28, 28, 3)))
    _, server = model.split()
    with pytest.raises(InputError, match=r"shape \(16, 4, 4, batch\); got \(3, 256\)"):
        server.apply(params[5:], jnp.zeros((3, 256)))


def test_parameters_of_another_model():
    with pytest.raises(InputError, match="has 9 layers, the parameters 4 entries"):
        models.lenet5().apply(models.mlp().init(jax.random.key(0)), jnp.zeros((1, 28, 28, 1)))


def test_float64_without_float64():
    with pytest.raises(InputError, match=r"float64, which JAX has switched off.*enable_x64"):
        models.mlp(dtype="float64").init(jax.random.key(0))
