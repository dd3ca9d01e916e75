"""What a server and its sites agree on before the first message, and its hash.

It holds the study in words, the names of the sites, the versions and the hashes of users' own method files. It holds no data
and no hash of data. A site shows it to a person, who accepts it by its hash, or finds it equal to a study file at hand.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

import msgspec

from ..engine.description import Run
from ..errors import InputError
from ..protocol import Exchange, OneByOne, Program, Repeat, placed
from .frames import PROTOCOL

LONGEST = 2**20  # bytes of a contract
SEEN = {
    "up": "from each site to the server",
    "down": "from the server to each site",
    "peer": "from site to site, through the server, which can read it",
}


class Contract(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See the module's docstring."""

    protocol: int
    undrift: str
    study: dict[str, Any]  # the tables problem, run, method (one)
    sites: Annotated[list[str], msgspec.Meta(min_length=1)]
    absences: bool  # whether rounds may be played without sites that are away
    code: dict[str, str]  # name of a method's file -> SHA-256 of its content

    def document(self) -> bytes:
        """The contract as it travels; equal contracts have equal bytes."""
        return msgspec.json.encode(self, order="deterministic")

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.document()).hexdigest()

    @classmethod
    def read(cls, document: bytes) -> Contract:
        """From the bytes that came, checked; the protocol must be ours."""
        if len(document) > LONGEST:
            raise InputError(f"a contract has at most {LONGEST} bytes, got {len(document)}")
        try:
            contract = msgspec.json.decode(document, type=cls)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            raise InputError(f"the server's contract cannot be read: {error}") from error
        if contract.protocol != PROTOCOL:
            raise InputError(
                f"the server speaks version {contract.protocol} of the protocol, this site {PROTOCOL}: install the same "
                "undrift on both sides"
            )
        return contract


def explain(contract: Contract, run: Run) -> list[str]:
    """The contract in words: which method, what each message holds, how many bytes a round, what the server can learn."""
    lines = [
        f"contract {contract.hash}",
        f"method: {run.method}, {run.rounds} rounds, seed {run.seed}",
        f"model: {run.population.dim} numbers ({run.population.dtype}), problem {contract.study['problem']}",
        f"sites: {', '.join(contract.sites)}",
        f"each round: {run.plan}",
        "without sites that are away" if contract.absences else "everybody is waited for",
        "messages:",
    ]
    algorithm, place = run.algorithm, 0
    for title, program in (
        ("once, at the start", algorithm.start),
        ("in round 1", algorithm.first or ()),
        ("in every round", algorithm.round),
    ):
        for at, step, how in _exchanges(program, place):
            place = at + 1
            shapes, account = run.shapes[at], step.account
            if not account.on_wire:
                continue
            lines.append(f"  {title}{how}: {step.name}")
            lines.append(f"    {SEEN.get(account.down_link, account.down_link)}: {shapes.down_bytes} bytes")
            lines.append(f"    {SEEN.get(account.up_link, account.up_link)}: {shapes.up_bytes} bytes")
    lines.append(
        "after every round: the model goes to all sites, which answer its loss and gradient on their data (off the ledger)"
    )
    lines.append(
        "the server sees every message: models and gradients of single sites, from which something of their data can be "
        "inferred; samples are never sent"
    )
    return lines


def _exchanges(program: Program, place: int, how: str = "") -> Any:
    for at, step in placed(program, place):
        if isinstance(step, Exchange):
            yield at, step, how
        elif isinstance(step, Repeat):
            yield from _exchanges(step.program, at, f"{how}, repeated")
        elif isinstance(step, OneByOne):
            yield from _exchanges(step.program, at, f"{how}, site after site")
