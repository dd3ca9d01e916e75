"""Compiled programs that outlive their process: kept, found again, and never a reason for a run to fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import undrift as ud
from undrift import compiled
from undrift.compiled import Shelf

PLAY = """
import collections, json, sys
import jax
import numpy as np
import undrift as ud
events = collections.Counter()
jax.monitoring.register_event_listener(lambda name, **_: events.update([name.rpartition("/")[2]]))
problem = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
x = ud.run(ud.fedlin(eta=0.1), problem, rounds=3, steps=5).x
print(json.dumps({"x": x.tolist(), "events": events, "where": jax.config.jax_compilation_cache_dir}))
"""


def in_a_process(home: Path, **variables: str) -> dict:
    """What a process says that plays a run, for a user with this cache directory and these variables."""
    kept = {name: word for name, word in os.environ.items() if not name.startswith(("JAX_", "UNDRIFT_", "XDG_"))}
    environment = kept | {"XDG_CACHE_HOME": str(home), "HOME": str(home)} | variables
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PLAY], env=environment, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names of cache directories are the system's")
def test_a_second_process_compiles_nothing(tmp_path):
    first, second = in_a_process(tmp_path), in_a_process(tmp_path)
    assert first["where"] == second["where"] == str(tmp_path / "undrift" / "compiled")
    assert first["events"]["cache_misses"] == first["events"]["compile_requests_use_cache"] > 0
    assert second["events"].get("cache_misses", 0) == 0
    assert second["events"]["cache_hits"] == second["events"]["compile_requests_use_cache"]
    assert second["x"] == first["x"]
    assert (tmp_path / "undrift" / "compiled").stat().st_mode & 0o777 == 0o700


def test_it_can_be_switched_off(tmp_path):
    said = in_a_process(tmp_path, UNDRIFT_COMPILED="off")
    assert said["where"] is None
    assert "cache_misses" not in said["events"]
    assert not files_in(tmp_path)


@pytest.mark.slow
def test_a_directory_that_cannot_be_written_is_survived(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no directory")
    said = in_a_process(tmp_path, UNDRIFT_COMPILED=str(blocked / "below"))
    assert said["where"] is None
    assert said["x"] == in_a_process(tmp_path, UNDRIFT_COMPILED="off")["x"]


def test_what_the_user_told_jax_is_left_alone():
    before = jax.config.jax_compilation_cache_dir
    assert before == os.environ["JAX_COMPILATION_CACHE_DIR"]  # of the suite, which is such a user
    problem = ud.problems.quadratic(np.array([[[1.0]]]), np.array([[3.0]]))
    ud.run(ud.fedlin(eta=0.1), problem, rounds=1)
    assert jax.config.jax_compilation_cache_dir == before


def test_a_program_comes_back(tmp_path):
    shelf = Shelf(tmp_path)
    assert shelf.get("jit_f-0a1b") is None
    shelf.put("jit_f-0a1b", b"machine code")
    assert Shelf(tmp_path).get("jit_f-0a1b") == b"machine code"
    assert Shelf(tmp_path).get("jit_f-0a1c") is None


def test_a_name_as_long_as_a_function_may_have(tmp_path):
    shelf, key = Shelf(tmp_path), "jit_" + 1000 * "f" + "-0a1b"
    shelf.put(key, b"machine code")
    assert shelf.get(key) == b"machine code"


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:10], lambda b: b"", lambda b: b[:-1] + b"!"])
def test_what_was_damaged_is_removed_and_compiled_anew(tmp_path, damage):
    shelf = Shelf(tmp_path)
    shelf.put("key", b"machine code")
    (file,) = files_in(tmp_path)
    file.write_bytes(damage(file.read_bytes()))
    assert shelf.get("key") is None
    assert not file.exists()
    shelf.put("key", b"machine code")
    assert shelf.get("key") == b"machine code"


def test_a_shelf_that_cannot_be_written_says_nothing(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no directory")
    shelf = Shelf(blocked / "below")
    shelf.put("key", b"machine code")
    assert shelf.get("key") is None


def test_what_was_not_used_for_longest_makes_room_and_nothing_else(tmp_path):
    own = tmp_path / "machine-x" / "thesis.txt"
    own.parent.mkdir()
    own.write_text("the user's own")
    shelf = Shelf(tmp_path, most=1000)
    for k in range(9):
        shelf.put(f"key{k}", bytes(100))
    for age, k in enumerate([3, 0, 1, 2, 4, 5, 6, 7, 8]):
        os.utime(shelf._place(f"key{k}"), (age, age))
    shelf.until_look = 0
    shelf.put("one more", bytes(100))
    kept = [k for k in range(9) if shelf.get(f"key{k}") is not None]
    assert kept == [4, 5, 6, 7, 8]  # 9·132 bytes were too many; at most 750 stay when room is made
    assert own.exists()


def test_what_killed_writers_left_is_swept_up(tmp_path):
    shelf = Shelf(tmp_path)
    shelf.put("key", b"machine code")
    old, new = shelf._path / "old.part", shelf._path / "new.part"
    old.write_bytes(b"")
    new.write_bytes(b"")
    os.utime(old, (0, 0))
    shelf.until_look = 0
    shelf.put("another", b"machine code")
    assert new.exists()
    assert not old.exists()


def test_a_directory_that_others_can_write_into_is_refused(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(ud.InputError, match=r"nobody else may write where they are kept.*chmod 700"):
        ud.keep_compiled(shared)
    with pytest.raises(ud.InputError, match="are kept in a directory, got the file"):
        ud.keep_compiled(__file__)


def test_the_usual_place_is_not_used_where_others_can_write_into_it(tmp_path, monkeypatch):
    monkeypatch.delenv("UNDRIFT_COMPILED", raising=False)
    monkeypatch.setenv("UNDRIFT_CACHE", str(tmp_path))
    assert compiled._chosen() == tmp_path / "compiled"
    (tmp_path / "compiled").chmod(0o770)
    assert compiled._chosen() is None


def test_somebody_without_a_home_has_no_cache(monkeypatch):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("UNDRIFT_COMPILED", "UNDRIFT_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert compiled._chosen() is None


def test_the_usual_place_is_beside_the_downloads(monkeypatch):
    import pooch

    monkeypatch.delenv("UNDRIFT_CACHE", raising=False)
    assert compiled._user_cache() == Path(pooch.os_cache("undrift"))
