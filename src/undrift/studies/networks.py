"""Networks on data sets with a name, for the command line and study files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from .. import models
from ..errors import InputError, unknown
from ..gate import Count, Seed, Whole
from ..models import Model
from ..problems.augment import Augment
from ..problems.network import Network
from ..problems.network import network as make
from .schema import Partition

if TYPE_CHECKING:
    from ..data import Dataset

DATA, MODEL = "digits", "softmax_regression"
PARTITION = "exdir:classes=2,alpha=10"
MODELS: dict[str, Callable[..., Model]] = {
    "softmax_regression": models.softmax_regression,
    "mlp": models.mlp,
    "lenet5": models.lenet5,
    "femnist_cnn": models.femnist_cnn,
    "vgg11": models.vgg11,
}
CONVOLUTIONAL = ("lenet5", "femnist_cnn", "vgg11")


def network(
    data: str = DATA,
    model: str = MODEL,
    clients: Count | None = None,
    partition: Partition = PARTITION,
    batch: Count = 20,
    cut: Count | None = None,
    shift: Whole = 0,
    mirror: bool = False,
    loss: Literal["cross_entropy", "squared"] = "cross_entropy",
    data_seed: Seed = 0,
    data_dir: str | None = None,
) -> Network:
    """A network on image data (or on a table): mean cross-entropy, with loss and accuracy on the test split.

    `model`: softmax_regression, mlp, lenet5, femnist_cnn or vgg11, for the shape and the classes of the data. `partition`: how
    the training split is shared out among `clients` (20), drawn by `data_seed`. `batch`: size of the mini-batches. `cut`: how
    many leading layers stay at the client in split learning. `shift`, `mirror`: the images of a mini-batch are moved at random
    by up to so many pixels in both directions, and mirrored with probability ½. `loss`: "cross_entropy", or "squared" for the
    squared distance of the outputs from the label's unit vector.
    """
    from ..data import load  # takes a second: only those wait who need it
    from .partition import drawing

    build, draw = model_builder(model), drawing(partition)
    dataset = load(data, data_dir=data_dir, progress=sys.stderr.isatty())
    parts = draw(dataset, clients, data_seed)
    augment = Augment(shift, mirror) if shift or mirror else None
    train: Any = dataset.train
    test: Any = dataset.test
    metrics = None
    if loss == "squared":
        train, test = ((split.x, _unit_vectors(split.y, dataset.classes)) for split in (train, test))
        metrics = {"accuracy": _nearest}
    return make(
        build(dataset), train, parts, test=test, loss=loss, metrics=metrics, batch=batch, cut=cut, augment=augment
    )


def _unit_vectors(labels: np.ndarray, classes: int) -> np.ndarray:
    return np.eye(classes, dtype=np.float32)[labels]


def _nearest(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Whether the largest output is that of the label."""
    return jnp.argmax(outputs, axis=1) == jnp.argmax(targets, axis=1)


def model_builder(name: str) -> Callable[[Dataset], Model]:
    """The model of that name, for the shape and the classes of a data set."""
    if name not in MODELS:
        raise unknown("model", name, MODELS)

    def build(dataset: Dataset) -> Model:
        shape = tuple(dataset.train.x.shape[1:])
        try:
            return MODELS[name](classes=dataset.classes, input=shape)
        except InputError as error:
            raise InputError(
                f"{name} does not fit {dataset.name}, whose samples have shape {shape}: {error}"
            ) from error

    return build
