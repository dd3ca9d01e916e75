"""The model in a run directory, and what its numbers mean: for whoever takes it elsewhere.

Nothing is trusted: what cannot be read, or does not fit together, is refused by the name of its file.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import models
from ..errors import InputError, unknown
from ..files import storage
from ..gate import shown
from ..models.model import Model
from ..problems.least_squares import OfSamples
from ..problems.logistic import Logistic
from ..problems.network import Network
from .columns import FromColumn, Kept, read_columns
from .raw_columns import as_they_stand, width
from .scikit import STANDARDISATION, _scaling
from .sites import Sites
from .study import Study, read_study
from .tables import hidden_layers

STUDY, SUMMARY, MODEL, MODELS = "study.toml", "summary.json", "model.npy", "models.npz"
LARGEST = 2**28  # bytes of a file of words
LINEAR = ("logistic", "least_squares")


@dataclasses.dataclass(frozen=True)
class Meaning:
    """What the numbers of a model mean.

    A feature enters a linear model as (feature − mean)/scale, and 1 follows the features where there is an intercept.
    """

    kind: str  # "logistic", "least_squares", "network", or "vector" of a problem whose numbers have no names
    features: tuple[str, ...] | None = None  # names, where there are any
    label: str | None = None
    classes: tuple[Any, ...] | None = None  # of a classifier, that of output 0 first
    intercept: bool = False
    mean: np.ndarray | None = None
    scale: np.ndarray | None = None
    l2: float | None = None  # None: nobody wrote it down
    weights: str | None = None  # "samples" (clients count by their samples) or "sites"; None: nobody wrote it down
    net: Model | None = None
    columns: tuple[FromColumn, ...] | None = None  # of a table, where some are not features as they stand


@dataclasses.dataclass(frozen=True)
class Trained:
    """A run directory as its model is taken from it."""

    folder: Path
    study: Study
    summary: Mapping[str, Any]
    method: Mapping[str, Any]  # the words of its table [[method]]
    label: str
    x: np.ndarray
    meaning: Meaning
    clients: Mapping[str, int] | None = None  # their samples by name, where a file beside the model says them

    def parts(self) -> tuple[np.ndarray, float]:
        """Coefficients and intercept of a linear model."""
        count = self.x.size - self.meaning.intercept
        return np.asarray(self.x[:count], np.float64), float(self.x[count]) if self.meaning.intercept else 0.0

    @property
    def raw_features(self) -> int | None:
        """How many numbers describe a sample; None where it is not known."""
        if self.meaning.net is not None:
            return math.prod(self.meaning.net.input)
        return self.x.size - self.meaning.intercept if self.meaning.kind in LINEAR else None


def trained(run: str | Path, method: str | None = None) -> Trained:
    """The model of a run (`undrift run`, `undrift serve`) or of one method of a comparison (`undrift compare`)."""
    folder = Path(run)
    if not folder.is_dir():
        raise InputError(f"{folder} must be the directory of a run, and is {_what(folder)}: name one, as in runs/…")
    if not (folder / STUDY).exists():
        raise InputError(f"{folder} holds no run of undrift (no {STUDY} there): name the directory of one")
    study, summary = read_study(folder / STUDY), _summary(folder)
    labels = [method_["label"] for method_ in summary.get("methods", []) if isinstance(method_, Mapping)]
    number, label, x = _of_comparison(folder, labels, method) if labels else _of_run(folder, study, summary, method)
    kept = read_columns(folder)
    meaning = _meaning(folder, study, kept, x)
    words = study.methods[number].words() if number < len(study.methods) else {}
    return Trained(folder, study, summary, words, label, x, meaning, None if kept is None else kept.clients)


def _what(folder: Path) -> str:
    return "a file" if folder.exists() else "not there"


def _summary(folder: Path) -> dict[str, Any]:
    path = folder / SUMMARY
    if not path.exists():
        raise InputError(
            f"there is no {SUMMARY} in {folder} yet: wait for the end of the run, or finish it with --resume"
        )
    with storage(path), path.open("rb") as file:
        content = file.read(LARGEST + 1)
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged ({str(error)[:200]}): bring it back from a copy") from error
    if not isinstance(found, dict) or not isinstance(found.get("methods", []), list):
        raise InputError(f"{path} is damaged (it is no summary of a run): bring it back from a copy")
    return found


def _of_run(folder: Path, study: Study, summary: Mapping[str, Any], method: str | None) -> tuple[int, str, np.ndarray]:
    label = str(summary.get("label") or (study.methods[0].name if study.methods else "?"))
    if method is not None and method not in (label, study.methods[0].name if study.methods else ""):
        raise InputError(f"{folder} is the run of one method, {label}, got --method {shown(method)}: leave it out")
    path = folder / MODEL
    if not path.exists():
        raise InputError(f"there is no {MODEL} in {folder} yet: wait for the end of the run")
    return 0, label, _vector(_loaded(path, path.name), path)


def _of_comparison(folder: Path, labels: list[str], method: str | None) -> tuple[int, str, np.ndarray]:
    if method is None:
        raise InputError(
            f"{folder} compares {', '.join(labels)}: say which with --method, as in --method {shown(labels[-1])}"
        )
    if method not in labels:
        raise unknown("method of this comparison", method, labels)
    path = folder / MODELS
    if not path.exists():
        raise InputError(f"there is no {MODELS} in {folder} yet: wait for the end of the comparison")
    found = _loaded(path, f"{path.name}[{method}]", method)
    return labels.index(method), method, _vector(found[:1].ravel() if found.ndim == 2 else found, path)


def _loaded(path: Path, name: str, key: str | None = None) -> np.ndarray:
    try:
        with storage(path):
            opened = np.load(path, allow_pickle=False)
            found: np.ndarray = opened if key is None else opened[key]
    except (ValueError, KeyError, EOFError, OSError) as error:
        raise InputError(f"{name} in {path.parent} is not a model ({error}): bring it back from a copy") from error
    return np.asarray(found)


def _vector(x: np.ndarray, path: Path) -> np.ndarray:
    if x.ndim != 1 or not x.size or x.dtype.kind != "f":
        raise InputError(
            f"{path} must hold a vector of numbers, got {x.dtype} of shape {x.shape}: bring it back from a copy"
        )
    if not np.all(np.isfinite(x)):
        raise InputError(f"the model in {path} is not finite, the run has diverged: run it with a smaller step")
    return x


# ----- what the numbers mean
def _meaning(folder: Path, study: Study, kept: Kept | None, x: np.ndarray) -> Meaning:
    name = study.problem.get("name")
    if name == "sites":
        found = _of_sites(Sites.of(study.problem), folder)
    elif kept is not None and kept.kind is not None:
        found = _of_kept(kept, study.problem)
    else:
        found = _of_problem(study)
    _check_fits(found, x, folder)
    _check_columns(found.columns, found.features, folder)
    return found


def _of_sites(source: Sites, folder: Path) -> Meaning:
    expected = source.expected
    mean, scale = _scaling(source, folder) or (None, None)
    classes = source.labels or (tuple(range(expected.classes)) if source.kind != "least_squares" else None)
    net = None
    if source.kind == "network":
        net = models.mlp(tuple(source.hidden or ()), expected.classes, (expected.features,), source.dtype)
    l2 = 0.0 if source.kind == "network" else source.l2 or 0.0
    return Meaning(
        source.kind,
        expected.names,
        source.label,
        None if classes is None else tuple(classes),
        source.has_intercept,
        mean,
        scale,
        l2,
        source.weights,
        net,
    )


def _of_kept(kept: Kept, problem: Mapping[str, Any]) -> Meaning:
    mean, scale = (np.asarray(one, np.float64) if one else None for one in (kept.mean, kept.scale))
    features = None if kept.features is None else tuple(kept.features)
    count = len(features) if features is not None else len(kept.mean)
    labels = None if kept.labels is None else tuple(kept.labels)
    network = kept.kind not in LINEAR
    hidden = hidden_layers(str(problem.get("kind")), problem.get("hidden")) or ()
    net = models.mlp(tuple(hidden), len(labels or (0, 1)), (count,), "float64") if network else None
    classes = labels or ((0, 1) if kept.kind == "logistic" else None)
    return Meaning(
        "network" if network else str(kept.kind),
        features,
        kept.label,
        classes,
        bool(kept.intercept) and not network,
        mean,
        scale,
        kept.l2,
        kept.weights,
        net,
        None if as_they_stand(kept.columns) else tuple(kept.columns or ()),
    )


def _of_problem(study: Study) -> Meaning:
    """Of a problem of the catalogue, which is made again to be asked; its features have no names."""
    problem = study.make_problem()
    if isinstance(problem, Logistic):
        return Meaning("logistic", classes=(-1, 1), l2=problem.l2, weights=_equal(problem))
    if isinstance(problem, OfSamples):
        return Meaning("least_squares", l2=0.0, weights=_equal(problem))
    if isinstance(problem, Network) and isinstance(problem.architecture.net, Model):
        net = problem.architecture.net
        classes = (
            tuple(range(net.layers[-1].outline((1,))[1][0])) if problem.architecture.criterion.classifies else None
        )
        return Meaning("network", classes=classes, l2=0.0, net=net)
    return Meaning("vector")


def _equal(problem: Any) -> str | None:
    """Sums over samples with equal weights: every sample counts alike."""
    return "samples" if problem.population.equal_weights else None


def _check_fits(meaning: Meaning, x: np.ndarray, folder: Path) -> None:
    """Refuse a model that is not what the words beside it say."""
    expected: int | None = None
    if meaning.net is not None:
        expected = meaning.net.parameter_count
    elif meaning.features is not None:
        expected = len(meaning.features) + meaning.intercept
    elif meaning.mean is not None:
        expected = meaning.mean.size + meaning.intercept
    if expected is not None and expected != x.size:
        raise InputError(
            f"the study in {folder} describes a model of {expected} numbers, the file holds {x.size}: do they belong together?"
        )
    for name, numbers in (("mean", meaning.mean), ("scale", meaning.scale)):
        entries = x.size - meaning.intercept if meaning.net is None else math.prod(meaning.net.input)
        if numbers is not None and (numbers.shape != (entries,) or not np.all(np.isfinite(numbers))):
            raise InputError(
                f"{STANDARDISATION} in {folder} must have {entries} finite numbers as {name}: bring it back"
            )
    if meaning.scale is not None and not np.all(meaning.scale > 0):
        raise InputError(f"{STANDARDISATION} in {folder} must have scales > 0: bring it back from a copy")


def _check_columns(columns: Sequence[FromColumn] | None, features: Sequence[str] | None, folder: Path) -> None:
    """Refuse columns that do not become the features beside them."""
    for one in columns or ():
        if one.categories == [] or len(one.fill) not in (0, width(one)):
            raise InputError(
                f"{STANDARDISATION} in {folder} must have a first category and one fill per feature of the column "
                f"{shown(one.column)}: bring it back from a copy"
            )
    if columns is not None and sum(map(width, columns)) != len(features or ()):
        raise InputError(
            f"{STANDARDISATION} in {folder} has columns for {sum(map(width, columns))} features and names "
            f"{len(features or ())}: bring it back from a copy"
        )
