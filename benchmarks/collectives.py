"""How fast two processes of this machine sum and gather vectors, with the collectives that JAX uses between hosts.

`python -m benchmarks.collectives RANK PORT REPEAT FILE` is one of the two.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from undrift.deploy.ports import free_port

SIZES = (4_000, 40_000_000)  # bytes of one process's vector


def collectives(repeat: int) -> dict[tuple[str, int], np.ndarray]:
    """(what, bytes) -> seconds of each turn."""
    with tempfile.TemporaryDirectory() as folder:
        file, port = Path(folder) / "seconds.json", str(free_port())
        command = [sys.executable, "-m", "benchmarks.collectives"]
        both = [subprocess.Popen([*command, str(rank), port, str(repeat), str(file)]) for rank in range(2)]
        try:
            if any(process.wait(300) for process in both):
                raise RuntimeError("a process of the collectives failed; what it said is above")
        finally:
            for process in both:
                process.kill()
                process.wait()
        found = json.loads(file.read_text())
    return {(what, size): np.asarray(seconds) for what, size, seconds in found}


def main(rank: int, port: str, repeat: int, file: Path) -> None:
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    from undrift.engine import hosts

    hosts.connect(f"127.0.0.1:{port}", 2, rank)
    mesh = jax.make_mesh((2,), ("hosts",), axis_types=(jax.sharding.AxisType.Auto,))
    dealt = PartitionSpec("hosts")
    actions = {
        "all-reduce": lambda mine: jax.lax.psum(mine, "hosts"),
        "all-gather": lambda mine: jax.lax.all_gather(mine, "hosts")[0],
    }
    found = []
    for what, action in actions.items():
        for size in SIZES:
            calls = 50 if size < 10**6 else 2

            def often(mine: Any, action: Any = action, calls: int = calls) -> Any:
                """One after the other within a program, as the rounds of a run are."""
                return jax.lax.fori_loop(0, calls, lambda _, before: action(before), mine)

            compiled = jax.jit(jax.shard_map(often, mesh=mesh, in_specs=dealt, out_specs=dealt, check_vma=False))
            mine = np.ones(size // 4, np.float32)
            vector = jax.make_array_from_process_local_data(NamedSharding(mesh, dealt), mine)
            jax.block_until_ready(compiled(vector))
            seconds = []
            for _ in range(repeat):
                began = time.perf_counter()
                jax.block_until_ready(compiled(vector))
                seconds.append((time.perf_counter() - began) / calls)
            found.append((what, size, seconds))
    if rank == 0:
        file.write_text(json.dumps(found))
    jax.distributed.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
