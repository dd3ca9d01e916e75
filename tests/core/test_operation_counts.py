"""What a round does, counted in compiled code: nothing here depends on a clock or on the machine.

With ten clients of m in a round, no operation of a round may touch an array with m rows, except where rows are read from it or
put into it. Evaluation does, and is therefore looked for in the conditional that plays it where it is due. And a kind of run is
traced and compiled once. By messages, an exchange is one compiled call for each client and few at the server.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from typing import NamedTuple

import jax
import numpy as np
import pytest

import undrift as ud
from everyday import share
from undrift import precision
from undrift.engine import description, layout, simulate
from undrift.engine.layout import message_shapes
from undrift.engine.loopback import nodes_for
from undrift.engine.parts import Parts
from undrift.engine.programs import Programs
from undrift.engine.rounds import carry_shapes, compilations

CLIENTS = 211  # found nowhere else in the shapes of a program
FREE = {"parameter", "get-tuple-element", "tuple", "bitcast", "while", "constant", "conditional", "call"}
IN_PLACE = {"scatter", "dynamic-update-slice"}  # XLA writes them into their operand, copying it first where it must not
LINE = re.compile(r"\s*(?P<root>ROOT )?%?\S+ = (?P<shape>\(.*?\)|\S+) (?P<kind>[\w\-]+)\((?P<rest>.*)")
HEAD = re.compile(r"(?P<entry>ENTRY )?%?(?P<name>[\w.\-]+) .*\{$")
CALLED = re.compile(r"(?P<how>body|calls|to_apply)=%?(?P<name>[\w.\-]+)")


class Operation(NamedTuple):
    root: bool
    shape: str
    kind: str
    called: dict[str, str]  # how -> computation


class Module:
    """The computations of a compiled program, from its text."""

    def __init__(self, text: str) -> None:
        self.computations: dict[str, list[Operation]] = {}
        for line in text.splitlines():
            head, operation = HEAD.match(line), LINE.match(line)
            if head:
                name = head["name"]
                self.computations[name] = []
                self.entry = name if head["entry"] else getattr(self, "entry", "")
            elif operation:
                called = {found["how"]: found["name"] for found in CALLED.finditer(operation["rest"])}
                root, shape, kind = bool(operation["root"]), operation["shape"], operation["kind"]
                self.computations[name].append(Operation(root, shape, kind, called))

    def played_by(self, name: str) -> list[Operation]:
        """The operations of a computation and of the loops and functions in it; conditionals are left out."""
        found = []
        for operation in self.computations[name]:
            found.append(operation)
            if operation.kind in ("while", "call"):
                for inner in operation.called.values():
                    found.extend(self.played_by(inner))
        return found

    def in_loops(self) -> list[Operation]:
        """What is played again and again, round by round."""
        loops = [o for o in self.computations[self.entry] if o.kind == "while"]
        return [inner for loop in loops for inner in self.played_by(loop.called["body"])]

    def really(self, operation: Operation) -> str:
        """The kind of an operation, of a fusion that of its result."""
        if operation.kind != "fusion":
            return operation.kind
        return next(inner.kind for inner in self.computations[operation.called["calls"]] if inner.root)


def costs_all_clients(text: str, clients: int = CLIENTS) -> Counter[str]:
    """Operations inside the loop over rounds that produce an array with one row per client, by kind."""
    module, wide = Module(text), re.compile(rf"[\[,]{clients}[,\]]")
    kinds = [module.really(o) for o in module.in_loops() if o.kind not in FREE and wide.search(o.shape)]
    return Counter(kind for kind in kinds if kind not in IN_PLACE)


def compiled(method, problem, **arguments) -> str:
    """The program of rounds as XLA has compiled it."""
    run = ud.describe(method, problem, rounds=10, record_every=1000, **arguments).to_play()
    with precision.scope(run.population.dtype):
        going = simulate._Simulation(run, None)
        plan = simulate.padded_plan(run, 0, 1, going.capacity)
        given = going._arguments(carry_shapes(run), plan, 1)
        return simulate.compiled_advance.trace(*given).lower().compile().as_text()


def linear():
    rng = np.random.default_rng(0)
    return ud.problems.least_squares(rng.normal(size=(CLIENTS, 4, 3)), rng.normal(size=(CLIENTS, 4)))


def cut_network():
    rng = np.random.default_rng(0)
    data = rng.normal(size=(CLIENTS * 4, 3)).astype(np.float32), rng.integers(0, 2, size=CLIENTS * 4)
    model = ud.models.mlp((4,), classes=2, input=(3,))
    return ud.problems.network(model, data, np.split(np.arange(CLIENTS * 4), CLIENTS), cut=2, batch=2)


TOP = ud.top_k(2)
SOME = {"participation": ud.plan.uniform(10), "steps": 2}
METHODS = {
    "scaffold": (ud.scaffold(eta=0.1), SOME),
    "scaffold, some silent": (ud.scaffold(eta=0.1), SOME | {"failures": 0.1}),
    "scaffold, drawn twice": (ud.scaffold(eta=0.1), SOME | {"participation": ud.plan.uniform(10, replace=True)}),
    "fedlin": (ud.fedlin(eta=0.1), SOME),
    "fedlin, both directions compressed": (ud.fedlin(eta=0.1, up=TOP, down=TOP), SOME),
    "fedsplit": (ud.fedsplit(s=0.1), SOME),
    "fedtrack": (ud.fedtrack(eta=0.1), SOME),
    "compressed fedavg": (ud.compressed(ud.fedavg(eta=0.1), up=TOP, down=TOP), SOME),
}


@pytest.mark.parametrize("name", share(METHODS, 1, of=8))
def test_a_round_of_ten_costs_ten(name):
    method, arguments = METHODS[name]
    assert not costs_all_clients(compiled(method, linear(), **arguments))


@pytest.mark.parametrize("method", share([ud.ssl(eta=0.1), ud.sflv1(eta=0.1)], 0, of=2), ids=lambda method: method.name)
def test_a_dialogue_with_ten_costs_ten(method):
    assert not costs_all_clients(compiled(method, cut_network(), **SOME))


def test_what_costs_all_clients_is_found():
    everyone = costs_all_clients(compiled(ud.scaffold(eta=0.1), linear(), steps=2))
    assert sum(everyone.values()) > 0


def test_a_kind_of_run_is_traced_once_and_its_messages_not_by_themselves(monkeypatch):
    looked = Counter()

    def shapes(*given):
        looked["shapes"] += 1
        return message_shapes(*given)

    monkeypatch.setattr(description, "message_shapes", shapes)
    monkeypatch.setattr(layout, "_known", type(layout._known)())
    before = compilations["fedprox"]
    for seed, eta in ((0, 0.1), (1, 0.1), (1, 0.2)):
        ud.run(ud.fedprox(eta=eta, beta=0.5), linear(), rounds=3, seed=seed, **SOME)
    assert compilations["fedprox"] == before + 1
    assert looked["shapes"] == 0


@pytest.mark.parametrize(
    ("method", "exchanges", "each"),
    [
        pytest.param(ud.fedavg(eta=0.1), 1, {"send": 1, "client": CLIENTS, "receive": 1}, marks=pytest.mark.slow),
        pytest.param(ud.scaffold(eta=0.1), 1, {"send": 1, "client": CLIENTS, "receive": 1}, marks=pytest.mark.slow),
        (ud.fedlin(eta=0.1), 2, {"send": 1, "client": CLIENTS, "receive": 1}),
        (ud.compressed(ud.fedavg(eta=0.1), up=TOP), 1, {"prepare": 1, "send": 1, "client": CLIENTS, "receive": 1}),
    ],
    ids=["fedavg", "scaffold", "fedlin", "compressed fedavg"],
)
def test_an_exchange_by_messages_is_one_compiled_call_a_client_and_two_at_the_server(
    method, exchanges, each, monkeypatch
):
    called = Counter()
    once = Parts._once

    def counted(self, name, function):
        compiled = once(self, name, function)

        def call(*given):
            called[name[0]] += 1
            return compiled(*given)

        return call

    monkeypatch.setattr(Parts, "_once", counted)
    run = ud.describe(method, linear(), rounds=3, steps=2).to_play()
    with precision.scope(run.population.dtype):
        server = nodes_for(run)
        for t in (0, 1, 2):
            server.play_round(t)
        called.clear()
        server.play_round(3)
    assert called == {name: count * exchanges for name, count in each.items()}


@pytest.mark.parametrize("name", share(METHODS, 2))
def test_the_trace_of_a_run_shows_its_messages_as_they_are(monkeypatch, name):
    method, arguments = METHODS[name]
    monkeypatch.setattr(layout, "_known", type(layout._known)())
    monkeypatch.setattr(simulate, "compiled_opening", Programs(simulate._spread_opening, static=1))
    monkeypatch.setattr(simulate, "compiled_advance", Programs(simulate._spread_advance, static=2, donate=3))
    run = ud.describe(method, linear(), rounds=1, **arguments)
    simulate.simulate(run)
    ((_, overheard),) = layout._known.items()
    assert overheard == message_shapes(run.algorithm, run.population, run.oracle)


def test_a_run_of_a_network_is_few_programs(caplog):
    """Its start, opening, rounds, and a number for JAX's settings: every other would be compiled, or loaded, by itself."""
    problem = cut_network()
    with jax.log_compiles(), caplog.at_level(logging.WARNING, logger="jax"):
        ud.run(ud.fedavg(eta=0.125), problem, rounds=1, **SOME)
    programs = re.findall(r"Compiling jit\((\w+)\)", caplog.text)
    assert sorted(set(programs) - {"_context", "draw"}) == ["_spread_advance", "_spread_opening"]
    assert len(programs) <= 4
