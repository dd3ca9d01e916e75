"""What people see on the terminal is what was kept in texts/; `python -m tests.golden` keeps it anew."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from processes import PATIENCE

from .cases import TEXTS, cases
from .spoken import SILENT, WIDTHS, normal, trimmed

REMEDY = "if this is meant: python -m tests.golden, and read what git diff shows"
LISTED = [sys.executable, "-m", "undrift", "list", "compressors"]


@pytest.mark.parametrize("name", cases())
def test_text(name):
    path = TEXTS / f"{name}.txt"
    assert path.exists(), REMEDY
    assert cases()[name]() == path.read_text(encoding="utf-8"), REMEDY


def test_no_text_is_left_over():
    assert {path.stem for path in TEXTS.iterdir()} == set(cases()), REMEDY


def kept_at(columns: int) -> str:
    """The list of compressors at this width."""
    sections = (TEXTS / "table-list.txt").read_text(encoding="utf-8").split("===== ")
    return next(one.partition("=====\n")[2] for one in sections if one.startswith(f"{columns} columns")).rstrip("\n")


def plain_environment(**more: str) -> dict[str, str]:
    return {**{key: entry for key, entry in os.environ.items() if key not in (*SILENT, "COLUMNS")}, **more}


def test_a_pipe_is_80_columns_wide_and_has_no_colour():
    done = subprocess.run(
        LISTED, stdin=subprocess.DEVNULL, capture_output=True, env=plain_environment(), timeout=PATIENCE
    )
    assert done.returncode == 0
    assert trimmed(done.stdout.decode()).rstrip("\n") == kept_at(80)


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_terminal_of_this_width(columns):
    shown = in_terminal(columns, plain_environment(TERM="xterm-256color", NO_COLOR="1"))
    assert trimmed(re.sub(r"\x1b\[[\d;]*m", "", shown)).rstrip("\n") == kept_at(columns)


def test_a_dumb_terminal_gets_no_escape_sequences_and_80_columns():
    assert trimmed(in_terminal(120, plain_environment(TERM="dumb"))).rstrip("\n") == kept_at(80)


def test_a_terminal_with_colours_has_them():
    assert "\x1b[1m" in in_terminal(80, plain_environment(TERM="xterm-256color"))
    assert "\x1b[3" not in in_terminal(80, plain_environment(TERM="xterm-256color", NO_COLOR="1"))


def in_terminal(columns: int, environment: dict[str, str]) -> str:
    """What a process shows on a terminal of its own."""
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        process = subprocess.Popen(LISTED, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        theirs = -1
        shown = b"".join(iter(lambda: _read(ours), b""))
        assert process.wait(PATIENCE) == 0
    finally:
        for end in (ours, theirs):
            if end >= 0:
                os.close(end)
    return shown.decode().replace("\r\n", "\n")


def _read(end: int) -> bytes:
    try:
        return os.read(end, 1 << 16)
    except OSError:  # nobody is there any more
        return b""


def test_versions_of_python_say_the_same():
    """As 3.11 and as 3.13 wrap the usage and quote choices."""
    error = "undrift x: error: argument c: invalid choice: 'd' (choose from {})\n"
    old = "usage: undrift x [-h]\n                 [--a | --b]\n" + error.format("'e', 'f'")
    new = "usage: undrift x [-h] [--a | --b]\n" + error.format("e, f")
    assert normal(old) == normal(new) == new
