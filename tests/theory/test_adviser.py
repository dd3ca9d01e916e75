"""The adviser: its predictions are what runs do, its prices are what ledgers count, its advice holds."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from test_round_map import instance

import undrift as ud
from undrift.advice import Resources, advise
from undrift.advice.costs import tariff
from undrift.advice.measure import Goal
from undrift.advice.options import options_for
from undrift.advice.predict import Models

EXACT = [
    "fedsgd", "ef21", "fedsplit", "scaffold", "fedlin", "fedlin+top_k", "fedlin+difference", "fedlin+one_exchange", "fedtrack",
]  # fmt: skip


def least_squares(seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((3, 12, 4))
    b = np.einsum("mnd,md->mn", A, 2 * rng.standard_normal((3, 4))) + rng.standard_normal((3, 12))
    return ud.problems.least_squares(A, b)


def test_predicted_rounds_are_exact_on_least_squares_for_every_method():
    p = least_squares()
    found = advise(p, 1e-4, steps=[[2, 5, 9]], methods=EXACT)
    assert found.how == "exact"
    start = p.value(np.zeros(4)) - p.optimum.value
    seen = set()
    for candidate in found.candidates:
        if candidate.forecast.rounds is None or candidate.forecast.rounds > 250:
            continue  # beyond what recursions play one by one
        rounds = candidate.forecast.rounds
        made = candidate.option.make(candidate.forecast.step, candidate.steps)
        run = ud.run(made, p, rounds=rounds + 30, steps=candidate.steps)
        below = run.history["gap"] <= 1e-4 * start
        assert np.all(below[rounds:]), candidate.label
        assert not below[rounds - 1], candidate.label
        if candidate.curve is not None:
            shown = min(len(candidate.curve), rounds + 1)
            np.testing.assert_allclose(
                candidate.curve[:shown], run.history["gap"][:shown] / start, rtol=1e-6, err_msg=candidate.label
            )
        seen.add(candidate.option.name)
    assert {"fedsgd", "ef21", "scaffold", "fedlin", "fedtrack", "fedsplit"} <= seen


def test_prices_are_what_the_ledger_counts():
    p = least_squares(1)
    steps, rounds = [2, 5, 9], 7
    means = Resources.of(3)
    for option in options_for(p, EXACT):
        made = option.make(0.01, steps)
        run = ud.run(made, p, rounds=rounds, steps=steps, on_divergence="continue")
        costs = tariff(made, p, np.array(steps), means).after(rounds)
        assert costs.bytes_up == run.history["bytes_up"][-1], option.label
        assert costs.bytes_down == run.history["bytes_down"][-1], option.label
        assert costs.gradients == run.history["gradients"][-1], option.label
        assert costs.rounds == rounds
        parts = (run.history[f"seconds_{cause}"][-1] for cause in ("computing", "latency", "transfer"))
        assert np.allclose([costs.computing, costs.latency, costs.transfer], list(parts), rtol=1e-12), option.label


def test_virtual_seconds_by_hand():
    p, _ = instance(0, clients=4, dim=5)
    means = Resources.of(4, speeds=[1.0, 2.0, 4.0, 8.0], link={"up": 10.0, "down": 20.0, "latency": 0.5})
    steps = np.array([3, 6, 8, 1])
    vector = 5 * 8
    parallel = tariff(ud.fedavg(eta=0.1), p, steps, means).round
    assert np.isclose(parallel.computing, max(3 / 1, 6 / 2, 8 / 4, 1 / 8))
    assert np.isclose(parallel.latency, 0.5)
    assert np.isclose(parallel.transfer, vector / 20 + vector / 10)
    in_turn = tariff(ud.sequential_fl(eta=0.1), p, steps, means).round
    assert np.isclose(in_turn.computing, 3 / 1 + 6 / 2 + 8 / 4 + 1 / 8)
    assert np.isclose(in_turn.latency, 4 * 0.5)
    lin = tariff(ud.fedlin(eta=0.1), p, steps, means)
    assert np.isclose(
        lin.round.computing, max(2, 5 / 2, 7 / 4, 0) + 1
    )  # τ − 1 local gradients, then ∇f_i at the new model
    assert np.isclose(lin.round.latency, 1.0)
    assert lin.after(0).gradients == 4
    pooled = tariff(ud.gd(eta=0.1), p, np.array([2] * 4), means).round
    assert np.isclose(pooled.computing, 2 * 4 / 15)
    assert pooled.bytes == pooled.latency == 0


def test_component_gradients_cost_their_share_of_a_gradient():
    p = least_squares(2)
    means = Resources.of(3, speeds=1.0, link="latency=0")
    track = tariff(ud.fedtrack(eta=0.01), p, np.array([7, 7, 7]), means).round
    assert np.isclose(track.computing, (7 - 1) / 12 + 1)  # refreshed components, then a whole table
    assert np.isclose(tariff(ud.fedlin(eta=0.01), p, np.array([7] * 3), means).round.computing, 7)


def test_recommendation_follows_the_means():
    p, _ = instance(9, clients=4, dim=5, largest=60.0, smallest=0.6, weighted=False)
    settings = {"methods": ["fedsgd", "fedlin", "fedlin+top_k"], "steps": [1, 10]}
    computing = advise(p, 1e-6, speeds=0.1, link="latency=0", **settings)
    assert computing.by == "seconds"
    assert computing.recommended.costs.computing > 0.9 * computing.recommended.costs.seconds
    assert "computing" in computing.why[1]
    talking = advise(p, 1e-6, speeds=1e6, link="latency=10", **settings)
    assert "latency" in talking.why[1]
    for by in ("bytes", "rounds", "gradients"):
        found = advise(p, 1e-6, by=by, **settings)
        best = getattr(found.recommended.predicted, by)
        able = [c for c in found.candidates if c.predicted is not None and not c.option.reference]
        assert best == min(getattr(c.predicted, by) for c in able)


def test_drift_disqualifies_and_is_named():
    p, _ = instance(3, weighted=False, spread=30.0)
    found = advise(p, 1e-10, steps=[[1, 1, 1, 20]], methods=["fedavg", "fedlin"])
    lost, kept = found.candidates
    assert lost.reaches is False
    assert kept.reaches
    assert found.recommended is kept or found.recommended.label == "fedlin"
    # The floor that is named is that of Proposition 1.
    start = p.value(np.zeros(5)) - p.optimum.value
    surrogate = ud.theory.surrogate.fedavg(p, lost.forecast.at_floor, [1, 1, 1, 20])
    assert np.isclose(lost.forecast.floor, surrogate.gap / start)
    assert any("drift" in sentence and "fedavg" in sentence for sentence in found.why)


def test_clients_of_unequal_speed_are_offered_steps_in_proportion():
    p, _ = instance(4, weighted=False)
    found = advise(p, 1e-4, steps=[8], speeds="1..8", methods=["fedlin"])
    assert [c.steps.tolist() for c in found.candidates] == [[8] * 4, [1, 2, 4, 8]]


def test_theorems_stand_beside_predictions_and_are_slower():
    p, _ = instance(5, weighted=False)
    found = advise(p, 1e-6, steps=[5], methods=["fedsgd", "fedlin"])
    for candidate in found.candidates:
        assert candidate.guarantee.rounds >= candidate.forecast.rounds
    assert found.candidates[1].theorem.theorem.startswith("FedLin")


def test_estimates_on_logistic_regression_and_measuring():
    rng = np.random.default_rng(6)
    A = rng.standard_normal((3, 40, 4)) + rng.standard_normal((3, 1, 4))
    y = np.where(rng.random((3, 40)) < 1 / (1 + np.exp(-A @ rng.standard_normal(4))), 1.0, -1.0)
    p = ud.problems.logistic(A, y, l2=1.0)
    blind = advise(p, 1e-5, steps=[5], methods=["fedlin"])
    assert blind.how == "estimated"
    assert any("second-order" in sentence for sentence in blind.why)
    found = advise(p, 1e-5, steps=[5], methods=["fedlin"], measure=True)
    for candidate in found.candidates:
        if candidate.measured is not None:
            assert candidate.measured.exact_step_rounds <= candidate.forecast.rounds, candidate.label
    assert found.recommended.measured is not None


def test_fedtrack_estimate_equals_its_run_on_the_second_order_model():
    """D_ℓ of the prediction against FedTrack's own code, with more steps than components."""
    p = least_squares(7)
    option = next(o for o in options_for(p, ["fedtrack"]))
    models = Models(p, np.ones(4), 1e-3)
    curve = models.curve(option, [3, 14, 30], 0.004, 20)
    run = ud.run(ud.fedtrack(eta=0.004), p, rounds=20, steps=[3, 14, 30], x0=np.ones(4))
    np.testing.assert_allclose(curve, run.history["gap"], rtol=1e-8)


def test_sequential_prediction_is_the_run_with_that_seed():
    p = least_squares(9)
    option = options_for(p, ["sequential_fl"])[0]
    curve = Models(p, np.ones(4), 1e-3).curve(option, [3, 4, 5], 0.004, 90, seed=3)
    run = ud.run(ud.sequential_fl(eta=0.004), p, rounds=90, steps=[3, 4, 5], x0=np.ones(4), seed=3)
    np.testing.assert_allclose(curve, run.history["gap"], rtol=1e-8)


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 0.5]])
def test_corrected_turns_are_predicted_as_they_run(weights):
    rng = np.random.default_rng(4)
    B = rng.normal(size=(3, 4, 4))
    p = ud.problems.quadratic(B @ np.swapaxes(B, 1, 2) + np.eye(4), 3 * rng.normal(size=(3, 4)), weights=weights)
    option = options_for(p, ["sequential_fl+corrected"])[0]
    assert (option.label, option.known.drifts) == ("sequential_fl corrected", False)
    curve = Models(p, np.ones(4), 1e-3).curve(option, [3, 4, 5], 0.01, 60, seed=3)
    run = ud.run(ud.sequential_fl(eta=0.01, corrected=True), p, rounds=60, steps=[3, 4, 5], x0=np.ones(4), seed=3)
    np.testing.assert_allclose(curve, run.history["gap"], rtol=1e-6, atol=1e-13)


def test_no_theorem_of_plain_turns_is_lent_to_corrected_ones():
    p = least_squares(9)
    with pytest.raises(ud.InputError, match="no theorem is known"):
        ud.run(ud.sequential_fl(eta="theorem", corrected=True), p, rounds=1)


def test_what_only_measuring_can_tell():
    p = least_squares(8)
    with pytest.raises(ud.InputError, match="only measuring can tell"):
        advise(p, 1e-3, oracle=ud.oracles.minibatch(4))
    with pytest.raises(ud.InputError, match="only measuring can tell"):
        advise(p, 5.0, on="loss")
    found = advise(p, 1e-1, oracle=ud.oracles.minibatch(4), measure=True, rounds=60, steps=[3], methods=["fedsgd"])
    assert found.candidates[0].forecast is None
    assert found.candidates[0].measured.played == 60


def test_a_target_is_reached_for_good_or_not_at_all():
    goal = Goal("gap", 1.0)
    assert goal.first(np.array([5.0, 3.0, 0.5, 0.4, 0.3])) == 2
    assert goal.first(np.array([5.0, 0.5, 3.0, 0.4, 0.3])) == 3
    assert goal.first(np.array([5.0, 0.5, 3.0, 2.0])) is None
    assert goal.first(np.array([5.0] * 99 + [0.5])) is None  # below at the very end by luck
    assert goal.first(np.array([5.0, 0.5, np.inf, np.nan, np.nan])) is None  # diverged
    assert goal.first(np.array([5.0, np.nan, 0.5, np.nan, 0.4])) == 2  # not every round was recorded
    assert Goal("accuracy", 0.9).first(np.array([0.1, np.nan, 0.95, 0.2])) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target": -1.0}, "finite number > 0"),
        ({"by": "secnds"}, "did you mean"),
        ({"methods": ["fedlim"]}, "did you mean"),
        ({"speeds": "fast"}, "speeds are written"),
        ({"speeds": [1.0, 2.0]}, "one per client"),
        ({"methods": [ud.fedavg(eta=0.1)]}, "the adviser chooses numbers itself"),
        ({"speeds": 0.0}, "finite numbers > 0"),
        ({"link": "up=0"}, "up must be a number > 0"),
        ({"link": "upp=3"}, "did you mean"),
        ({"steps": []}, "at least one"),
        ({"steps": [0]}, "whole numbers ≥ 1"),
        ({"on": "accuracy"}, "has no accuracy"),
        ({"x0": np.full(4, np.nan)}, "must be finite"),
    ],
)
def test_bad_questions_are_refused(settings, message):
    with pytest.raises(ud.InputError, match=message):
        advise(least_squares(), **{"methods": ["fedsgd"], **settings})


def test_start_at_the_minimiser_is_refused():
    p = least_squares()
    x = p.optimum.x
    for start in (x, np.nextafter(x, np.inf), np.nextafter(x, -np.inf)):
        with pytest.raises(ud.InputError, match="nothing to advise; give another x0"):
            advise(p, x0=start)


@pytest.mark.parametrize("ulps", [-8, 0, 8])
def test_a_gap_that_may_be_rounding_is_none(ulps, monkeypatch):
    """Two values of f that should be equal differ by whatever the CPU's rounding makes of them."""
    p = least_squares()
    least = float(p.reference().value)
    monkeypatch.setattr(type(p), "value", lambda self, x: least * (1 + ulps * np.finfo(float).eps))
    with pytest.raises(ud.InputError, match="nothing to advise"):
        advise(p)


def test_words_for_machines_have_no_infinities():
    import json

    p, _ = instance(3, weighted=False)
    found = advise(p, 1e-12, steps=[[1, 1, 1, 20]], methods=["fedavg", "sequential_fl"])
    json.dumps(found.words(), allow_nan=False)
    assert found.recommended is None
    assert "No method" in found.why[0]
    assert dataclasses.asdict(found.resources)["latency"] == 0.05


@pytest.mark.slow
def test_where_clients_miss_rounds_those_that_remember_the_absent_are_considered_and_arrive():
    p = least_squares(2)
    plan = {"participation": ud.plan.uniform(2), "measure": True, "rounds": 600, "steps": [3], "factors": (0.3, 1.0)}
    labels = [option.label for option in options_for(p, everyone=False)]
    assert {"fedlin table", "fedlin table exchanges=1", "fedtrack table"} <= set(labels)
    assert "fedlin table" not in [option.label for option in options_for(p)]
    found = advise(p, 1e-8, methods=["fedlin", "fedlin+table", "fedlin+table_one_exchange"], **plan)
    reached = {candidate.label: candidate.reaches for candidate in found.candidates}
    assert reached == {"fedlin": False, "fedlin table": True, "fedlin table exchanges=1": True}
    assert "table=true" in found.recommended.method_word("fedlin")
