"""Whatever a network does and whoever is killed, a run without deadlines ends where its simulation ends."""

from __future__ import annotations

import pytest
from chaos import BAD, Odds
from federations import CASES, equal, federation, passed, same_bits, simulated

import undrift as ud
from everyday import only

# In `make test` one schedule each of methods that differ in what they remember and how they talk; the rest in `make full`
OFTEN = ("scaffold, cohorts", "ssl, central")
SCHEDULES = range(20)

EVERY_SCHEDULE = [
    pytest.param(name, seed, marks=() if seed == 0 and name in OFTEN else pytest.mark.slow)
    for name in CASES
    for seed in SCHEDULES
]


def test_every_method_is_here():
    assert set(ud.METHODS) <= {case.method().name for case in CASES.values()}


@pytest.mark.parametrize("name", only(CASES, OFTEN))
def test_message_passing_is_the_simulation(name):
    """With the compiled parts that the schedules below use."""
    equal(passed(name), simulated(name), CASES[name].tolerance)


@pytest.mark.parametrize(("name", "seed"), EVERY_SCHEDULE)
def test_a_bad_network_and_kills_change_nothing(name, seed):
    own = federation(name)
    chaos = own.chaos(seed, BAD)
    same_bits(own.play(chaos), passed(name))
    assert chaos.counts.total() > 0


def test_the_worst_of_all_days():
    own = federation("fedlin")
    worst = Odds(lose=0.2, repeat=0.2, delay=0.3, cut=0.03, kill=0.03, kill_at_point=0.02, kill_server=0.01)
    chaos = own.chaos(0, worst)
    same_bits(own.play(chaos), passed("fedlin"))
    assert min(chaos.counts.values()) > 0, chaos.counts
