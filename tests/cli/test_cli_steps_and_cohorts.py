"""Steps and cohorts in files: coins, schedules, availability traces, rules and compressors of one's own."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path

import numpy as np
import optax
import pytest
from cli_helpers import SMALL

import undrift as ud
from everyday import only
from undrift.deploy.contract import Contract
from undrift.engine.identity import plan_identity
from undrift.studies import own
from undrift.studies.agreement import Agreement
from undrift.studies.build import build_schedule, build_steps
from undrift.studies.study import read_study, study_from

TRACE = "round,client\n1,0\n1,1\n2,1\n2,3\n4,2\n"
PROGRAM = """
import dataclasses
import jax.numpy as jnp
import numpy as np
import undrift as ud
from undrift.compression import Compressor
from undrift.messages import Sparse
from undrift.oracles import Full
from undrift.stop import Stop

SAID = {}  # tests say yes to a program each: a yes holds for the whole process

@dataclasses.dataclass(frozen=True)
class First(Compressor):
    k: int = 2
    memory: bool = True

    def compress(self, v, key):
        return Sparse(v[: self.k], jnp.arange(self.k, dtype=jnp.int32), v.size)

    def contraction(self, dim):
        return float("inf")

@dataclasses.dataclass(frozen=True)
class Half(Full):
    exact = False

    def with_draw(self, loss, x, key, step, drawn):
        return 0.5 * loss.gradient(x)

    def __str__(self):
        return "half"

@dataclasses.dataclass(frozen=True)
class Often(Stop):
    rounds: int

    @property
    def columns(self):
        return ("loss",)

    def start(self):
        return np.asarray(0)

    def look(self, state, records):
        return state + 1, state >= self.rounds

@dataclasses.dataclass(frozen=True)
class Warm:
    peak: float

    def __call__(self, t):
        return self.peak / (1.0 + t)

def in_turn(count: int):
    return ud.plan.rule(lambda round, key: (round + np.arange(count)) % 4, count)

def falling(start: int):
    return lambda round, key: [max(1, start - round)] * 4

def nothing():
    return None

def broken(k: int = 1):
    raise RuntimeError("not today")
"""


@pytest.fixture
def program(cli, monkeypatch, tmp_path, request):
    """A program of one's own in the working directory."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    Path("x.py").write_text(PROGRAM.replace("{}", repr(request.node.name)))
    return Path("x.py").resolve()


def study(run="", method='name = "fedavg"\neta = 0.01'):
    text = f'[problem]\nname = "quadratic"\nclients = 4\ndim = 6\n[run]\nrounds = 4\n{run}\n[[method]]\n{method}\n'
    Path("study.toml").write_text(text)
    return Path("study.toml")


# ----- steps
STEPS = {
    "2..9:common": ud.plan.random_steps(2, 9, common=True),
    "geometric:0.1": ud.plan.geometric_steps(0.1, common=False),
    "geometric:p=0.1": ud.plan.geometric_steps(0.1, common=False),
    "geometric:0.1:common": ud.plan.geometric_steps(0.1),
    "geometric:p=0.1,common=true": ud.plan.geometric_steps(0.1),
    "piecewise:1=20,101=5": ud.plan.piecewise_steps({1: 20, 101: 5}),
    "piecewise:1=2..9:common,101=geometric:0.5": ud.plan.piecewise_steps(
        {1: ud.plan.random_steps(2, 9, common=True), 101: ud.plan.geometric_steps(0.5, common=False)}
    ),
}
TABLES = [
    ({"geometric": 0.1}, ud.plan.geometric_steps(0.1, common=False)),
    ({"name": "geometric", "p": 0.1, "common": True}, ud.plan.geometric_steps(0.1)),
    ({"low": 2, "high": 9, "common": True}, ud.plan.random_steps(2, 9, common=True)),
    (
        {"schedule": "piecewise", "values": {"1": [1, 2], "7": {"low": 2, "high": 9}}},
        ud.plan.piecewise_steps({1: [1, 2], 7: ud.plan.random_steps(2, 9)}),
    ),
]


@pytest.mark.parametrize(("words", "steps"), [*STEPS.items(), *TABLES], ids=str)
def test_steps_in_words(words, steps):
    assert build_steps(words, clients=2) == steps


def test_schedules_of_steps_and_of_step_sizes_are_the_same_words():
    words = {"schedule": "linear_schedule", "init_value": 20, "end_value": 2, "transition_steps": 9}
    by_word = build_steps("linear_schedule:init_value=20,end_value=2,transition_steps=9", clients=2)
    for steps in (build_steps(words, clients=2), by_word):
        found = ud.plan.Plan(2, ud.plan.full(), steps, 0.0, 0).draw(1, 11).steps[:, 0]
        np.testing.assert_array_equal(found, [round(float(optax.linear_schedule(20, 2, 9)(t))) for t in range(11)])
    falling = build_schedule({"schedule": "piecewise", "values": {"1": 0.5, "4": 0.25}})
    np.testing.assert_array_equal([float(falling(t)) for t in range(5)], [0.5, 0.5, 0.5, 0.25, 0.25])


BAD_STEPS = {
    "steps = { geometric = 1.5 }": "p must be a probability in (0, 1], got 1.5",
    "steps = { geometric = 0.1, comon = true }": "unknown key of steps 'comon'",
    'steps = "geometric"': "steps needs p",
    'steps = "geometric:0.1,0.2"': "steps are written 20",
    'steps = "geometric:0.1:fixed"': "got '0.1:fixed'",
    "steps = { low = 1, high = 2, fixed = true, common = true }": "leave one of both out",
    'steps = { schedule = "piecewise", values = { 2 = 5 } }': "got 2 as the first round",
    'steps = { schedule = "piecewise", values = { a = 5 } }': "rounds whole numbers ≥ 1, got 'a'",
    'steps = { schedule = "piecewise", values = { 1 = 0 } }': "steps from round 1 on: steps must be a whole number ≥ 1",
    'steps = { schedule = "piecewise" }': "values = { 1 = 20, 101 = 5 }",
    'steps = { schedule = "linear", init_value = 3 }': "unknown schedule 'linear'",
    'steps = { schedule = "constant_schedule", value = 0.2 }': "must be ≥ 1, got 0.0 for client every client in round 1",
    'steps = "x.py:none"': "x.py does not exist",
    "availability = 3": 'availability must be a file "trace.csv"',
    'availability = "no.csv"': "no.csv does not exist",
    'availability = { file = "bad.csv" }': "bad.csv, line 3, column round: a round is a whole number",
    'availability = { file = "t.csv", absent = "away" }': "absent must be one of 'silent', 'undrawn', got 'away'",
    'availability = "t.csv:after=stop"': "after must be one of 'end', 'repeat', got 'stop'",
    'availability = "t.csv:repeat"': "is written key=value, got 'repeat'",
    'availability = "t.csv"\nrounds = 9': "the trace ends with round 4, and 9 rounds are to be played",
}


@pytest.mark.parametrize("line", BAD_STEPS)
def test_words_that_are_none(cli, line):
    Path("t.csv").write_text(TRACE)
    Path("bad.csv").write_text("round,client\n1,1\nx,1\n")
    text = study(line).read_text()
    study(line) if "rounds" not in line else Path("study.toml").write_text(text.replace("rounds = 4\n", ""))
    said = cli("run", "study.toml", "--out", "r")
    assert said.code == 2, said.out
    assert BAD_STEPS[line] in said.err
    assert "Traceback" not in said.err
    assert not Path("r").exists()


# ----- availability
def test_a_trace_in_a_run_its_resume_and_a_comparison(cli):
    Path("t.csv").write_text(TRACE)
    words = (*SMALL[:2], "--rounds", "4", "--steps", "3", "--no-figures", "--method")
    said = cli("run", *words, "fedavg:eta=0.01", "--availability", "t.csv", "--out", "a", "--json")
    assert said.code == 0, said.err
    sent = [
        int(line.split(",")[said_columns("a").index("bytes_up")])
        for line in Path("a/history.csv").read_text().splitlines()[1:]
    ]
    np.testing.assert_array_equal(np.diff(sent) // 48, [2, 2, 0, 1])
    written = tomllib.loads(Path("a/study.toml").read_text())["run"]["availability"]
    assert written == {"file": str(Path("t.csv").resolve())}
    assert cli("run", "--out", "a", "--resume").code == 0
    file = "t.csv:absent=silent,after=repeat"
    twice = cli("compare", *words, "fedavg", "scaffold", "--eta", "0.01", "--availability", file, "--rounds", "8",
                "--seeds", "2", "--participation", "uniform:2", "--out", "c", "--json")  # fmt: skip
    assert twice.code == 0, twice.err


def said_columns(folder):
    return Path(folder, "history.csv").read_text().splitlines()[0].split(",")


def test_a_study_knows_its_trace_by_the_names_of_sites(cli):
    Path("t.csv").write_text("client,from,to\nulm,1,3\nbonn,2,2\n")
    tables = {"problem": {"name": "quadratic", "clients": 2}, "run": {"availability": "t.csv", "rounds": 3},
              "deploy": {"sites": ["bonn", "ulm"]}}  # fmt: skip
    made = study_from(tables, "here")
    there = made.arguments(made.make_problem())["availability"].among(2)
    np.testing.assert_array_equal(there.rows(range(1, 4)), [[0, 1], [1, 1], [0, 1]])


def test_advice_with_a_trace_is_measured(cli):
    Path("t.csv").write_text(TRACE)
    words = ("advise", *SMALL[:2], "--method", "fedavg", "--steps", "2", "--availability", "t.csv:after=repeat")
    said = cli(*words)
    assert said.code == 2
    assert "not everyone takes part in every round" in said.err
    assert cli(*words, "--measure", "--rounds", "20", "--target", "0.5", "--quiet").code == 0


def test_a_deployed_run_has_no_trace(cli):
    Path("t.csv").write_text(TRACE)
    with pytest.raises(ud.InputError, match="availability is for simulations: leave it out of a deployed run"):
        Agreement.of(read_study(study('availability = "t.csv"')))


# ----- of one's own
OWN = {
    "participation": ('participation = "x.py:in_turn:2"', "rule("),
    "participation in a table": ('participation = { name = "x.py:in_turn", count = 2 }', "rule("),
    "steps": ('steps = { name = "x.py:falling", start = 3 }', "a function of the round"),
    "scheduled steps": ('steps = { schedule = "x.py:Warm", peak = 4.0 }', "scheduled_steps(Warm"),
    "oracle": ('oracle = "x.py:Half"', "half"),
    "stop": ('stop = "x.py:Often:rounds=2"', "Often(rounds=2)"),
}


@pytest.mark.parametrize("what", only(OWN, {"participation in a table", "scheduled steps", "oracle", "stop"}))
def test_rules_of_ones_own_in_a_study(cli, program, what):
    line, shown = OWN[what]
    file = study(line)
    said = cli("run", file, "--out", "a", "--quiet")
    assert said.code == 2
    assert "study.toml, table [run]: study.toml names" in said.err
    assert "--trust" in said.err
    assert not Path("a").exists()
    assert cli("run", file, "--out", "a", "--trust", "--no-figures", "--quiet").code == 0
    made = read_study(file).trusted()
    method = made.methods[0].make()
    assert any(shown in str(word) for word in made.describe(method, made.make_problem()).words().values())
    own._said_yes.clear()
    assert cli("run", "--out", "a", "--resume").code == 0, "somebody said yes to this content"
    Path("x.py").write_text(Path("x.py").read_text() + "\n# changed")
    said = cli("run", "--out", "a", "--resume")
    assert said.code == 2
    assert "--trust" in said.err


METHODS = {
    "a compressor around a method": 'name = "fedavg"\neta = 0.01\nup = { name = "x.py:First", k = 3 }',
    "a compressor inside a method": 'name = "fedlin"\neta = 0.01\nup = "x.py:First:memory=false"',
    "a schedule": 'name = "fedavg"\neta = { schedule = "x.py:Warm", peak = 0.01 }',
}


@pytest.mark.parametrize("what", only(METHODS, {"a compressor around a method", "a schedule"}))
def test_parts_of_methods_of_ones_own(cli, program, what):
    file = study(method=METHODS[what])
    said = cli("compare", file, "--out", "a", "--quiet")
    assert said.code == 2
    assert "study.toml names a" in said.err
    assert "--trust" in said.err
    assert cli("compare", file, "--out", "a", "--trust", "--no-figures", "--quiet").code == 0


def test_flags_of_ones_own_are_a_yes(cli, program):
    words = ("run", *SMALL, "--method", "fedavg:eta=0.01", "--no-figures", "--quiet")
    rules = ("--participation", "x.py:in_turn:count=2", "--oracle", "x.py:Half", "--up", "x.py:First:k=3",
             "--stop", "x.py:Often:rounds=3", "--steps", "x.py:falling:5")  # fmt: skip
    said = cli(*words, *rules, "--out", "a")
    assert said.code == 0, said.err
    assert len(Path("a/history.csv").read_text().splitlines()) == 1 + 4
    assert cli("run", study(), "--up", "x.py:First", "--out", "b", "--no-figures", "--quiet").code == 0


def test_another_program_is_another_run(cli, program):
    made = read_study(
        study('participation = "x.py:in_turn:2"', 'name = "fedavg"\neta = 0.01\nup = "x.py:First"')
    ).trusted()

    def identities():
        run = made.but(methods=tuple(dataclasses.replace(one) for one in made.methods))  # nothing is remembered
        described = run.describe(run.methods[0].make(), run.make_problem())
        shapes = described.shapes[0].up_bytes
        return plan_identity(described.plan, 4), shapes

    before, text = identities(), program.read_text()
    program.write_text(text + "\n# the same program")
    assert identities() == before
    program.write_text(text.replace("(round + np.arange(count))", "(round + 1 + np.arange(count))"))
    assert identities()[0] != before[0]
    program.write_text(text.replace("k: int = 2", "k: int = 3"))
    assert identities()[1] != before[1]


BAD_OWN = {
    'participation = "x.py:nothing"': "participation 'x.py:nothing' must return a Participation",
    'participation = "x.py:in_turn"': "participation 'x.py:in_turn' needs count",
    'participation = "x.py:in_turn:count=a"': "count must be a whole number, got 'a'",
    'participation = "x.py:in_turn:1,2"': "participation 'x.py:in_turn' takes count; got [1, 2]",
    'oracle = "x.py:First"': "oracle 'x.py:First' must return an Oracle",
    'oracle = "x.py:broken"': "oracle 'x.py:broken' fails: RuntimeError: not today",
    'steps = "x.py:nothing"': "steps 'x.py:nothing' must return local steps",
    'steps = "x.py:SAID"': "SAID in x.py is",
    'stop = "x.py:Frist"': "unknown factory in x.py 'Frist': did you mean 'First'",
}


@pytest.mark.parametrize("line", BAD_OWN)
def test_programs_that_return_something_else(cli, program, line):
    said = cli("run", study(line), "--trust", "--out", "r", "--quiet")
    assert said.code == 2
    assert BAD_OWN[line] in said.err
    assert not Path("r").exists()


def test_a_contract_holds_the_hash_of_every_program(cli, program):
    run = 'participation = "x.py:in_turn:2"\nsteps = { schedule = "x.py:Warm", peak = 4.0 }'
    file = study(run, 'name = "fedavg"\neta = 0.01\nup = { name = "x.py:First", k = 3 }')
    server = Agreement.of(read_study(file).trusted())
    assert list(server.contract.code) == ["x.py"]
    assert str(program.parent) not in server.contract.document().decode()
    contract = Contract.read(server.contract.document())
    with pytest.raises(ud.InputError, match=r"the run needs the program x.py with SHA-256 .* --method-file"):
        Agreement.accepted(contract)
    other = Path("elsewhere")
    other.mkdir()
    (other / "mine.py").write_bytes(program.read_bytes())
    site = Agreement.accepted(contract, [other / "mine.py"])
    assert str(site.preview.method) == str(server.preview.method)
    a, b = (one.preview.plan.draw(1, 4) for one in (site, server))
    np.testing.assert_array_equal(a.ids, b.ids)
    np.testing.assert_array_equal(a.steps, b.steps)


def test_two_programs_of_one_name_are_not_deployed(cli, program):
    Path("sub").mkdir()
    Path("sub/x.py").write_text(program.read_text() + "\n# another")
    made = read_study(study('participation = "sub/x.py:in_turn:2"', 'name = "fedavg"\neta = 0.01\nup = "x.py:First"'))
    with pytest.raises(ud.InputError, match=r"two programs of this run are called x\.py"):
        Agreement.of(made.trusted())


# ----- rules for a step of another name, and for a grid of other numbers
def test_a_rule_is_for_the_step_whatever_it_is_called(cli):
    words = (*SMALL, "--no-figures", "--quiet")
    assert cli("run", "--method", "fedsplit", "--eta", "certified", *words, "--out", "a").code == 0
    assert tomllib.loads(Path("a/study.toml").read_text())["method"][0]["asked"]["s"] == "certified"
    assert cli("compare", "--method", "fedsplit", "fedavg", "--eta", "theorem", "0.01", *words, "--out", "b").code == 0
    fedsplit, fedavg = tomllib.loads(Path("b/study.toml").read_text())["method"]
    assert fedsplit["asked"]["s"] == ["theorem"]
    assert len(fedavg["eta"]) == 2
    said = cli("run", "--method", "fedsplit", "--eta", "0.1", *words, "--out", "c")
    assert said.code == 2
    assert "eta" in said.err


@pytest.mark.parametrize(
    ("rule", "text"), [("theorem", "no one number serves this grid"), ("certified", "server_eta = 2.0")]
)
def test_a_rule_is_asked_at_every_point_of_the_grid(cli, rule, text):
    file = study("steps = 2", f'name = "scaffold"\neta = "{rule}"\nserver_eta = [1.0, 2.0]')
    said = cli("compare", file, "--out", "r", "--quiet")
    assert said.code == 2
    assert text in said.err
    ok = study("steps = 2", f'name = "scaffold"\neta = "{rule}"\nserver_eta = [1.0]')
    assert cli("compare", ok, "--out", "r", "--quiet", "--no-figures").code == 0
