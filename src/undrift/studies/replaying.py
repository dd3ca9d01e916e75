"""A deployed run played again in simulation: how far are the models apart?"""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from ..deploy.book import TRACE
from ..deploy.contract import Contract
from ..engine.description import Run
from ..engine.history import Result
from ..engine.loopback import pass_messages
from ..engine.simulate import simulate
from ..errors import InputError
from ..files import storage
from ..problems.base import Problem
from ..tracefile import read_trace
from .agreement import Agreement
from .site_files import files_of
from .study import read_study

STUDY, CONTRACT, MODEL, SUMMARY = "study.toml", "contract.json", "model.npy", "summary.json"
TOLERANCES = {8: 1e-12, 4: 1e-6}  # by bytes of a number, as a share of the model's largest entry (or of 1)


@dataclasses.dataclass(frozen=True)
class Replay:
    """A deployed model beside the simulated one."""

    rounds: int
    absences: int  # answers that were missing
    difference: float  # the largest of |x_j − y_j|
    scale: float  # max(1, largest |y_j|)
    tolerance: float  # of difference / scale
    result: Result

    @property
    def equal(self) -> bool:
        return self.difference <= self.tolerance * self.scale

    def words(self) -> dict[str, Any]:
        names = ("rounds", "absences", "difference", "scale", "tolerance", "equal")
        words = {name: getattr(self, name) for name in names}
        return {**words, "difference": self.difference if math.isfinite(self.difference) else None}


def replay(folder: Path, data: Path | None = None, *, tolerance: float | None = None, trust: bool = False) -> Replay:
    """Simulate the run in this directory, with the absences of its trace, and compare the models.

    `data`: a folder with one file per site, for studies whose data were at the sites.
    """
    study = read_study(folder / STUDY)
    agreement = Agreement.of(study.trusted() if trust else study)
    if (kept := _read_contract(folder)).hash != agreement.contract.hash:
        raise InputError(
            f"{folder} was played by the contract {kept.hash}, its study now makes {agreement.contract.hash}: replay it with "
            f"undrift {kept.undrift} and the method's file of then"
        )
    found = _model(folder)
    absences = read_trace(folder / TRACE)
    problem = whole_problem(agreement, data)
    played = len(absences.rounds)
    run: Run = agreement.simulated(problem, absences).but(rounds=played, stop=None)
    _check_rounds(folder, played)
    result = (pass_messages if absences.resets else simulate)(run)
    if found.shape != result.x.shape or found.dtype != result.x.dtype:
        raise InputError(
            f"{folder / MODEL} is {found.dtype} of shape {found.shape}, the simulated model {result.x.dtype} of shape "
            f"{result.x.shape}"
        )
    silent = sum(len(row.silent) for row in absences.rounds.values())
    largest = float(np.max(np.abs(result.x), initial=0.0))
    allowed = TOLERANCES[result.x.dtype.itemsize] if tolerance is None else tolerance
    difference = float(np.max(np.abs(found - result.x), initial=0.0))
    return Replay(played, silent, difference, max(1.0, largest), allowed, result)


def whole_problem(agreement: Agreement, data: Path | None) -> Problem:
    """The problem with the data of all sites."""
    source = agreement.source
    if source.public is not None:
        return source.public
    return source.whole([source.read(str(file)) for file in site_files(agreement, data)])


def site_files(agreement: Agreement, data: Path | None) -> list[Path]:
    """The files of all sites, in the order of the contract, in this folder or in that of the study."""
    folder = data or agreement.study.problem.get("folder")
    if not folder:
        raise InputError("the data of this run are at its sites: give a folder with one file per site with --data")
    found = files_of(Path(folder))
    for site in agreement.contract.sites:
        if site not in found:
            raise InputError(f"{folder} has no data of the site {site!r}: put {site}.csv or {site}.npz there")
    return [found[site] for site in agreement.contract.sites]


def _check_rounds(folder: Path, traced: int) -> None:
    """Refuse a model that is not of the last round in the trace."""
    try:
        summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return
    rounds = summary.get("rounds") if isinstance(summary, dict) else None
    if rounds is not None and rounds != traced:
        raise InputError(
            f"the model in {folder} is of round {rounds}, its trace ends with round {traced}: let `undrift serve` finish the "
            "run first"
        )


def _read_contract(folder: Path) -> Contract:
    if not (folder / CONTRACT).exists():
        raise InputError(f"{folder} is no deployed run (no {CONTRACT} there): give the directory of `undrift serve`")
    with storage(folder / CONTRACT):
        return Contract.read((folder / CONTRACT).read_bytes())


def _model(folder: Path) -> np.ndarray:
    file = folder / MODEL
    if not file.exists():
        raise InputError(f"there is no {MODEL} in {folder} yet: the run has not ended")
    try:
        with storage(file):
            found = np.load(file, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"{file} is not a model: {error}") from error
    if not isinstance(found, np.ndarray) or found.dtype.kind != "f":
        raise InputError(f"{file} is not a model: it is no array of real numbers")
    return found
