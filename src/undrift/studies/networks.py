"""Networks on data sets with a name, for the command line and study files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from msgspec import Meta

from .. import models
from ..errors import InputError
from ..gate import Count, Seed, Whole
from ..models import Model
from ..oracles import LastBatch
from ..problems.augment import Augment
from ..problems.network import BY_SIZE, Network
from ..problems.network import network as make
from .schema import Partition
from .words import construct, split_word

if TYPE_CHECKING:
    from ..data import Dataset

DATA, MODEL = "digits", "softmax_regression"
PARTITION = "exdir:classes=2,alpha=10"
Make = Callable[..., Model]  # (classes=…, input=…)
Rate = Annotated[float, Meta(ge=0, lt=1, extra={"rule": "a number ≥ 0 and < 1"}, examples=[0.5])]


def _vgg11(narrower: Count = 1, dropout: Rate = 0.0, dense: Literal["uniform", "normal"] = "uniform") -> Make:
    """VGG-11, see `undrift.models.vgg11`."""
    return partial(models.vgg11, narrower=narrower, dropout=dropout, dense=dense)


# What a word such as "vgg11:narrower=8" means: its options first, then classes and the shape of the input.
MODELS: dict[str, Callable[..., Make]] = {
    "softmax_regression": lambda: models.softmax_regression,
    "mlp": lambda: models.mlp,
    "lenet5": lambda: models.lenet5,
    "femnist_cnn": lambda: models.femnist_cnn,
    "femnist_cnn_unpadded": lambda: models.femnist_cnn_unpadded,
    "vgg11": _vgg11,
}
CONVOLUTIONAL = ("lenet5", "femnist_cnn", "femnist_cnn_unpadded", "vgg11")


def network(
    data: str = DATA,
    model: str = MODEL,
    clients: Count | None = None,
    partition: Partition | None = None,
    batch: Count = 20,
    last_batch: LastBatch = "full",
    weights: Literal["equal", "by size"] = "equal",
    cut: Count | None = None,
    shift: Whole = 0,
    mirror: bool = False,
    loss: Literal["cross_entropy", "squared"] = "cross_entropy",
    data_seed: Seed = 0,
    data_dir: str | None = None,
) -> Network:
    """A network on image data (or on a table): mean cross-entropy, with loss and accuracy on the test split.

    `model`: softmax_regression, mlp, lenet5, femnist_cnn, femnist_cnn_unpadded or vgg11 (also "vgg11:narrower=8",
    "vgg11:dropout=0.5,dense=normal"), for the shape and the classes of the data. `partition`: how the training split is shared
    out among `clients` (20), drawn by `data_seed`; without it exdir:classes=2,alpha=10, but heart and shakespeare by group and
    diabetes iid. `batch`: size of the mini-batches; `last_batch`: the last one of an epoch is
    filled up ("full") or has what is left ("short"). `weights`: of the clients in f, "equal" or "by size". `cut`: how many
    leading layers stay at the client in split learning. `shift`, `mirror`: the images of a mini-batch are moved at random by up
    to so many pixels in both directions, and mirrored with probability ½. `loss`: "cross_entropy", or "squared" for the squared
    distance of the outputs from the label's unit vector (always, of one output, where the data have a number to predict).
    """
    from ..data import load  # takes a second: only those wait who need it
    from .partition import drawing

    build, draw = model_builder(model), None if partition is None else drawing(partition)
    dataset = load(data, data_dir=data_dir, progress=sys.stderr.isatty())
    parts = (draw or drawing(natural_partition(dataset)))(dataset, clients, data_seed)
    augment = Augment(shift, mirror) if shift or mirror else None
    train: Any = dataset.train
    test: Any = dataset.test
    metrics = None
    if not dataset.classes:
        loss = "squared"
        train, test = ((split.x, split.y[:, None].astype(np.float32)) for split in (train, test))
    elif loss == "squared":
        train, test = ((split.x, _unit_vectors(split.y, dataset.classes)) for split in (train, test))
        metrics = {"accuracy": _nearest}
    return make(
        build(dataset),
        train,
        parts,
        test=test,
        loss=loss,
        metrics=metrics,
        batch=batch,
        last_batch=last_batch,
        cut=cut,
        weights=BY_SIZE if weights == BY_SIZE else None,
        augment=augment,
    )


def natural_partition(dataset: Dataset) -> str:
    """How a data set is shared out where nobody says it."""
    from ..data import entry

    if entry(dataset.name).natural:
        return "by_group"
    return PARTITION if dataset.classes else "iid"


def _unit_vectors(labels: np.ndarray, classes: int) -> np.ndarray:
    return np.eye(classes, dtype=np.float32)[labels]


def _nearest(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """Whether the largest output is that of the label."""
    return jnp.argmax(outputs, axis=1) == jnp.argmax(targets, axis=1)


def model_maker(words: str) -> Make:
    """What makes the model of that name and options, from classes and the shape of the input.

    >>> model_maker("vgg11:narrower=8")(classes=10, input=(32, 32, 3)).parameter_count
    153530
    """
    make_model: Make = construct(words, MODELS, "model")
    return make_model


def is_convolutional(words: Any) -> bool:
    """Whether these words, if they are any, name a network with convolutions."""
    return isinstance(words, str) and split_word(words)[0] in CONVOLUTIONAL


def model_builder(name: str) -> Callable[[Dataset], Model]:
    """The model of that name and options, for the shape and the classes of a data set."""
    make_model = model_maker(name)

    def build(dataset: Dataset) -> Model:
        shape = tuple(dataset.train.x.shape[1:])
        try:
            return make_model(classes=dataset.classes or 1, input=shape)
        except InputError as error:
            raise InputError(
                f"{name} does not fit {dataset.name}, whose samples have shape {shape}: {error}"
            ) from error

    return build
