"""f = Σ w_i f_i with unequal w_i: methods end where f does, whoever takes part and in whatever order."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from twins import CLIENTS, FEATURES, both, linear_layers, network_data, network_problem

import undrift as ud
from undrift.protocol import AtServer, OneByOne

PLACES = np.array([0.0, 2.0, 10.0])
EIGHT_ONE_ONE = np.array([0.8, 0.1, 0.1])  # x* = 1.2; plain means of clients lead to 4
UNEQUAL = (0.5, 0.3, 0.2)


def on_a_line(weights=None, places=PLACES, curvatures=1.0):
    """f_i(x) = ½ h_i (x − place_i)²."""
    places = np.asarray(places, float)
    h = np.broadcast_to(curvatures, places.shape)
    return ud.problems.quadratic(h[:, None, None], (h * places)[:, None], weights=weights)


def drawn(who, rounds, seed, failures=0.0, weights=EIGHT_ONE_ONE):
    return ud.plan.Plan(len(weights), who.among(np.asarray(weights)), 1, failures, seed).draw(1, rounds)


def in_turn(draw, eta, steps, strides, momentum=0.0):
    """Steps of size η·stride_i, client after client, in NumPy."""
    x, found = 0.0, [0.0]
    for t, cohort in enumerate(draw.ids):
        for k, i in enumerate(cohort):
            if draw.answered is None or draw.answered[t, k]:
                v = 0.0
                for _ in range(steps):
                    v = momentum * v + (x - PLACES[i])
                    x = x - eta * strides[i] * v
        found.append(x)
    return np.array(found)


# ----- clients in turn
def test_two_clients_in_turn_end_at_the_minimiser():
    problem = on_a_line((0.9, 0.1), (0.0, 10.0))
    r = ud.run(ud.sequential_fl(eta=0.01), problem, rounds=300, steps=2, keep_iterates=True)
    assert abs(r.x[0] - 1.0) < 0.1  # x* = 1; unweighted steps end at 5


def test_steps_in_turn_are_as_long_as_clients_weigh():
    r = ud.run(ud.sequential_fl(eta=0.01), on_a_line(EIGHT_ONE_ONE), rounds=30, steps=2, seed=4, keep_iterates=True)
    expected = in_turn(drawn(ud.plan.uniform(3), 30, 4), 0.01, 2, 3 * EIGHT_ONE_ONE)
    np.testing.assert_allclose(r.iterates[:, 0], expected, rtol=1e-9)


def test_in_turn_with_failures_and_a_client_of_no_weight():
    weights = np.array([0.9, 0.0, 0.1])
    arguments = {"rounds": 5, "steps": 2, "seed": 1, "failures": 0.3, "keep_iterates": True}
    r = both(ud.sequential_fl(eta=0.01), on_a_line(weights), **arguments)
    draw = drawn(ud.plan.uniform(3), 5, 1, 0.3)
    assert not draw.answered.all()
    np.testing.assert_allclose(r.iterates[:, 0], in_turn(draw, 0.01, 2, 3 * weights), rtol=1e-9)


@pytest.mark.parametrize("who", [ud.plan.weighted(4), ud.plan.uniform(2, renormalise=True)], ids=str)
def test_in_turn_steps_are_plain_where_weights_decide_who_plays_or_are_renormalised(who):
    arguments = {"rounds": 4, "steps": 2, "seed": 2, "participation": who, "keep_iterates": True}
    r = both(ud.sequential_fl(eta=0.1), on_a_line(EIGHT_ONE_ONE), **arguments)
    np.testing.assert_allclose(r.iterates[:, 0], in_turn(drawn(who, 4, 2), 0.1, 2, np.ones(3)), rtol=1e-9)


def test_a_solver_in_turn_scales_its_updates():
    method = ud.sequential_fl(eta=0.1, solver=lambda eta: optax.sgd(eta, momentum=0.5))
    r = ud.loopback(method, on_a_line(EIGHT_ONE_ONE), rounds=4, steps=3, seed=1, keep_iterates=True)
    expected = in_turn(drawn(ud.plan.uniform(3), 4, 1), 0.1, 3, 3 * EIGHT_ONE_ONE, momentum=0.5)
    np.testing.assert_allclose(r.iterates[:, 0], expected, rtol=1e-9)


def test_equal_weights_are_exactly_one_each():
    """Whatever 1/m rounds to: 49 · (1/49) is not 1."""
    assert 49 * (1 / 49) != 1
    assert np.all(on_a_line(places=range(49)).population.relative_weights == 1)
    assert np.all(on_a_line(np.full(49, 7.0), range(49)).population.relative_weights == 1)


def test_a_server_that_steps_by_itself_after_every_turn():
    """Both interpreters give it the same cohort of one, whose mean is that one's answer."""
    base = ud.sequential_fl(eta=0.1).build()
    (turns,) = base.round

    def half_way(server, slots, ups, cohort):
        return server._replace(x=server.x * cohort.mean(jnp.full((cohort.ids.shape[0],), 0.5, server.x.dtype))), slots

    algorithm = base._replace(round=(OneByOne((*turns.program, AtServer(half_way))),))
    r = both(algorithm, on_a_line(EIGHT_ONE_ONE), rounds=3, participation=ud.plan.uniform(2), seed=3)
    x = 0.0
    for i in drawn(ud.plan.uniform(2), 3, 3).ids.ravel():
        x = 0.5 * (x - 0.1 * 3 * EIGHT_ONE_ONE[i] * (x - PLACES[i]))
    np.testing.assert_allclose(r.x, [x], rtol=1e-9)


# ----- split learning, on regression through a network
def test_ssl_ends_where_the_weighted_loss_does():
    weights = (0.9, 0.05, 0.05)
    problem = network_problem(linear_layers(1), 1, weights)  # the client's half only flattens
    ends = [ud.run(ud.ssl(eta=0.02), p, rounds=400).x for p in (problem, network_problem(linear_layers(1), 1))]
    inputs, targets = network_data()
    rows = np.concatenate([inputs, np.ones((*inputs.shape[:2], 1))], axis=2).reshape(-1, FEATURES + 1)

    def minimiser(weights):
        root = np.sqrt(np.repeat(weights, inputs.shape[1]))
        return np.sort(np.linalg.lstsq(rows * root[:, None], targets.ravel() * root, rcond=None)[0])

    away = np.linalg.norm(minimiser(weights) - minimiser(np.ones(3)))
    for end, right in zip(ends, (minimiser(weights), minimiser(np.ones(3))), strict=True):
        assert np.linalg.norm(np.sort(end) - right) < away / 4


@pytest.fixture(scope="module")
def halves():
    """A problem, ∇ of client i's mean loss in the order of x, and where x is cut."""
    model, (inputs, targets) = linear_layers(2, 1), network_data()
    problem = network_problem(model, 2, UNEQUAL)

    @jax.jit
    def gradient(x, inputs, targets):
        def loss(x):
            return 0.5 * jnp.mean((model.apply(problem.architecture.unravel(x), inputs)[:, 0] - targets) ** 2)

        return jax.grad(loss)(x)

    def in_double(x, i):
        with jax.enable_x64(True):
            return np.asarray(gradient(jnp.asarray(x), inputs[i], targets[i]))

    return problem, in_double, problem.halves.boundary


def test_ssl_scales_both_halves(halves):
    problem, gradient, _ = halves
    r = ud.run(ud.ssl(eta=0.1), problem, rounds=1, steps=2, seed=5, keep_iterates=True)
    x = r.iterates[0]
    for t, cohort in enumerate(drawn(ud.plan.uniform(3), 1, 5).ids, start=1):
        for i in cohort:
            for _ in range(2):
                x = x - 0.1 * CLIENTS * UNEQUAL[i] * gradient(x, i)
        np.testing.assert_allclose(r.iterates[t], x, rtol=1e-9, atol=1e-12)


def test_sflv2_weighs_the_clients_halves_in_the_mean_and_the_servers_in_its_steps(halves):
    problem, gradient, cut = halves
    r = ud.run(ud.sflv2(eta=0.1), problem, rounds=1, steps=2, seed=5, keep_iterates=True)
    x = r.iterates[0]
    for t, cohort in enumerate(drawn(ud.plan.uniform(3), 1, 5).ids, start=1):
        server, ends = x[cut:], np.zeros(cut)
        for i in cohort:
            client = x[:cut]
            for _ in range(2):
                g = gradient(np.concatenate([client, server]), i)
                client, server = client - 0.1 * g[:cut], server - 0.1 * CLIENTS * UNEQUAL[i] * g[cut:]
            ends = ends + UNEQUAL[i] * client
        x = np.concatenate([ends, server])
        np.testing.assert_allclose(r.iterates[t], x, rtol=1e-9, atol=1e-12)


# ----- cohorts
ONE_ROUND = {  # one round of each is linear in what clients send, so that its expectation is that of the mean
    "fedsgd": ud.fedsgd(eta=0.3),
    "fedlin": ud.fedlin(eta=0.3),  # a mean of models, around x
    "fedsplit": ud.fedsplit(s=0.7),  # a mean of models, around x
}
FROM_FIVE = {"rounds": 1, "steps": 3, "x0": [5.0]}


@pytest.mark.parametrize("name", ONE_ROUND)
def test_uniform_cohorts_are_unbiased(name):
    method, problem, size = ONE_ROUND[name], on_a_line(EIGHT_ONE_ONE), 1 if name == "fedsgd" else 2

    def with_cohort(ids):
        return ud.run(method, problem, participation=ud.plan.rule(lambda t, key: list(ids), size), **FROM_FIVE).x

    each = [with_cohort(ids) for ids in itertools.combinations(range(3), size)]
    np.testing.assert_allclose(np.mean(each, axis=0), ud.run(method, problem, **FROM_FIVE).x, rtol=1e-12)
    assert np.ptp(each) > 1e-3  # they differ, so their mean says something


@pytest.mark.parametrize("name", ["fedsgd", "fedlin"])
def test_cohorts_drawn_by_weight_are_unbiased(name):
    """FedLin asks all m clients before round 1: their gradients count w_i, not 1/m."""
    method, problem, who = ONE_ROUND[name], on_a_line(EIGHT_ONE_ONE, curvatures=(1.0, 0.5, 2.0)), ud.plan.weighted(1)
    seeds = {int(drawn(who, 1, seed).ids[0, 0]): seed for seed in range(100)}  # one that draws each client
    each = [both(method, problem, participation=who, seed=seeds[i], **FROM_FIVE).x for i in range(3)]
    everyone = ud.run(method, problem, **FROM_FIVE).x
    np.testing.assert_allclose(np.tensordot(EIGHT_ONE_ONE, each, axes=1), everyone, rtol=1e-12)
    assert np.ptp(each) > 1e-3


def test_weighted_draws_are_as_frequent_as_clients_weigh():
    weights = np.array([0.8, 0.1, 0.0, 0.1])
    ids = drawn(ud.plan.weighted(5), 4000, 3, weights=weights).ids
    assert ids.shape == (4000, 5)
    shares = np.bincount(ids.ravel(), minlength=4) / ids.size
    np.testing.assert_allclose(shares, weights, atol=0.02)
    assert shares[2] == 0


@pytest.mark.parametrize(
    ("who", "end"),
    [
        (ud.plan.uniform(1), 1.2),
        (ud.plan.weighted(1), 1.2),
        (ud.plan.permuted(1), 1.2),
        (ud.plan.uniform(1, renormalise=True), 4.0),
    ],
    ids=str,
)
def test_fedsgd_with_cohorts_of_one_hovers_around(who, end):
    arguments = {"rounds": 800, "participation": who, "keep_iterates": True, "x0": [end]}
    r = ud.run(ud.fedsgd(eta=0.05), on_a_line(EIGHT_ONE_ONE), **arguments)
    assert abs(r.iterates.mean() - end) < 0.7


def test_renormalising_says_that_it_is_biased():
    for made, plain in (
        (ud.plan.uniform(1, renormalise=True), ud.plan.uniform(1)),
        (ud.plan.permuted(1, renormalise=True), ud.plan.permuted(1)),
        (ud.plan.rule(lambda t, key: [0], 1, renormalise=True), ud.plan.rule(lambda t, key: [0], 1)),
    ):
        assert "renormalise=True" in str(made)
        assert "renormalise" not in str(plain)
    assert "it is biased" in ud.plan.__doc__
    assert "with `renormalise` w_i/Σ_S w_j, which is not" in ud.plan.uniform.__doc__


@pytest.mark.parametrize("renormalise", [False, True])
def test_means_run_over_those_that_answered(renormalise):
    """|S| counts answers: a cohort of two with one silent member is worth a cohort of one."""
    who = ud.plan.uniform(2, renormalise=renormalise)
    arguments = {"rounds": 12, "participation": who, "failures": 0.4, "seed": 9, "x0": [5.0], "keep_iterates": True}
    r = both(ud.fedsgd(eta=0.1), on_a_line(EIGHT_ONE_ONE), **arguments)
    draw = drawn(who, 12, 9, 0.4)
    assert set(draw.answered.sum(axis=1)) == {0, 1, 2}
    x, w = 5.0, EIGHT_ONE_ONE
    for t in range(12):
        heard = draw.ids[t][draw.answered[t]]
        share = w[heard] / w[heard].sum() if renormalise else 3 * w[heard] / max(len(heard), 1)
        x = x - 0.1 * np.sum(share * (x - PLACES[heard]))
        np.testing.assert_allclose(r.iterates[t + 1, 0], x, rtol=1e-12)


def test_a_client_drawn_twice_counts_twice():
    who = ud.plan.uniform(3, replace=True)
    seed, ids = next((s, ids) for s in range(99) if len(set(ids := who.ids(s, 1, 3).tolist())) == 2)
    x = ud.run(ud.fedsgd(eta=0.1), on_a_line(EIGHT_ONE_ONE), rounds=1, participation=who, x0=[5.0], seed=seed).x
    steps = 3 * EIGHT_ONE_ONE[ids] * (5.0 - PLACES[ids])
    np.testing.assert_allclose(x, [5.0 - 0.1 * steps.sum() / 3], rtol=1e-12)


def test_with_equal_weights_renormalising_changes_nothing():
    arguments = {"rounds": 4, "steps": 2, "seed": 2}
    unbiased, renormalised = (
        ud.run(ud.fedlin(eta=0.3), on_a_line(), participation=ud.plan.uniform(2, renormalise=r), **arguments).x
        for r in (False, True)
    )
    np.testing.assert_allclose(unbiased, renormalised, rtol=1e-12)


@pytest.mark.parametrize("method", [ud.fedlin(eta=0.3), ud.fednova(eta=0.1)], ids=lambda method: method.name)
def test_a_client_of_no_weight_leaves_no_trace(method):
    """And interpreters agree on what is recorded of rounds in which nobody else takes part."""
    who = ud.plan.uniform(1)
    assert (drawn(who, 6, 1).ids == 2).any()
    ends = [
        both(method, on_a_line((0.5, 0.5, 0.0), (1.0, 3.0, far)), rounds=6, seed=1, participation=who, per_client=True)
        for far in (0.0, 1e6)
    ]
    np.testing.assert_array_equal(ends[0].x, ends[1].x)


def test_weights_of_zero_at_full_participation():
    r = both(ud.fedlin(eta=0.3), on_a_line((0.5, 0.5, 0.0), (1.0, 3.0, 1e6)), rounds=60, steps=3)
    np.testing.assert_allclose(r.x, [2.0], rtol=1e-6)
