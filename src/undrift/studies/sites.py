"""The problem "sites": clients are parties with data of their own, which stay where they are.

A site tells how many samples it has and, where features are standardised federatedly, the mean and the variance of each of
them. From these *facts* the server makes the *terms*: the sizes of all sites, the means and the scales of all samples together.
The simulation goes through the same two functions, so that it counts with the same bits.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta

from .. import models, problems
from ..errors import InputError
from ..gate import LARGEST, Count, NotNegative, check
from ..problems.arrays import normalised_weights, require_room_for_hessians
from ..problems.base import Problem
from ..problems.network import Network
from ..problems.population import Population
from .schema import table_of
from .site_files import Expected, SiteData, checked, files_of, read_data
from .site_terms import Facts, Terms
from .site_words import OF_KIND, Features, Hidden, Labels, Scaling, Standardise, Word


@dataclasses.dataclass(frozen=True)
class Sites:
    """The table [problem] with name = "sites", as the server, a site and an auditor use it (`studies.source.Source`).

    What the server learns before the first round: how many samples each site has and, with standardise = "federated", the mean
    and the variance of each feature over the site's samples. What the other sites learn: all sizes, and the means and scales
    over all samples. Nothing else of the data is told; labels and features stay at the site.

    >>> source = Sites(kind="logistic", features=1, standardise="federated")
    >>> a, b = SiteData(np.array([[1.0], [3.0]]), np.array([-1, 1])), SiteData(np.array([[5.0]]), np.array([1]))
    >>> terms = source.terms([source.facts(a), source.facts(b)])
    >>> source.population(terms).sizes.tolist(), source.scaling(terms)[0].tolist()
    ([2, 1], [3.0])
    >>> source.own(terms, 1, b)
    <logistic: 1 clients, d = 2, float64>
    """

    kind: Literal["logistic", "least_squares", "network"]
    features: Features
    label: Word = "label"
    labels: Labels | None = None
    classes: Annotated[int, Meta(ge=2, le=LARGEST)] | None = None
    intercept: bool | None = None
    l2: NotNegative | None = None
    weights: Literal["samples", "sites"] = "samples"
    standardise: Standardise = "none"
    hidden: Hidden | None = None
    batch: Count | None = None
    cut: Count | None = None
    dtype: Literal["float32", "float64"] = "float64"
    folder: str | None = None

    public = None  # the data are at the sites

    def __post_init__(self) -> None:
        for key, kinds in OF_KIND.items():
            if getattr(self, key) is not None and self.kind not in kinds:
                raise InputError(
                    f"{key} belongs to kind = {' or '.join(kinds)}, got kind = {self.kind!r}: leave it out"
                )
        for key, words in (("features", self.names or ()), ("labels", self.labels or ())):
            if twice := [word for word in words if list(words).count(word) > 1]:
                raise InputError(f"{key} must have different names, got {twice[0]!r} more than once: name each once")
        if self.names and self.label in self.names:
            raise InputError(f"the label {self.label!r} must not be among the features: leave it out there")
        if self.kind == "logistic" and self.labels is not None and len(self.labels) != 2:
            raise InputError(f"logistic regression tells two labels apart, got {len(self.labels)}: name two")
        if self.kind == "network" and (self.labels is None) == (self.classes is None):
            raise InputError("a network needs classes = their number, or labels = their names: give one of the two")
        for key, numbers in () if self.agreed is None else (("mean", self.agreed.mean), ("scale", self.agreed.scale)):
            if len(numbers) != self.expected.features:
                raise InputError(
                    f"standardise.{key} must have one number per feature, {self.expected.features}, got {len(numbers)}: "
                    "correct it"
                )

    @classmethod
    def of(cls, words: Mapping[str, Any]) -> Sites:
        """From the words of a table [problem], checked.

        >>> Sites.of({"name": "sites", "kind": "logistic", "features": 3}).expected.features
        3
        """
        check(table_of(sites, name=str), words, "problem 'sites'", "problem 'sites': ")
        return cls(**{key: entry for key, entry in words.items() if key != "name"})

    # ----- what the words mean
    @property
    def names(self) -> tuple[str, ...] | None:
        """Of the features, where the study names them."""
        return None if isinstance(self.features, int) else tuple(self.features)

    @cached_property
    def expected(self) -> Expected:
        """What every site's data must be."""
        features = self.features if isinstance(self.features, int) else len(self.features)
        labels = None if self.labels is None else tuple(self.labels)
        classes = self.classes or (len(labels) if labels else 2)
        return Expected(self.kind, features, self.names, self.label, labels, classes)

    @property
    def has_intercept(self) -> bool:
        """Whether a constant 1 follows the features; networks have biases of their own."""
        return self.kind != "network" and self.intercept is not False

    @property
    def agreed(self) -> Scaling | None:
        """How features are scaled, where the study says it."""
        return None if isinstance(self.standardise, str) else msgspec.convert(self.standardise, Scaling)

    @property
    def federated(self) -> bool:
        return self.standardise == "federated"

    # ----- a site's data
    def read(self, where: str | Path) -> SiteData:
        """A site's data from its .csv or .npz file, or from its `module:function`."""
        return read_data(where, self.expected)

    def read_folder(self, folder: str | Path, names: Sequence[str] | None = None) -> list[SiteData]:
        """The data of all sites, from a folder with one file per site: of these sites, or of all in alphabetical order."""
        found = files_of(Path(folder))
        if names is None:
            names = sorted(found)
        for name in names:
            if name not in found:
                raise InputError(f"{folder} has no data of the site {name!r}: put {name}.csv or {name}.npz there")
        return [self.read(found[name]) for name in names]

    # ----- Source
    def facts(self, data: SiteData | None) -> bytes:
        facts = Facts.of(self._checked(data).x, self.federated).encode()
        self.check(facts)
        return facts

    def check(self, facts: bytes) -> None:
        Facts.read(facts, self._standardised)

    def terms(self, facts: Sequence[bytes]) -> bytes:
        return Terms.of([Facts.read(one, self._standardised) for one in facts]).encode()

    def preview(self, sites: int) -> bytes:
        d = self._standardised
        return Terms([1] * sites, [0.0] * d, [1.0] * d).encode()

    def told(self) -> str:
        statistics = (
            ", and the mean and the variance of each feature over its samples (from which all sites are told the means and "
            "scales over all samples)"
            if self.federated
            else ""
        )
        return f"the site tells the server how many samples it has{statistics}; all sites are told the sizes of all"

    def population(self, terms: bytes) -> Population:
        agreed = self._terms(terms)
        most = max(agreed.samples)
        weights = normalised_weights(self._weights(agreed.samples), len(agreed.samples), self.dtype)
        return self._template(most).population.of(weights, np.array(agreed.samples, np.int64))

    def own(self, terms: bytes, number: int, data: SiteData | None) -> Problem:
        agreed, data = self._terms(terms), self._checked(data)
        if not 0 <= number < len(agreed.samples) or agreed.samples[number] != len(data.x):
            raise InputError(
                f"the terms of the run must say how many samples this site (number {number}) has, {len(data.x)}: have the data "
                "changed since it joined?"
            )
        block = self._prepared(data.x, agreed)
        if self.kind == "least_squares":
            # As a client of all: whether AᵀA is kept depends on the largest site. An idle second client stands for that one.
            idle = np.zeros((min(max(agreed.samples), block.shape[1]), block.shape[1]), self.dtype)
            return self._problem([block, idle], [data.y, np.zeros(len(idle))]).only(0)
        problem = self._problem([block], [data.y])
        if isinstance(problem, Network):
            weights = normalised_weights(self._weights(agreed.samples), len(agreed.samples), self.dtype)
            return problem.as_one_of_many(weights[number])
        return problem

    def whole(self, data: Sequence[SiteData]) -> Problem:
        terms = self._terms(self.terms([self.facts(one) for one in data]))
        blocks = [self._prepared(one.x, terms) for one in data]
        return self._problem(blocks, [one.y for one in data], self._weights(terms.samples))

    def standardisation(self, terms: bytes) -> dict[str, Any] | None:
        scaling = self.scaling(terms)
        if scaling is None:
            return None
        names = {} if self.names is None else {"features": list(self.names)}
        return {**names, "mean": scaling[0].tolist(), "scale": scaling[1].tolist()}

    def scaling(self, terms: bytes) -> tuple[np.ndarray, np.ndarray] | None:
        """Means and scales of the features, for using the model on raw ones; None without standardisation."""
        return self._scaling(self._terms(terms))

    # ----- how
    def _checked(self, data: Any) -> SiteData:
        if not isinstance(data, tuple) or len(data) != 2:
            raise InputError("this study's data are at the sites: name this site's own with --data file.csv (or .npz)")
        plain = self.expected._replace(labels=None)  # words are numbers by now
        return checked(data[0], data[1], plain, "the site's data")

    @property
    def _standardised(self) -> int:
        """How many features are standardised federatedly."""
        return self.expected.features if self.federated else 0

    def _terms(self, terms: bytes) -> Terms:
        return Terms.read(terms, self._standardised)

    def _scaling(self, agreed: Terms) -> tuple[np.ndarray, np.ndarray] | None:
        if self.standardise == "none":
            return None
        said = agreed if self.agreed is None else self.agreed
        return np.array(said.mean, np.float64), np.array(said.scale, np.float64)

    def _prepared(self, x: np.ndarray, agreed: Terms) -> np.ndarray:
        """The features as the problem has them: standardised, with the intercept."""
        scaling = self._scaling(agreed)
        if scaling is not None:
            with np.errstate(over="ignore"):
                x = (x - scaling[0]) / scaling[1]
        if self.has_intercept:
            x = np.hstack([x, np.ones((len(x), 1))])
        with np.errstate(over="ignore"):
            return x.astype(self.dtype)

    def _weights(self, samples: Sequence[int]) -> np.ndarray | None:
        """w_i before they are made to add up to 1; linear problems are sums over samples, networks means."""
        sums = self.kind != "network"
        if sums == (self.weights == "samples"):
            return None
        sizes = np.array(samples, np.float64)
        return 1 / sizes if sums else sizes

    def _template(self, most: int) -> Problem:
        """A problem of one client with the shapes of the others but for the number of samples; its numbers mean nothing."""
        d = self.expected.features + self.has_intercept
        gram = self.kind == "least_squares" and most >= d
        if gram:
            require_room_for_hessians(1, d)
        n = d if gram else 1
        y = np.ones(n) if self.kind != "network" else np.zeros(n, np.int64)
        return self._problem([np.zeros((n, d), self.dtype)], [y])

    def _problem(self, blocks: list[np.ndarray], targets: list[np.ndarray], weights: Any = None) -> Problem:
        if self.kind == "logistic":
            return problems.logistic(blocks, targets, l2=self.l2 or 0.0, weights=weights)
        if self.kind == "least_squares":
            # The closed form of local steps is chosen by the number of clients too: a site alone would choose another one.
            values = [one.astype(self.dtype) for one in targets]
            return problems.least_squares(blocks, values, weights=weights, spectral=False)
        ends = np.cumsum([len(one) for one in blocks])
        parts = np.split(np.arange(ends[-1]), ends[:-1])
        expected = self.expected
        model = models.mlp(tuple(self.hidden or ()), expected.classes, (expected.features,), self.dtype)
        return problems.network(
            model,
            (np.concatenate(blocks), np.concatenate(targets)),
            parts,
            batch=self.batch or 20,
            cut=self.cut,
            weights=weights,
            train_sample=None,
        )

    def simulated(self, names: Sequence[str] | None = None) -> Problem:
        """The problem of these sites, or of all in alphabetical order, where their data are in a folder of this machine."""
        if self.folder is None:
            raise InputError(
                "the data of the problem 'sites' are at the sites: run it with `undrift serve` here and `undrift join` there; "
                'to simulate it, put one file per site into a folder and say folder = "…" in the table [problem]'
            )
        problem = self.whole(self.read_folder(self.folder, names))
        problem.client_names = tuple(sorted(files_of(Path(self.folder))) if names is None else names)
        return problem


def sites(**words: Any) -> Problem:
    """Real parties, each with its own file: logistic regression, least squares or a small network across sites.

    `kind`; `features`: how many, or the names of their columns; `label`: the column to predict (CSV); `labels`: words for the
    labels, that of class 0 first. `weights`: what counts alike, "samples" or "sites". `standardise`: "none", "federated"
    (means and variances over all sites) or { mean = […], scale = […] }. `intercept` (true), `l2`: of linear models. `classes`,
    `hidden` (widths of hidden layers), `batch`, `cut`: of networks. `folder`: one file per site, to simulate the federation
    on this machine; sites are in the order of [deploy], or alphabetical.
    """
    return Sites(**words).simulated()


sites.__signature__ = inspect.signature(Sites, eval_str=True)  # type: ignore[attr-defined]  # a table's keys are its fields


def read_site_data(where: str | Path, problem: Mapping[str, Any]) -> SiteData:
    """A site's data, from a .csv or .npz file or `module:function`, held against the words of a study's table [problem]."""
    return Sites.of(problem).read(where)
