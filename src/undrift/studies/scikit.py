"""The model of a run on tables or over sites as an estimator of scikit-learn, for raw features."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..files import storage
from .columns import FILE, Kept, read_columns
from .site_terms import Terms
from .sites import Sites
from .study import read_study

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

STUDY, MODEL, STANDARDISATION = "study.toml", "model.npy", FILE


def to_scikit_learn(run: str | Path) -> Pipeline:
    """The linear model in a run directory (`undrift serve`, `undrift run`) as a fitted pipeline of scikit-learn.

    It takes features as the model has them, in the order of `features` in standardisation.json; means, scales and the intercept
    are part of it. Of a logistic regression the classes are the labels of the study or of the file, or 0 and 1.
    """
    folder = Path(run)
    study = read_study(folder / STUDY)
    if study.problem.get("name") == "sites":
        source = Sites.of(study.problem)
        return pipeline(source, _model(folder / MODEL), _scaling(source, folder))
    kept = read_columns(folder)
    if kept is None or kept.kind is None:
        raise InputError(
            f"{folder} is a run on {study.problem.get('name')!r}, of which no {FILE} says what its numbers mean: scikit-learn "
            "takes models of 'csv', 'sites', and of 'logistic' and 'least_squares' on data sets from here"
        )
    source = source_of(kept, folder)
    return pipeline(source, _model(folder / MODEL), _checked_scaling(source, kept), kept.labels)


def source_of(kept: Kept, folder: Path) -> Sites:
    """The words of a problem whose features and labels are those that were kept."""
    if kept.kind not in ("logistic", "least_squares", "network"):
        raise InputError(f"{folder / FILE} is damaged (kind {kept.kind!r}): bring it back from a copy")
    intercept = kept.intercept if kept.kind != "network" else None
    return Sites(kept.kind, kept.features or len(kept.mean), intercept=intercept, standardise="federated")  # type: ignore[arg-type]


def pipeline(
    source: Sites, x: Any, scaling: tuple[np.ndarray, np.ndarray] | None, classes: Sequence[Any] | None = None
) -> Pipeline:
    """The model x as a pipeline; `scaling`: means and scales of the features; `classes`: of a logistic regression.

    >>> model = pipeline(Sites(kind="least_squares", features=1), [2.0, 1.0], (np.array([10.0]), np.array([5.0])))
    >>> model.predict([[10.0], [15.0]])
    array([1., 3.])
    """
    from sklearn.linear_model import LinearRegression, LogisticRegression  # takes a second: only those wait who need it
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    features = source.expected.features
    if source.kind == "network":
        raise InputError("a network is no model of scikit-learn: use `ud.models.mlp(…)` with its parameters instead")
    x = np.asarray(x, np.float64)
    if x.shape != (features + source.has_intercept,):
        raise InputError(f"the study's model has {features + source.has_intercept} numbers, got shape {x.shape}")
    coefficients, intercept = x[:features], float(x[features]) if source.has_intercept else 0.0
    if source.kind == "logistic":
        model = LogisticRegression()
        model.classes_ = np.array(classes or source.labels or [0, 1])
        model.coef_, model.intercept_, model.n_iter_ = coefficients[None], np.array([intercept]), np.zeros(1, np.int32)
    else:
        model = LinearRegression()
        model.coef_, model.intercept_ = coefficients, intercept
    model.n_features_in_ = features
    if scaling is None:
        return make_pipeline(model)
    scaler = StandardScaler()
    scaler.mean_, scaler.scale_ = scaling
    scaler.var_, scaler.n_features_in_ = scaler.scale_**2, features
    return make_pipeline(scaler, model)


def _scaling(source: Sites, folder: Path) -> tuple[np.ndarray, np.ndarray] | None:
    """The means and scales with which the run was played."""
    if not source.federated:
        return source.scaling(source.preview(1))
    path = folder / STANDARDISATION
    if (kept := read_columns(folder)) is not None:
        return _checked_scaling(source, kept)
    if source.folder is None:
        raise InputError(f"{path} is missing: it keeps the means and scales of the run; bring it back from a copy")
    return source.scaling(source.terms([source.facts(data) for data in source.read_folder(source.folder)]))


def _checked_scaling(source: Sites, kept: Kept) -> tuple[np.ndarray, np.ndarray] | None:
    return source.scaling(Terms([1], kept.mean, kept.scale).encode())


def _model(path: Path) -> np.ndarray:
    if not path.exists():
        raise InputError(f"there is no {path.name} in {path.parent} yet: wait for the end of the run")
    try:
        with storage(path):
            found: np.ndarray = np.load(path, allow_pickle=False)
    except ValueError as error:
        raise InputError(f"{path} is not a model ({error}): bring it back from a copy") from error
    return found
