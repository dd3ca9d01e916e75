"""The checks that are offered to users can fail, and say why."""

from __future__ import annotations

import jax.numpy as jnp
import pytest

import undrift as ud


@ud.method
def forgetful(eta: float) -> ud.Algorithm:
    """FedSGD that does not ask who answered: the rows of silent members are counted."""
    exchange = ud.Exchange(
        "gradient",
        send=lambda x, slot: x,
        client=lambda memory, x, local: (memory, local.gradient(x)),
        receive=lambda x, slots, ups, cohort: (x - eta * jnp.mean(ups, axis=0), slots),
    )
    return ud.Algorithm((exchange,), server=lambda x: (x, ()), model=lambda x: x)


def test_a_method_that_counts_silent_members_is_found():
    report = ud.testing.check_method(forgetful(eta=0.05))
    assert report.failed == ("message passing gives the numbers of the simulation, some clients",)
    assert not report.ok
    assert "FAILED message passing gives the numbers of the simulation, some clients: the largest difference" in str(
        report
    )


def test_rules_that_name_strangers_are_found():
    report = ud.testing.check_participation(ud.plan.rule(lambda t, key: [t], 1), clients=5, rounds=10)
    assert "cohorts are of one size, of clients that exist" in report.failed
    assert "named the client 5 in round 5" in str(report)


@pytest.mark.parametrize(
    "check", [ud.testing.check_compressor, ud.testing.check_participation, ud.testing.check_method]
)
def test_what_is_of_another_kind_is_refused(check):
    with pytest.raises(ud.InputError):
        check("nothing of that kind")
