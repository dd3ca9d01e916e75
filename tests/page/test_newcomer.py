"""A newcomer's first minutes: commands as they are typed, and the page in a browser."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import webbrowser
from pathlib import Path

import pytest

from undrift.cli import main
from undrift.command import compare

ROUNDS = 40  # of the demo: enough for FedLin to arrive
FEW = (0, 5, 7, 8)  # of its methods: FedAvg, gd, FedLin, and FedLin with compression
Shown = tuple[Path, subprocess.CompletedProcess[str], list[str]]


def undrift_here(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.chdir(folder)
        patch.setenv("COLUMNS", "80")
        code = main(list(words))
    return subprocess.CompletedProcess(list(words), code, out.getvalue(), err.getvalue())


def undrift(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with its output in a pipe."""
    return subprocess.run(
        [sys.executable, "-m", "undrift", *words],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "COLUMNS": "80", **environment},
    )


@pytest.fixture(scope="module", params=["few", pytest.param("all", marks=pytest.mark.slow)])
def shown(request, tmp_path_factory) -> Shown:
    """Where the demo was typed, what it said, and which addresses were opened. Every day it has few methods."""
    show = {"few": demo_of_few, "all": demo_as_typed}[request.param]
    return show(tmp_path_factory.mktemp("newcomer"))


def demo_of_few(folder: Path) -> Shown:
    opened: list[str] = []
    whole = compare.demo()
    few = whole.but(methods=[whole.methods[i] for i in FEW])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "demo", lambda: few)
        patch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
        said = undrift_here(folder, "demo", "--rounds", str(ROUNDS), "--open")
    return folder, said, opened


def demo_as_typed(folder: Path) -> Shown:
    browser = folder / "browser.py"
    browser.write_text(
        f"import sys\nwith open({str(folder / 'opened')!r}, 'a') as file:\n    print(sys.argv[1], file=file)\n"
    )
    said = undrift(folder, "demo", "--rounds", str(ROUNDS), "--open", BROWSER=f"{sys.executable} {browser} %s")
    opened = folder / "opened"
    return folder, said, opened.read_text().split() if opened.exists() else []


def test_without_arguments_it_says_what_to_do(tmp_path):
    said = undrift(tmp_path)
    assert (said.returncode, said.stderr) == (0, "")
    commands = re.findall(r"undrift (\w+) ", said.stdout)
    assert [name for name in ("demo", "advise", "run") if name not in commands] == []
    assert len(said.stdout.splitlines()) <= 15


def test_the_demo_ends_with_a_verdict_the_page_and_what_to_try_next(shown):
    folder, said, _ = shown
    assert said.returncode == 0, said.stderr
    assert re.search(r"^FedLin arrives after \d+ rounds; FedAvg (is|settles) ", said.stdout, re.MULTILINE)
    first, *_, page, then = said.stderr.splitlines()
    methods = len(FEW) if said.args[0] == "demo" else 11
    assert first.startswith(f"{methods} methods learn handwritten digits"), "it says what it does before it does it"
    assert page.startswith("page: runs/")
    assert (folder / page.removeprefix("page: ")).exists()
    assert then == "next: undrift explain fedlin"


def test_its_page_opens_and_begins_with_the_verdict(shown, show):
    folder, said, opened = shown
    page = folder / said.stderr.splitlines()[-2].removeprefix("page: ")
    assert opened == [page.resolve().as_uri()], "--open opens it, once"
    tab = show(page, 390)
    verdict = tab.js("document.querySelector('.verdict p').innerText").replace("\u00a0", " ")
    assert verdict.split("; ")[0] in said.stdout, "the page says what the terminal said"
    assert "τ from 2 to 20, fixed for each client" in tab.js("document.querySelector('.subtitle').textContent")
    labels = tab.js("[...document.querySelectorAll(`[data-figure='0'] .legend button`)].map(e => e.textContent)")
    assert "gd (all data in one place)" in labels
    stroke = "document.querySelector(`[data-figure='0'] g[data-series='%d'] path`).getAttribute('stroke')"
    own = {tab.js(stroke % i) for i, label in enumerate(labels) if label.startswith("fedlin")}
    assert len(own) == 1, "FedLin has one colour"
    assert tab.js("document.documentElement.scrollWidth") <= 390


def test_what_to_try_next_can_be_typed(shown):
    folder, said, _ = shown
    words = said.stderr.splitlines()[-1].removeprefix("next: undrift ").split()
    explained = undrift_here(folder, *words)
    assert explained.returncode == 0, explained.stderr
    assert "fedlin" in explained.stdout


def test_a_run_says_the_same_three_things_and_its_next_command_is_sound(tmp_path):
    small = ("--problem", "quadratic:clients=4,dim=6", "--rounds", "12", "--steps", "3")
    said = undrift_here(tmp_path, "run", "--method", "fedlin", *small)
    assert said.returncode == 0, said.stderr
    assert "FedLin is " in said.stdout
    page, then = said.stderr.splitlines()[-2:]
    assert (tmp_path / page.removeprefix("page: ")).exists()
    words = then.removeprefix("next: undrift ").split()
    assert words[0] == "compare"
    again = undrift_here(tmp_path, *words, "--no-figures")
    assert again.returncode == 0, again.stderr
    assert "FedAvg" in again.stdout
