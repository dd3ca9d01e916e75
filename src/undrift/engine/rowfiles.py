"""The rows of a checkpoint in files of their own: each process writes those that it keeps.

A file holds a block of clients' rows of every memory. The checkpoint itself, which process 0 writes when all of them are on the
disk, names them with their SHA-256: until then the old checkpoint stands with its own files, whose names hold another round or
another number of processes.
Whoever reads takes the rows it needs from whichever files they are in, so that another number of processes can go on.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import jax
import msgspec
import numpy as np

from ..errors import CheckpointError, StorageError
from ..files import storage
from . import hosts
from .mesh import Piece, own_rows
from .stored import Stored, write

NAME = r"checkpoint\.rows-\d{1,10}-\d{1,6}-\d{1,12}\.npz"  # length, processes, first client
_Number = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]


class Block(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file with the rows of clients first … last − 1."""

    file: Annotated[str, msgspec.Meta(pattern=f"^{NAME}$")]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    first: _Number
    last: _Number


class Rows(msgspec.Struct, forbid_unknown_fields=True):
    """What such a file says besides its arrays."""

    identity: str
    length: _Number
    first: _Number


def write_blocks(
    folder: Path, identity: str, length: int, leaves: Mapping[str, jax.Array], clients: int
) -> tuple[Block, ...]:
    """The rows of all leaves, of which this process writes its own; the blocks of all processes."""
    found: dict[int, dict[str, np.ndarray]] = {}
    for name, leaf in leaves.items():
        for first, rows in own_rows(leaf, clients):
            found.setdefault(first, {})[name] = rows
    failure: StorageError | None = None
    mine: list[Block] = []
    try:
        mine = [_write(folder, identity, length, first, arrays) for first, arrays in found.items()]
    except StorageError as error:
        failure = error  # the others must hear of it
    everyone = hosts.gathered_texts(None if failure else msgspec.json.encode(mine).decode())
    if failure is not None:
        raise failure
    if None in everyone:
        raise StorageError(f"{folder}: process {everyone.index(None)} could not write its rows: see what it said")
    blocks = (block for text in everyone for block in msgspec.json.decode(text or "[]", type=list[Block]))
    return tuple(sorted(blocks, key=lambda block: block.first))


def _write(folder: Path, identity: str, length: int, first: int, arrays: Mapping[str, np.ndarray]) -> Block:
    path = folder / f"checkpoint.rows-{length}-{hosts.count()}-{first}.npz"
    write(path, Rows(identity, length, first), arrays)
    last = first + len(next(iter(arrays.values())))
    with storage(path):
        return Block(path.name, hashlib.sha256(path.read_bytes()).hexdigest(), first, last)


def sweep_up(folder: Path, needed: Sequence[Block]) -> None:
    """Remove the files of rows that no checkpoint names any more."""
    names = {block.file for block in needed}
    with storage(folder):
        for path in folder.iterdir():
            if re.fullmatch(NAME, path.name) and path.name not in names:
                path.unlink(missing_ok=True)


def read_rows(
    folder: Path, blocks: Sequence[Block], shapes: Mapping[str, Any], identity: str, first: int, last: int, remedy: str
) -> dict[str, Piece]:
    """Rows first … last − 1 of every leaf, from whichever files they are in."""
    clients = next(iter(shapes.values())).shape[0]
    ends = [0, *(block.last for block in blocks)]
    if any(block.first != end for block, end in zip(blocks, ends, strict=False)) or ends[-1] != clients:
        raise CheckpointError(f"{folder}: the files of its checkpoint do not hold rows 0 … {clients - 1}: {remedy}")
    parts: dict[str, list[np.ndarray]] = {name: [] for name in shapes}
    for block in blocks:
        if block.last <= first or block.first >= last:
            continue
        cut = slice(max(first - block.first, 0), min(last, block.last) - block.first)
        for name, rows in _read(folder, block, shapes, identity, remedy).items():
            parts[name].append(rows[cut])
    return {name: Piece(first, np.concatenate(rows), clients) for name, rows in parts.items()}


def _read(folder: Path, block: Block, shapes: Mapping[str, Any], identity: str, remedy: str) -> dict[str, np.ndarray]:
    path = folder / block.file
    with storage(path):
        if hashlib.sha256(path.read_bytes()).hexdigest() != block.sha256:
            raise CheckpointError(f"{path} is not the file that checkpoint.npz names (its SHA-256 differs): {remedy}")
    stored = Stored(path, remedy)
    if stored.state(Rows).identity != identity:
        stored.refuse("it belongs to another run")
    size = block.last - block.first
    found = {name: stored.take(name, (size, *s.shape[1:]), s.dtype) for name, s in shapes.items()}
    stored.finish()
    return found
