"""Results in one file: a zip of plain CSV and JSON, with the SHA-256 of every member.

Whatever opens a zip opens it, and `sha256sum --check SHA256SUMS` in the unpacked folder says whether it is whole. Members are
kept as they are, in alphabetical order and without a date: the same content gives the same bytes, whoever writes it.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from undrift import files
from undrift.errors import InputError
from undrift.ownership import locked

SUMS = "SHA256SUMS"
Members = Mapping[str, bytes]


class Archive:
    """A file of named members. What is read is held against its checksum first.

    >>> import tempfile
    >>> a = Archive(Path(tempfile.mkdtemp()) / "results.zip")
    >>> a.write({"data/curves.csv": b"round,value", "claims.json": b"[]"})
    >>> a.read("data/")
    {'data/curves.csv': b'round,value'}
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, under: str = "") -> dict[str, bytes]:
        """The members whose names begin so; none where there is no file."""
        try:
            with zipfile.ZipFile(self.path) as file:
                sums = _parsed(file.read(SUMS))
                if {*file.namelist()} != {SUMS, *sums}:
                    raise self._damaged(f"its members are not those that {SUMS} lists")
                found = {name: file.read(name) for name in sorted(sums) if name.startswith(under)}
        except FileNotFoundError:
            return {}
        except (zipfile.BadZipFile, EOFError, KeyError, ValueError) as error:
            raise self._damaged(str(error)) from error
        for name, content in found.items():
            if _checksum(content) != sums[name]:
                raise self._damaged(f"{name} does not have the SHA-256 that {SUMS} lists")
        return found

    def write(self, members: Members) -> None:
        """Whole or not at all: written beside and moved into place. A file that says the same already is left alone."""
        content = _packed(members)
        if self.path.exists() and self.path.read_bytes() == content:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        files.write_bytes(self.path, content)

    def add(self, members: Members) -> None:
        """More members beside those that are there; several processes may do so at once."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.lock, wait=True):
            self.write({**self.read(), **members})

    @property
    def lock(self) -> Path:
        """Held by the process that makes what is kept here."""
        return self.path.with_name(f".{self.path.name}.lock")

    def _damaged(self, why: str) -> InputError:
        return InputError(
            f"the results in {self.path} are damaged: {why}; restore the file (git restore), or remove it to run them again"
        )


def from_json(content: bytes) -> Any:
    return json.loads(content)


def to_json(content: Any) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


def _packed(members: Members) -> bytes:
    """Not deflated: compressors differ between machines, and version control compresses for itself."""
    sums = "".join(f"{_checksum(members[name])}  {name}\n" for name in sorted(members)).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for name, content in [(SUMS, sums), *sorted(members.items())]:
            about = zipfile.ZipInfo(name)  # its date is 1980
            about.create_system, about.external_attr = 3, 0o644 << 16  # as on Unix, everywhere
            file.writestr(about, content)
    return buffer.getvalue()


def _parsed(sums: bytes) -> dict[str, str]:
    """name -> checksum"""
    return {name: checksum for checksum, name in (line.split("  ", 1) for line in sums.decode().splitlines())}


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
