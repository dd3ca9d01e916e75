"""A loss that is not finite: the run stops, says where, and keeps what it has."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import undrift as ud


def one_bad_client() -> ud.problems.Problem:
    """Client 2 is steep: with η = 1 its local steps leave the finite numbers first."""
    curvatures = np.array([0.5, 1.0, 1e60, 0.5])
    return ud.problems.quadratic(curvatures[:, None, None], np.ones((4, 1)))


@pytest.mark.parametrize("interpreter", [ud.run, ud.loopback])
def test_the_error_says_round_and_client_and_keeps_the_result(interpreter):
    with pytest.raises(
        ud.DivergenceError, match=r"not finite in round \d+, first at client 2\..*smaller step"
    ) as caught:
        interpreter(ud.fedavg(eta=1.0), one_bad_client(), rounds=50, steps=3, keep_iterates=True, x0=[2.0])
    error = caught.value
    assert error.client == 2
    result = error.result
    assert result.diverged == (error.round, 2)
    assert result.rounds == error.round
    assert result.iterates.shape == (error.round + 1, 1)
    assert np.all(np.isfinite(result.history["loss"][:-1]))
    assert not np.isfinite(result.history["loss"][-1])
    np.testing.assert_array_equal(result.x, result.iterates[-2])


@pytest.mark.parametrize("interpreter", [ud.run, ud.loopback])
def test_studies_of_divergence_go_on(interpreter):
    result = interpreter(ud.fedavg(eta=1.0), one_bad_client(), rounds=8, steps=3, on_divergence="continue", x0=[2.0])
    assert result.rounds == 8
    assert result.history["loss"].shape == (9,)
    assert not np.isfinite(result.history["loss"][-1])
    assert result.diverged is not None
    assert result.summary()["final"]["loss"] is None


def test_a_loss_that_is_not_finite_from_the_start():
    problem = ud.problems.custom(lambda x, t: jnp.sum(jnp.log(x - t)), np.array([[0.0], [5.0]]), 1)
    with pytest.raises(ud.DivergenceError, match=r"in round 0, first at client 1") as caught:
        ud.run(ud.fedsgd(eta=0.1), problem, rounds=5, x0=[1.0])
    assert caught.value.result.rounds == 0


def test_what_a_diverged_run_keeps_can_be_saved(tmp_path):
    with pytest.raises(ud.DivergenceError) as caught:
        ud.run(ud.fedsgd(eta=1e300), one_bad_client(), rounds=5, x0=[2.0])
    folder = caught.value.result.save(tmp_path / "run")
    assert (folder / "history.csv").read_text().startswith("round,loss")


def test_saved_results_read_back_exactly(tmp_path):
    problem = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    result = ud.run(ud.fedlin(eta=0.1), problem, rounds=5, steps=3, keep_iterates=True)
    folder = result.save(tmp_path)
    table = np.genfromtxt(folder / "history.csv", delimiter=",", names=True)
    for name, column in result.history.items():
        np.testing.assert_array_equal(table[name], column)
    np.testing.assert_array_equal(np.load(folder / "model.npy"), result.x)
    np.testing.assert_array_equal(np.load(folder / "iterates.npy"), result.iterates)


@pytest.mark.parametrize("interpreter", [ud.run, ud.loopback])
def test_where_rounds_are_not_evaluated_the_error_says_since_when(interpreter):
    """The loss, of the order of x², overflows long before x does, in a round that nobody looks at."""
    steep = ud.problems.quadratic(np.full((2, 1, 1), 1e9), np.ones((2, 1)))
    arguments = {"rounds": 30, "x0": [1.0], "keep_iterates": True}
    with pytest.raises(ud.DivergenceError, match=r"not finite in round 17, first at") as caught:
        interpreter(ud.fedsgd(eta=1.0), steep, **arguments)
    exact = caught.value
    assert exact.result.diverged_between == (17, 17)
    with pytest.raises(
        ud.DivergenceError,
        match=r"not finite in round 21; it stopped being so between rounds 15 and 21, first at client 0\.",
    ) as caught:
        interpreter(ud.fedsgd(eta=1.0), steep, **arguments, record_every=7)
    result = caught.value.result
    assert caught.value.round == result.diverged[0] == result.rounds == 21
    assert result.diverged_between == (15, 21)
    assert result.summary()["diverged"] == {"round": 21, "client": 0, "not_before": 15}
    np.testing.assert_array_equal(result.x, result.iterates[14])  # the last one whose loss was seen to be finite


def test_a_model_that_is_not_finite_is_seen_in_any_round():
    steep = ud.problems.quadratic(np.full((2, 1, 1), 1e60), np.ones((2, 1)))
    with pytest.raises(ud.DivergenceError, match=r"in round 6; it stopped being so between rounds 1 and 6, ") as caught:
        ud.run(ud.fedsgd(eta=1.0), steep, rounds=30, x0=[1.0], record_every=7)
    assert caught.value.result.rounds == 6
