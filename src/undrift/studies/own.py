"""Methods, problems, models, compressors, rules and schedules from a user's own file: which code may run, and running it.

A study file may come from anybody, and `name = "x.py:factory"` in it means running x.py, wherever in the study it stands. That
happens only after somebody said yes to this very file: a flag that he typed himself (`--method x.py:factory`, `--trust`), or an
answer to a question on the terminal. Who said yes is remembered by the SHA-256 of the file, in `trusted.txt` of the user's
state directory; a file whose content changed is asked about again. What is run is the bytes that were hashed.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from ..errors import InputError, StorageError, unknown
from ..files import storage, write_text

LOADED_AS = "undrift_user_"  # how names of modules from users' files begin
MARK = ".py:"  # in a name: before it a file, after it a factory in that file
# Who names the programs of a table [problem]: a study file, or None, the user himself. Nobody is trusted who was not set here.
asking: ContextVar[str | None] = ContextVar("asking", default="the problem")
# What a factory of each kind returns
MADE = {
    "method": "an Algorithm",
    "problem": "a problem, what ud.problems.custom(…) and its kin return",
    "compressor": "a Compressor",
    "oracle": "an Oracle",
    "participation": "a Participation, such as ud.plan.rule(function, count)",
    "steps": "local steps: numbers, ud.plan.random_steps(…) and its kin, or a function (round, key) -> numbers",
    "schedule": "a function of t, the number of rounds played before this one",
    "stop": "a rule of ud.stop",
}
ARTICLE = {"oracle": "an", "steps": "local", "participation": "the"}
_said_yes: set[str] = set()  # hashes, in this process


def is_own(name: str) -> bool:
    """Whether a name means running a file.

    >>> is_own("fedlin"), is_own("my/method.py:factory")
    (False, True)
    """
    return MARK in name


def own_object(word: str, what: str) -> Any:
    """What path/to/file.py:name of a table [problem] means, if the file may run (see `asking`)."""
    path, attribute = file_of(word)
    file = path.resolve()
    module = own_module(file, asking.get(), what)
    if not hasattr(module, attribute):
        names = [name for name in vars(module) if not name.startswith("_")]
        raise unknown(f"{what} in {file.name}", attribute, names)
    return getattr(module, attribute)


def names_own(words: Any) -> bool:
    """Whether words (a string, or tables and lists of them) mean running a file.

    >>> names_own({"name": "x.py:top", "k": 3}), names_own(["top_k:5", 3])
    (True, False)
    """
    if isinstance(words, Mapping | list | tuple):
        return any(map(names_own, words.values() if isinstance(words, Mapping) else words))
    return isinstance(words, str) and is_own(words)


def map_own(words: Any, change: Callable[[str], str]) -> Any:
    """The words with every name that means running a file changed."""
    if isinstance(words, str):
        return change(words) if is_own(words) else words
    if isinstance(words, Mapping):
        return {key: map_own(entry, change) for key, entry in words.items()}
    return [map_own(entry, change) for entry in words] if isinstance(words, list | tuple) else words


def file_of(word: str) -> tuple[Path, str]:
    """The file that a word names, and what stands after it: the factory, and arguments.

    >>> file_of("a/x.py:top:k=3")[1]
    'top:k=3'
    """
    stem, _, rest = word.partition(MARK)
    return Path(stem + ".py").expanduser(), rest


def absolute_own(words: Any, folder: Path) -> Any:
    """The words with the files in them, relative to `folder`, in full."""

    def full(word: str) -> str:
        file, rest = file_of(word)
        return f"{(folder / file).resolve()}:{rest}"

    return map_own(words, full)


def vouch(words: Any) -> None:
    """The user typed these words himself: the files that they name may run."""

    def say_yes(word: str) -> str:
        file = file_of(word)[0].resolve()
        if file.is_file():
            with storage(file):
                remember(file, hashlib.sha256(file.read_bytes()).hexdigest())
        return word

    map_own(words, say_yes)


def own_factory(name: str, kind: str, asked_by: str | None = None) -> Callable[..., Any]:
    """What `path/to/file.py:factory` names. `asked_by`: the study file that names it; None: the user himself."""
    path, attribute = file_of(name)
    file = path.resolve()
    module = own_module(file, asked_by, kind)
    if not hasattr(module, attribute):
        names = [word for word, thing in vars(module).items() if callable(thing) and not word.startswith("_")]
        raise unknown(f"factory in {file.name}", attribute, names)
    found: Any = getattr(module, attribute)
    if not callable(found):
        raise InputError(f"{attribute} in {file.name} is {found!r}: a factory is a function that returns {MADE[kind]}")
    return cast("Callable[..., Any]", found)


def own_module(file: Path, asked_by: str | None, kind: str = "method") -> ModuleType:
    """The module of a trusted file. `asked_by`: the study that names it; None: the user himself."""
    if not file.is_file():
        raise InputError(f"the {kind}'s file {file} does not exist")
    with storage(file):
        code = file.read_bytes()
    digest = hashlib.sha256(code).hexdigest()
    if asked_by is None:
        remember(file, digest)
    elif not is_trusted(digest):
        _ask(file, digest, asked_by, kind)
        remember(file, digest)
    return _loaded(file, code)


@functools.lru_cache(maxsize=64)
def _loaded(file: Path, code: bytes) -> ModuleType:
    """The same content is the same module, and its methods are the same programs."""
    module = ModuleType(LOADED_AS + file.stem)
    module.__file__ = str(file)
    sys.modules[module.__name__] = module  # dataclasses look themselves up there
    try:
        exec(compile(code, str(file), "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        line = "" if isinstance(error, SyntaxError) else line_of(error)  # a SyntaxError names its own line
        raise InputError(f"{file} cannot be imported: {line and line + ': '}{type(error).__name__}: {error}") from error
    return module


def line_of(error: BaseException) -> str:
    """Where in a user's own file an error was raised, or what was called from there; nothing where no such file took part."""
    steps = traceback.walk_tb(error.__traceback__)
    own = [(frame, line) for frame, line in steps if frame.f_globals.get("__name__", "").startswith(LOADED_AS)]
    if not own:
        return ""
    frame, line = own[-1]
    function = frame.f_code.co_name
    within = "" if function.startswith("<module") else f", in {function}"
    return f"{Path(frame.f_code.co_filename).name}, line {line}{within}"


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
    what = f"{asked_by} names {ARTICLE.get(kind, 'a')} {kind} in {file} (SHA-256 {digest}), which is a program"
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        raise InputError(f"{what}: read it, and give --trust if it may run")
    print(f"undrift: {what}.\nMay it run, now and whenever it is unchanged? Type yes if you have read it: ", end="",
          file=sys.stderr, flush=True)  # fmt: skip
    if sys.stdin.readline().strip().lower() != "yes":
        raise InputError(f"{file} was not run: {asked_by} needs it; read it, and answer yes or give --trust")
