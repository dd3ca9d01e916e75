"""What a study means for the server and the sites of a deployed run.

The server makes the contract from its study file; a site makes the same study from the contract. Both then describe the same
run, from the words of the study and what is known of all sites, and neither needs the other's data for it.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any

from .. import precision, wire
from ..deploy.contract import LONGEST, Contract
from ..deploy.frames import HEADROOM, PROTOCOL
from ..engine.description import Run
from ..engine.parts import Parts
from ..errors import InputError
from ..files import storage
from ..plan import Absences
from ..privacy import private_of
from ..recipe import RULES
from .build import build_stop
from .entries import ready
from .own import MARK, file_of, is_own, map_own
from .paths import file_named
from .source import Source, source_of
from .study import Study, study_from
from .words import located

LOCAL = ("folder", "data_dir")  # words of a problem that mean something on one machine only
VERSION = metadata.version("undrift")


@dataclasses.dataclass(frozen=True)
class Agreement:
    """A deployed study as both sides know it: one method, every number written out."""

    study: Study
    contract: Contract

    @classmethod
    def of(cls, study: Study) -> Agreement:
        """At the server. Refuses what cannot be deployed."""
        if len(study.methods) != 1:
            raise InputError(
                f"{study.source}: a deployed run has one method, the study has {len(study.methods)}: name one with --method"
            )
        for word in ("keep_iterates", "failures", "availability"):
            if study.run[word]:
                raise InputError(
                    f"{study.source}, table [run]: {word} is for simulations: leave it out of a deployed run"
                )
        if (rule := study.run["stop"]) is not None and (watched := build_stop(rule).watched) and watched.keep == "best":
            raise InputError(
                f"{study.source}, table [run]: keep = 'best' is for simulations, which play rounds again; leave it out: "
                "a deployed run says which round was best, and keeps its last model"
            )
        _refuse_files(_without_local(study.problem), study.source)
        source = source_of(study.problem)
        study = _filled_in(study, source)
        sites = _sites(study, source)
        study = study.with_deploy({"sites": sites})
        made = cls(study, _contract(study))
        with located(study.method_place(0)):
            made._check()
        return made

    @classmethod
    def accepted(cls, contract: Contract, files: Sequence[Path] = ()) -> Agreement:
        """At a site; `files`: of methods of one's own, installed here."""
        words = contract.study
        if contract.undrift != VERSION:
            raise InputError(
                f"the server runs undrift {contract.undrift}, this site {VERSION}: install the same version on both sides"
            )
        if not isinstance(problem := words.get("problem"), Mapping):
            raise InputError("the contract names no problem")
        _refuse_files(problem, "the contract")
        method = words.get("method")
        if not isinstance(method, Mapping) or not isinstance(method.get("name"), str):
            raise InputError("the contract names no method")
        run = words.get("run")
        if not isinstance(run, Mapping):
            raise InputError("the contract has no table [run]")
        if run.get("availability") is not None:
            raise InputError("the contract names a file of one machine, availability, which is not deployed")

        def installed(word: str) -> str:
            return _installed(word, contract, files)

        tables = {"problem": problem, "run": map_own(run, installed), "deploy": {"sites": contract.sites}}
        study = study_from({**tables, "method": [_mapped(method, installed)]}, "the contract")
        # Programs are the site's own files, with the content that was agreed on.
        return cls(study.trusted(), contract)

    @cached_property
    def source(self) -> Source:
        return source_of(self.study.problem)

    def run(self, terms: bytes) -> Run:
        """The contract of the run, once the terms are known."""
        population = self.source.population(terms)
        if population.clients != len(self.contract.sites):
            raise InputError(
                f"the contract names {len(self.contract.sites)} sites, the terms are for {population.clients} clients"
            )
        return self._described(population).contract

    @cached_property
    def preview(self) -> Run:
        """The run before any site has told anything, for people and for the sizes of messages."""
        return self.run(self.source.preview(len(self.contract.sites)))

    def longest_frame(self) -> int:
        """The most bytes that a frame of this run can have, in either direction."""
        run = self.preview
        with precision.scope(run.population.dtype):
            sizes = [size for one in run.shapes for size in (one.down_bytes, one.up_bytes)]
            sizes += [wire.size(Parts(run).answer_shapes(True)), 2 * run.x0.nbytes]
            sizes += [2 * len(self.source.preview(len(self.contract.sites)))]  # facts and terms
        return max(sizes) + HEADROOM + LONGEST

    def simulated(self, problem: Any, absences: Absences | None = None) -> Run:
        """The same run with all data at hand, with these absences."""
        run = self._described(problem)
        return run if absences is None else run.but(absences=absences)

    def _described(self, problem: Any) -> Run:
        method = self.study.methods[0].make()
        arguments = self.study.arguments_of(method, problem)
        if self.contract.absences:
            arguments["plan"] = Absences()
        run = Run.of(method, problem, self.study.run["rounds"], **arguments)
        if run.recipe.centralised:
            raise InputError(f"{run.method.name} needs all data in one place, so that it cannot be deployed")
        if private_of(run.recipe) is not None:
            raise InputError(
                f"{run.method} is for simulations: its noise is drawn from the run's seed, which server and sites know, so "
                "that whoever receives a message could take the noise off again, and sites tell their losses and gradients "
                "without noise when the model is evaluated; leave private out of a deployed run"
            )
        return run

    def _check(self) -> None:
        """Refuse now what would be refused when everybody is there."""
        run = self.preview
        with precision.scope(run.population.dtype):
            run.shapes  # noqa: B018


def _filled_in(study: Study, source: Source) -> Study:
    """The study with a number for everything that its method needs."""
    if source.public is not None:
        return ready(study, source.public, grids=False)[0]
    (method,) = study.methods
    with located(study.method_place(0)):
        by_rule = [key for key, entry in method.checked().parameters.items() if entry in RULES]
        if missing := [*method.missing, *by_rule]:
            raise InputError(
                f"{method.name} needs {', '.join(missing)}, and the data from which a theorem or a certificate would choose "
                "are at the sites: give a number (`undrift advise` or `undrift run` on similar data help to find one)"
            )
    sites = study.deploy.get("sites") or [""]
    return study.with_lanes(source.population(source.preview(len(sites)))).with_steps()


def _sites(study: Study, source: Source) -> list[str]:
    named = study.deploy.get("sites")
    if source.public is None:
        if not named:
            raise InputError(f"{study.source}: which sites? Name them in a table [deploy]: sites = ['a', 'b']")
        return list(named)
    clients = source.public.clients
    if named and len(named) != clients:
        raise InputError(f"{study.source}: the problem has {clients} clients, the table [deploy] {len(named)} sites")
    return list(named or (f"site-{i}" for i in range(clients)))


def _contract(study: Study) -> Contract:
    words = study.words()
    problem = _without_local(words["problem"])
    (method,) = words["method"]
    code: dict[str, str] = {}

    def shortened(word: str) -> str:
        file, rest = file_of(word)
        digest = _digest(file)
        if code.setdefault(file.name, digest) != digest:
            raise InputError(
                f"{study.source}: two programs of this run are called {file.name}, and sites know them by that name: rename one"
            )
        return f"{file.name}:{rest}"

    tables = {"problem": problem, "run": map_own(words["run"], shortened), "method": _mapped(method, shortened)}
    sites, absences = list(study.deploy["sites"]), study.deploy.get("deadline") is not None
    return Contract(PROTOCOL, VERSION, _plain(tables), sites, absences, code)


def _mapped(method: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """A table [[method]] with the programs that it names changed; its label is for people."""
    return {key: entry if key == "label" else map_own(entry, change) for key, entry in method.items()}


def _without_local(problem: Mapping[str, Any]) -> dict[str, Any]:
    return {key: entry for key, entry in problem.items() if key not in LOCAL}


def _refuse_files(problem: Mapping[str, Any], source: str) -> None:
    """Nobody tells another machine which of its files to open."""
    if is_own(str(problem.get("name"))):
        raise InputError(
            f"{source}: the problem {problem['name']!r} is a program that makes all data on one machine, not deployed: let "
            'the sites bring their own with name = "sites"'
        )
    if (key := file_named(problem)) is not None:
        raise InputError(
            f"{source}: {key} of the problem {problem.get('name')!r} names a file of one machine, which is not deployed: let "
            'the sites bring their own with name = "sites"'
        )


def _installed(name: str, contract: Contract, files: Sequence[Path]) -> str:
    """A name in a program, with the file that is installed here, if its content is what was agreed on."""
    stem, _, rest = name.partition(MARK)
    wanted = PurePosixPath(stem + ".py").name
    agreed = contract.code.get(wanted)
    if agreed is None:
        raise InputError(f"the contract names {name!r} without the hash of its file")
    for file in files:
        if _digest(file) == agreed:
            return f"{file.resolve()}:{rest}"
    have = ", ".join(f"{file} has {_digest(file)[:16]}…" for file in files) or "none is given here"
    raise InputError(
        f"the run needs the program {wanted} with SHA-256 {agreed}; {have}: get that file from somebody you trust, read "
        "it, and give it with --method-file"
    )


def _digest(file: Path) -> str:
    with storage(file):
        return hashlib.sha256(file.read_bytes()).hexdigest()


def _plain(words: Any) -> Any:
    """The same in kinds that JSON knows."""
    if isinstance(words, Mapping):
        return {key: _plain(entry) for key, entry in words.items() if entry is not None}
    if isinstance(words, list | tuple):
        return [_plain(entry) for entry in words]
    return words.item() if hasattr(words, "item") else words
