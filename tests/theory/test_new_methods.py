"""What is known of FedDyn, FedExP and MimeLite: rules, refusals, predictions that runs keep."""

from __future__ import annotations

import numpy as np
import pytest
from test_round_map import instance

import undrift as ud

STEPS = [3, 7, 1, 12]


def test_feddyn_by_theorem_is_gradient_descent_and_keeps_its_promise():
    p, x0 = instance()
    L = float(ud.theory.constants(p).L_mean)
    for given, alpha in (({"eta": "theorem", "alpha": "theorem"}, L), ({"eta": "theorem", "alpha": 2 * L}, 2 * L)):
        run = ud.run(ud.feddyn(**given), p, rounds=60, steps=1, x0=x0)
        descent = ud.run(ud.fedsgd(eta=1 / alpha), p, rounds=60, x0=x0)
        np.testing.assert_allclose(run.x, descent.x, rtol=1e-11)
        promised = ud.theory.promise(ud.feddyn(eta=1 / (2 * alpha), alpha=alpha), p, steps=1)
        assert promised.rate == pytest.approx(1 - float(ud.theory.constants(p).mu_mean) / alpha)
        assert ud.theory.check(run, promised).holds
    made = ud.describe(ud.feddyn(eta=0.5 / (3 * L), alpha="theorem"), p, rounds=1, steps=1).method
    assert made.numbers["alpha"] == pytest.approx(3 * L)


@pytest.mark.parametrize(
    ("given", "options", "missing"),
    [
        ({"alpha": "theorem"}, {"steps": 4}, "up to 4: use steps=1"),
        ({"alpha": "theorem"}, {"participation": ud.plan.uniform(2)}, "every client takes part"),
        ({"alpha": "theorem"}, {"oracle": ud.oracles.noisy(0.1)}, "exact gradients"),
        ({"alpha": 1e-3}, {}, "alpha ≥"),
    ],
)
def test_feddyn_refuses_what_its_rule_does_not_cover(given, options, missing):
    p, _ = instance()
    with pytest.raises(ud.InputError, match=missing):
        ud.describe(ud.feddyn(eta="theorem", **given), p, rounds=1, **{"steps": 1, **options})


@pytest.mark.parametrize("method", [ud.fedexp, ud.mimelite])
def test_no_rule_is_known_for_the_others(method):
    with pytest.raises(ud.InputError, match="no theorem is known here"):
        ud.describe(method(eta="theorem"), instance()[0], rounds=1)


def test_the_adviser_predicts_their_rounds():
    p, x0 = instance(3, largest=3.0, smallest=1.0, spread=0.3)
    start = float(ud.run(ud.gd(eta=0.1), p, rounds=0, x0=x0).history["gap"][0])
    found = ud.theory.advise(p, 1e-2, methods=["feddyn", "fedexp", "mimelite"], steps=[STEPS], x0=x0)
    assert found.how == "exact"
    reached = {c.label: c for c in found.candidates if c.forecast.rounds is not None}
    assert set(reached) == {"feddyn", "fedexp", "mimelite"}
    for candidate in reached.values():
        rounds = candidate.forecast.rounds
        made = candidate.option.make(candidate.forecast.step, candidate.steps)
        gaps = ud.run(made, p, rounds=rounds, steps=candidate.steps, x0=x0).history["gap"]
        assert gaps[rounds] <= 1e-2 * start * (1 + 1e-9)
        assert 1e-2 * start < gaps[rounds - 1]


def test_feddyn_and_mime_end_at_the_minimiser_and_the_others_beside_it():
    p, x0 = instance(1)
    L = p.constants.L
    ends = {
        "feddyn": ud.feddyn(eta=0.2 / L, alpha=L),
        "mime": ud.mimelite(eta=0.5 / L, correction=True),
        "mimelite": ud.mimelite(eta=0.5 / L),
        "fedexp": ud.fedexp(eta=0.1 / L),
    }
    gaps = {name: ud.run(m, p, rounds=2000, steps=STEPS, x0=x0).history["gap"][-1] for name, m in ends.items()}
    assert max(gaps["feddyn"], gaps["mime"]) < 1e-20
    assert min(gaps["mimelite"], gaps["fedexp"]) > 1e-6
    absent = ud.run(ends["feddyn"], p, rounds=4000, steps=STEPS, x0=x0, participation=ud.plan.uniform(2))
    assert absent.history["gap"][-1] < 1e-20


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (lambda: ud.feddyn(eta=0.1, alpha=0.0), "alpha must be a finite number > 0"),
        (lambda: ud.fedexp(eta=0.1, epsilon=-1.0), "epsilon must be a finite number ≥ 0"),
        (lambda: ud.mimelite(eta=0.1, beta=1.0), "0 ≤ beta < 1, got 1.0"),
        (lambda: ud.mimelite(eta=0.1, beta=lambda t: 0.5 + 0 * t), "or a schedule"),
        (lambda: ud.mimelite(eta=0.1, server_eta=0.0), "server_eta must be a finite number > 0"),
        (lambda: ud.fedexp(eta=0.1, keep_solver=True), "keep_solver=True needs a solver"),
    ],
)
def test_bad_numbers_are_refused(make, rule):
    with pytest.raises(ud.InputError, match=rule):
        make()


def test_gradients_are_counted_as_they_are_evaluated():
    """Batches of 2 of 8 samples: MimeLite's whole gradient costs 8 more, Mime's steps two batches each but the first."""
    rng = np.random.default_rng(0)
    p = ud.problems.least_squares(rng.normal(size=(4, 8, 3)), rng.normal(size=(4, 8)))
    for correction, calls, components in ((False, 6, 5 * 2 + 8), (True, 9, 8 * 2 + 8)):
        method = ud.mimelite(eta=0.01, correction=correction)
        history = ud.run(method, p, rounds=3, steps=5, oracle=ud.oracles.minibatch(2)).history
        assert history["gradients"][-1] == 3 * 4 * calls
        assert history["component_gradients"][-1] == 3 * 4 * components
