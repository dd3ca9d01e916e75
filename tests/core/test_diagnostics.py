"""What methods say about themselves, and what is known of every client: on request, and free where nobody asks."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from twins import both, linear_layers, network_data, network_problem

import undrift as ud
from undrift import precision
from undrift.engine import simulate
from undrift.engine.identity import program_identity
from undrift.engine.rounds import carry_shapes

RNG = np.random.default_rng(4)
M, N, DIM, TAU = 3, 5, 2, 3
A, B = RNG.normal(size=(M, N, DIM)), RNG.normal(size=(M, N))
WEIGHTS = np.array([0.5, 0.3, 0.2])
SHARED = {"rounds": 3, "steps": TAU, "keep_iterates": True}


def problem():
    return ud.problems.least_squares(A, B, weights=WEIGHTS)


def slope(i, x):
    return A[i].T @ (A[i] @ x - B[i])


def loss(i, x):
    return 0.5 * np.sum((A[i] @ x - B[i]) ** 2)


def mean_slope(x):
    return WEIGHTS @ np.stack([slope(i, x) for i in range(M)])


def top(v, k):
    out, keep = np.zeros_like(v), np.argsort(-np.abs(v), kind="stable")[:k]
    out[keep] = v[keep]
    return out


# ----- the methods' own
def test_fedlin_tells_how_far_its_direction_is_from_the_gradient():
    method = ud.fedlin(eta=0.05, up=ud.top_k(1))
    r = both(method, problem(), diagnostics=True, **SHARED)
    x, rho = np.zeros(DIM), np.zeros((M, DIM))
    g, expected = mean_slope(x), [0.0]
    for _ in range(3):
        ends = []
        for i in range(M):
            y, own = x, slope(i, x)
            for _ in range(TAU):
                y = y - 0.05 / TAU * (slope(i, y) - own + g)
            ends.append(y)
        x = WEIGHTS @ np.stack(ends)
        total = np.stack([rho[i] + slope(i, x) for i in range(M)])
        h = np.stack([top(v, 1) for v in total])
        rho, g = total - h, WEIGHTS @ h
        expected.append(np.linalg.norm(g - mean_slope(x)))
    np.testing.assert_allclose(r.history["direction_error"], expected, rtol=1e-9, atol=1e-12)
    assert expected[-1] > 0.01


def test_fedlin_without_compression_follows_the_gradient():
    r = ud.run(ud.fedlin(eta=0.05), problem(), diagnostics=True, **SHARED)
    np.testing.assert_allclose(r.history["direction_error"], 0, atol=1e-12)


def test_scaffold_tells_how_far_its_variate_is_from_the_clients():
    """With a compressed link the server's c and the mean of c_i part."""
    method = ud.compressed(ud.scaffold(eta=0.05), up=ud.top_k(1, memory=False))
    r = both(method, problem(), diagnostics=True, **SHARED)
    x, c, c_i, expected = np.zeros(DIM), np.zeros(DIM), np.zeros((M, DIM)), [0.0]
    for _ in range(3):
        moves, changes = [], []
        for i in range(M):
            y = x
            for _ in range(TAU):
                y = y - 0.05 * (slope(i, y) - c_i[i] + c)
            new = c_i[i] - c + (x - y) / (TAU * 0.05)
            moves.append(top(y - x, 1))
            changes.append(top(new - c_i[i], 1))
            c_i[i] = new
        x, c = x + WEIGHTS @ np.stack(moves), c + WEIGHTS @ np.stack(changes)
        expected.append(np.linalg.norm(c - WEIGHTS @ c_i))
    np.testing.assert_allclose(r.history["variate_error"], expected, rtol=1e-9, atol=1e-12)
    assert expected[-1] > 0.01


def test_fedtrack_tells_how_stale_its_table_is():
    r = both(ud.fedtrack(eta=0.02), problem(), diagnostics=True, **SHARED)
    x, expected = np.zeros(DIM), [0.0]
    for _ in range(3):
        g, ends, stale = mean_slope(x), [], []
        for i in range(M):
            table = A[i] * (A[i] @ x - B[i])[:, None]
            y, own = x - 0.02 * g, slope(i, x)
            for k in range(TAU - 1):
                table[k % N] = A[i, k % N] * (A[i, k % N] @ y - B[i, k % N])
                y = y - 0.02 * (table.sum(axis=0) - own + g)
            ends.append(y)
            stale.append(np.linalg.norm(table.sum(axis=0) - slope(i, y)))
        x = WEIGHTS @ np.stack(ends)
        expected.append(WEIGHTS @ stale)
    np.testing.assert_allclose(r.history["staleness"], expected, rtol=1e-9, atol=1e-12)
    assert expected[-1] > 1e-3


def test_a_sweep_records_them_too():
    s = ud.sweep(ud.fedlin, problem(), grid={"eta": [0.05]}, rounds=3, steps=TAU, diagnostics=True)
    np.testing.assert_allclose(s.history["direction_error"], 0, atol=1e-12)
    assert s.history["direction_error"].shape == (1, 1, 4)


class Silent:
    """A wrapper that takes a method's diagnostics away."""

    def __call__(self, algorithm):
        return algorithm._replace(diagnostics=None)


SILENT = Silent()


def program(method, **arguments):
    run = ud.describe(method, problem(), rounds=2, **arguments)
    with precision.scope(run.population.dtype):
        going = simulate._Simulation(run, None)
        carry, plan = carry_shapes(run), simulate.padded_plan(run, 0, 1, going.capacity)
        traced = simulate.compiled_advance.trace(*going._arguments(carry, plan, 1))
    return program_identity(traced.jaxpr), jax.tree.structure(carry)


@pytest.mark.parametrize(
    "method", [ud.fedlin(eta=0.05), ud.scaffold(eta=0.05), ud.fedtrack(eta=0.02)], ids=lambda method: method.name
)
def test_where_nobody_asks_the_program_is_the_same_as_without_them(method):
    mute = method.wrapped(SILENT)
    assert program(method) == program(mute)
    assert program(method, diagnostics=True) != program(mute, diagnostics=True)


def test_where_nobody_asks_there_is_no_column():
    columns = set(ud.run(ud.fedtrack(eta=0.02), problem(), rounds=1).history)
    asked = set(ud.run(ud.fedtrack(eta=0.02), problem(), rounds=1, diagnostics=True).history)
    assert asked - columns == {"staleness"}


def test_a_method_without_diagnostics_may_be_asked():
    r = ud.run(ud.fedavg(eta=0.05), problem(), rounds=1, diagnostics=True)
    assert set(r.history) == set(ud.run(ud.fedavg(eta=0.05), problem(), rounds=1).history)


# ----- every client
def test_losses_and_drifts_of_every_client():
    r = both(ud.fedavg(eta=0.02), problem(), per_client=True, **SHARED)
    for t, x in enumerate(r.iterates):
        np.testing.assert_allclose(r.clients["loss"][t], [loss(i, x) for i in range(M)], rtol=1e-9)
        slopes = np.stack([slope(i, x) for i in range(M)])
        np.testing.assert_allclose(r.clients["grad_norm"][t], np.linalg.norm(slopes, axis=1), rtol=1e-9)
        away = np.linalg.norm(slopes - WEIGHTS @ slopes, axis=1)
        np.testing.assert_allclose(r.clients["dissimilarity"][t], away, rtol=1e-9)
        np.testing.assert_allclose(r.history["dissimilarity"][t], away.max(), rtol=1e-9)
    assert np.all(np.isnan(r.clients["drift"][0]))  # nobody has moved yet
    for t in range(3):
        ends = []
        for i in range(M):
            y = r.iterates[t]
            for _ in range(TAU):
                y = y - 0.02 * slope(i, y)
            ends.append(y)
        drift = np.linalg.norm(np.stack(ends) - WEIGHTS @ np.stack(ends), axis=1)
        np.testing.assert_allclose(r.clients["drift"][t + 1], drift, rtol=1e-9)
        np.testing.assert_allclose(r.history["drift"][t + 1], drift.mean(), rtol=1e-9)
        np.testing.assert_allclose(r.history["drift_worst"][t + 1], drift.max(), rtol=1e-9)


def test_who_does_not_take_part_has_no_drift():
    arguments = {"participation": ud.plan.uniform(2), "failures": 0.3, "seed": 6}
    r = both(ud.fedavg(eta=0.02), problem(), per_client=True, **{**SHARED, "rounds": 6}, **arguments)
    draw = ud.plan.Plan(M, ud.plan.uniform(2), TAU, 0.3, 6).draw(1, 6)
    for t in range(6):
        there = np.zeros(M, bool)
        there[draw.ids[t][draw.answered[t]]] = True
        np.testing.assert_array_equal(np.isfinite(r.clients["drift"][t + 1]), there)
    assert np.all(np.isfinite(r.clients["loss"]))  # all are asked about the model


def test_worst_spread_and_quantiles_are_columns_without_being_asked():
    r = ud.run(ud.fedavg(eta=0.02), problem(), **SHARED)
    assert r.clients == {}
    losses = np.array([[loss(i, x) for i in range(M)] for x in r.iterates])
    np.testing.assert_allclose(r.history["loss_worst"], losses.max(axis=1), rtol=1e-9)
    np.testing.assert_allclose(r.history["loss_spread"], losses.std(axis=1), rtol=1e-9)
    for q in (10, 50, 90):
        np.testing.assert_allclose(r.history[f"loss_q{q}"], np.percentile(losses, q, axis=1), rtol=1e-9)


def test_rounds_that_are_not_evaluated_are_nan_for_clients_too():
    r = ud.loopback(ud.fedavg(eta=0.02), problem(), per_client=True, record_every=2, **SHARED)
    assert np.isnan(r.clients["loss"][1]).all()
    assert np.isfinite(r.clients["loss"][[0, 2, 3]]).all()
    assert np.isfinite(r.clients["drift"][1:]).all()  # it costs nothing


def test_networks_tell_losses_and_metrics_of_every_client():
    model, (inputs, targets) = linear_layers(1), network_data()
    given = network_problem(model, None, WEIGHTS)
    r = ud.run(ud.fedavg(eta=0.05), given, per_client=True, rounds=1, keep_iterates=True)
    for t, x in enumerate(r.iterates):
        with jax.enable_x64(True):
            outputs = model.apply(
                given.architecture.unravel(jax.numpy.asarray(x)), jax.numpy.asarray(inputs.reshape(-1, 2))
            )
        off = np.asarray(outputs).reshape(targets.shape) - targets
        losses = 0.5 * (off**2).mean(axis=1)
        np.testing.assert_allclose(r.clients["loss"][t], losses, rtol=1e-9)
        np.testing.assert_allclose(r.history["loss_worst"][t], losses.max(), rtol=1e-9)
        np.testing.assert_allclose(r.history["loss"][t], WEIGHTS @ losses, rtol=1e-9)


def test_one_machine_with_all_data_tells_the_losses_of_those_whose_data_it_holds():
    """One column per client, as for other methods, and no drift: there is nobody to drift from."""
    r = both(ud.gd(eta=0.02), problem(), per_client=True, **SHARED)
    assert "drift" not in r.clients
    assert {rows.shape for rows in r.clients.values()} == {(4, M)}
    np.testing.assert_allclose(r.clients["loss"][3], [loss(i, r.x) for i in range(M)], rtol=1e-9)


def test_they_are_saved_with_the_result(tmp_path):
    r = ud.run(ud.fedavg(eta=0.02), problem(), per_client=True, **SHARED)
    stored = np.load(r.save(tmp_path) / "clients.npz")
    assert set(stored) == set(r.clients)
    np.testing.assert_array_equal(stored["drift"], r.clients["drift"])


def test_they_survive_a_checkpoint(tmp_path):
    arguments = {"per_client": True, "diagnostics": True, "checkpoint": tmp_path, "resume": True, "steps": TAU}
    ud.run(ud.fedlin(eta=0.05), problem(), rounds=2, **arguments)
    resumed = ud.run(ud.fedlin(eta=0.05), problem(), rounds=4, **arguments)
    whole = ud.run(ud.fedlin(eta=0.05), problem(), rounds=4, per_client=True, diagnostics=True, steps=TAU)
    assert set(resumed.clients) == set(whole.clients)
    for name, rows in whole.clients.items():
        np.testing.assert_array_equal(resumed.clients[name], rows)
    np.testing.assert_array_equal(resumed.history["direction_error"], whole.history["direction_error"])
