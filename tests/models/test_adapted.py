"""Modules of Flax (Linen and NNX), Equinox and Haiku as networks: taken as they are, given back, and refused with a remedy."""

from __future__ import annotations

import sys
from typing import Any

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.flatten_util import ravel_pytree

from foreign import COUNT, INPUTS, LIBRARIES, OUTPUTS, RATE, EquinoxNet, LinenNet, NnxNet, haiku_net, samples
from undrift import models
from undrift.errors import InputError
from undrift.models.adapted import adapt, library_of

KEY = jax.random.key(0)


@pytest.fixture(params=list(LIBRARIES))
def library(request):
    return LIBRARIES[request.param]


def flat(params: Any) -> np.ndarray:
    return np.asarray(ravel_pytree(params)[0])


def test_outputs_are_the_modules_own(library):
    model = adapt(library.make(RATE), (INPUTS,))
    assert model.parameter_count == COUNT
    params, x = model.init(KEY), samples()
    outputs = model.apply(params, x)
    assert outputs.shape == (len(x), OUTPUTS)
    module = model.to_module(flat(params))
    np.testing.assert_allclose(outputs, library.outputs(module, x), rtol=1e-6, atol=1e-7)


def test_the_vector_and_the_parameters_are_two_ways_to_write_the_same(library):
    model = adapt(library.make(0.0), (INPUTS,))
    x = np.arange(COUNT, dtype=np.float32)
    own = model.unravel(x)
    np.testing.assert_array_equal(flat(own), x)
    assert [array.shape for array in library.dense(own)] == [(INPUTS, 5), (5,), (5, OUTPUTS), (OUTPUTS,)]
    with pytest.raises(InputError, match=rf"a vector of {COUNT} numbers; got the shape \({COUNT + 1},\)"):
        model.unravel(np.zeros(COUNT + 1))


def test_dropout_draws_from_its_key_while_training_and_never_in_evaluations(library):
    model = adapt(library.make(RATE), (INPUTS,))
    assert model.random
    params, x = model.init(KEY), samples(40)
    one, again, other = (model.apply(params, x, jax.random.key(k)) for k in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)
    np.testing.assert_array_equal(model.apply(params, x), model.apply(params, x))
    # nothing is dropped at random in an evaluation: it is the network without dropout
    still = adapt(library.make(0.0), (INPUTS,))
    np.testing.assert_allclose(model.apply(params, x), still.apply(params, x), rtol=1e-6)
    assert not np.array_equal(one, model.apply(params, x))


def test_samples_of_a_batch_drop_different_units(library):
    model = adapt(library.make(RATE), (INPUTS,))
    x = jnp.tile(samples(1), (40, 1))
    assert len(np.unique(np.asarray(model.apply(model.init(KEY), x, KEY)), axis=0)) > 1


def test_a_module_without_dropout_draws_nothing(library):
    assert not adapt(library.make(0.0), (INPUTS,)).random


def test_it_computes_in_double_precision_where_asked(library):
    takes = {
        "linen": models.from_flax,
        "nnx": models.from_flax,
        "equinox": models.from_equinox,
        "haiku": models.from_haiku,
    }
    name = next(name for name, one in LIBRARIES.items() if one is library)
    model = takes[name](library.make(RATE), (INPUTS,), dtype="float64")
    with jax.enable_x64(True):
        params = model.init(KEY)
        assert {leaf.dtype.name for leaf in jax.tree.leaves(params)} == {"float64"}
        assert model.apply(params, samples().astype("float64")).dtype == "float64"


def test_fresh_and_given_parameters():
    linen = adapt(LinenNet(), (INPUTS,))
    assert not np.array_equal(flat(linen.init(KEY)), flat(linen.init(jax.random.key(1))))
    variables = LinenNet().init(jax.random.key(7), samples())
    bound = LinenNet().bind(variables)
    for given in (bound, (LinenNet(), variables)):
        np.testing.assert_array_equal(flat(adapt(given, (INPUTS,)).init(KEY)), flat(variables["params"]))
    module = NnxNet(0.0, nnx.Rngs(3))
    np.testing.assert_array_equal(flat(adapt(module, (INPUTS,)).init(KEY)), flat(nnx.state(module, nnx.Param)))
    for make in (
        models.from_flax(lambda rngs: NnxNet(0.0, rngs), (INPUTS,)),
        models.from_equinox(lambda key: EquinoxNet(0.0, key), (INPUTS,)),
    ):
        assert not np.array_equal(flat(make.init(KEY)), flat(make.init(jax.random.key(1))))
    started = haiku_net(0.0).init(jax.random.key(5), samples())
    given = models.from_haiku(haiku_net(0.0), (INPUTS,), variables=started)
    np.testing.assert_array_equal(flat(given.init(KEY)), flat(started))


def test_the_users_module_is_not_touched():
    module = NnxNet(RATE, nnx.Rngs(0))
    before = flat(nnx.state(module, nnx.Param))
    model = adapt(module, (INPUTS,))
    model.apply(model.init(KEY), samples(), KEY)
    model.to_module(np.zeros(COUNT))
    assert module.dropout.deterministic is False
    np.testing.assert_array_equal(flat(nnx.state(module, nnx.Param)), before)


def chains():
    one, two = nnx.Linear(INPUTS, 4, rngs=nnx.Rngs(0)), nnx.Linear(4, OUTPUTS, rngs=nnx.Rngs(1))
    keys = jax.random.split(KEY)
    lines = eqx.nn.Linear(INPUTS, 4, key=keys[0]), eqx.nn.Linear(4, OUTPUTS, key=keys[1])
    return {
        "nnx": nnx.Sequential(one, nnx.relu, two),
        "equinox": eqx.nn.Sequential([lines[0], eqx.nn.Lambda(jax.nn.relu), lines[1]]),
        "linen": [nn.Dense(4), nn.relu, nn.Dense(OUTPUTS)],
        "haiku": [hk.transform(lambda x: hk.Linear(4)(x)), jax.nn.relu, hk.transform(lambda x: hk.Linear(OUTPUTS)(x))],
        "mixed": [lines[0], jax.nn.relu, lines[1]],
    }


@pytest.mark.parametrize("name", list(chains()))
def test_two_halves_of_a_sequence_are_the_whole_at_every_cut(name):
    model = adapt(chains()[name], (INPUTS,))
    params, x = model.init(KEY), samples()
    whole = model.apply(params, x)
    assert len(model.layer_names) == 3
    for cut in range(4):
        client, server = model.split(cut)
        own, others = model.split_params(params, cut)
        crossing = client.apply(own, x)
        assert crossing.shape == model.activation_shape(cut, len(x))
        np.testing.assert_allclose(server.apply(others, crossing), whole, rtol=1e-6)
        assert client.parameter_count == len(flat(own))
        assert client.parameter_count + server.parameter_count == model.parameter_count


def test_a_sequence_comes_back_as_one():
    for name, kind in (("nnx", nnx.Sequential), ("equinox", eqx.nn.Sequential)):
        module = chains()[name]
        model = adapt(module, (INPUTS,))
        x = flat(model.init(KEY))
        back = model.to_module(x)
        assert type(back) is kind
        assert jax.tree.structure(model.unravel(x)) == jax.tree.structure(
            nnx.state(module, nnx.Param) if name == "nnx" else eqx.filter(module, eqx.is_inexact_array)
        )


def test_modules_that_share_parameters_stay_whole():
    shared = nnx.Linear(INPUTS, INPUTS, rngs=nnx.Rngs(0))
    model = adapt(nnx.Sequential(shared, nnx.relu, shared), (INPUTS,))
    assert model.parameter_count == INPUTS * (INPUTS + 1)
    assert len(model.parts) == 1


class Reader(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(nn.Embed(10, 4)(x).mean(1))


def test_whole_numbers_for_an_embedding():
    model = models.from_flax(Reader(), (7,), tokens=True)
    outputs = model.apply(model.init(KEY), jnp.ones((2, 7), jnp.int32))
    assert (outputs.shape, outputs.dtype) == ((2, 3), "float32")
    with pytest.raises(InputError, match=r"Reader cannot initialise on inputs of shape \(batch, 7\), float32"):
        adapt(Reader(), (7,))


def test_convolutions_are_seen():
    class Pictures(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(2)(nn.Conv(3, (3, 3))(x).mean((1, 2)))

    assert adapt(Pictures(), (8, 8, 1)).convolutional
    assert not adapt(LinenNet(), (INPUTS,)).convolutional


def test_the_flag_of_evaluation_may_have_either_sense():
    class Reverse(nn.Module):
        @nn.compact
        def __call__(self, x, deterministic):
            return nn.Dense(2)(nn.Dropout(0.5)(x, deterministic=deterministic))

    model = adapt(Reverse(), (INPUTS,))
    assert model.random
    named = models.from_flax(Reverse(), (INPUTS,), training={"deterministic": True}, evaluating={"deterministic": True})
    assert not named.random


def test_a_flag_that_changes_what_is_computed_without_a_draw_is_kept_apart():
    class Scaled(nn.Module):
        @nn.compact
        def __call__(self, x, train: bool = False):
            return nn.Dense(2)(x) * (2.0 if train else 1.0)

    model = adapt(Scaled(), (INPUTS,))
    params = model.init(KEY)
    np.testing.assert_allclose(model.apply(params, samples(), KEY), 2 * model.apply(params, samples()), rtol=1e-6)


class LinenNorm(nn.Module):
    @nn.compact
    def __call__(self, x, train: bool = False):
        return nn.Dense(2)(nn.BatchNorm(use_running_average=not train, name="norm_a")(x))


class NnxNorm(nnx.Module):
    def __init__(self, rngs):
        self.norm = nnx.BatchNorm(INPUTS, rngs=rngs)
        self.dense = nnx.Linear(INPUTS, 2, rngs=rngs)

    def __call__(self, x):
        return self.dense(self.norm(x))


def haiku_norm(x, is_training):
    return hk.Linear(2)(hk.BatchNorm(True, True, 0.9)(x, is_training))


def equinox_norm():
    norm = eqx.nn.BatchNorm(INPUTS, axis_name="batch", mode="batch")
    return eqx.nn.Sequential([eqx.nn.Linear(INPUTS, INPUTS, key=KEY), norm])


class OwnNorm(eqx.Module):
    norm: eqx.nn.BatchNorm

    def __init__(self):
        self.norm = eqx.nn.BatchNorm(INPUTS, axis_name="batch", mode="batch")

    def __call__(self, x, state):
        return self.norm(x, state)


@pytest.mark.parametrize(
    ("make", "layer"),
    [
        (LinenNorm, "'batch_stats' in norm_a"),
        (lambda: NnxNorm(nnx.Rngs(0)), r"BatchStat in norm \(BatchNorm\)"),
        (lambda: hk.transform_with_state(haiku_norm), r"state in batch_norm \(BatchNorm\)"),
        (lambda: hk.transform(haiku_norm), r"state in batch_norm \(BatchNorm\)"),
        (equinox_norm, r"an eqx.nn.State in BatchNorm \(BatchNorm\)"),
        (OwnNorm, r"an eqx.nn.State in norm \(BatchNorm\)"),
        (lambda: eqx.nn.make_with_state(OwnNorm)(), r"an eqx.nn.State in norm \(BatchNorm\)"),
    ],
    ids=["linen", "nnx", "haiku_state", "haiku", "equinox", "equinox_own", "equinox_state"],
)
def test_batch_norm_is_refused_by_name_with_group_norm_as_the_remedy(make, layer):
    with pytest.raises(InputError, match=layer) as refused:
        adapt(make(), (INPUTS,))
    for text in ("cannot be federated", "averaged over clients", "tell of each client's data", "Use GroupNorm"):
        assert text in str(refused.value)


def test_group_norm_is_welcome():
    class Normed(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(2)(nn.GroupNorm(2)(x))

    assert adapt(Normed(), (INPUTS,)).parameter_count == 2 * INPUTS + 2 * (INPUTS + 1)


class Counting(nn.Module):
    dtype: Any = jnp.int32

    @nn.compact
    def __call__(self, x):
        return x * self.param("count", lambda key: jnp.ones((), self.dtype))


class Noise(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(2)(x + jax.random.normal(self.make_rng("noise"), x.shape))


class NoisyNnx(nnx.Module):
    def __init__(self, rngs):
        self.rngs, self.dense = rngs, nnx.Linear(INPUTS, 2, rngs=rngs)

    def __call__(self, x):
        return self.dense(x + jax.random.normal(self.rngs.noise(), x.shape))


class Masked(nn.Module):
    @nn.compact
    def __call__(self, x, mask):
        return nn.Dense(2)(x * mask)


class Two(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(2)(x), x


class Summed(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(2)(x).sum()


class Nothing(nn.Module):
    def __call__(self, x):
        return x


class NotCalled(eqx.Module):
    weight: Any


REFUSED = {
    r"LinenNet is a class: give an instance, LinenNet\(": lambda: adapt(LinenNet, (INPUTS,)),
    r"NnxNet is a class: give an instance, NnxNet\(…, rngs": lambda: adapt(NnxNet, (INPUTS,)),
    r"EquinoxNet is a class: give an instance, EquinoxNet\(…, key": lambda: adapt(EquinoxNet, (INPUTS,)),
    r"a Haiku module lives inside a function: give hk.transform\(lambda x: Linear\(…\)\(x\)\)": lambda: adapt(
        hk.Linear, (INPUTS,)
    ),
    r"NnxNet cannot evaluate on inputs of shape \(batch, 4\), float32: .*Remedy: the first layer": lambda: adapt(
        NnxNet(0.0, nnx.Rngs(0)), (4,)
    ),
    r"EquinoxNet cannot evaluate on inputs of shape \(batch, 4\).*Remedy: an Equinox module takes one sample": lambda: (
        adapt(EquinoxNet(0.0, KEY), (4,))
    ),
    r"LinenNet cannot evaluate on inputs of shape \(batch, 4\)": lambda: adapt(
        (LinenNet(), LinenNet().init(KEY, samples())), (4,)
    ),
    r"function cannot evaluate on inputs of shape \(batch, 4\)": lambda: models.from_haiku(
        haiku_net(0.0), (4,), variables=haiku_net(0.0).init(KEY, samples())
    ),
    r"Counting are float32 or float64, .* but count is int32: keep numbers that are not trained": lambda: adapt(
        Counting(), (INPUTS,)
    ),
    r"count is bfloat16: keep parameters in float32 \(param_dtype=jnp.float32\)": lambda: adapt(
        Counting(jnp.bfloat16), (INPUTS,)
    ),
    r"count is complex64": lambda: adapt(Counting(jnp.complex64), (INPUTS,)),
    r"Noise draws in evaluations too \(.* needs PRNG for .noise": lambda: adapt(Noise(), (INPUTS,)),
    r"NoisyNnx draws in evaluations too: let it draw only where module.train": lambda: adapt(
        NoisyNnx(nnx.Rngs(0)), (INPUTS,)
    ),
    r"function draws in evaluations too: give the function an argument is_training": lambda: adapt(
        hk.transform(lambda x: hk.Linear(2)(hk.dropout(hk.next_rng_key(), 0.5, x))), (INPUTS,)
    ),
    r"Masked takes the inputs alone, .* it wants 'mask' too": lambda: adapt(Masked(), (INPUTS,)),
    r"Two returns tuple, and a network one array": lambda: adapt(Two(), (INPUTS,)),
    r"Summed returns the shape \(\) for 2 samples of shape \(6,\)": lambda: adapt(Summed(), (INPUTS,)),
    r"'Nothing' has no parameters": lambda: adapt(Nothing(), (INPUTS,)),
    r"NotCalled cannot be called": lambda: adapt(NotCalled(jnp.ones(3)), (INPUTS,)),
    r"holds shapes and no numbers: make it outside nnx.eval_shape": lambda: adapt(
        nnx.eval_shape(lambda: NnxNet(0.0, nnx.Rngs(0))), (INPUTS,)
    ),
    r"holds shapes and no numbers: make it outside eqx.filter_eval_shape": lambda: adapt(
        eqx.filter_eval_shape(EquinoxNet, 0.0, KEY), (INPUTS,)
    ),
    r"an NNX module holds its parameters itself": lambda: models.from_flax(
        NnxNet(0.0, nnx.Rngs(0)), (INPUTS,), variables={}
    ),
    r"the variables of the Flax module LinenNet are what its init returns": lambda: models.from_flax(
        LinenNet(), (INPUTS,), variables=3
    ),
    r"from_flax takes a module of Flax, or a function of nnx.Rngs that makes one; .* returns int": lambda: (
        models.from_flax(lambda rngs: 3, (INPUTS,))
    ),
    r"from_equinox takes a module of Equinox, or a function of a key": lambda: models.from_equinox(
        lambda key: 3, (INPUTS,)
    ),
    r"x is a vector of float32 or float64, got dtype='float16'": lambda: models.from_flax(
        LinenNet(), (INPUTS,), dtype="float16"
    ),
    r"a list of modules names at least one": lambda: models.from_flax([], (INPUTS,)),
    r"'LinenNet' is one module, .* give a list of modules, an nnx.Sequential": lambda: adapt(
        LinenNet(), (INPUTS,)
    ).split(1),
    r"a cut lies between 0 and the number of modules, 3 .* got 4\. They are Linear, relu, Linear": lambda: adapt(
        chains()["nnx"], (INPUTS,)
    ).split(4),
}


@pytest.mark.parametrize("message", list(REFUSED))
def test_what_is_refused_names_the_remedy(message):
    with pytest.raises(InputError, match=message):
        REFUSED[message]()


@pytest.mark.parametrize(
    ("package", "take", "extra"),
    [
        ("flax", models.from_flax, "Flax is not installed: pip install 'undrift\\[flax\\]'"),
        ("equinox", models.from_equinox, "Equinox is not installed: pip install 'undrift\\[equinox\\]'"),
        ("haiku", models.from_haiku, "Haiku is not installed: pip install 'undrift\\[haiku\\]'"),
    ],
)
def test_a_missing_extra_is_named(monkeypatch, package, take, extra):
    monkeypatch.setitem(sys.modules, package, None)  # what Python then says of it is that it is not there
    with pytest.raises(InputError, match=extra):
        take(object(), (INPUTS,))


def test_only_modules_of_the_libraries_are_recognised():
    for other in (
        lambda x: x,
        (lambda key: (), lambda params, x: x),
        object(),
        np.zeros(3),
        models.mlp(),
        [jax.nn.relu],
    ):
        assert library_of(other) is None
    with pytest.raises(InputError, match="a module is one of Flax, Equinox or Haiku; got 3"):
        adapt(3, (INPUTS,))
