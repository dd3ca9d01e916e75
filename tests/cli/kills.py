"""A death between two operations on files, and a disk that refuses: in this process, at the n-th operation."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

OPERATIONS = ("open", "fsync", "chmod", "replace", "unlink", "mkdir", "rmdir")


class Killed(BaseException):
    """What a process is that was killed: no handler for errors hears of it, and it touches no file any more."""


class Operations:
    """Counts the operations on files below a folder; `hit` is called before each with its number and name."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path, hit: Callable[[int, str], None]) -> None:
        self.folder, self.hit, self.names = str(folder), hit, list[str]()
        for name in OPERATIONS:
            patch.setattr(os, name, self._counted(name, getattr(os, name)))

    def _counted(self, name: str, real: Any) -> Any:
        def counted(target: Any, *rest: Any, **named: Any) -> Any:
            if isinstance(target, int) or os.path.abspath(target).startswith(self.folder):
                self.names.append(name)
                self.hit(len(self.names) - 1, name)
            return real(target, *rest, **named)

        return counted


def count_operations(patch: pytest.MonkeyPatch, folder: Path, do: Callable[[], Any]) -> list[str]:
    """What is done to files below the folder, by name."""
    with patch.context() as inner:
        operations = Operations(inner, folder, lambda number, name: None)
        do()
    return operations.names


def killed_at(patch: pytest.MonkeyPatch, folder: Path, number: int, do: Callable[[], Any]) -> None:
    """Do it, but die before the operation of this number: from then on nothing reaches the disk."""

    def hit(now: int, name: str) -> None:
        if now >= number:
            raise Killed

    with patch.context() as inner:
        Operations(inner, folder, hit)
        with pytest.raises(Killed):
            do()


def refused_at(
    patch: pytest.MonkeyPatch, folder: Path, error: OSError, wanted: Callable[[int, str], bool], do: Callable[[], Any]
) -> Any:
    """Do it on a disk that refuses the operations that are `wanted`."""

    def hit(now: int, name: str) -> None:
        if wanted(now, name):
            raise error

    with patch.context() as inner:
        Operations(inner, folder, hit)
        return do()
