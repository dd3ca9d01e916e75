"""Death at every named point of the protocol, of a site or of the server, changes nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from chaos import Book
from federations import federation, passed, same_bits

import undrift as ud
from everyday import only
from undrift.deploy import faults
from undrift.deploy.memory import OnDisk

COUNTS = (1, 4)
METHODS = {"fedlin": 1, "scaffold, cohorts": 4}  # and at which passage of a point they die every day


def strike_at(name, count):
    def die():
        raise faults.Struck(name)

    return faults.at(name, count, die)


EVERY_DEATH = [(name, point, count) for name in METHODS for point in faults.POINTS for count in COUNTS]
EVERY_DAY = [(name, point, count) for name, point, count in EVERY_DEATH if METHODS[name] == count]


@pytest.mark.parametrize("death", only(EVERY_DEATH, EVERY_DAY), ids=lambda death: "-".join(map(str, death)))
def test_death_at_a_point_changes_nothing(death, tmp_path):
    name, point, count = death
    own = federation(name)

    def disk(site):
        (tmp_path / site).mkdir()
        return OnDisk(tmp_path / site, "run")

    chaos = own.chaos(0, disk=disk)
    book = Book(tmp_path / "trace.jsonl")
    passes = []
    strike = strike_at(point, count)

    def counted(reached):
        passes.append(reached)
        strike(reached)

    with faults.armed(counted):
        result = own.play(chaos, book)
    same_bits(result, passed(name))
    assert passes.count(point) > count, "it died, came back, and passed this point again"
    assert own.lives == (2 if point.startswith("server") else 1)
    replayed = own.passed(plan=ud.plan.trace(tmp_path / "trace.jsonl"))
    np.testing.assert_array_equal(result.x, replayed.x)


def test_a_server_that_died_after_the_trace_writes_the_round_twice(tmp_path):
    own, file = federation("scaffold, cohorts"), tmp_path / "trace.jsonl"
    with faults.armed(strike_at("server:after-trace", 3)):
        own.play(own.chaos(0), Book(file))
    assert len(file.read_text().splitlines()) == 1 + 5 + 1
    assert len(ud.plan.trace(file).rounds) == 5


def run_python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, timeout=300
    )


def test_the_environment_kills_a_real_process():
    code = "from undrift.deploy import faults\nfor n in range(5):\n    print(n, flush=True); faults.point('site:after-reply')"
    killed = run_python(code, UNDRIFT_DIE_AT="site:after-reply:2")
    assert (killed.returncode, killed.stdout.split()) == (-9, ["0", "1"])
    assert run_python(code, UNDRIFT_DIE_AT="").stdout.split() == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize(
    "text", ["site:after-reply", "site:nowhere:1", "site:after-reply:0", "site:after-reply:-1", ":"]
)
def test_a_fault_that_does_not_exist_is_refused(text):
    with pytest.raises(ud.InputError, match="NAME:COUNT"):
        faults.from_environment(text)
