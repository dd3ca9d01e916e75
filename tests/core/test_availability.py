"""Who is there when: what a trace says, whom it lets be drawn, and what that does to a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from core_cases import CLIENTS, WEIGHTS, logistic_data, problem_of

import undrift as ud
from everyday import only
from undrift.plan import Plan, availability

ROUNDS = 6
TABLE = np.array([[1, 1, 0, 1, 1], [0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1], [0, 1, 0, 1, 0], [1, 0, 1, 0, 1]])


def there(absent="undrawn", **more):
    return availability(TABLE, absent, **more)


def plan(who, absent="undrawn", failures=0.0, seed=0, table=TABLE):
    bound = availability(table, absent, after="repeat").among(table.shape[1])
    return Plan(table.shape[1], who, 2, failures, seed, availability=bound)


FORMS = {
    "pairs": "round,client\n" + "".join(f"{t + 1},{i}\n" for t, i in np.argwhere(TABLE)),
    "flags": "client, available, round\n"
    + "".join(f"{i},{TABLE[t, i]},{t + 1}\n" for t in range(ROUNDS) for i in range(CLIENTS)),
    "spans": "client,from,to\n" + "".join(f"{i},{t + 1},{t + 1}\n" for t, i in np.argwhere(TABLE)) + "3,4,5\n",
    "columns": "round,4,3,2,1,0\n"
    + "".join(",".join(map(str, [t + 1, *TABLE[t, ::-1]])) + "\n" for t in range(ROUNDS)),
    "bare": "".join(",".join(map(str, row)) + "\n" for row in TABLE),
    "windows": "\ufeffROUND,Client\r\n" + "".join(f"{t + 1}, {i} \r\n" for t, i in np.argwhere(TABLE)) + "\r\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_all_forms_of_a_file_say_the_same(tmp_path, form):
    file = tmp_path / "trace.csv"
    file.write_text(FORMS[form], newline="")
    found = availability(file).among(CLIENTS)
    np.testing.assert_array_equal(found.rows(range(1, ROUNDS + 1)), TABLE)
    assert found.digest == there().among(CLIENTS).digest, "what it says is what it is, wherever that is written"


def test_clients_by_name(tmp_path):
    file = tmp_path / "trace.csv"
    file.write_text("client,from,to\nulm,2,3\nbonn,1,1\n1,1,3\n")
    found = availability(file, names=["bonn", "jena", "ulm"]).among(3)
    np.testing.assert_array_equal(found.rows(range(1, 4)), [[1, 1, 0], [0, 1, 1], [0, 1, 1]])


BAD = {
    "round,client\n1,0\n2,x\n": "line 3, column client: a client is a number 0 … 4, got 'x'",
    "round,client\n1,5\n": "line 2, column client: a client is a number 0 … 4, got '5'",
    "round,client\n0,1\n": "line 2, column round: a round is a whole number ≥ 1 and ≤ 2147483647, got '0'",
    "round,client\n1.5,1\n": "line 2, column round: .* got '1.5'",
    "round,client\n" + "9" * 300 + ",1\n": "line 2, column round: .* got '9999",
    "round,client\n2000000000,1\n": "line 2: a trace of 2000000000 rounds and 5 clients has more than .* entries",
    "round,client\n1,1\n2,1\n1,1\n": "line 4: client '1' in round 1 stands in line 2 already",
    "round,client\n1,1\n2,01\n": "line 3, column client: '01' and '1' are one client",
    "round,client\n1\n": r"line 2: a line has 2 cells \('round,client'\), got 1",
    "round,client\n": "names no round",
    "": "is empty",
    "round,client,available\n1,1,yes\n": "line 2, column available: .* got 'yes'",
    "client,from,to\n1,5,4\n": "line 2, column to: .* got 5 to 4",
    "client,from,to\n1,5,\n": "line 2, column to: a round is a whole number",
    "round,0,1,2,3,4\n1,1,1,1,1,2\n": "line 2, column 4: .* got '2'",
    "round,0,1,2,3,4\n2,1,1,1,1,1\n": "line 2, column round: rounds are 1, 2, …, one line each; got 2 where 1 comes",
    "round,0,1,2\n1,1,1,1\n": "line 1: the trace tells of 3 clients, the problem has 5",
    "1,0\n1,1\n": "line 1: the trace tells of 2 clients, the problem has 5",
    "1,0,1,1,1\n1,0,1,1\n": "line 2: a line has 5 cells .* got 4",
    "roundd,client\n1,1\n": "line 1: unknown column 'roundd': did you mean 'round'",
    "round,client,round\n1,1,1\n": "line 1, column round: the column stands there twice",
    'round,client\n1,"1\n': "line 3: this is no CSV|line 2: this is no CSV",
    "round,client\n1,\n": "line 2, column client: which client",
}


@pytest.mark.parametrize("content", BAD, ids=range(len(BAD)))
def test_files_that_are_none(tmp_path, content):
    file = tmp_path / "trace.csv"
    file.write_text(content)
    with pytest.raises(ud.InputError, match=BAD[content]):
        availability(file).among(CLIENTS)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: availability(Path("/no/such/trace.csv")), "does not exist"),
        (lambda: availability(Path("/")), "does not exist, or is no file"),
        (lambda: availability(TABLE, "away"), "unknown word for absent of a trace 'away'"),
        (lambda: availability(TABLE, after="stop"), "unknown word for after of a trace 'stop'"),
        (lambda: availability([[1, 2]]), "an array of 0 and 1"),
        (lambda: availability([1, 0]), "an array of 0 and 1"),
        (lambda: availability(None), "an array of 0 and 1"),
        (lambda: availability([]), "an array of 0 and 1"),
        (lambda: availability(TABLE, names=["a", "a"]), "different names, got 'a' more than once"),
        (lambda: availability(TABLE).among(4), "tells of 5 clients, the problem has 4"),
    ],
)
def test_bad_traces(make, text):
    with pytest.raises(ud.InputError, match=text):
        make()


def test_bytes_that_are_no_text(tmp_path):
    file = tmp_path / "trace.csv"
    for content, text in ((b"round,client\n1,\xff\n", "no text in UTF-8"), (b"round,client\n1,\x00\n", "line")):
        file.write_bytes(content)
        with pytest.raises(ud.InputError, match=text):
            availability(file).among(CLIENTS)


# ----- whom it lets be drawn
def test_only_those_that_are_there_are_drawn():
    rng = np.random.default_rng(0)
    table = rng.random((40, 7)) < 0.5
    for who in (ud.plan.uniform(3), ud.plan.uniform(4, replace=True), ud.plan.weighted(2).among(np.arange(1.0, 8))):
        made = plan(who, table=table)
        draw = made.draw(1, 40)
        here = np.take_along_axis(table, draw.ids, axis=1)
        np.testing.assert_array_equal(draw.answered, here)
        wanted = np.full(40, who.count) if not who.distinct else np.minimum(table.sum(axis=1), who.count)
        np.testing.assert_array_equal(here.sum(axis=1), np.where(table.any(axis=1), wanted, 0))
        if who.distinct:
            assert all(len(set(row)) == who.count for row in draw.ids.tolist())


def test_rounds_in_which_everyone_is_there_are_drawn_as_without_a_trace():
    full = np.ones((3, 9), int)
    full[1, 4] = 0
    for who in (ud.plan.uniform(3), ud.plan.uniform(4, replace=True), ud.plan.weighted(2).among(np.arange(1.0, 10))):
        with_trace, without = plan(who, table=full).draw(1, 3), Plan(9, who, 2, 0.0, 0).draw(1, 3)
        np.testing.assert_array_equal(with_trace.ids[[0, 2]], without.ids[[0, 2]])


def test_those_that_are_there_are_equally_likely():
    table = np.tile([[1, 0, 1, 1, 0, 1]], (3000, 1))
    draw = plan(ud.plan.uniform(2), table=table).draw(1, 3000)
    counts = np.bincount(draw.ids.ravel(), minlength=6)
    assert counts[[1, 4]].sum() == 0
    assert np.all(np.abs(counts[[0, 2, 3, 5]] - 1500) < 5 * np.sqrt(3000 * 0.25))


def test_the_same_draw_whatever_the_chunks():
    made = plan(ud.plan.uniform(3), failures=0.3)
    whole = made.draw(1, 12)
    for first, count in ((1, 1), (2, 5), (7, 6)):
        part = made.draw(first, count)
        for a, b in zip(part, whole.rows(first - 1, first - 1 + count), strict=True):
            np.testing.assert_array_equal(a, b)


def test_silent_ones_are_drawn_as_ever():
    without, made = Plan(CLIENTS, ud.plan.uniform(3), 2, 0.3, 4), plan(ud.plan.uniform(3), "silent", 0.3, 4)
    a, b = without.draw(1, ROUNDS), made.draw(1, ROUNDS)
    np.testing.assert_array_equal(a.ids, b.ids)
    np.testing.assert_array_equal(b.answered, a.answered & np.take_along_axis(TABLE.astype(bool), a.ids, axis=1))


def test_rules_of_ones_own_and_permutations_lose_whom_they_name():
    for who in (ud.plan.rule(lambda t, key: [0, 2], count=2), ud.plan.permuted(5)):
        made = plan(who)
        draw = made.draw(1, ROUNDS)
        np.testing.assert_array_equal(draw.ids, Plan(CLIENTS, who, 2, 0.0, 0).draw(1, ROUNDS).ids)
        np.testing.assert_array_equal(draw.answered, np.take_along_axis(TABLE.astype(bool), draw.ids, axis=1))


# ----- what it does to a run
@pytest.fixture(scope="module")
def problem():
    return problem_of(logistic_data(0, WEIGHTS))


PLAYED = [(absent, drawn) for absent in ("undrawn", "silent") for drawn in (None, 3)]


@pytest.mark.parametrize("case", only(PLAYED, {("silent", 3)}), ids=str)
def test_message_passing_plays_the_same(problem, case):
    absent, drawn = case
    who = None if drawn is None else ud.plan.uniform(drawn)
    arguments = {"rounds": ROUNDS, "steps": 2, "participation": who, "availability": there(absent)}
    for method in (ud.fedlin(eta=0.05, table=True), ud.sequential_fl(eta=0.05)):
        a, b = (play(method, problem, **arguments) for play in (ud.run, ud.loopback))
        np.testing.assert_allclose(a.x, b.x, rtol=1e-12)
        for name in ("bytes_up", "bytes_down", "gradients", "seconds_latency", "seconds_transfer"):
            np.testing.assert_allclose(a.history[name], b.history[name], err_msg=name)


def test_nobody_speaks_to_whom_nobody_can_draw(problem):
    told = {}
    for absent in ("undrawn", "silent"):
        history = ud.run(ud.fedavg(eta=0.05), problem, rounds=ROUNDS, steps=2, availability=there(absent)).history
        told[absent] = np.diff(history["bytes_down"]) // (8 * problem.dim)
        np.testing.assert_array_equal(np.diff(history["bytes_up"]) // (8 * problem.dim), TABLE.sum(axis=1))
    np.testing.assert_array_equal(told["undrawn"], TABLE.sum(axis=1))
    np.testing.assert_array_equal(told["silent"], np.full(ROUNDS, CLIENTS))


def test_a_round_with_nobody_changes_nothing(problem):
    result = ud.run(ud.fedavg(eta=0.05), problem, rounds=ROUNDS, steps=2, availability=there(), keep_iterates=True)
    moved = np.any(np.diff(result.iterates, axis=0) != 0, axis=1)
    np.testing.assert_array_equal(moved, TABLE.any(axis=1))


def test_an_answer_counts_as_the_rules_say():
    """One step of FedSGD with η = 1: x⁺ = x − (m/|S|) Σ_S w_i ∇f_i(x), f_i = ½(x − c_i)²."""
    weights, c = np.array([0.5, 0.3, 0.2]), np.array([1.0, 10.0, 100.0])
    problem = ud.problems.quadratic(np.ones((3, 1, 1)), c[:, None], weights=weights)
    trace = availability([[1, 1, 0]])
    for absent in ("undrawn", "silent"):
        trace = availability([[1, 1, 0]], absent)
        x = ud.run(ud.fedsgd(eta=1.0), problem, rounds=1, availability=trace).x[0]
        assert x == pytest.approx(3 / 2 * (0.5 * 1 + 0.3 * 10))


def test_a_fair_trace_keeps_cohorts_unbiased():
    """Everyone is there equally often: small steps end around x*, whatever the weights are."""
    weights, c = np.array([0.8, 0.1, 0.1]), np.array([0.0, 0.0, 12.0])
    problem = ud.problems.quadratic(np.ones((3, 1, 1)), c[:, None], weights=weights)
    fair = availability(1 - np.eye(3, dtype=int), after="repeat")
    path = ud.run(
        ud.fedsgd(eta=0.003),
        problem,
        rounds=3000,
        participation=ud.plan.uniform(1),
        availability=fair,
        keep_iterates=True,
    ).iterates
    assert abs(path[1500:].mean() - problem.optimum.x[0]) < 0.3


def test_a_sweep_plays_it_too(problem):
    arguments = {"rounds": ROUNDS, "steps": 2, "participation": ud.plan.uniform(3), "availability": there()}
    swept = ud.sweep(ud.fedavg, problem, grid={"eta": [0.02, 0.05]}, seeds=[0, 3], **arguments)
    alone = ud.run(ud.fedavg(eta=0.05), problem, seed=3, **arguments)
    np.testing.assert_allclose(swept.x[1, 1], alone.x, rtol=1e-12)
    np.testing.assert_array_equal(swept.history["bytes_down"][1, 1], alone.history["bytes_down"])


def test_a_trace_in_which_everyone_is_there_is_none(problem):
    always = availability(np.ones((2, CLIENTS)), after="repeat")
    assert ud.describe(ud.fedlin(eta=0.1), problem, rounds=5, availability=always).every_round
    assert not ud.describe(ud.fedlin(eta=0.1), problem, rounds=5, availability=there()).every_round


def test_traces_that_are_shorter_than_the_run(problem):
    method = ud.fedavg(eta=0.05)
    with pytest.raises(ud.InputError, match=r"ends with round 6, and 7 rounds are to be played: .* 'repeat' .* 'end'"):
        ud.run(method, problem, rounds=7, availability=there())
    assert ud.run(method, problem, rounds=50, steps=2, availability=there(after="end")).rounds == ROUNDS
    again = ud.run(method, problem, rounds=2 * ROUNDS, steps=2, availability=there(after="repeat"))
    sent = np.diff(again.history["bytes_up"])
    np.testing.assert_array_equal(sent[:ROUNDS], sent[ROUNDS:])


def test_resumed_runs_know_the_trace_by_what_it_says(problem, tmp_path):
    file, copy = tmp_path / "a.csv", tmp_path / "b.csv"
    file.write_text(FORMS["pairs"])
    copy.write_text(FORMS["bare"])
    arguments = {"steps": 2, "participation": ud.plan.uniform(3)}
    method, first = ud.fedavg(eta=0.05), {"checkpoint": tmp_path / "c", "checkpoint_seconds": 0}
    whole = ud.run(method, problem, rounds=ROUNDS, availability=availability(file), **arguments)
    ud.run(method, problem, rounds=3, availability=availability(file), **arguments, **first)
    resumed = {**arguments, **first, "resume": True, "rounds": ROUNDS}
    for other in (there("silent"), availability(1 - TABLE), None):
        with pytest.raises(ud.CheckpointError):
            ud.run(method, problem, availability=other, **resumed)
    found = ud.run(method, problem, availability=availability(copy), **resumed)
    np.testing.assert_array_equal(found.x, whole.x)


def test_a_deployed_trace_says_it_already(problem):
    with pytest.raises(ud.InputError, match="leave availability out"):
        ud.run(ud.fedavg(eta=0.1), problem, rounds=1, availability=there(), plan=ud.plan.Absences())
    with pytest.raises(ud.InputError, match=r"ud.plan.availability\(file\); got 3"):
        ud.run(ud.fedavg(eta=0.1), problem, rounds=1, availability=3)
