"""Clipping and noise on the way up, and what is promised for them."""

from __future__ import annotations

import sys

import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import CLIENTS, DIM, UNEQUAL, WEIGHTS, least_squares_data, problem_of, quadratic_data

import undrift as ud
from everyday import only, share
from undrift import precision
from undrift.engine.epsilon import ORDERS, Epsilon, smallest_epsilon, why_not_amplified
from undrift.privacy import clipped, private_of

PARTIAL = {"participation": ud.plan.uniform(3), "failures": 0.25}
MAKE = {
    "fedavg": lambda: ud.fedavg(eta=0.05),
    "scaffold": lambda: ud.scaffold(eta=0.05),
    "fedlin": lambda: ud.fedlin(eta=0.1),
    "fedsplit": lambda: ud.fedsplit(s=0.5),
    "fednova": lambda: ud.fednova(eta=0.05),
}


def promise(method, rounds=10, problem=None, **arguments):
    """What is counted of a run, which need not be played."""
    return Epsilon.of(ud.describe(method, problem or problem_of(quadratic_data()), rounds=rounds, **arguments))


def many(clients=100):
    return ud.problems.quadratic(np.ones((clients, 1, 1)), np.ones((clients, 1)))


# ----- clipping
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("length", [1e-30, 0.5, 1.0, 3.0, 1e12])
def test_the_norm_of_a_whole_message_is_never_exceeded(dtype, length):
    rng = np.random.default_rng(0)
    with precision.scope(np.dtype(dtype)):
        message = (jnp.asarray(rng.normal(size=7), dtype), jnp.asarray(rng.normal(size=(2, 3)), dtype))
        norm = np.sqrt(sum(float(jnp.sum(part**2)) for part in message))
        message = tuple(part * (length / norm) for part in message)
        sent = clipped(message, 1.0)
        after = np.sqrt(sum(np.sum(np.asarray(part, np.float64) ** 2) for part in sent))
    assert after <= 1 + 8 * np.finfo(dtype).eps
    np.testing.assert_allclose(after, min(length, 1.0), rtol=1e-5)
    if length < 1:
        assert all(np.array_equal(a, b) for a, b in zip(sent, message, strict=True))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_what_is_not_finite_is_sent_as_zero(bad):
    sent = clipped((jnp.array([1.0, bad, bad], jnp.float32), jnp.array(3)), 1.0)
    np.testing.assert_array_equal(sent[0], 0)
    assert int(sent[1]) == 3


@pytest.mark.parametrize("name", only(["fedavg", "fedlin", "fedsplit"], {"fedlin", "fedsplit"}))
def test_a_round_without_noise_moves_the_model_by_the_clip_at_most(name):
    """Differences are clipped as they are, models around where the client started."""
    problem = problem_of(quadratic_data())
    method = ud.private(MAKE[name](), clip=0.01, noise=0.0)
    result = ud.run(method, problem, rounds=5, steps=4, x0=np.full(DIM, 50.0), keep_iterates=True)
    moved = np.linalg.norm(np.diff(result.iterates, axis=0), axis=1)
    assert np.all(moved <= 0.01 * (1 + 1e-9))
    assert moved.max() > 5e-4  # FedLin's direction is a mean of clipped gradients too
    assert np.isinf(result.history["epsilon"][1:]).all()


@pytest.mark.parametrize("name", only(["fedavg", "fedlin"], {"fedlin"}))
def test_a_clip_that_nobody_reaches_changes_nothing(name):
    problem = problem_of(quadratic_data())
    plain, wide = (
        ud.run(m, problem, rounds=5, steps=3) for m in (MAKE[name](), ud.private(MAKE[name](), clip=1e6, noise=0.0))
    )
    np.testing.assert_allclose(wide.x, plain.x, rtol=1e-12)


# ----- noise
def still(clients, dim):
    """Nobody wants to move, so that all that happens is noise."""
    return ud.problems.quadratic(np.broadcast_to(np.eye(dim), (clients, dim, dim)).copy(), np.zeros((clients, dim)))


DEVIATIONS = {"client": 0.5 * 3 / np.sqrt(4), "server": 0.5 * 3 / 4}


@pytest.mark.parametrize("where", only(DEVIATIONS, {"client"}))
def test_noise_of_a_round_has_the_deviation_that_is_said(where):
    """FedSGD's step is the mean message: x_1 = −η·noise. 4·10⁴ numbers: the deviation is known to 0.35 % (one σ)."""
    expected = DEVIATIONS[where]
    method = ud.private(ud.fedsgd(eta=1.0), clip=3.0, noise=0.5, where=where)
    result = ud.run(method, still(4, 200), rounds=200, keep_iterates=True)
    # x_t = x_{t−1} − (x_{t−1} clipped + noise): the noise is what is left of the clipped step, which is the same for all.
    before = result.iterates[:-1]
    norms = np.linalg.norm(before, axis=1, keepdims=True)
    step = before * np.minimum(1, 3.0 / np.maximum(norms, 3.0 * 1e-12))
    noise = -(np.diff(result.iterates, axis=0) + step)
    np.testing.assert_allclose(noise.std(), expected, rtol=0.02)
    assert abs(noise.mean()) < 5 * expected / np.sqrt(noise.size)
    assert abs(np.mean(noise[1:] * noise[:-1])) < 5 * expected**2 / np.sqrt(noise[1:].size)  # drawn anew every round


def test_central_noise_covers_the_largest_weight():
    """Shares 1/2, 1/4, 1/8, 1/8: noise for one half."""
    weights = np.array([4.0, 2.0, 1.0, 1.0])
    problem = ud.problems.quadratic(
        np.broadcast_to(np.eye(200), (4, 200, 200)).copy(), np.zeros((4, 200)), weights=weights
    )
    method = ud.private(ud.fedsgd(eta=1.0), clip=1.0, noise=2.0, where="server")
    first = np.array([ud.run(method, problem, rounds=1, seed=seed).x for seed in range(30)])
    np.testing.assert_allclose(first.std(), 2.0 * 0.5, rtol=0.04)


def test_central_noise_grows_when_fewer_answer():
    method = ud.private(ud.fedsgd(eta=1.0), clip=1.0, noise=2.0, where="server")
    arguments = {"participation": ud.plan.rule(lambda t, key: [0, 1], 2), "failures": 0.5}
    problem = still(4, 200)
    seen = {0: [], 1: [], 2: []}
    for seed in range(40):
        run = ud.describe(method, problem, rounds=1, seed=seed, **arguments)
        answered = int(run.plan.draw(1, 1).answered.sum())
        seen[answered].append(ud.run(method, problem, rounds=1, seed=seed, **arguments).x.std())
    assert not np.any(seen[0])  # nobody answered: nothing happens
    np.testing.assert_allclose(np.mean(seen[1]), 2.0, rtol=0.05)
    np.testing.assert_allclose(np.mean(seen[2]), 1.0, rtol=0.05)


# ----- interpreters
PLAYED = [(name, where) for name in MAKE for where in ("client", "server")]
OFTEN = {("fedlin", "client")}


@pytest.mark.parametrize("played", only(PLAYED, OFTEN), ids="-".join)
def test_simulation_equals_message_passing(played):
    name, where = played
    problem = problem_of(least_squares_data(weights=WEIGHTS))
    method = ud.private(MAKE[name](), clip=0.5, noise=0.7, where=where)
    a, b = (play(method, problem, rounds=3, steps=UNEQUAL, **PARTIAL) for play in (ud.run, ud.loopback))
    np.testing.assert_allclose(a.x, b.x, rtol=1e-9, atol=1e-12)
    for column in ("epsilon", "bytes_up", "bytes_down"):
        np.testing.assert_array_equal(a.history[column], b.history[column])


def test_resumed_is_bit_equal_epsilon_included(tmp_path):
    problem = problem_of(quadratic_data())
    method = ud.private(MAKE["fedavg"](), clip=0.5, noise=0.7)
    whole = ud.run(method, problem, rounds=8, steps=3, **PARTIAL)
    ud.run(method, problem, rounds=5, steps=3, checkpoint=tmp_path, **PARTIAL)
    resumed = ud.run(method, problem, rounds=8, steps=3, checkpoint=tmp_path, resume=True, **PARTIAL)
    np.testing.assert_array_equal(resumed.x, whole.x)
    np.testing.assert_array_equal(resumed.history["epsilon"], whole.history["epsilon"])


def test_another_delta_is_another_run(tmp_path):
    problem = problem_of(quadratic_data())
    run = {"rounds": 3, "steps": 3, "checkpoint": tmp_path}
    ud.run(ud.private(MAKE["fedavg"](), clip=0.5, noise=0.7), problem, **run)
    with pytest.raises(ud.CheckpointError):
        ud.run(ud.private(MAKE["fedavg"](), clip=0.5, noise=0.7, delta=1e-6), problem, resume=True, **run)


def test_a_grid_of_noises_is_one_program():
    problem = problem_of(quadratic_data())
    noises = [0.0, 0.5, 1.0]

    def make(noise):
        return ud.private(MAKE["fedavg"](), clip=0.5, noise=noise)

    assert len({make(noise).recipe for noise in noises}) == 1
    swept = ud.sweep(make, problem, grid={"noise": noises}, seeds=2, rounds=4, steps=3)
    for place, noise in enumerate(noises):
        single = ud.run(make(noise), problem, rounds=4, steps=3, seed=1)
        np.testing.assert_allclose(swept.x[place, 1], single.x, rtol=1e-9)
        np.testing.assert_array_equal(swept.history["epsilon"][place, 1], single.history["epsilon"])


# ----- what is promised
def exact_epsilon(multiplier, delta):
    """The smallest ε of a Gaussian mechanism: Balle and Wang (2018), Theorem 8, by bisection."""
    from scipy.stats import norm

    def spent(epsilon):
        a = 1 / (2 * multiplier) - epsilon * multiplier
        b = -1 / (2 * multiplier) - epsilon * multiplier
        return norm.cdf(a) - np.exp(epsilon + norm.logcdf(b))

    low, high = 0.0, 1e4
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle) > delta else (low, middle)
    return high


@pytest.mark.parametrize("noise", [2.0, 20.0, 200.0])
@pytest.mark.parametrize("where", ["client", "server"])
def test_epsilon_is_a_tight_upper_bound_of_the_exact_one(noise, where):
    """k Gaussian mechanisms of multiplier σ/2 are one of σ/(2√k), whose ε is known exactly."""
    counted = promise(ud.private(ud.fedsgd(eta=0.1), clip=7.0, noise=noise, where=where), rounds=50).rows(0, 51)
    assert counted[0] == 0
    for k in (1, 7, 50):
        exact = exact_epsilon(noise / 2 / np.sqrt(k), 1e-5)
        assert exact <= counted[k] <= 1.25 * exact + 0.01


def test_many_rounds_at_once_are_what_the_package_says_of_one():
    import dp_accounting as dp

    def counter():
        return dp.rdp.RdpAccountant(ORDERS, dp.NeighboringRelation.REPLACE_ONE)

    counted = promise(ud.private(ud.fedsgd(eta=0.1), clip=1.0, noise=3.0, delta=1e-7), rounds=20).rows(0, 21)
    for k in (1, 5, 20):
        expected = counter().compose(dp.GaussianDpEvent(1.5), k).get_epsilon(1e-7)
        np.testing.assert_allclose(counted[k], expected, rtol=1e-12)
    method = ud.private(ud.fedsgd(eta=0.1), clip=1.0, noise=8.0, where="server")
    sampled = promise(method, 20, many(), participation=ud.plan.uniform(2)).rows(0, 21)
    event = dp.SampledWithoutReplacementDpEvent(100, 2, dp.GaussianDpEvent(4.0))
    for k in (1, 5, 20):
        expected = counter().compose(event, k).get_epsilon(1e-5)
        assert sampled[k] <= expected * (1 + 1e-12)
        np.testing.assert_allclose(sampled[k], expected, rtol=0.05)  # the plain curve is smaller at some orders
    assert smallest_epsilon(np.zeros((1, len(ORDERS))), 1e-5)[0] == 0


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("where", ["client", "server"])
def test_epsilon_never_falls_and_more_noise_is_less(name, where):
    rows = [
        promise(ud.private(MAKE[name](), 1.0, noise, where=where), 30, **PARTIAL).rows(0, 31) for noise in (2.0, 8.0)
    ]
    assert np.all(np.diff(rows[0]) >= 0)
    assert np.all(rows[1][1:] < rows[0][1:])


def test_fedlin_releases_two_messages_a_round_and_one_at_the_start():
    """Round t of FedLin is what 1 + 2t rounds of FedSGD are."""
    lin, sgd = (promise(ud.private(m, clip=1.0, noise=9.0), 20).rows(0, 21) for m in (ud.fedlin(0.1), ud.fedsgd(0.1)))
    np.testing.assert_allclose(lin[:10], sgd[1:21:2], rtol=1e-12)
    silent = promise(ud.private(ud.fedlin(0.1, first_direction=np.ones(DIM)), clip=1.0, noise=9.0)).rows(0, 2)
    assert silent[0] == 0  # nothing is sent up at the start
    np.testing.assert_allclose(silent[1], sgd[2])


def test_without_amplification_the_client_that_is_asked_most_often_counts():
    method = ud.private(ud.fedsgd(eta=0.1), clip=1.0, noise=9.0)
    every = promise(method, 30).rows(0, 31)
    some = promise(method, 30, participation=ud.plan.permuted(1)).rows(0, 31)
    np.testing.assert_allclose(some, every[np.ceil(np.arange(31) / CLIENTS).astype(int)])  # once in five rounds
    who = ud.plan.uniform(2)
    cohorts = who.cohorts(0, range(1, 31), CLIENTS)
    most = [np.bincount(cohorts[:t].ravel(), minlength=CLIENTS).max() for t in range(31)]
    np.testing.assert_allclose(promise(method, 30, participation=who).rows(0, 31), every[most])
    # Whether a member answers changes nothing, and counting may begin in the middle.
    np.testing.assert_allclose(promise(method, 30, participation=who, failures=0.5).rows(7, 24), every[most[7:]])
    rule = ud.plan.rule(lambda t, key: [0], 1)
    np.testing.assert_allclose(promise(method, 30, participation=rule).rows(0, 31), every)


def test_sampling_amplifies_only_where_that_is_known():
    def reason(method, problem=None, participation=None, **arguments):
        participation = ud.plan.uniform(2) if participation is None else participation
        run = ud.describe(method, problem or many(), rounds=3, participation=participation, **arguments)
        found = why_not_amplified(run, private_of(run.recipe))
        assert Epsilon.of(run).amplified == (not found)
        return found

    def central(method, **arguments):
        return ud.private(method, clip=1.0, noise=3.0, where="server", **arguments)

    assert reason(central(ud.fedavg(eta=0.1))) == ""
    assert reason(central(ud.fedavg(eta=0.1)), failures=0.3) == ""
    assert "clients add" in reason(ud.private(ud.fedavg(eta=0.1), clip=1.0, noise=3.0))
    assert "public" in reason(central(ud.fedavg(eta=0.1), cohorts="public"))
    assert "everyone" in reason(central(ud.fedavg(eta=0.1)), participation=ud.plan.full())
    assert "everyone" in reason(central(ud.fedavg(eta=0.1)), participation=ud.plan.uniform(100))
    assert "only for" in reason(central(ud.fedavg(eta=0.1)), participation=ud.plan.permuted(2))
    assert "only for" in reason(central(ud.fedavg(eta=0.1)), participation=ud.plan.rule(lambda t, key: [0, 1], 2))
    assert "remember" in reason(central(ud.scaffold(eta=0.1)))
    assert "remember" in reason(central(ud.fedlin(eta=0.1, exchanges=1)))
    assert "more than one release" in reason(central(ud.fedlin(eta=0.1)))
    assert "whole numbers" in reason(central(ud.fednova(eta=0.1)))
    weighted = ud.problems.quadratic(np.ones((100, 1, 1)), np.ones((100, 1)), weights=np.arange(1.0, 101.0))
    assert "weights" in reason(central(ud.fedavg(eta=0.1)), weighted)
    assert "deployed" in reason(central(ud.fedavg(eta=0.1)), plan=ud.plan.Absences())
    amplified = promise(central(ud.fedavg(eta=0.1)), 50, many(), participation=ud.plan.uniform(2)).rows(0, 51)
    plain = promise(central(ud.fedavg(eta=0.1)), 50, many()).rows(0, 51)
    assert np.all(amplified[1:] < plain[1:])


# ----- what is refused
def test_a_server_that_looks_at_single_messages_is_refused():
    def peeking(server, slots, ups, cohort):
        return server + ups[0], slots

    def twice(server, slots, ups, cohort):
        return server + cohort.mean(ups) + cohort.total(ups), slots

    def method(receive):
        step = ud.Exchange("step", lambda x, slot: x, lambda memory, x, local: (memory, local.gradient(x)), receive)
        return ud.private(ud.Algorithm((step,)), clip=1.0, noise=1.0, where="server")

    problem = problem_of(quadratic_data())
    for receive, words in ((peeking, "looks at single"), (twice, "twice")):
        for play in (ud.run, ud.loopback):
            with pytest.raises(ud.InputError, match=words):
                play(method(receive), problem, rounds=1)
    stacked = method(lambda server, slots, ups, cohort: (server + jnp.sum(ups, axis=0), slots))
    with pytest.raises(ud.InputError, match="looks at single"):
        ud.run(stacked, problem, rounds=1)


def test_a_model_without_a_centre_is_refused():
    step = ud.Exchange(
        "step",
        lambda x, slot: x,
        lambda memory, x, local: (memory, x - local.gradient(x)),
        lambda server, slots, ups, cohort: (cohort.mean(ups, around=server), slots),
        ud.Account(endpoint=lambda x, y: y),
    )
    with pytest.raises(ud.InputError, match="sends a model"):
        ud.private(ud.Algorithm((step,)), clip=1.0, noise=1.0)
    ud.private(ud.Algorithm((step._replace(centre=lambda memory, x: x),)), clip=1.0, noise=1.0)


@pytest.mark.parametrize("where", only(["client", "server"], {"client"}))
def test_noise_comes_before_compression(where):
    problem = problem_of(quadratic_data())
    local = ud.compressed(ud.private(MAKE["fedavg"](), clip=0.5, noise=0.7), up=ud.top_k(2), down=ud.top_k(3))
    down = ud.private(ud.compressed(MAKE["fedavg"](), down=ud.top_k(3)), clip=0.5, noise=0.7, where="server")
    method = local if where == "client" else down
    a, b = (play(method, problem, rounds=4, steps=3) for play in (ud.run, ud.loopback))
    np.testing.assert_allclose(a.x, b.x, rtol=1e-9)
    assert a.history["epsilon"][-1] > 0


def test_without_the_package_a_run_fails_before_it_begins(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    problem, seen = problem_of(quadratic_data()), []
    with pytest.raises(ud.InputError, match=r"undrift\[dp\]"):
        ud.run(ud.private(MAKE["fedavg"](), clip=1.0, noise=1.0), problem, rounds=2, observe=seen.append)
    assert not seen
    ud.run(ud.private(MAKE["fedavg"](), clip=1.0, noise=0.0), problem, rounds=2, steps=3)  # promises nothing


def test_the_package_is_not_imported_before_it_is_needed():
    import subprocess

    told = "import sys, undrift as ud; ud.run; ud.private; print('dp_accounting' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.slow
def test_on_a_mesh_and_with_rows_on_disk_it_is_the_same_run(tmp_path):
    problem = problem_of(least_squares_data(weights=WEIGHTS))
    method = ud.private(MAKE["scaffold"](), clip=0.5, noise=0.7, where="server")
    plain = ud.run(method, problem, rounds=4, steps=UNEQUAL, **PARTIAL)
    for where in ({"mesh": True}, {"store": tmp_path}):
        other = ud.run(method, problem, rounds=4, steps=UNEQUAL, **where, **PARTIAL)
        np.testing.assert_allclose(other.x, plain.x, rtol=1e-9)
        np.testing.assert_array_equal(other.history["epsilon"], plain.history["epsilon"])


def test_models_are_clipped_around_what_a_client_holds_of_a_compressed_one():
    """Not around the message, which says only what is new to the client."""
    down = ud.top_k(2, memory="difference")
    method = ud.private(ud.compressed(ud.fedlin(eta=1e-3), down=down, exchange="local"), clip=1.0, noise=0.0)
    x0 = np.full(DIM, 1e3)
    result = ud.run(method, problem_of(quadratic_data()), rounds=4, x0=x0, participation=ud.plan.uniform(3))
    assert 0 < np.linalg.norm(result.x - x0) < 10  # four moves of at most 1, and what a client is not yet told of them


EXTREMES = [(where, noise) for where in ("client", "server") for noise in (1e-200, 1e200)]


@pytest.mark.parametrize("extreme", share(EXTREMES, 0), ids=lambda extreme: "{}-{}".format(*extreme))
def test_epsilon_of_hardly_any_noise_and_of_nothing_else_is_a_number(extreme):
    where, noise = extreme
    expected = np.inf if noise < 1 else 0.0
    method = ud.private(ud.fedavg(eta=0.1), clip=1.0, noise=noise, where=where)
    arguments = {"participation": ud.plan.uniform(3), "on_divergence": "continue"}
    epsilon = ud.run(method, still(5, 2), rounds=2, **arguments).history["epsilon"]
    np.testing.assert_array_equal(epsilon[[0, -1]], [0.0, expected])
