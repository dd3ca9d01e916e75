"""Who may take part: the server's answer to a site that says hello."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ..errors import InputError
from .contract import Contract
from .frames import PROTOCOL, Frame, Hello, Refused, Terms, Welcome

CheckFacts = Callable[[str, bytes], None]  # raises `InputError` for data that do not fit the contract


@dataclasses.dataclass
class Reception:
    """Knows the contract and which state directory belongs to which site."""

    contract: Contract
    check_facts: CheckFacts
    population: bytes = b""  # told to those that take part, once it is known
    states: dict[str, str] = dataclasses.field(default_factory=dict)  # site -> its state directory's name
    with_memory: set[str] = dataclasses.field(default_factory=set)  # sites that have a memory that counts
    facts: dict[str, bytes] = dataclasses.field(default_factory=dict)

    def greet(self, site: str, hello: Hello) -> tuple[Frame, bool]:
        """(the answer, whether the site takes part now)."""
        try:
            return self._greet(site, hello)
        except InputError as error:
            return Refused(str(error)[:4000]), False

    def _greet(self, site: str, hello: Hello) -> tuple[Frame, bool]:
        if hello.protocol != PROTOCOL or hello.undrift != self.contract.undrift:
            raise InputError(
                f"the server runs undrift {self.contract.undrift} (protocol {PROTOCOL}), the site {hello.undrift} "
                f"({hello.protocol}): install the same version on both sides"
            )
        if hello.contract == "":
            return Terms(self.contract.document()), False
        if hello.contract != self.contract.hash:
            raise InputError(
                f"the site accepted the contract {hello.contract[:16]}…, the server's is {self.contract.hash}"
            )
        reset = self._check_state(site, hello)
        self.check_facts(site, hello.facts)
        if self.population and site in self.facts and self.facts[site] != hello.facts:
            raise InputError(f"the data of {site} look different from when it joined first: bring the old data back")
        if reset:
            self.with_memory.discard(site)
        self.facts[site] = hello.facts
        self.states[site] = hello.state
        number = self.contract.sites.index(site)
        return Welcome(number, reset, self.population), bool(self.population)

    def _check_state(self, site: str, hello: Hello) -> bool:
        if site not in self.with_memory:
            return False
        if not hello.reset:
            if hello.state == self.states.get(site):
                return False
            raise InputError(
                f"{site} has lost its memory: its state directory is another one than before (or somebody else uses its "
                "certificate); bring the old one back with --state, or begin without memory by --reset, which the trace of the "
                "run will show"
            )
        return True
