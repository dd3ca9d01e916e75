"""Compiled programs, kept between processes.

JAX can keep what it compiles in a directory, but wants to be told where. undrift tells it when it computes for the first time,
unless the user has: `compiled` in the user's cache directory, `$UNDRIFT_COMPILED` (`off`, or a directory), `keep_compiled`.

JAX's own files are not written whole or not at all: one that was cut short (a kill, a full disk) is complained about by every
process ever after. So JAX is given a `Shelf`, which writes beside and moves, keeps a checksum, removes what is damaged, stays
below a size, and is silent: the worst that can happen to a program is that it is compiled once more.

What lies there is machine code that will be run. A directory into which others can write is not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import stat
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, cast

from .errors import InputError

VARIABLE, DOWNLOADS = "UNDRIFT_COMPILED", "UNDRIFT_CACHE"
OFF = "off"
MOST_BYTES = 2**30  # that are kept; LeNet-5's largest program takes 0.2 MB
LOOK_AGAIN = 200  # programs that are written before the size is looked at once more
FORGOTTEN = 3600.0  # seconds after which a file that is still being written is nobody's
_FOLDER, _PROGRAM, _PART = "machine-", ".program", ".part"  # only what is called so is ever removed
_DIGEST = hashlib.sha256().digest_size

_decided = threading.Event()
_deciding = threading.RLock()


def prepare() -> None:
    """Called whenever undrift is about to compute; the first call decides.

    A cache of JAX's that the user has chosen is left alone, unless `$UNDRIFT_COMPILED` asks for something else.
    """
    if _decided.is_set():
        return
    with _deciding:
        if _decided.is_set():
            return
        import jax

        settings = jax.config.values
        unsaid = settings["jax_compilation_cache_dir"] is None and settings["jax_enable_compilation_cache"]
        if unsaid or os.environ.get(VARIABLE):
            _use(_chosen())
        _decided.set()


def keep_compiled(where: str | os.PathLike[str] | None) -> None:
    """Keep compiled programs in this directory from now on, or keep none ("off" or None).

    By default they are kept in `compiled` of the user's cache directory, unless JAX was told another place
    (`JAX_COMPILATION_CACHE_DIR`). Others must not be able to write into the directory: what lies there is run.
    """
    with _deciding:
        _use(_named(where))
        _decided.set()


def _chosen() -> Path | None:
    """The directory that the environment asks for, or the usual one, or None where there is none to trust."""
    if word := os.environ.get(VARIABLE):
        return _named(word)
    root = _user_cache()
    place = None if root is None else root / "compiled"
    return place if place is not None and _is_private(place) else None


def _named(where: str | os.PathLike[str] | None) -> Path | None:
    """A directory that the user names."""
    if where is None or where == OFF:
        return None
    place = Path(where).expanduser().absolute()
    if place.exists() and not place.is_dir():
        raise InputError(f"compiled programs are kept in a directory, got the file {place}: name another, or {OFF}")
    if place.exists() and not _is_private(place):
        raise InputError(
            f"compiled programs are run, so nobody else may write where they are kept, got {place}: chmod 700 it if it is "
            f"yours, name another, or {OFF}"
        )
    return place if _is_private(place) else None


def _user_cache() -> Path | None:
    """The user's cache directory of undrift; None for somebody without a home."""
    if named := os.environ.get(DOWNLOADS):
        return Path(named).expanduser().absolute()
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "undrift" / "undrift" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "undrift"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "undrift"


def _is_private(place: Path) -> bool:
    """Whether the directory, made if it was not there, is one that nobody but this user (and root) can write into."""
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = place.stat()
    except OSError:
        return False  # no place, no cache: a run does not depend on one
    if not stat.S_ISDIR(found.st_mode) or not hasattr(os, "geteuid"):
        return stat.S_ISDIR(found.st_mode)  # elsewhere the system's own folders are private
    return found.st_uid in (os.geteuid(), 0) and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _use(place: Path | None) -> None:
    """Tell JAX."""
    import jax
    from jax._src import compilation_cache

    compilation_cache.reset_cache()
    jax.config.update("jax_compilation_cache_dir", None if place is None else str(place))
    if place is None:
        return
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    if hasattr(compilation_cache, "_cache") and hasattr(compilation_cache, "_cache_initialized"):
        compilation_cache._cache = cast("Any", Shelf(place))  # it asks for no more than `get`, `put` and `_path`
        compilation_cache._cache_initialized = True


def _machine() -> str:
    """A name for the processor: a home directory may be shared by machines that cannot run each other's programs."""
    facts = [platform.system(), platform.machine(), platform.processor()]
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().partition("\n\n")[0].splitlines()
        facts += [line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))]
    return _FOLDER + hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


class Shelf:
    """What JAX asks for programs by their keys, and gives new ones to. It never raises."""

    def __init__(self, root: Path, most: int = MOST_BYTES) -> None:
        """In a folder of this machine's in `root`; `most`: bytes of all machines' programs together."""
        self._path, self.root, self.most = root / _machine(), root, most
        self.until_look = 0

    def get(self, key: str) -> bytes | None:
        """The program, or None."""
        place = self._place(key)
        try:
            content = place.read_bytes()
            digest, program = content[:_DIGEST], content[_DIGEST:]
            if digest != hashlib.sha256(program).digest():
                place.unlink()
                return None
            with contextlib.suppress(OSError):  # it may be read, not changed
                os.utime(place)
        except OSError:
            return None
        return program

    def put(self, key: str, value: bytes) -> None:
        """Keep a program, if there is room for it."""
        with contextlib.suppress(OSError):
            self._path.mkdir(mode=0o700, exist_ok=True)
            if self.until_look <= 0:
                self._make_room()
                self.until_look = LOOK_AGAIN
            self.until_look -= 1
            handle, name = tempfile.mkstemp(suffix=_PART, dir=self._path)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(hashlib.sha256(value).digest() + value)
                os.replace(name, self._place(key))
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(name)
                raise

    def _place(self, key: str) -> Path:
        return self._path / (key[-150:] + _PROGRAM)  # file systems have a longest name; the end of a key is its hash

    def _make_room(self) -> None:
        """Remove what was not used for longest, down to three quarters of what may lie here."""
        found = []
        for file in self.root.glob(f"{_FOLDER}*/*"):
            with contextlib.suppress(OSError):  # another process makes room too
                about = file.stat()
                if file.suffix == _PROGRAM:
                    found.append((about.st_mtime, about.st_size, file))
                elif file.suffix == _PART and about.st_mtime < time.time() - FORGOTTEN:
                    file.unlink()
        total = sum(size for _, size, _ in found)
        if total <= self.most:
            return
        for _, size, file in sorted(found):
            file.unlink(missing_ok=True)
            total -= size
            if total <= 3 * self.most // 4:
                return
