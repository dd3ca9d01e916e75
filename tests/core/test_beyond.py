"""FedLin and FedTrack past their papers: against naive references, by message passing, and where they lead."""

from __future__ import annotations

import numpy as np
import pytest
import references as ref
import references_beyond as beyond
from core_cases import CLIENTS, DIM, PARTIAL, UNEQUAL, WEIGHTS, changing, least_squares_data, logistic_data, problem_of
from test_message_passing import agree
from test_methods_against_references import same_iterates

import undrift as ud
from counts import costs
from everyday import only, share

DIFFERENCE = ud.top_k(2, memory="difference")
RANDOM = ud.random_k(3, memory="difference")

# what is played with everyone in every round, and with cohorts of three that may be silent
ANYWHERE = {
    "table": {"table": True},
    "table, kept": {"table": True, "correction": "kept"},
    "kept": {"correction": "kept"},
    "one exchange": {"exchanges": 1},
    "one exchange, fresh": {"exchanges": 1, "correction": "fresh"},
    "one exchange, table": {"exchanges": 1, "table": True},
    "one exchange, table, error feedback": {"exchanges": 1, "table": True, "up": ud.top_k(2), "down": ud.top_k(3)},
    "difference": {"up": DIFFERENCE},
    "difference, table": {"up": DIFFERENCE, "table": True},
    "random difference, kept": {"up": RANDOM, "table": True, "correction": "kept"},
    "difference, one exchange": {"up": RANDOM, "table": True, "exchanges": 1},
    "table, error feedback on both links": {"up": ud.top_k(2), "down": ud.top_k(3), "table": True},
    "models": {"up_model": ud.top_k(2)},
    "models by difference": {"up": DIFFERENCE, "up_model": RANDOM, "table": True},
    "models, one exchange": {"up_model": ud.random_k(3), "exchanges": 1, "table": True},
}
EVERY_ROUND = {
    "x down": {"down_model": DIFFERENCE},
    "x down, random": {"down_model": ud.scaled_sign(memory="difference"), "up_model": ud.top_k(3)},
    "g down": {"down": DIFFERENCE},
    "all four links": {"up": DIFFERENCE, "down": DIFFERENCE, "up_model": ud.top_k(3), "down_model": DIFFERENCE},
}
HARD = {"participation": ud.plan.uniform(3), "failures": 0.3}


@pytest.mark.parametrize("name", share({**ANYWHERE, **EVERY_ROUND}, 0, of=20, always=("all four links",)))
def test_everyone_in_every_round(name):
    settings = {**ANYWHERE, **EVERY_ROUND}[name]
    for seed, steps in enumerate((UNEQUAL, changing)):
        data = logistic_data(seed, WEIGHTS if seed else None)
        same_iterates(ud.fedlin(0.02, **settings), lambda w: beyond.fedlin(w, 0.02, **settings), data, steps=steps)


@pytest.mark.parametrize("name", share(ANYWHERE, 1, of=16))
def test_cohorts_and_silence(name):
    settings = ANYWHERE[name]
    for seed, steps in enumerate((UNEQUAL, ud.plan.random_steps(1, 5))):
        data = logistic_data(seed, WEIGHTS if seed else None)
        same_iterates(
            ud.fedlin(0.02, **settings), lambda w: beyond.fedlin(w, 0.02, **settings), data, steps=steps, seed=seed, **HARD
        )  # fmt: skip


def test_a_client_that_is_drawn_twice_counts_once_in_the_table():
    settings = {"table": True, "up": DIFFERENCE}
    same_iterates(
        ud.fedlin(0.02, **settings), lambda w: beyond.fedlin(w, 0.02, **settings), logistic_data(1, WEIGHTS), steps=changing,
        participation=ud.plan.uniform(4, replace=True),
    )  # fmt: skip


@pytest.mark.parametrize(
    "name", only(["table", "one exchange, table", "difference, one exchange"], {"difference, one exchange"})
)
def test_noisy_gradients_share_their_draws_with_the_reference(name):
    settings = ANYWHERE[name]
    same_iterates(
        ud.fedlin(0.02, **settings), lambda w: beyond.fedlin(w, 0.02, **settings), logistic_data(1), steps=UNEQUAL, seed=4,
        oracle=ud.oracles.noisy(0.5), **HARD,
    )  # fmt: skip


TRACK = {
    "table": {"table": True},
    "difference": {"up": DIFFERENCE},
    "difference, table": {"up": DIFFERENCE, "table": True},
    "error feedback on both links": {"up": ud.top_k(3), "down": ud.top_k(3)},
}
TRACKED = [
    (name, who, data) for name in TRACK for who in ("everyone", "cohorts") for data in ("least squares", "logistic")
]


@pytest.mark.parametrize("played", share(TRACKED, 1, of=20), ids="-".join)
def test_fedtrack(played):
    name, who, kind = played
    settings, plan = TRACK[name], {} if who == "everyone" else HARD
    data = least_squares_data(0, weights=WEIGHTS) if kind == "least squares" else logistic_data(1)
    same_iterates(
        ud.fedtrack(0.004, **settings), lambda w: beyond.fedtrack(w, 0.004, **settings), data, steps=UNEQUAL, **plan
    )  # fmt: skip


@pytest.mark.parametrize("name", share(ANYWHERE, 2, of=20))
def test_message_passing_plays_the_same(name):
    agree(ud.fedlin(eta=0.05, **ANYWHERE[name]), problem_of(logistic_data(0, WEIGHTS)), **PARTIAL)


@pytest.mark.parametrize("name", only(EVERY_ROUND, {"x down, random"}))
def test_message_passing_plays_the_same_in_every_round(name):
    agree(ud.fedlin(eta=0.05, **EVERY_ROUND[name]), problem_of(logistic_data(0, WEIGHTS)), steps=UNEQUAL)


@pytest.mark.parametrize(
    "settings", share([{"table": True}, {"up": DIFFERENCE, "table": True}, {"down": DIFFERENCE}], 1), ids=str
)
def test_message_passing_plays_fedtrack_the_same(settings):
    plan = {"steps": UNEQUAL} if "down" in settings else PARTIAL
    agree(ud.fedtrack(eta=0.01, **settings), problem_of(logistic_data(0, WEIGHTS)), **plan)


# ----- links of other methods
AROUND = {
    "up": (DIFFERENCE, None),
    "down": (None, DIFFERENCE),
    "both, random": (RANDOM, ud.random_k(2, memory="difference")),
    "error feedback up": (ud.top_k(2), DIFFERENCE),
}
AROUND_ALL = [(links, who) for links in AROUND for who in ("everyone", "cohorts")]


@pytest.mark.parametrize("played", share(AROUND_ALL, 2, of=6), ids="-".join)
def test_differences_around_fedavg(played):
    (up, down), plan = AROUND[played[0]], {} if played[1] == "everyone" else HARD
    data = logistic_data(0, WEIGHTS)
    method = ud.compressed(ud.fedavg(eta=0.05), up=up, down=down)
    world = ref.World(
        data,
        ud.plan.Plan(CLIENTS, plan.get("participation", ud.plan.full()), UNEQUAL, plan.get("failures", 0.0), 0),
        12,
    )
    expected = ref.iterates(_fedavg(world, 0.05, up, down), np.zeros(DIM))
    result = ud.run(method, problem_of(data), rounds=12, steps=UNEQUAL, keep_iterates=True, **plan)
    np.testing.assert_allclose(result.iterates, expected, rtol=1e-9, atol=1e-12)
    agree(method, problem_of(data), steps=UNEQUAL, **plan)


def _fedavg(w, eta, up, down):
    """What is new to a client is sent to it, however many rounds it missed."""
    from undrift.links import _link_key

    x, sent, told = w.x0, np.zeros((w.m, DIM)), np.tile(w.x0, (w.m, 1))
    for t, cohort in w.rounds:
        moves = []
        for i, tau in cohort:
            down_key, up_key = (
                lambda i=i, t=t, own=own: _first(_link_key(w.key(t, "local", *([i] * own)))) for own in (0, 1)
            )
            told[i] = x if down is None else ref.transmit(down, told[i], x, down_key)[0]
            y = told[i]
            for k in range(tau):
                y = y - eta * w.G(i, y, t, "local", k)
            arrives, sent[i] = ref.transmit(up, sent[i], y - told[i], up_key)
            moves.append(arrives)
        if cohort:
            x = x + w.mean(cohort, moves)
        yield x


def _first(key):
    import jax

    return jax.random.fold_in(key, 0)


# ----- where they lead
@pytest.fixture(scope="module")
def hetero():
    """Ten least-squares clients that disagree."""
    rng = np.random.default_rng(5)
    A = rng.standard_normal((10, 20, 8))
    problem = ud.problems.least_squares(A, (A @ (3 * rng.standard_normal((10, 8, 1))))[..., 0])
    return problem, problem.constants.L


TAU = (1, 5, 2, 8, 3, 4, 6, 7, 9, 2)


def ends(method, problem, rounds=1500, **plan):
    return ud.run(method, problem, rounds=rounds, steps=TAU, record_every=rounds, **plan).history["sq_distance"][-1]


TABLES = {
    "fresh": {"table": True},
    "kept": {"table": True, "correction": "kept"},
    "one exchange": {"table": True, "exchanges": 1},
}
ARRIVALS = [(name, step) for name in TABLES for step in (0.2, 1.0)]  # of step / L


@pytest.mark.parametrize("arrival", only(ARRIVALS, {("fresh", 0.2), ("fresh", 1.0)}), ids=lambda a: f"{a[0]}-{a[1]}")
def test_a_table_arrives_under_partial_participation_where_the_paper_does_not(hetero, arrival):
    problem, L = hetero
    (name, step), few = arrival, ud.plan.uniform(4)
    assert ends(ud.fedlin(step / L), problem, participation=few) > 1e-2
    assert ends(ud.fedlin(step / L, **TABLES[name]), problem, participation=few) < 1e-24


@pytest.mark.slow
def test_differences_leave_no_floor_where_error_feedback_does(hetero):
    problem, L = hetero
    assert ends(ud.fedlin(0.25 / L, up=ud.top_k(2)), problem) > 1e-4
    assert ends(ud.fedlin(0.25 / L, up=DIFFERENCE), problem) < 1e-24
    assert ends(ud.fedlin(0.25 / L, up=DIFFERENCE, table=True), problem, participation=ud.plan.uniform(4)) < 1e-24


def test_compressed_models_arrive(hetero):
    problem, L = hetero
    whole = ud.fedlin(0.125 / L, up=DIFFERENCE, down=DIFFERENCE, up_model=ud.top_k(2), down_model=DIFFERENCE)
    assert ends(whole, problem, rounds=3000) < 1e-24


def test_one_exchange_is_scaffolds_option_1_with_first_gradients():
    """With τ steps everywhere and the same start, c_i = G_i(x_0): SCAFFOLD's first round with c_i = 0 only sets them."""
    problem = problem_of(logistic_data(0))
    tau, eta = 3, 0.06
    ours = ud.run(
        ud.fedlin(eta, exchanges=1, table=True, first_direction=np.zeros(DIM)), problem, rounds=20, steps=tau, **HARD
    )
    theirs = ud.run(ud.scaffold(eta / tau, option=1), problem, rounds=20, steps=tau, **HARD)
    np.testing.assert_allclose(ours.x, theirs.x, rtol=1e-10)


@pytest.mark.parametrize("settings", share([{}, {"table": True}, {"up": DIFFERENCE, "table": True}], 2), ids=str)
def test_a_first_direction_stands_for_every_gradient_until_it_is_heard_of(settings):
    """So that the first steps are corrected by G_i − g_1 + g_1 = G_i: FedAvg's."""
    problem = problem_of(logistic_data(0))
    first = problem.gradient(np.zeros(DIM))
    ours = ud.run(ud.fedlin(0.06, exchanges=1, first_direction=first, **settings), problem, rounds=1, steps=3, **HARD)
    theirs = ud.run(ud.fedavg(0.02), problem, rounds=1, steps=3, **HARD)
    np.testing.assert_allclose(ours.x, theirs.x, rtol=1e-12)


def test_where_nobody_misses_a_round_a_table_changes_nothing():
    problem = problem_of(logistic_data(0, WEIGHTS))
    plain, table = (ud.run(ud.fedlin(0.05, **s), problem, rounds=5, steps=UNEQUAL) for s in ({}, {"table": True}))
    np.testing.assert_array_equal(plain.x, table.x)
    assert plain.history["bytes_up"][-1] == table.history["bytes_up"][-1]


def test_bytes_and_gradients():
    problem, vector, top = problem_of(logistic_data(0)), 8 * DIM, 2 * 8 + 1
    few = {"steps": 3, "participation": ud.plan.uniform(2)}

    def spent(**settings):
        h = costs(ud.fedlin(0.05, **settings), problem, 4, **few)
        return [int(np.diff(h[name])[1:].max()) // 2 for name in ("bytes_up", "bytes_down", "gradients")]

    assert spent(table=True) == [2 * vector, 3 * vector, 3 + 1]
    assert spent(table=True, exchanges=1) == [2 * vector, 2 * vector, 3]
    assert spent(table=True, exchanges=1, up=DIFFERENCE) == [vector + top, 2 * vector, 3]
    assert spent(table=True, up=DIFFERENCE, up_model=DIFFERENCE) == [2 * top, 3 * vector, 3 + 1]


@pytest.mark.parametrize(
    ("settings", "plan", "words"),
    [
        ({"exchanges": 3}, {}, "exchanges=2"),
        ({"exchanges": True}, {}, "exchanges=2"),
        ({"table": 1}, {}, "table must be True or False"),
        ({"correction": "stale"}, {}, "fresh"),
        ({"up": 3}, {}, "up must be a compressor"),
        ({"up_model": "top_k"}, {}, "up_model must be a compressor"),
        ({"exchanges": 1, "down_model": DIFFERENCE}, {}, "one message"),
        ({"exchanges": 1, "down": DIFFERENCE}, {}, "one message"),
        ({"down_model": DIFFERENCE}, HARD, "may miss rounds"),
        ({"down": DIFFERENCE}, HARD, "may miss rounds"),
    ],
    ids=str,
)
def test_what_does_not_go_together_is_refused(settings, plan, words):
    with pytest.raises(ud.InputError, match=words):
        ud.run(ud.fedlin(0.05, **settings), problem_of(logistic_data(0)), rounds=1, **plan)


@pytest.mark.parametrize("memory", ["differences", 1, None])
def test_memory_is_one_of_three(memory):
    with pytest.raises(ud.InputError, match="error feedback"):
        ud.top_k(2, memory=memory)


@pytest.mark.parametrize(
    ("method", "links"),
    [
        (ud.ef21(0.05, up=ud.top_k(2)), {"up": ud.top_k(2)}),
        (ud.fedlin(0.05, up=ud.top_k(2)), {"up": ud.top_k(1, memory="difference"), "exchange": "gradient"}),
        (ud.fedlin(0.05, down=ud.top_k(2)), {"down": ud.top_k(1), "exchange": "local"}),
        (ud.fedlin(0.05, down=DIFFERENCE), {"down": DIFFERENCE, "exchange": "local"}),
        (ud.compressed(ud.fedavg(0.05), up=ud.top_k(2)), {"up": ud.top_k(2)}),
    ],
    ids=str,
)
def test_what_is_compressed_already_is_not_compressed_again(method, links):
    with pytest.raises(ud.InputError, match=r"is compressed already, and top_k.* say one compressor only"):
        ud.run(ud.compressed(method, **links), problem_of(logistic_data(0)), rounds=1)
