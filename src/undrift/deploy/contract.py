"""What a server and its sites agree on before the first message, and its hash.

It holds the study in words, the names of the sites, the versions and the hashes of users' own method files. It holds no data
and no hash of data. A site shows it to a person, who accepts it by its hash, or finds it equal to a study file at hand.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

import msgspec

from ..errors import InputError
from .frames import PROTOCOL

LONGEST = 2**20  # bytes of a contract
SHORTEST = 16  # letters of a hash that name a contract
LONGEST_WORD = 200  # letters of the words in it that people are shown as they are


class Contract(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See the module's docstring."""

    protocol: int
    undrift: str
    study: dict[str, Any]  # the tables problem, run and method
    sites: Annotated[list[str], msgspec.Meta(min_length=1)]
    absences: bool  # whether rounds may be played without sites that are away
    code: dict[str, str]  # name of a method's file -> SHA-256 of its content

    def document(self) -> bytes:
        """The contract as it travels; equal contracts have equal bytes."""
        return msgspec.json.encode(self, order="deterministic")

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.document()).hexdigest()

    def is_called(self, name: str) -> bool:
        """Whether this is its hash, or at least so many letters of it that nobody else has them."""
        return len(name) >= SHORTEST and self.hash.startswith(name.lower())

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
        for word in (contract.undrift, *contract.sites, *contract.code, *contract.code.values()):
            if not word.isprintable() or len(word) > LONGEST_WORD:
                raise InputError(f"the contract holds the word {word[:80]!r}: words there are short and printable")
        return contract
