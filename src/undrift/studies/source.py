"""Where the data of a deployed run come from, as the server, a site and an auditor see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from ..errors import InputError
from ..problems.base import Problem
from ..problems.population import Population
from .catalogue import PROBLEMS
from .sites import Sites
from .words import construct


class Source(Protocol):
    """The table [problem] of a deployed study.

    Before the first round every site tells some *facts* of its data; when all have, the server tells everybody the *terms*
    that follow from them (weights, sizes, how features are scaled). Both are bytes, and hostile until they are checked.
    """

    @property
    def public(self) -> Problem | None:
        """The whole problem, where everybody may know it."""

    def facts(self, data: Any) -> bytes:
        """At a site: what it tells of its data. `InputError` where they do not fit the study."""

    def check(self, facts: bytes) -> None:
        """At the server: refuse facts that do not fit the study, by `InputError`."""

    def terms(self, facts: Sequence[bytes]) -> bytes:
        """At the server: what follows from the facts of all sites, in their order. Never empty."""

    def preview(self, sites: int) -> bytes:
        """Terms of the same shapes, before anybody has told anything: enough to say what the messages will be."""

    def told(self) -> str:
        """What facts and terms are, in a sentence for the people at a site."""

    def read(self, given: str) -> Any:
        """At a site: the data of this file, or of this module:function."""

    def population(self, terms: bytes) -> Population:
        """What everybody may know of all: enough for the contract of a run (`Run.of`)."""

    def standardisation(self, terms: bytes) -> dict[str, Any] | None:
        """What the numbers of the model mean, for whoever uses it (`studies.columns`); None where nobody can know."""

    def own(self, terms: bytes, number: int, data: Any) -> Problem:
        """At a site: its own problem, of one client."""

    def whole(self, data: Sequence[Any]) -> Problem:
        """With the data of all sites at hand: the problem that `undrift run` plays. Its client i is site i's `own`."""


class Public:
    """A problem of the catalogue: its data are public or drawn, and every site takes its own part of them.

    For rehearsals, tests and benchmarks: nothing is private here.

    >>> source = Public({"name": "least_squares", "clients": 3, "samples": 4, "dim": 2})
    >>> source.own(source.terms([b""] * 3), 1, None)
    <least squares: 1 clients, d = 2, float64>
    """

    TERMS = b"public"

    def __init__(self, words: Mapping[str, Any]) -> None:
        self.words = words

    @cached_property
    def public(self) -> Problem:
        return construct(self.words, PROBLEMS, "problem")

    def facts(self, data: Any) -> bytes:
        if data is not None:
            raise self._own_data()
        return b""

    def _own_data(self) -> InputError:
        return InputError(
            f"the study's problem {self.words['name']!r} brings its own data: leave --data out, or agree on a study with "
            'name = "sites"'
        )

    def check(self, facts: bytes) -> None:
        if facts:
            raise InputError(f"a site of a public problem has no facts to tell, got {len(facts)} bytes")

    def terms(self, facts: Sequence[bytes]) -> bytes:
        if len(facts) != self.public.clients:
            raise InputError(f"the problem has {self.public.clients} clients, and there are {len(facts)} sites")
        return self.TERMS

    def preview(self, sites: int) -> bytes:
        return self.terms([b""] * sites)

    def told(self) -> str:
        return "nothing: the data are public, or drawn by a seed, and every site takes its part of them"

    def read(self, given: str) -> Any:
        raise self._own_data()

    def population(self, terms: bytes) -> Population:
        if terms != self.TERMS:
            raise InputError("the terms of the run are not those of a public problem")
        return self.public.population

    def standardisation(self, terms: bytes) -> dict[str, Any] | None:
        return None

    def own(self, terms: bytes, number: int, data: Any) -> Problem:
        return self.public.only(number)

    def whole(self, data: Sequence[Any]) -> Problem:
        return self.public


def source_of(problem: Mapping[str, Any]) -> Source:
    """The source of a table [problem]."""
    return Sites.of(problem) if problem.get("name") == "sites" else Public(problem)
