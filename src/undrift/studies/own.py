"""Methods from a user's own file: which code may run, and running it.

A study file may come from anybody, and `name = "x.py:factory"` in it means running x.py. That happens only after somebody said
yes to this very file: a flag that he typed himself (`--method x.py:factory`, `--trust`), or an answer to a question on the
terminal. Who said yes is remembered by the SHA-256 of the file, in `trusted.txt` of the user's state directory; a file whose
content changed is asked about again. What is run is the bytes that were hashed.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from ..errors import InputError, StorageError
from ..files import storage, write_text

MARK = ".py:"  # in the name of a method: before it a file, after it a factory in that file
_said_yes: set[str] = set()  # hashes, in this process


def is_own(name: str) -> bool:
    """Whether a method's name means running a file.

    >>> is_own("fedlin"), is_own("my/method.py:factory")
    (False, True)
    """
    return MARK in name


def own_module(file: Path, asked_by: str | None) -> ModuleType:
    """The module of a trusted file. `asked_by`: the study that names it; None: the user himself."""
    if not file.is_file():
        raise InputError(f"the method's file {file} does not exist")
    with storage(file):
        code = file.read_bytes()
    digest = hashlib.sha256(code).hexdigest()
    if asked_by is None:
        remember(file, digest)
    elif not is_trusted(digest):
        _ask(file, digest, asked_by)
        remember(file, digest)
    return _loaded(file, code)


@functools.lru_cache(maxsize=64)
def _loaded(file: Path, code: bytes) -> ModuleType:
    """The same content is the same module, and its methods are the same programs."""
    module = ModuleType(f"undrift_user_{file.stem}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module  # dataclasses look themselves up there
    try:
        exec(compile(code, str(file), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        raise InputError(f"{file} cannot be imported: {type(error).__name__}: {error}") from error
    return module


def is_trusted(digest: str) -> bool:
    """Whether somebody said yes to the file with this hash, now or before."""
    return digest in _said_yes or digest in _remembered()


def remember(file: Path, digest: str) -> None:
    """Keep a yes; where nothing can be written it holds for this process."""
    _said_yes.add(digest)
    known = _remembered()
    if digest in known:
        return
    with suppress(StorageError, OSError):
        trusted_file().parent.mkdir(parents=True, exist_ok=True)
        write_text(trusted_file(), "".join(f"{h}  {path}\n" for h, path in {**known, digest: str(file)}.items()))


def trusted_file() -> Path:
    """One line a file, as sha256sum writes them; to take a yes back is to remove its line."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "undrift" / "trusted.txt"


def _remembered() -> dict[str, str]:
    try:
        lines = trusted_file().read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("  ")[::2] for line in lines)
    return {digest: path for digest, path in pairs if len(digest) == 64}


def _ask(file: Path, digest: str, asked_by: str) -> None:
    """Somebody at a terminal says yes, or nothing of the file is run."""
    what = f"{asked_by} names a method in {file} (SHA-256 {digest}), which is a program"
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        raise InputError(f"{what}: read it, and give --trust if it may run")
    print(f"undrift: {what}.\nMay it run, now and whenever it is unchanged? Type yes if you have read it: ", end="",
          file=sys.stderr, flush=True)  # fmt: skip
    if sys.stdin.readline().strip().lower() != "yes":
        raise InputError(f"{file} was not run: {asked_by} needs it; read it, and answer yes or give --trust")
