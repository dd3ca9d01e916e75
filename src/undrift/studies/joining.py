"""A site of a deployed study: its data, its state directory, and the client that it becomes."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from .. import precision
from ..deploy.contract import Contract
from ..deploy.frames import FACTS
from ..deploy.member import Member
from ..deploy.memory import OnDisk
from ..deploy.site import Site
from ..engine.nodes import ClientNode
from ..engine.parts import Parts
from ..errors import CheckpointError, InputError
from ..files import storage, write_bytes
from ..ownership import owned
from .agreement import VERSION, Agreement

STATE = "state.json"
ReadData = Callable[[Agreement], Any]  # the site's data, once it is known what they must look like


class Badge(msgspec.Struct, forbid_unknown_fields=True):
    """What a state directory is known by."""

    state: str
    contract: str = ""  # the hash of the contract that it belongs to, once there is one


class Membership:
    """What a site brings to a deployed run. As a context it owns its state directory.

    `accept` looks at the contract (and may ask a person); `files`: of methods of one's own that are installed here.
    """

    def __init__(
        self,
        state: Path,
        data: ReadData,
        accept: Callable[[Agreement], bool],
        *,
        files: Sequence[Path] = (),
        reset: bool = False,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.folder, self.data, self.accept, self.files = state, data, accept, files
        self.reset, self.note = reset, note
        self.agreement: Agreement | None = None
        self.own: Any = None

    @contextlib.contextmanager
    def member(self) -> Iterator[Member]:
        """The site's side of all its connections."""
        with owned(self.folder):
            with storage(self.folder):
                self.folder.chmod(0o700)  # its memory is made of the site's data
            self.badge = self._badge()
            yield Member(VERSION, self.badge.state, self._accept, self._facts, self._build, self.reset, self.note)

    def _accept(self, contract: Contract) -> bool:
        if self.badge.contract not in ("", contract.hash):
            raise CheckpointError(
                f"{self.folder} belongs to a run with the contract {self.badge.contract}, the server's is {contract.hash}: "
                "give every run a state directory of its own (--state)"
            )
        self.agreement = Agreement.accepted(contract, self.files)
        return self.accept(self.agreement)

    def _facts(self, contract: Contract) -> bytes:
        assert self.agreement is not None
        if self.own is None:
            self.own = (self.data(self.agreement),)
        facts = self.agreement.source.facts(self.own[0])
        if len(facts) > FACTS:
            raise InputError(
                f"what a site tells of its data has at most {FACTS} bytes, here {len(facts)}: take fewer features, or agree on "
                "their means and scales in the study"
            )
        return facts

    def _build(self, contract: Contract, number: int, terms: bytes, reset: bool) -> Site:
        assert self.agreement is not None
        self.badge.contract = contract.hash
        self._write(self.badge)
        run = self.agreement.run(terms)
        with precision.scope(run.population.dtype):
            node = ClientNode(number, self.agreement.source.own(terms, number, self.own[0]), Parts(run))
            return Site(node, OnDisk(self.folder, contract.hash))

    def _badge(self) -> Badge:
        path = self.folder / STATE
        if not path.exists():
            self._write(badge := Badge(uuid.uuid4().hex))
            return badge
        with storage(path):
            content = path.read_bytes()
        try:
            return msgspec.json.decode(content, type=Badge)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise CheckpointError(f"{path} is damaged ({error}): bring the state directory back from a copy") from error

    def _write(self, badge: Badge) -> None:
        write_bytes(self.folder / STATE, msgspec.json.encode(badge))
