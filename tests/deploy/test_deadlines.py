"""With a deadline a run goes on without the sites that are silent, and its trace replays it."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest
from chaos import BAD, Book, Chaos, Federation
from federations import UNEQUAL, least_squares, logistic

import undrift as ud
from undrift import randomness
from undrift.deploy.conversation import Conversation
from undrift.deploy.coordinator import Coordinator
from undrift.deploy.frames import Ask, Committed

DEADLINE, ROUNDS = 10.0, 12
LATE = {"deadline": DEADLINE}


@functools.cache
def scaffold(rounds: int = ROUNDS) -> Federation:
    return Federation(ud.scaffold(eta=0.05), logistic(), rounds=rounds, seed=3, plan=ud.plan.Absences(), **UNEQUAL)


def rows_of(file):
    """The rounds of a trace as they count."""
    head, *rows = (json.loads(line) for line in file.read_text().splitlines())
    assert head["deadline"] == DEADLINE
    return list({row["round"]: row for row in rows}.values())


def silent(row):
    return [i for i, here in zip(row["ids"], row["answered"], strict=True) if not here]


def play(own: Federation, chaos: Chaos, folder, **talk):
    """The run, after its replay by message passing gave the same bits, and the rounds of its trace."""
    file = folder / "trace.jsonl"
    result = own.play(chaos, Book(file, DEADLINE), **LATE, **talk)
    replayed = own.passed(plan=ud.plan.trace(file))
    np.testing.assert_array_equal(result.x, replayed.x)
    return result, rows_of(file)


def test_a_site_that_hangs_for_ever(tmp_path):
    own = scaffold()
    chaos = own.chaos(0)

    def hangs(site, frame):
        if site == "s1" and isinstance(frame, Ask) and frame.round == 3:
            chaos.hung.add(site)
        return False

    chaos.ignores = hangs
    result, rows = play(own, chaos, tmp_path)
    assert result.rounds == ROUNDS
    assert [silent(row) for row in rows] == [[], []] + [[1]] * (ROUNDS - 2)
    assert [row["why"].get("1") for row in rows[2:8]] == ["late", "late", "resting", "late", "resting", "resting"]
    replayed = own.simulated(plan=ud.plan.trace(tmp_path / "trace.jsonl"))
    np.testing.assert_allclose(result.x, replayed.x, rtol=0, atol=1e-12)


def test_a_site_that_is_always_late_is_tried_ever_more_rarely_and_taken_back(tmp_path):
    own = scaffold(rounds=40)
    chaos = own.chaos(0)

    def slow_until(site, frame):
        late = isinstance(frame, Ask) and 1 <= frame.round < 30
        chaos.slow["s2"] = 2.5 * DEADLINE if late else 0.0
        return False

    chaos.ignores = slow_until
    _, rows = play(own, chaos, tmp_path)
    tried = [row["round"] for row in rows if row["attempts"] > 1]
    assert tried == [1, 2, 4, 8, 16], "each of them cost a deadline, and no other round"
    assert [row["round"] for row in rows if not silent(row)] == list(range(32, 41))


def test_everybody_is_too_slow_for_the_deadline(tmp_path):
    """Then there is nobody to go on with, and the deadline grows."""
    own = scaffold()
    chaos = own.chaos(0)
    chaos.slow = dict.fromkeys(own.names, 2.5 * DEADLINE)
    result, _ = play(own, chaos, tmp_path)
    assert result.rounds == ROUNDS


def test_nobody_is_left_so_the_run_waits(tmp_path):
    own = scaffold()
    chaos = own.chaos(0)

    def all_go(site, frame):
        if isinstance(frame, Ask) and frame.round == 4 and not chaos.down and chaos.now < 500:
            for name in own.names:
                chaos.stay_away(name)
            chaos.after(1000.0, lambda: [chaos.come_back(name) for name in own.names[:3]] and None)
        return False

    chaos.ignores = all_go
    result, rows = play(own, chaos, tmp_path)
    assert result.rounds == ROUNDS
    assert chaos.now > 1000
    assert [silent(row) for row in rows[:3]] == [[], [], []]
    assert all(silent(row) for row in rows[3:])
    assert all(silent(row) == [3] for row in rows[4:])


def test_a_deadline_during_the_commit(tmp_path):
    own = scaffold()
    chaos = own.chaos(0)
    chaos.spoil = lambda site, frame: (
        None if isinstance(frame, Committed) and site == "s1" and frame.round == 2 else frame
    )
    _, rows = play(own, chaos, tmp_path)
    assert [silent(row) for row in rows] == [[], [1], *([[]] * (ROUNDS - 2))]
    assert rows[1]["why"] == {"1": "late"}


def test_absent_sites_are_no_divergence_and_stop_rules_cope(tmp_path):
    own = Federation(
        ud.fedsgd(eta=0.1),
        least_squares(),
        rounds=30,
        seed=3,
        plan=ud.plan.Absences(),
        stop=ud.stop.at(grad_norm=1e-3) | ud.stop.patience(25),
        per_client=True,
    )
    chaos = own.chaos(0)

    def away(site, frame):
        if site == "s0" and isinstance(frame, Ask) and frame.round == 3:
            chaos.stay_away(site)
            chaos.after(200.0, lambda: chaos.come_back(site))
            return True
        return False

    chaos.ignores = away
    file = tmp_path / "trace.jsonl"
    result = own.play(chaos, Book(file, DEADLINE), **LATE)
    loss = result.history["loss"]
    assert np.isnan(loss[3:]).any()
    assert np.isfinite(loss[:3]).all()
    assert result.diverged is None
    assert np.isfinite(result.clients["loss"][3:, 1:]).all(), "the others were measured"
    assert np.isnan(result.clients["loss"][4, 0])
    replayed = own.simulated(plan=ud.plan.trace(file), stop=None, rounds=result.rounds)
    np.testing.assert_allclose(result.x, replayed.x, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [12, 200])
def test_a_third_of_twenty_sites_fails_at_random(tmp_path, rounds):
    """Every way of failing: it says nothing, its process dies and comes back much later, or it is too slow."""
    rng = np.random.default_rng(0)
    twenty = ud.problems.least_squares(rng.normal(size=(20, 4, 3)), rng.normal(size=(20, 4)))
    own = Federation(ud.scaffold(eta=0.02), twenty, rounds=rounds, seed=3, steps=2, plan=ud.plan.Absences())
    chaos = own.chaos(0)

    def fails(site, frame):
        chaos.slow[site] = 0.0
        if not isinstance(frame, Ask) or frame.round == 0:
            return False
        i = own.names.index(site)
        chance = float(randomness.uniform(7, frame.round, np.asarray([i]))[0])
        if chance < 0.1:
            return True
        if chance < 0.2:
            chaos.stay_away(site)
            chaos.after(3 * DEADLINE, lambda: chaos.come_back(site))
        elif chance < 0.3:
            chaos.slow[site] = 1.5 * DEADLINE
        return False

    chaos.ignores = fails
    result, rows = play(own, chaos, tmp_path)
    assert result.rounds == len(rows) == rounds
    absent = np.mean([len(silent(row)) / 20 for row in rows])
    assert 0.2 < absent < 0.7
    replayed = own.simulated(plan=ud.plan.trace(tmp_path / "trace.jsonl"))
    np.testing.assert_allclose(result.x, replayed.x, rtol=0, atol=1e-12)


METHODS = {
    "scaffold": lambda: scaffold(5),
    "fedlin": functools.cache(
        lambda: Federation(
            ud.fedlin(eta=0.05, up=ud.top_k(2), down=ud.top_k(2)),
            logistic(),
            rounds=5,
            seed=3,
            plan=ud.plan.Absences(),
            participation=ud.plan.uniform(3),
            failures=0.2,
            steps=ud.plan.random_steps(1, 3),
        )
    ),
    "sequential_fl": functools.cache(
        lambda: Federation(ud.sequential_fl(eta=0.05), logistic(), rounds=5, seed=3, plan=ud.plan.Absences(), steps=2)
    ),
}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 30))])
@pytest.mark.parametrize("name", METHODS)
def test_chaos_with_a_deadline_replays(tmp_path, name, seed):
    """Sites are also away for longer than the deadline, and the server dies between the trace and its checkpoint."""
    own = METHODS[name]()
    chaos = own.chaos(seed, BAD)

    def leaves(site, frame):
        if chaos.random.random() < 0.01:
            chaos.stay_away(site)
            chaos.after(chaos.random.uniform(1.0, 10 * DEADLINE), lambda: chaos.come_back(site))
        return False

    chaos.ignores = leaves
    result, rows = play(own, chaos, tmp_path, resend=4.0)
    assert len(rows) == result.rounds == 5
    replayed = own.passed(plan=ud.plan.trace(tmp_path / "trace.jsonl")).history
    for column, values in result.history.items():
        seen = np.isfinite(values)  # the rest is what somebody absent would have had to say
        np.testing.assert_array_equal(values[seen], replayed[column][seen], err_msg=column)


def test_a_deadline_needs_a_contract_that_knows_absences():
    own = Federation(ud.fedsgd(eta=0.1), least_squares(), rounds=2)
    talk = Conversation(own.chaos(0), own.names, lambda site, hello: None, deadline=1.0)
    with pytest.raises(ud.InputError, match=r"plan=ud\.plan\.Absences"):
        Coordinator(own.run.contract, talk, parts=own.parts)
