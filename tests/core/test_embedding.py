"""A run inside other programs: in a notebook's kernel, a coroutine, a thread; and the word before a fork."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import undrift as ud


def play() -> np.ndarray:
    problem = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    return ud.run(ud.fedlin(eta=0.1), problem, rounds=20, steps=5).x


@pytest.fixture(scope="module")
def alone() -> np.ndarray:
    return play()


def test_inside_a_coroutine(alone):
    async def main() -> np.ndarray:
        return play()

    np.testing.assert_array_equal(asyncio.run(main()), alone)


def test_in_a_thread_while_other_coroutines_go_on(alone):
    async def main() -> tuple[list[np.ndarray], bool]:
        going = asyncio.Event()
        runs = asyncio.gather(*(asyncio.to_thread(play) for _ in range(2)))
        asyncio.get_running_loop().call_soon(going.set)
        await going.wait()
        return await runs, going.is_set()

    ends, went_on = asyncio.run(main())
    assert went_on
    for end in ends:
        np.testing.assert_array_equal(end, alone)


def test_in_a_thread_with_a_checkpoint_no_handler_is_touched(alone, tmp_path):
    ends: list[np.ndarray] = []

    def work() -> None:
        problem = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
        ends.append(ud.run(ud.fedlin(eta=0.1), problem, rounds=20, steps=5, checkpoint=tmp_path).x)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    np.testing.assert_array_equal(ends[0], alone)


CELL = """
import asyncio
import numpy as np, undrift as ud

assert asyncio.get_event_loop().is_running()
problem = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
print("here", ud.run(ud.fedlin(eta=0.1), problem, rounds=20, steps=5).x.tobytes().hex())
"""
AWAITED = """
result = await asyncio.to_thread(ud.run, ud.fedlin(eta=0.1), problem, rounds=20, steps=5)
print("awaited", result.x.tobytes().hex())
"""


@pytest.mark.slow
def test_in_a_notebook(alone, tmp_path):
    """In a process of its own: the notebook's client has an event loop too."""
    script = f"""
import nbformat, nbclient
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in ({CELL!r}, {AWAITED!r})])
nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
for cell in book.cells:
    print("".join(out.get("text", "") for out in cell.outputs if out.get("name") == "stdout"), end="")
"""
    said = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert said.returncode == 0, said.stderr
    assert said.stdout.split() == ["here", alone.tobytes().hex(), "awaited", alone.tobytes().hex()]


FORK = """
import os, sys, warnings
import numpy as np, undrift as ud

def fork():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        child = os.fork()
        if not child:
            os._exit(0)
    os.waitpid(child, 0)
    return [str(one.message) for one in found if "undrift" in str(one.message)]

before = fork()
problem = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
for _ in range(2):
    ud.run(ud.fedlin(eta=0.1), problem, rounds=2)
after = fork()
print(len(before), len(after), after[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks")
def test_a_fork_after_a_run_is_warned_of_with_the_remedy(tmp_path):
    said = subprocess.run([sys.executable, "-c", FORK], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("0 1 this process has computed with undrift")
    assert "get_context('spawn')" in said.stdout
    assert (Path(__file__).parents[2] / "docs" / "embedding.md").exists()
