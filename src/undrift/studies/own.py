"""Methods, models and losses from a user's own file: which code may run, and running it.

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
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import InputError, StorageError, unknown
from ..files import storage, write_text

MARK = ".py:"  # in the name of a method: before it a file, after it a factory in that file
# Who names the programs of a table [problem]: a study file, or None, the user himself. Nobody is trusted who was not set here.
asking: ContextVar[str | None] = ContextVar("asking", default="the problem")
_said_yes: set[str] = set()  # hashes, in this process


def is_own(name: str) -> bool:
    """Whether a method's name means running a file.

    >>> is_own("fedlin"), is_own("my/method.py:factory")
    (False, True)
    """
    return MARK in name


def own_object(word: str, what: str) -> Any:
    """What path/to/file.py:name of a table [problem] means, if the file may run (see `asking`)."""
    path, _, attribute = word.rpartition(MARK)
    file = Path(path + ".py").expanduser().resolve()
    module = own_module(file, asking.get(), what)
    if not hasattr(module, attribute):
        names = [name for name in vars(module) if not name.startswith("_")]
        raise unknown(f"{what} in {file.name}", attribute, names)
    return getattr(module, attribute)


def own_module(file: Path, asked_by: str | None, what: str = "method") -> ModuleType:
    """The module of a trusted file. `asked_by`: the study that names it; None: the user himself."""
    if not file.is_file():
        raise InputError(f"the {what}'s file {file} does not exist")
    with storage(file):
        code = file.read_bytes()
    digest = hashlib.sha256(code).hexdigest()
    if asked_by is None:
        remember(file, digest)
    elif not is_trusted(digest):
        _ask(file, digest, asked_by, what)
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


def _ask(file: Path, digest: str, asked_by: str, kind: str) -> None:
    """Somebody at a terminal says yes, or nothing of the file is run."""
    what = f"{asked_by} names a {kind} in {file} (SHA-256 {digest}), which is a program"
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        raise InputError(f"{what}: read it, and give --trust if it may run")
    print(f"undrift: {what}.\nMay it run, now and whenever it is unchanged? Type yes if you have read it: ", end="",
          file=sys.stderr, flush=True)  # fmt: skip
    if sys.stdin.readline().strip().lower() != "yes":
        raise InputError(f"{file} was not run: {asked_by} needs it; read it, and answer yes or give --trust")
