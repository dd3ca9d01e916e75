"""Whole numbers that a device or a ledger cannot count are refused wherever they come from, and totals do not wrap around."""

from __future__ import annotations

import numpy as np
import pytest

import undrift as ud
from undrift.errors import InputError
from undrift.gate import LARGEST, whole
from undrift.plan import Plan, full, random_steps, rule

HUGE = 2**31
DIGITS = 10**20


def problem(clients: int = 2) -> ud.problems.Problem:
    return ud.problems.quadratic(np.ones((clients, 1, 1)), np.arange(1.0, clients + 1)[:, None])


def run(**arguments):
    return ud.run(ud.fedavg(eta=0.5), problem(), **{"rounds": 1, **arguments})


REFUSED = {
    "steps": ({"steps": HUGE}, r"≤ 2147483647, .* got 2147483648: play more rounds"),
    "steps, 64 bits": ({"steps": 2**63}, "got 9223372036854775808"),
    "steps, 20 digits": ({"steps": DIGITS}, "whole numbers ≥ 1, got 100000000000000000000"),
    "steps, 5,000 digits": ({"steps": 10**5000}, "whole numbers ≥ 1, got a whole number of 16610 bits"),
    "steps of a client": ({"steps": [1, HUGE]}, "got 2147483648"),
    "steps as floats": ({"steps": 1e300}, r"≤ 2147483647.*got 1e\+300"),
    "infinite steps": ({"steps": float("inf")}, "whole numbers, got inf"),
    "steps of a function": ({"steps": lambda t, key: HUGE}, "got 2147483648 in round 1"),
    "steps of an array": ({"steps": np.array([1, HUGE], np.uint64)}, "got 2147483648"),
    "steps that are true": ({"steps": True}, "whole numbers ≥ 1, got true"),
    "steps that are words": ({"steps": [1, "a"]}, r"whole numbers ≥ 1, got \[1, 'a'\]"),
    "steps that are ragged": ({"steps": [[1], [1, 2]]}, "whole numbers ≥ 1"),
    "steps that are complex": ({"steps": 1j}, "whole numbers ≥ 1, got 1j"),
    "steps of a walk": (
        {"steps": 2**24, "oracle": ud.oracles.minibatch(2**8)},
        r"τ_i must be ≤ 8388607, .* got 16777216",
    ),
    "rounds": ({"rounds": LARGEST}, r"rounds must be a whole number ≥ 0 and ≤ 2147483646, got 2147483647"),
    "rounds, 20 digits": ({"rounds": DIGITS}, "rounds must be .* got 100000000000000000000"),
    "rounds, 5,000 digits": ({"rounds": 10**5000}, "rounds must be .* got a whole number of 16610 bits"),
    "record_every": ({"record_every": HUGE}, "record_every must be .* ≤ 2147483647, got 2147483648"),
    "seed": ({"seed": 2**32}, r"seed must be .* ≤ 4294967295, got 4294967296"),
    "seed, 64 bits": ({"seed": 2**64}, "seed must be"),
    "negative seed": ({"seed": -1}, "seed must be a whole number ≥ 0, got -1"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_counted_is_refused(what):
    arguments, said = REFUSED[what]
    with pytest.raises(InputError, match=said):
        run(**arguments)


CALLS = {
    "random steps": (lambda: random_steps(1, HUGE), "≤ 2147483647, got 2147483648"),
    "random steps, a fraction": (lambda: random_steps(1, 2.5), "1 ≤ low ≤ high, whole numbers.*got 2.5"),
    "random steps, not a number": (lambda: random_steps(1, float("nan")), "1 ≤ low ≤ high, whole numbers.*got nan"),
    "random steps of a walk": (
        lambda: run(steps=random_steps(1, 2**24), oracle=ud.oracles.minibatch(2**8)),
        "must be ≤ 8388607",
    ),
    "batch": (lambda: ud.oracles.minibatch(HUGE), "≤ 2147483647, got 2147483648"),
    "batch, not a number": (lambda: ud.oracles.minibatch(float("nan")), "a finite number, got nan"),
    "batch that is true": (lambda: ud.oracles.minibatch(True), "≥ 1 and ≤ 2147483647, got true"),
    "cohort": (lambda: ud.plan.uniform(DIGITS), "members ≥ 1 and ≤ 2147483647"),
    "cohort, not a number": (lambda: ud.plan.uniform(float("nan")), "members ≥ 1, got nan"),
    "patience": (lambda: ud.stop.patience(DIGITS), "a number of at most 64 bits"),
    "patience, not a number": (lambda: ud.stop.patience(float("nan")), "a finite number, got nan"),
    "seeds of a sweep": (
        lambda: ud.sweep(ud.fedavg, problem(), grid={"eta": [0.1]}, seeds=[0, 2**32], rounds=1),
        "seeds.*≤ 4294967295, got 4294967296",
    ),
    "fractional seeds": (
        lambda: ud.sweep(ud.fedavg, problem(), grid={"eta": [0.1]}, seeds=[0.5], rounds=1),
        "seeds.*≥ 0, got 0.5",
    ),
    "no seeds": (lambda: ud.sweep(ud.fedavg, problem(), grid={"eta": [0.1]}, seeds=0, rounds=1), "≥ 1, got 0"),
    "a truth value": (lambda: whole("n is a whole number", np.True_, 0), "≥ 0, got"),
}


@pytest.mark.parametrize("what", CALLS)
def test_what_cannot_be_counted_is_refused_where_it_is_made(what):
    call, said = CALLS[what]
    with pytest.raises(InputError, match=said):
        call()


RULES = {
    "twice the same": ([1, 1], "2 different clients, in round 3 it named 1 more than once"),
    "a fraction": ([0, 1.5], "by whole numbers, in round 3 it named 1.5"),
    "not a number": ([0, float("nan")], "by whole numbers, in round 3 it named nan"),
    "out of range": ([0, 5], "named the client 5 in round 3; there are 0 … 4"),
    "negative": ([-1, 0], "named the client -1 in round 3"),
    "too few": ([1], r"must name 2 clients, in round 3 it gave shape \(1,\)"),
    "a number": (1, r"must name 2 clients, in round 3 it gave shape \(\)"),
    "words": (["a", "b"], "by their numbers, got .* in round 3"),
    "nothing": (None, "by their numbers, got None in round 3"),
    "ragged": ([[0], [1, 2]], "by their numbers, got .* in round 3"),
    "truth values": ([True, False], "by their numbers, got .* in round 3"),
    "20 digits": ([0, DIGITS], "by their numbers, got .* in round 3"),
    "complex": ([0, 1j], "by their numbers, got .* in round 3"),
}


@pytest.mark.parametrize("what", RULES)
def test_a_rule_names_different_clients_that_exist(what):
    given, said = RULES[what]
    plan = Plan(5, rule(lambda t, key: [0, 1] if t < 3 else given, 2), 1, 0.0, 0)
    assert plan.draw(1, 2).ids.tolist() == [[0, 1], [0, 1]]
    with pytest.raises(InputError, match=said):
        plan.draw(1, 3)


def test_whole_numbers_in_other_clothes_are_taken():
    plan = Plan(5, rule(lambda t, key: np.float32([0.0, 4.0]), 2), np.float64(3.0), 0.0, 0)
    assert plan.draw(1, 1).ids.tolist() == [[0, 4]]
    assert plan.draw(1, 1).steps.tolist() == [[3, 3]]
    assert ud.plan.uniform(2.0).count == 2


# ----- totals
def test_the_most_local_steps_are_counted_exactly():
    """2³¹ − 1 steps of each client, in closed form: what a step too many would have wrapped to a negative number."""
    result = ud.run(ud.fedlin(eta=0.5), problem(3), rounds=4, steps=LARGEST)
    # before round 1 everybody sends a gradient; then one step takes what is known already
    np.testing.assert_array_equal(np.diff(result.history["gradients"]), 3 * LARGEST)
    assert result.history["gradients"].dtype == np.int64
    np.testing.assert_allclose(result.x, 2 * (1 - np.exp(-0.5 * 4)), rtol=1e-6)  # steps of η/τ: a gradient flow, nearly


def test_totals_that_pass_64_bits_are_refused():
    """A run that began with nearly 2⁶³ component gradients."""
    from undrift.engine.recorder import Recorder
    from undrift.engine.simulate import padded_plan

    described = ud.describe(ud.fedavg(eta=0.5), problem(3), rounds=3, steps=LARGEST)
    recorder = Recorder(described)
    recorder.spend(padded_plan(described, 0, 1, 1), 0, 1)
    recorder.columns["gradients"].write(0, np.array([2**63 - 2 * LARGEST]))
    with pytest.raises(InputError, match=r"gradients passes 2\*\*63 − 1.*between rounds 1 and 1.*fewer local steps"):
        recorder.spend(padded_plan(described, 1, 1, 1), 1, 1)


def test_a_round_that_cannot_be_counted_is_refused():
    from undrift.engine.ledger import _summed

    work = np.full((1, 2**12), LARGEST)
    np.testing.assert_array_equal(_summed("gradients", work, np.ones_like(work)), LARGEST * 2**12)
    with pytest.raises(InputError, match="gradients of one round must stay below"):
        _summed("gradients", work, np.full_like(work, 2**20))


def test_everybody_may_take_part_by_name():
    assert Plan(3, full(), [1, 2, 3], 0.0, 0).draw(1, 1).steps.tolist() == [[1, 2, 3]]
