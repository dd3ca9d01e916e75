"""One site that is malicious or broken, with a valid certificate: the run goes on, or waits with a clear message."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from chaos import Book, Federation
from federations import UNEQUAL, federation, least_squares, logistic, passed, same_bits

import undrift as ud
from undrift.deploy.carrier import Heard
from undrift.deploy.frames import Answer, Ask, Behind, Committed, Hello, Saw, Unable, write

BAD = "s1"
DEADLINE = 10.0


def spoilt(change, kind=Answer):
    """What the bad site does to its own frames of rounds 1 and later."""

    def spoil(site, frame):
        if site == BAD and isinstance(frame, kind) and frame.round > 0:
            return change(frame)
        return frame

    return spoil


def not_a_number(payload):
    return np.full(len(payload) // 8, np.nan).tobytes()


LIES = {
    "NaN": lambda f: Answer(f.round, f.attempt, f.number, not_a_number(f.payload)),
    "too short": lambda f: Answer(f.round, f.attempt, f.number, f.payload[:-1]),
    "empty": lambda f: Answer(f.round, f.attempt, f.number, b""),
    "too long": lambda f: Answer(f.round, f.attempt, f.number, f.payload * 1000),
    "a message that was not sent": lambda f: Answer(f.round, f.attempt, f.number + 7, f.payload),
    "garbage": lambda f: b"\xc1\xff garbage",
    "a committed that nobody asked for": lambda f: Committed(f.round, f.attempt),
    "another part": lambda f: Hello(1, "other", "", "", True, b"") if f.number else f,
    "unable": lambda f: Unable("the data are on fire"),
}
LATE = {
    "an answer to the future": lambda f: Answer(f.round + 5, f.attempt, f.number, f.payload),
    "an answer to another attempt": lambda f: Answer(f.round, f.attempt + 1, f.number, f.payload),
    "nothing": lambda f: None,
}


@functools.cache
def own() -> Federation:
    return Federation(ud.scaffold(eta=0.05), logistic(), rounds=6, seed=3, plan=ud.plan.Absences(), **UNEQUAL)


@pytest.mark.parametrize("lie", [*LIES, *LATE])
def test_with_a_deadline_the_run_goes_on_without_it(lie, tmp_path):
    run, file = own(), tmp_path / "trace.jsonl"
    chaos = run.chaos(0)
    chaos.spoil = spoilt({**LIES, **LATE}[lie])
    result = run.play(chaos, Book(file, DEADLINE), deadline=DEADLINE)
    assert result.rounds == 6
    plan = ud.plan.trace(file)
    silent = [sorted(row.silent) for row in plan.rounds.values()]
    assert silent == [[1]] * 6 or lie == "another part"
    np.testing.assert_array_equal(result.x, run.passed(plan=plan).x)
    if lie in LIES and lie != "another part":
        assert any(site == BAD and "refused" in what for site, what in run.watched)
        assert chaos.now < DEADLINE, "nobody waits for a site that has been sent away"


@pytest.mark.parametrize("lie", [lie for lie in LIES if lie != "NaN"])
def test_without_a_deadline_the_run_waits_until_the_site_is_mended(lie):
    run = federation("fedlin")
    chaos = run.chaos(0)
    chaos.spoil = spoilt(LIES[lie])
    chaos.after(50.0, lambda: setattr(chaos, "spoil", lambda site, frame: frame))
    same_bits(run.play(chaos), passed("fedlin"))
    assert chaos.now > 50 or lie == "another part"


def test_numbers_that_overflow_again_and_again_are_a_divergence():
    run = federation("fedlin")
    chaos = run.chaos(0)
    chaos.spoil = spoilt(LIES["NaN"])
    with pytest.raises(ud.DivergenceError, match="first at client 1") as caught:
        run.play(chaos)
    assert caught.value.round == 1
    assert caught.value.result.rounds == 0


def test_two_different_answers_begin_the_round_anew(tmp_path):
    """Neither counts: with a deadline the round is played without the site, else everybody plays it again."""
    seen, running = [], []

    def deviates(site, frame):
        if site == BAD and isinstance(frame, Answer) and (frame.round, frame.attempt) == (2, 0):
            seen.append(frame)
            if len(seen) == 1:  # it will be told again, and answer again
                running[0].after(1.0, lambda: running[0]._cut(BAD, "cut"))
            return Answer(2, 0, frame.number, (1.0 + len(seen) * np.ones(len(frame.payload) // 8)).tobytes())
        return frame

    run, file = own(), tmp_path / "trace.jsonl"
    for deadline in (None, DEADLINE):
        seen.clear()
        chaos = run.chaos(0)
        running[:] = [chaos]
        chaos.spoil = deviates
        chaos.slow["s0"] = 8.0  # so that the answer of the other site is in, and the round is not over
        own_book = Book(file, DEADLINE) if deadline else Book()
        result = run.play(chaos, own_book, deadline=deadline, resend=2.0)
        assert any("two different answers" in what for _, what in run.watched)
        if deadline is None:
            np.testing.assert_array_equal(result.x, run.passed(plan=ud.plan.Absences()).x)
        else:
            assert ud.plan.trace(file).rounds[2].silent == {1}


def test_a_view_that_is_nonsense_is_as_good_as_none():
    run = federation("fedlin")
    chaos = run.chaos(0)
    chaos.spoil = spoilt(lambda f: Saw(f.round, not_a_number(f.payload)) if f.round == 2 else f, Saw)
    result = run.play(chaos)
    np.testing.assert_array_equal(result.x, passed("fedlin").x)
    assert np.isnan(result.history["loss"][2])
    assert np.isfinite(result.history["loss"][[0, 1, 3, 4, 5]]).all()


def test_a_run_that_really_diverges_is_reported():
    steep = ud.problems.quadratic(np.full((2, 1, 1), 1e100), np.ones((2, 1)))
    run = Federation(ud.fedsgd(eta=1.0), steep, rounds=10)
    with pytest.raises(ud.DivergenceError):
        run.play(run.chaos(0))


def test_a_flood_of_requests_is_ended():
    """Asking to be told again, saying hello again and again, speaking before hello: nobody else notices."""
    run = federation("fedlin")
    chaos = run.chaos(0)
    flooded = []

    def flood(site, frame):
        if site == BAD and isinstance(frame, Ask) and frame.round == 2 and not flooded:
            number = chaos.connection[BAD]
            for content in [write(Behind(2, 0, 0))] * 300 + [write(Hello(1, "test", "", "", False, b""))] * 300:
                flooded.append(content)
                chaos._later(0.0, lambda content=content: Heard(BAD, number, content))
        return False

    chaos.ignores = flood
    same_bits(run.play(chaos), passed("fedlin"))
    assert len(flooded) == 600
    assert any("more than 100 times" in what for _, what in run.watched)
    assert chaos.sent[BAD] < 100 * chaos.sent["s0"], "it was told the one round a hundred times, not six hundred"


def test_frames_before_hello_and_of_strangers_change_nothing():
    run = federation("fedlin")
    chaos = run.chaos(0)
    for content in (write(Answer(0, 0, 0, b"x")), write(Committed(0, 0)), write(Saw(0, b"")), b"garbage"):
        chaos._later(0.0, lambda content=content: Heard(BAD, 99, content))
        chaos._later(0.0, lambda content=content: Heard("stranger", 1, content))
    same_bits(run.play(chaos), passed("fedlin"))


def sizes(thing, seen=None):
    """How many objects hang below."""
    seen = set() if seen is None else seen
    if id(thing) in seen or isinstance(thing, str | bytes | int | float | np.ndarray):
        return 0
    seen.add(id(thing))
    if isinstance(thing, dict):
        return 1 + sum(sizes(value, seen) for value in thing.values())
    if isinstance(thing, list | tuple | set | frozenset):
        return 1 + sum(sizes(value, seen) for value in thing)
    return 1 + (
        sizes(getattr(thing, "__dict__", {}), seen) if type(thing).__module__.startswith("undrift.deploy") else 0
    )


@pytest.mark.parametrize("rounds", [60, pytest.param(10_000, marks=pytest.mark.slow)])
def test_what_the_server_holds_does_not_grow(rounds):
    run = Federation(ud.fedsgd(eta=0.1), least_squares(), rounds=rounds, seed=3, record_every=rounds)
    chaos, found = run.chaos(0), {}

    class Watching(Book):
        def keep(self, state):
            t = state.chronicle.recorder.length - 1
            if t in (rounds // 6, rounds - 1):
                found[t] = sizes(state.conversation) + sizes(state.trace) + sizes(list(chaos.members.values()))

    run.play(chaos, Watching())
    first, last = found.values()
    assert last == first
