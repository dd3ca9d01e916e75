"""A trained model as a fitted estimator of scikit-learn, where it is the same function.

What C means. A run over m clients with weights w_i (Σ w_i = 1) minimises

    f(x) = Σ_i w_i (Σ_j ℓ(y_ij, a_ijᵀx) + (l2/2)‖x‖²) = Σ_i w_i Σ_j ℓ(y_ij, a_ijᵀx) + (l2/2)‖x‖²,

scikit-learn's LogisticRegression C Σ_j s_j ℓ_j + ½‖coef‖² with sample weights s_j. These are multiples of each other for
s_j = w_i, C = 1/l2; and, where every sample counts alike (w_i = 1/m), for s_j = 1, C = 1/(m·l2). Ridge has α in place of 1/C.
Our x includes the intercept, which scikit-learn leaves out of the penalty: the two agree exactly with `fit_intercept=False` and
a column of ones behind the features, or with l2 = 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .. import precision
from ..errors import InputError
from ..models.layers import Dense, Flatten
from ..models.model import Model
from ..problems.network_model import unraveler
from .raw_columns import encoder_of
from .trained import Meaning, Trained

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

OTHERWISE = "export it with --to npz, or --to flax"


def estimator_of(model: Trained, clients: int | None = None) -> Pipeline:
    """The model as a fitted pipeline for raw features: their standardisation, where there is one, and the estimator.

    Where columns of a table had words or missing values, a step before them takes the columns as they stand.

    `clients`: m, from which C or α follows where every sample counts alike.
    """
    from sklearn.pipeline import make_pipeline  # takes a second: only those wait who need it

    meaning = model.meaning
    if meaning.kind == "logistic":
        estimator = _logistic(*model.parts(), meaning, penalty_of(meaning, clients))
    elif meaning.kind == "least_squares":
        estimator = _least_squares(*model.parts(), penalty_of(meaning, clients))
    elif meaning.kind == "network":
        estimator = _network(model)
    else:
        raise InputError(
            f"a run on {model.study.problem.get('name')!r} leaves a vector of {model.x.size} numbers, which is no estimator of "
            "scikit-learn: export it with --to npz"
        )
    features = model.raw_features
    estimator.n_features_in_ = features
    steps = [estimator] if meaning.mean is None else [_scaler(meaning), estimator]
    if meaning.columns is not None:
        return make_pipeline(encoder_of(meaning.columns), *steps)
    if meaning.features is not None:
        steps[0].feature_names_in_ = np.array(
            meaning.features, dtype=object
        )  # a DataFrame's columns are held against them
    return make_pipeline(*steps)


def penalty_of(meaning: Meaning, clients: int | None) -> float | None:
    """α = 1/C of scikit-learn's objective with sample weights 1; None where it takes others, or nobody knows it.

    >>> penalty_of(Meaning("logistic", l2=0.5, weights="samples"), clients=4)
    2.0
    """
    if meaning.l2 == 0:
        return 0.0
    return meaning.l2 * clients if meaning.l2 and clients and meaning.weights == "samples" else None


def _scaler(meaning: Meaning) -> Any:
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler()
    scaler.mean_, scaler.scale_ = meaning.mean, meaning.scale
    scaler.var_, scaler.n_features_in_ = np.square(scaler.scale_), len(scaler.scale_)
    return scaler


def _logistic(coefficients: np.ndarray, intercept: float, meaning: Meaning, penalty: float | None) -> Any:
    classes = np.array(meaning.classes or (0, 1))
    sign = 1 if classes[0] < classes[1] else -1  # scikit-learn has its classes sorted
    return _classifier(sign * coefficients[None], sign * np.array([intercept]), np.sort(classes), penalty)


def _classifier(rows: np.ndarray, intercepts: np.ndarray, classes: np.ndarray, penalty: float | None) -> Any:
    from sklearn.linear_model import LogisticRegression

    strength = {} if penalty is None else {"C": np.inf if penalty == 0 else 1 / penalty}
    model = LogisticRegression(**strength)
    model.classes_ = classes
    model.coef_, model.intercept_ = rows, intercepts
    model.n_iter_ = np.zeros(1, np.int32)  # it was fitted elsewhere
    return model


def _least_squares(coefficients: np.ndarray, intercept: float, penalty: float | None) -> Any:
    from sklearn.linear_model import LinearRegression, Ridge

    model = LinearRegression() if penalty == 0 else Ridge(**({} if penalty is None else {"alpha": penalty}))
    model.coef_, model.intercept_ = coefficients, intercept
    return model


# ----- networks
def _network(model: Trained) -> Any:
    net, classes = model.meaning.net, model.meaning.classes
    assert net is not None
    dense = [layer for layer in net.layers if isinstance(layer, Dense)]
    plain = all(isinstance(layer, Dense) or (isinstance(layer, Flatten) and layer.images) for layer in net.layers)
    if not plain or classes is None:
        what = "its layers are not all dense" if not plain else "it was trained with another loss than cross-entropy"
        raise InputError(f"the network {net.name!r} is no estimator of scikit-learn ({what}): {OTHERWISE}")
    weights, biases = _layers(net, model.x)
    order = np.argsort(np.array(classes))  # scikit-learn has its classes sorted
    weights[-1], biases[-1], names = weights[-1][order], biases[-1][order], np.array(classes)[order]
    if len(names) == 2:  # softmax of two outputs is the logistic function of their difference
        weights[-1], biases[-1] = weights[-1][1:] - weights[-1][:1], biases[-1][1:] - biases[-1][:1]
    if len(dense) == 1:
        return _classifier(weights[0], biases[0], names, 0.0)
    return _perceptron(weights, biases, names)


def parameters(net: Model, x: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
    """The numbers of a network by layer and name, as the layers have them."""
    with precision.scope(x.dtype):
        tree = unraveler(net, str(x.dtype))(jax.numpy.asarray(x))
    found = {}
    for layer, entry in zip(net.layers, tree, strict=True):
        named = zip(("weight", "bias"), entry, strict=False) if isinstance(entry, tuple) else [("bias", entry)]
        own = {
            name: np.asarray(value) for name, value in named if not isinstance(value, tuple)
        }  # () where there is none
        if own:
            found[layer.name] = own
    return found


def _layers(net: Model, x: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    found = list(parameters(net, x).values())
    return [one["weight"].astype(np.float64) for one in found], [one["bias"].astype(np.float64) for one in found]


def _perceptron(weights: list[np.ndarray], biases: list[np.ndarray], classes: np.ndarray) -> Any:
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import LabelBinarizer

    model = MLPClassifier(hidden_layer_sizes=tuple(len(bias) for bias in biases[:-1]), activation="relu", alpha=0.0)
    model.coefs_, model.intercepts_ = [weight.T.copy() for weight in weights], biases
    model.n_layers_, model.n_outputs_ = len(weights) + 1, len(biases[-1])
    model.out_activation_ = "logistic" if len(classes) == 2 else "softmax"
    model.classes_, model.n_iter_, model.t_ = classes, 0, 0
    model._label_binarizer = LabelBinarizer().fit(model.classes_)
    return model
