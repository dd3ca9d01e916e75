"""One of the processes of a test of the mesh: `mesh_player.py FOLDER ADDRESS COUNT INDEX [CASE …]` plays cases with the others.

COUNT 0: one process with three devices. Each process plays its share of the cases on one device too, and writes the largest
differences.
"""

import json
import sys
from pathlib import Path

import jax
import numpy as np
from mesh_cases import CASES, ROUNDS, differences, numbers

import undrift as ud
from undrift.engine import hosts


def main(folder: str, address: str, count: str, index: str, *names: str) -> None:
    if int(count):
        hosts.connect(address, int(count), int(index))
    else:
        ud.use_devices(3)
    found = {}
    for name in names or CASES:
        method, problem, arguments = CASES[name]()
        result = ud.run(method, problem, rounds=ROUNDS, mesh=True, **arguments)
        found[name] = (numbers(result), str(result.setting.get("mesh")))
    worst = {}
    for name in list(found)[jax.process_index() :: jax.process_count()]:
        shared_out, mesh = found[name]
        method, problem, arguments = CASES[name]()
        alone = numbers(ud.run(method, problem, rounds=ROUNDS, **arguments))
        worst[name] = {"differences": differences(alone, shared_out), "mesh": mesh}
    (Path(folder) / f"compared-{index}.json").write_text(json.dumps(worst))
    hosts.gathered(np.zeros(1))  # nobody leaves before all are done


if __name__ == "__main__":
    main(*sys.argv[1:])
