"""Make or extend a virtual environment, and say what is being done: a line for each stage, with the time that it took.

    python tools/environment.py .venv                   undrift and what it needs: the versions of locks/demo.txt
    python tools/environment.py .venv dev               besides, what an extra needs: the versions of locks/dev.txt
    python tools/environment.py .venv dev --newest      the newest versions that pyproject.toml allows instead

What pip says is shown where it fails. It needs Python alone, as it comes before everything else.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

OLDEST = (3, 11)
LARGE = 5.0  # MB of a download that is worth a line
DOWNLOAD = re.compile(r"^\s*Downloading (\S+?)-\d\S* \(([\d.]+) ([kMG]B)\)")
UNITS = {"kB": 1e-3, "MB": 1.0, "GB": 1e3}
PIP = ("-m", "pip", "--disable-pip-version-check", "install", "--progress-bar", "off")
LOCKS = Path(__file__).parents[1] / "locks"


def say(text: str, end: str = "\n") -> None:
    print(text, end=end, flush=True)


@contextmanager
def stage(what: str, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """A line before, and one after with the seconds."""
    say(f"{what} …")
    start = clock()
    yield
    say(f"  done in {clock() - start:.0f} s")


def large_downloads(lines: Iterable[str]) -> Iterator[str]:
    """What pip says of large files, in a few words; every line goes on into the log of the caller.

    >>> list(large_downloads(["Collecting jaxlib", "  Downloading jaxlib-0.10.2-cp311-cp311-x.whl (83.2 MB)"]))
    ['jaxlib (83 MB)']
    >>> list(large_downloads(["Downloading rich-14.0.0-py3-none-any.whl (243 kB)"]))
    []
    """
    for line in lines:
        found = DOWNLOAD.match(line)
        if found and (size := float(found[2]) * UNITS[found[3]]) >= LARGE:
            yield f"{found[1]} ({size:.0f} MB)"


def run(command: list[str]) -> None:
    """Run it and show its large downloads only; where it fails, everything that it said, and its exit code is ours."""
    log: list[str] = []

    def kept(lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            log.append(line)
            yield line

    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as made:
        assert made.stdout is not None
        for name in large_downloads(kept(made.stdout)):
            say(f"  {name}")
    if made.returncode:
        say("".join(log))
        say(f"this failed: {' '.join(command)}")
        sys.exit(made.returncode)


def installations(extra: str, newest: bool) -> list[list[str]]:
    """What pip is asked for: the locked files with their hashes, then undrift itself; or what pyproject.toml allows."""
    if newest:
        return [["--upgrade", "--editable", f".[{extra}]" if extra else "."]]
    # The lock names everything, so nothing needs to be resolved or built apart.
    return [
        ["--no-deps", "--require-hashes", "--requirement", str(LOCKS / f"{extra or 'demo'}.txt")],
        ["--no-deps", "--no-build-isolation", "--editable", "."],
    ]


def main(place: str, extra: str = "", newest: bool = False) -> None:
    """The environment there, with undrift in it as it stands here."""
    folder = Path(place)
    if sys.version_info < OLDEST:
        wanted, here = ".".join(map(str, OLDEST)), ".".join(map(str, sys.version_info[:3]))
        sys.exit(
            f"undrift needs Python {wanted} or newer, and this is {here}: name one, as in make demo PYTHON=python3.13"
        )
    python = folder / "bin" / "python"
    if not (folder / "bin" / "pip").exists():  # which comes last: without it somebody stopped this before
        with stage(f"Making {folder} with Python {'.'.join(map(str, sys.version_info[:3]))}"):
            run([sys.executable, "-m", "venv", "--clear", str(folder)])
    libraries = f"what `{extra}` needs besides" if extra else "its libraries (JAX, SciPy, Matplotlib …)"
    with stage(f"Installing undrift and {libraries}, a minute or two"):
        for words in installations(extra, newest):
            run([str(python), *PIP, *words])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", help="the folder of the environment")
    parser.add_argument("extra", nargs="?", default="", help="dev, or flower; left out: undrift alone")
    parser.add_argument("--newest", action="store_true", help="the newest versions instead of the locked ones")
    main(**vars(parser.parse_args()))
