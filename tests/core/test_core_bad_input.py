"""Bad input: the error says the rule, the value received and what to do."""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import CASES, least_squares_data, logistic_data, problem_of, quadratic_data, squared_distance

import undrift as ud

A, b = quadratic_data(0).A, quadratic_data(0).b
rows, labels = logistic_data(0).A, logistic_data(0).b
targets = least_squares_data(0).b


@functools.cache
def given():
    return problem_of(quadratic_data(0))


def fails(text):
    return pytest.raises(ud.InputError, match=text)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ud.problems.quadratic(A[0], b), r"A must have shape \(m, d, d\), got \(6, 6\)"),
        (lambda: ud.problems.quadratic(A[:, :, :5], b), r"A must have shape \(m, d, d\), got \(5, 6, 5\)"),
        (lambda: ud.problems.quadratic(A, b[:4]), r"b must have shape \(m, d\) = \(5, 6\) to fit A, got \(4, 6\)"),
        (lambda: ud.problems.quadratic(A, b[:, :5]), r"b must have shape"),
        (lambda: ud.problems.quadratic(A + np.triu(np.ones((6, 6)))[None], b), "must be symmetric.*pass"),
        (lambda: ud.problems.quadratic(np.where(A > 2, np.nan, A), b), r"A must be finite, but its entry \["),
        (lambda: ud.problems.least_squares(rows, targets[:4]), "b must have one entry per row of A"),
        (lambda: ud.problems.least_squares(rows, targets[:, :7]), "b must have one entry per row of A"),
        (lambda: ud.problems.least_squares(rows, targets[:, :, None]), "b must have one entry per row of A"),
        (lambda: ud.problems.least_squares(rows, targets[:, 0]), "one entry per row"),
        (lambda: ud.problems.least_squares(rows[0], targets), r"A must have shape \(m, n, d\)"),
        (lambda: ud.problems.least_squares([rows[0], rows[1][:, :5]], list(targets[:2])), "agree in their last dimensions"),
        (lambda: ud.problems.least_squares([], []), "at least one client"),
        (lambda: ud.problems.least_squares(rows, np.where(targets > 1, np.inf, targets)), r"b must be finite"),
        (lambda: ud.problems.logistic(rows, np.where(labels > 0, 1, 0)), r"labels must be −1 or \+1, got 0.*pass 2\*y − 1"),
        (lambda: ud.problems.logistic(rows, labels * 2.0), r"labels must be −1 or \+1, got"),
        (lambda: ud.problems.logistic(rows, labels[:, :3]), "y must have one label per row of A"),
        (lambda: ud.problems.logistic(rows, labels[:, :, None]), "y must have one label per row of A"),
        (lambda: ud.problems.logistic(rows, labels, l2=-1.0), "l2 must be finite and ≥ 0, got -1.0"),
        (lambda: ud.problems.logistic(rows, labels, l2=np.nan), "l2 must be finite and ≥ 0, got nan"),
        (lambda: ud.problems.quadratic(A, b, weights=[1, 2]), r"one entry per client: expected shape \(5,\), got \(2,\)"),
        (lambda: ud.problems.quadratic(A, b, weights=[1, 2, 3, 4, -1]), "weights must be finite, ≥ 0 and not all zero"),
        (lambda: ud.problems.quadratic(A, b, weights=[0] * 5), "weights must be finite, ≥ 0 and not all zero"),
        (lambda: ud.problems.quadratic(A, b, weights=[1, 1, 1, 1, np.nan]), "weights must be finite"),
        (lambda: ud.problems.custom(lambda x, t: x - t, b, 6), "a loss returns one number.*sum or average it"),
        (lambda: ud.problems.custom(squared_distance, b, 5), r"cannot be evaluated at x of shape \(5,\)"),
        (lambda: ud.problems.custom(squared_distance, [b[0], b[1][:3]], 6), "different shapes.*use per_sample=True"),
        (lambda: ud.problems.custom(squared_distance, [], 6), "at least one client, got an empty list"),
        (lambda: ud.problems.custom(squared_distance, [b, b[:0]], 6, per_sample=True), "client 1 has none"),
        (
            lambda: ud.problems.custom(lambda x, s: jnp.sum(x) * s["y"], [{"X": b, "y": b[:4, 0]}] * 2, 6, per_sample=True),
            "same number of samples",
        ),
    ],
)  # fmt: skip
def test_problems(make, text):
    with fails(text):
        make()


def test_problems_without_a_minimiser():
    with fails("f is unbounded below: the mean Hessian has the eigenvalue -"):
        _ = ud.problems.quadratic(-A, b).optimum
    with fails("f has no minimiser"):
        _ = ud.problems.quadratic(np.zeros((1, 2, 2)), np.ones((1, 2))).optimum
    with fails(r"with l2 = 0 and separable data the infimum is not attained; pass l2 > 0"):
        _ = ud.problems.logistic(np.ones((2, 3, 1)), np.ones((2, 3))).optimum
    on_the_fence = np.array([[[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]])  # one sample can be pushed for ever, two cannot
    with fails("the infimum is not attained"):
        _ = ud.problems.logistic(on_the_fence, np.array([[1, 1, -1]])).optimum
    large = ud.problems.logistic(np.array([[[90.0], [1.0], [1.0]]]), np.array([[1, 1, -1]]))
    assert np.isfinite(large.optimum.x).all()
    with fails("the minimiser of a custom problem is not known: give it as optimum="):
        _ = ud.problems.custom(squared_distance, b, 6).optimum
    with fails("L and μ of a custom problem are not known in closed form: give them as constants="):
        _ = ud.problems.custom(squared_distance, b, 6).constants
    history = ud.run(ud.fedsgd(eta=0.01), ud.problems.quadratic(-A, b), rounds=2).history
    assert "gap" not in history
    assert np.all(np.isfinite(history["loss"]))


@pytest.mark.parametrize("bad", [0.0, -0.1, float("nan"), float("inf")])
@pytest.mark.parametrize("name", CASES)
def test_step_sizes(name, bad):
    with fails(r"eta must be a finite number > 0, got (0\.0|-0\.1|-0\.025|nan|inf): choose a step such as 1/L"):
        CASES[name].make(bad)


@pytest.mark.parametrize("name", ud.METHODS)
def test_unknown_parameters_name_the_nearest(name):
    right, wrong = ("inner_eta", "inner_etaa") if name == "fedsplit" else ("eta", "etaa")
    with fails(rf"unknown parameter of {name} '{wrong}': did you mean '{right}'\? \(valid: .*\)"):
        ud.METHODS[name](**{wrong: 0.1})


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ud.fedavg(), "missing a required argument: 'eta'"),
        (lambda: ud.fedavg(eta="fast"), "fedavg: eta must be a number, got 'fast'"),
        (lambda: ud.fedavg(eta=np.ones(2)), r"eta must be one number, got an array of shape \(2,\)"),
        (lambda: ud.fedavg(eta=True), "eta must be a number, got True"),
        (lambda: ud.fedavg(eta=0.1, server_eta=0.0), "server_eta must be a finite number > 0"),
        (lambda: ud.fedavg(eta=0.1, server="adam"), "server must be an Optax transform"),
        (lambda: ud.fedavg(eta=0.1, solver=3), "a solver is an Optax transform or a function"),
        (lambda: ud.fedprox(eta=0.1, beta=-1), "beta must be a finite number ≥ 0, got -1"),
        (lambda: ud.scaffold(eta=0.1, option=3), "SCAFFOLD has the options 1 and 2, got 3"),
        (lambda: ud.fedsplit(s=0.1, inner_steps=2), "needs inner_eta"),
        (lambda: ud.fedsplit(s=0.1, inner_steps=0, inner_eta=0.1), "inner_steps must be a whole number ≥ 1"),
        (lambda: ud.fedsplit(s=0.1, start="modle"), "unknown start of fedsplit 'modle': did you mean 'model'"),
        (lambda: ud.fedavg(eta=0.1).with_numbers(etta=0.1), "unknown number of fedavg 'etta': did you mean 'eta'"),
        (lambda: ud.fedavg(eta=0.1).with_numbers(eta=-1.0), "eta must be a finite number > 0"),
        (lambda: ud.compressed(ud.fedlin(eta=0.1), up=ud.top_k(2)), "fedlin has the exchanges local, gradient: say which"),
        (lambda: ud.compressed(ud.fedavg(eta=0.1), up=ud.top_k(2), exchange="locale"), "did you mean 'local'"),
        (lambda: ud.oracles.minibatch(0), "mini-batch.* whole number .*≥ 1.*got 0"),
        (lambda: ud.oracles.noisy(-1.0), "variance of the noise must be a number ≥ 0, got -1.0"),
    ],
)  # fmt: skip
def test_methods_and_oracles(make, text):
    with fails(text):
        make()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"rounds": -1}, "rounds must be a whole number ≥ 0, got -1"),
        ({"rounds": 2.0}, "rounds must be a whole number ≥ 0, got 2.0"),
        ({"record_every": 0}, "record_every must be a whole number ≥ 1"),
        ({"seed": -1}, "seed must be a whole number ≥ 0, got -1"),
        ({"seed": 2**32}, "seed must be a whole number ≥ 0 and ≤ 4294967295, got 4294967296"),
        ({"x0": np.zeros(5)}, r"x0 must have shape \(d,\) = \(6,\), got \(5,\)"),
        ({"x0": [0, 0, np.nan, 0, 0, 0]}, "x0 must be finite, entry 2 is not"),
        ({"steps": 0}, "τ_i must be ≥ 1, got 0"),
        ({"steps": [1, 2, 3, -4, 5]}, "τ_i must be ≥ 1, got -4 for client 3"),
        ({"participation": ud.plan.uniform(6)}, "a cohort of 6 cannot be drawn without replacement from 5 clients"),
        ({"participation": 3}, r"participation is one of ud.plan.full\(\)"),
        ({"failures": 1.5}, r"failures must be a probability in \[0, 1\), got 1.5"),
        ({"oracle": "full"}, r"an oracle is one of ud.oracles.full\(\)"),
        ({"oracle": ud.oracles.minibatch(2)}, "no components, so mini-batches are not defined"),
        ({"on_divergence": "contineu"}, "unknown on_divergence 'contineu': did you mean 'continue'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
@pytest.mark.parametrize("interpreter", [ud.run, ud.loopback])
def test_runs(interpreter, arguments, text):
    with fails(text):
        interpreter(ud.fedavg(eta=0.1), given(), **{"rounds": 2, **arguments})


@pytest.mark.parametrize("interpreter", [ud.run, ud.loopback])
def test_k_larger_than_d(interpreter):
    for method in (ud.fedlin(eta=0.1, up=ud.top_k(7)), ud.fedlin(eta=0.1, down=ud.random_k(7))):
        with fails("k must be between 1 and the dimension d = 6, got k = 7: choose a smaller k"):
            interpreter(method, given(), rounds=2)


def test_things_that_are_not_methods_or_problems():
    with fails(r"call the factory: ud.fedlin"):
        ud.run(ud.fedlin, given(), rounds=1)
    with fails("a problem is what ud.problems"):
        ud.run(ud.fedlin(eta=0.1), A, rounds=1)


def test_an_exact_prox_needs_a_closed_form():
    with fails("no proximal operator in closed form: give inner_steps and inner_eta"):
        ud.run(ud.fedsplit(s=0.1), problem_of(logistic_data(0)), rounds=1)


def test_the_largest_seed_works_in_single_precision_too():
    problem = problem_of(quadratic_data(0), np.float32)
    arguments = {"rounds": 2, "oracle": ud.oracles.noisy(1.0)}
    single = ud.run(ud.fedsgd(eta=0.1), problem, seed=2**32 - 1, **arguments)
    swept = ud.sweep(ud.fedsgd, problem, grid={"eta": [0.1]}, seeds=[2**32 - 1], **arguments)
    np.testing.assert_allclose(swept.x[0, 0], single.x, rtol=1e-5)
