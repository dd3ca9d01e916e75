"""A trained model as named arrays, with words that say how to use them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np

from .estimators import parameters
from .raw_columns import in_words
from .trained import LINEAR, Trained

README, METADATA = "README", "metadata"
RULES = {
    "logistic": "z = coef · {x} + intercept; class classes[1] with probability 1/(1 + exp(−z))",
    "least_squares": "prediction = coef · {x} + intercept",
    "network": "a network: see metadata for its layers; dense layers are x ↦ x weightᵀ + bias, with max(0, ·) between them",
    "vector": "the model of the problem, a vector x; its numbers have no names",
}


def arrays_of(model: Trained) -> dict[str, np.ndarray]:
    """All arrays by name; none of them needs pickle to be read."""
    meaning = model.meaning
    found: dict[str, np.ndarray] = {"x": model.x}
    if meaning.kind in LINEAR:
        coefficients, intercept = model.parts()
        found |= {"coef": coefficients, "intercept": np.array(intercept)}
    if meaning.net is not None:
        layers = parameters(meaning.net, model.x)
        found |= {f"{layer}/{name}": value for layer, own in layers.items() for name, value in own.items()}
    if meaning.mean is not None and meaning.scale is not None:
        found |= {"mean": meaning.mean, "scale": meaning.scale}
    if meaning.features is not None:
        found["features"] = np.array(meaning.features, dtype=str)
    if meaning.classes is not None:
        found["classes"] = np.array(meaning.classes)
    return found | {README: np.array(readme(model, found)), METADATA: np.array(json.dumps(metadata(model)))}


def metadata(model: Trained) -> dict[str, Any]:
    """What is known of the model, for machines."""
    meaning = model.meaning
    net = meaning.net
    layers = None if net is None else [f"{type(layer).__name__} {layer.name}" for layer in net.layers]
    return {
        "kind": meaning.kind,
        "method": model.label,
        "label": meaning.label,
        "intercept": meaning.intercept,
        "standardised": meaning.mean is not None,
        "l2": meaning.l2,
        "weights": meaning.weights,
        "network": None if net is None else {"name": net.name, "input": list(net.input), "layers": layers},
        "columns": None if meaning.columns is None else msgspec.to_builtins(meaning.columns),
        "rounds": model.summary.get("rounds"),
        "study": model.study.words(),
    }


def readme(model: Trained, arrays: dict[str, Any]) -> str:
    """What each array is, and how a prediction is made of them."""
    meaning = model.meaning
    standardised = meaning.mean is not None
    words = {
        "x": "the model as it was trained: all its numbers",
        "coef": "one number per feature",
        "intercept": "of the model" if meaning.intercept else "0: the model has none",
        "mean": "of each feature over all samples of all clients",
        "scale": "standard deviation of each feature over all samples of all clients",
        "features": "names of the features, in order",
        "classes": "labels; the first is that of output 0 (of logistic regression: of z < 0)",
    }
    rule = RULES[meaning.kind].format(x="(features − mean)/scale" if standardised else "features")
    lines = [f"{model.label} on {model.study.problem.get('name')}, exported by undrift.", "", f"Use: {rule}."]
    if standardised and meaning.net is not None:
        lines.append("Its inputs are (features − mean)/scale.")
    lines += [f"Before, of the column {clause}." for clause in in_words(meaning.columns)]
    lines += [
        "",
        *(
            f"{name} {tuple(np.shape(array))}: {words.get(name, 'parameters of a layer')}"
            for name, array in arrays.items()
        ),
    ]
    return "\n".join([*lines, f"{METADATA}: what is known of the model, as JSON"])
