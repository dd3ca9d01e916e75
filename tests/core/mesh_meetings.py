"""How often two devices meet: `{case: [in a round, in an evaluation]}` as JSON, counted in the compiled program; and seats.

Five clients, so that one of them is a phantom.
"""

import json
import re
import sys
from typing import Any

from mesh_cases import rows

import undrift as ud
from undrift.api import describe
from undrift.engine.mesh import mesh_of
from undrift.engine.simulate import _Simulation, compiled_advance, compiled_opening, padded_plan

MEETING = re.compile(r" (?:all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)(?:-start)?\(")
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "fedavg, everyone": (ud.fedavg(eta=0.1), {}),
    "scaffold, everyone": (ud.scaffold(eta=0.1), {}),
    "fedlin, everyone": (ud.fedlin(eta=0.1), {}),
    "fedavg, cohorts": (ud.fedavg(eta=0.1), {"participation": ud.plan.uniform(3)}),
    "scaffold, cohorts": (ud.scaffold(eta=0.1), {"participation": ud.plan.uniform(3)}),
}


def meetings(method: Any, arguments: dict[str, Any]) -> tuple[int, int]:
    run = describe(method, rows(), rounds=4, record_every=2, **arguments).to_play()
    simulation = _Simulation(run, None, mesh_of(True))
    carry = compiled_opening(simulation.spread, simulation.inputs)
    plan = padded_plan(run, 0, 1, simulation.capacity)
    program = compiled_advance.trace(*simulation._arguments(carry, plan, 1)).lower().compile().as_text()
    found = [line for line in program.splitlines() if MEETING.search(line)]
    evaluation = sum("/cond/" in line for line in found)  # only an evaluation is conditional
    return len(found) - evaluation, evaluation


def seats() -> str:
    """What is said of cohorts that have one member on each of two devices in every round."""
    one_each = ud.plan.rule(lambda round, key: [round % 3, 3 + round % 2], 2)
    words: str = ud.run(ud.fedavg(eta=0.1), rows(), rounds=5, participation=one_each, mesh=True).setting["mesh"]
    return words


if __name__ == "__main__":
    ud.use_devices(2)
    print(json.dumps({name: meetings(*CASES[name]) for name in sys.argv[1:] or CASES} | {"seats": seats()}))
