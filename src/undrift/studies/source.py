"""Where the data of a deployed run come from, as the server, a site and an auditor see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..problems.base import Problem
from ..problems.population import Population


class Source(Protocol):
    """The table [problem] of a deployed study.

    Before the first round every site tells some *facts* of its data; when all have, the server tells everybody the *terms*
    that follow from them (weights, sizes, how features are scaled). Both are bytes, and hostile until they are checked.
    """

    def facts(self, data: Any) -> bytes:
        """At a site: what it tells of its data. `InputError` where they do not fit the study."""

    def check(self, facts: bytes) -> None:
        """At the server: refuse facts that do not fit the study, by `InputError`."""

    def terms(self, facts: Sequence[bytes]) -> bytes:
        """At the server: what follows from the facts of all sites, in their order. Never empty."""

    def population(self, terms: bytes) -> Population:
        """What everybody may know of all: enough for the contract of a run (`Run.of`)."""

    def own(self, terms: bytes, number: int, data: Any) -> Problem:
        """At a site: its own problem, of one client."""

    def whole(self, data: Sequence[Any]) -> Problem:
        """With the data of all sites at hand: the problem that `undrift run` plays. Its client i is site i's `own`."""
