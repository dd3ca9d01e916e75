"""Sequential FL and SSL with control variates: against NumPy, against each other, against SAGA, and at x*."""

from __future__ import annotations

import functools

import numpy as np
import optax
import pytest
from core_cases import CLIENTS, DIM, PARTIAL, UNEQUAL, WEIGHTS, changing, least_squares_data, logistic_data, problem_of
from core_cases import quadratic_data as quadratics
from references_sequence import saga, sequential_corrected
from test_methods_against_references import same_iterates

import undrift as ud
from counts import costs
from everyday import only

EVERYONE = ud.plan.uniform(CLIENTS)  # in a fresh order, as full participation means in turn


def corrected(**settings):
    return ud.sequential_fl(corrected=True, **settings)


def test_quadratics_with_equal_unequal_and_changing_steps():
    for seed, steps in enumerate((3, UNEQUAL, changing, ud.plan.random_steps(1, 5))):
        data = quadratics(seed, WEIGHTS if seed else None)
        reference = lambda w: sequential_corrected(w, 0.02)  # noqa: E731
        same_iterates(corrected(eta=0.02), reference, data, steps=steps, seed=seed, participation=EVERYONE)


def test_logistic_regression_with_partial_participation_and_failures():
    for seed, steps in enumerate((2, UNEQUAL, ud.plan.random_steps(1, 5))):
        same_iterates(
            corrected(eta=0.02, server_eta=0.8),
            lambda w: sequential_corrected(w, 0.02, 0.8),
            logistic_data(seed, WEIGHTS if seed else None),
            steps=steps,
            seed=seed,
            participation=ud.plan.uniform(3),
            failures=0.3,
        )


@pytest.mark.parametrize("momentum", only([0.0, 0.5], {0.5}))
def test_mini_batches_clients_drawn_twice_and_a_solver(momentum):
    solver = (lambda eta: optax.sgd(eta, momentum=momentum)) if momentum else None
    same_iterates(
        corrected(eta=0.01, solver=solver),
        lambda w: sequential_corrected(w, 0.01, momentum=momentum),
        least_squares_data(1, weights=WEIGHTS),
        steps=changing,
        participation=ud.plan.uniform(4, replace=True),
        oracle=ud.oracles.minibatch(3),
    )


def test_one_step_and_cohorts_of_one_are_saga():
    plan = {"steps": 1, "participation": ud.plan.uniform(1)}
    same_iterates(corrected(eta=0.05), lambda w: saga(w, 0.05), quadratics(4), **plan)


def test_the_first_round_is_the_papers():
    p = problem_of(logistic_data(0, WEIGHTS))
    plain, own = (ud.run(m, p, rounds=1, steps=3).x for m in (ud.sequential_fl(eta=0.05), corrected(eta=0.05)))
    np.testing.assert_allclose(own, plain, rtol=0, atol=1e-14)


ENDS = {"everyone": {"steps": UNEQUAL}, "cohorts and failures": PARTIAL}


@pytest.mark.parametrize("who", only(ENDS, {"cohorts and failures"}))
def test_it_ends_at_the_minimiser_where_the_papers_does_not(who):
    plan = ENDS[who]
    p = problem_of(logistic_data(0, WEIGHTS))
    plain, own = (
        ud.run(m, p, rounds=600, diagnostics=True, **plan).history
        for m in (ud.sequential_fl(eta=0.02), corrected(eta=0.02))
    )
    assert own["gap"][-1] < 1e-14 < 1e-5 < plain["gap"][-1]
    assert own["variate_error"].max() < 1e-12  # c = Σ w_i c_i, whoever took part


def test_the_minimiser_is_where_it_stays():
    """Once c_i are the gradients at x*: from then on nothing moves, whoever has a turn."""
    p = problem_of(quadratics(2, WEIGHTS))
    run = ud.run(corrected(eta=0.05), p, rounds=400, keep_iterates=True, steps=3, participation=ud.plan.uniform(2))
    np.testing.assert_allclose(run.iterates[-50:], np.tile(p.optimum.x, (50, 1)), rtol=0, atol=1e-12)


def test_steps_of_size_zero_leave_the_variates_alone():
    def warm_up(count):
        return 0.05 * (count > 1)

    p = problem_of(logistic_data(0))
    late, zero = ud.run(corrected(eta=warm_up), p, rounds=3, steps=2, keep_iterates=True), np.zeros(DIM)
    np.testing.assert_array_equal(late.iterates[:3], np.tile(zero, (3, 1)))
    assert np.all(np.isfinite(late.x))
    assert np.any(late.x != 0)


# ---------------------------------------------------------------- split
@functools.cache
def network(cut: int | None, batch: int | None = 2) -> ud.problems.Problem:
    rng = np.random.default_rng(2)
    data = rng.normal(size=(20, 6)), rng.integers(0, 3, 20)
    model = ud.models.mlp((5,), classes=3, input=(6,), dtype="float64")
    parts = [np.arange(0, 4), np.arange(4, 11), np.arange(11, 16), np.arange(16, 20)]
    return ud.problems.network(model, data, parts, batch=batch, cut=cut, weights=[3, 1, 2, 0])


GIVEN = {"rounds": 5, "steps": [1, 3, 2, 2], "failures": 0.3, "participation": ud.plan.weighted(4)}
CLIENT_HALF = 8 * (6 * 5 + 5)  # bytes of x_c at the cut after the hidden layer


def decayed(eta):
    return optax.chain(optax.add_decayed_weights(1e-2), optax.sgd(eta))


SETTINGS = {"plain": {}, "decayed, global step": {"solver": decayed, "server_eta": 0.6}}
CUTS = [(settings, cut) for settings in SETTINGS for cut in (0, 2, 3)]


@functools.cache
def in_turn(settings: str, *, correct: bool) -> np.ndarray:
    """Where sequential FL ends with a model that is not cut."""
    return ud.run(ud.sequential_fl(eta=0.2, corrected=correct, **SETTINGS[settings]), network(None), **GIVEN).x


@pytest.mark.parametrize(
    "split", only(CUTS, {("decayed, global step", 2)}), ids=lambda split: "{}, cut {}".format(*split)
)
def test_ssl_is_sequential_fl_with_the_same_correction_at_every_cut(split):
    settings, cut = split
    whole, plain = in_turn(settings, correct=True), in_turn(settings, correct=False)
    assert np.abs(whole - plain).max() > 1e-3  # it is not the other method
    found = ud.run(ud.ssl(eta=0.2, corrected=True, **SETTINGS[settings]), network(cut), **GIVEN).x
    np.testing.assert_allclose(found, whole, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["central", "peer"])
def test_the_halves_correction_travels_over_the_right_links(mode):
    method = ud.ssl(eta=0.2, corrected=True, mode=mode)
    ran, sent = (play(method, network(2), **GIVEN) for play in (ud.run, ud.loopback))
    np.testing.assert_allclose(ran.x, sent.x, rtol=0, atol=1e-13)
    arguments = {name: value for name, value in GIVEN.items() if name != "rounds"}
    plain = costs(ud.ssl(eta=0.2, mode=mode), network(2), GIVEN["rounds"], **arguments)
    turns = plain["bytes_client_model"][-1] / CLIENT_HALF
    more = {link: ran.history[f"bytes_{link}"][-1] - plain[f"bytes_{link}"][-1] for link in ("up", "down", "peer")}
    answers = _answers(method)
    if mode == "central":  # ↓ c to all that are spoken to, ↑ the change of c_i from all that answer
        told = int(turns) - answers
        assert more == {"up": answers * CLIENT_HALF, "down": told * CLIENT_HALF, "peer": 0}
    else:  # c and the sum of changes beside x_c
        assert more == {"up": 0, "down": 0, "peer": 2 * answers * CLIENT_HALF}


def _answers(method: ud.Method) -> int:
    drawn = ud.describe(method, network(2), **GIVEN).plan.draw(1, GIVEN["rounds"])
    return int(drawn.answered.sum())
