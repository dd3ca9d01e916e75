"""(placeholder until the shared reader of stored arrays arrives)"""

from __future__ import annotations
from pathlib import Path
from typing import Any


def read_stored(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    raise NotImplementedError


def write_stored(path: Path, state: dict[str, Any], arrays: dict[str, Any]) -> None:
    raise NotImplementedError
