"""Questions are answered without JAX, which takes longer to import than any of them to answer."""

from __future__ import annotations

import subprocess
import sys

import pytest

from processes import PATIENCE
from undrift.command import facts

WRONG = ("run", "--method", "fedlim")
QUESTIONS = (("list",), ("list", "methods", "--json"), ("schema",), ("--help",), ("run", "--help"), ("--version",))


def test_what_is_written_down_is_what_the_objects_say():
    assert facts._read() == facts.observed(), "make it anew: python -m undrift.command.facts"


@pytest.mark.parametrize("heavy", ["jax", "scipy", "matplotlib", "optax"])
def test_questions_need_no_heavy_library(imported, heavy):
    assert heavy not in imported


def test_a_run_without_a_solver_needs_no_optax(imported_for_a_run):
    assert "jax" in imported_for_a_run
    assert not {"optax", "matplotlib", "sklearn", "scipy"} & imported_for_a_run


def test_the_room_of_data_stays_closed_until_it_is_needed(imported_for_a_run):
    """It takes a second to open; other problems do not wait for it."""
    assert "undrift.studies" in imported_for_a_run
    assert "undrift.data" not in imported_for_a_run


def test_a_wrong_name_is_refused_as_a_study_would(cli, tmp_path):
    """The two have one wording; the flags' comes before anything is imported."""
    for kind, table in (("problem", "[problem]"), ("method", "[problem]\nname = 'quadratic'\n[[method]]")):
        (tmp_path / "study.toml").write_text(f"{table}\nname = 'fedlim'")
        by_flag, by_file = cli("run", f"--{kind}", "fedlim:x=1"), cli("run", "study.toml")
        assert (by_flag.code, by_file.code) == (2, 2)
        said = by_flag.err.partition(f"--{kind}: ")[2]
        assert said.startswith(f"unknown {kind} 'fedlim'")
        assert said in by_file.err


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """Libraries of a process that has answered all questions."""
    ask = f"from undrift.cli import main\nfor words in {QUESTIONS}:\n    assert main(words) == 0\nassert main({WRONG}) == 2"
    return _imported(ask)


@pytest.fixture(scope="module")
def imported_for_a_run() -> set[str]:
    """What `undrift run` needs before it makes a problem."""
    return _imported(
        "import undrift.command.run\nfrom undrift.command.setting import problem_words\nproblem_words('quadratic:dim=3')"
    )


def _imported(script: str) -> set[str]:
    script += "\nimport sys\nprint('\\n' + ' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())
