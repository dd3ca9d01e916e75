"""Networks on data sets with a name, for the command line and study files."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from msgspec import Meta

from .. import models
from ..errors import InputError, unknown
from ..gate import Count, Seed, Whole
from ..models import Model
from ..oracles import LastBatch
from ..problems.augment import Augment
from ..problems.network import BY_SIZE, Network
from ..problems.network import network as make
from ..problems.network_loss import Criterion
from .own import MARK, is_own, own_object
from .schema import Partition
from .words import construct, split_word

if TYPE_CHECKING:
    from ..data import Dataset

DATA, MODEL = "digits", "softmax_regression"
PARTITION = "exdir:classes=2,alpha=10"
Make = Callable[..., Any]  # a model or a module, from (classes=…, input=…)
Rate = Annotated[float, Meta(ge=0, lt=1, extra={"rule": "a number ≥ 0 and < 1"}, examples=[0.5])]


def _vgg9(narrower: Count = 1, dropout: Rate = 0.0, dense: Literal["uniform", "normal"] = "uniform") -> Make:
    """VGG-9, see `undrift.models.vgg9`."""
    return partial(models.vgg9, narrower=narrower, dropout=dropout, dense=dense)


def _resnet(depth: Count = 20, width: Count | None = None, groups: Count = 2) -> Make:
    """A residual network with GroupNorm, see `undrift.models.resnet`."""
    return partial(models.resnet, depth=depth, width=width, groups=groups)


def _char_lstm(embedding: Count = 8, hidden: Count = 256, layers: Count = 2) -> Make:
    """LEAF's model of characters, see `undrift.models.char_lstm`."""
    return partial(models.char_lstm, embedding=embedding, hidden=hidden, layers=layers)


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
    "vgg9": _vgg9,
    "vgg11": _vgg11,
    "resnet": _resnet,
    "char_lstm": _char_lstm,
}
CONVOLUTIONAL = ("lenet5", "femnist_cnn", "femnist_cnn_unpadded", "vgg9", "vgg11", "resnet")
MODEL_OPTIONS = tuple({name: None for make in MODELS.values() for name in inspect.signature(make).parameters})
BY_UNIT_VECTORS = ("squared", "mse")  # losses that compare the outputs with the label's unit vector


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
    loss: str = "cross_entropy",
    metric: str | None = None,
    data_seed: Seed = 0,
    data_dir: str | None = None,
) -> Network:
    """A network on images, text or a table: mean cross-entropy, with loss and accuracy on the test split.

    `model`: softmax_regression, mlp, lenet5, femnist_cnn, femnist_cnn_unpadded, vgg9, vgg11, resnet or char_lstm, also
    with options ("vgg11:narrower=8", "resnet:depth=8,width=8"), for the shape and the classes of the data; or your own,
    "file.py:name": a model or module, or a class or function (classes, input) that makes one. `partition`: how the training
    split is shared out among `clients` (20), drawn by `data_seed`; without it exdir:classes=2,alpha=10, but heart and
    shakespeare by group and diabetes iid. `batch`: size of the mini-batches; `last_batch`: the last one of an epoch is
    filled up ("full") or has what is left ("short"). `weights`: of the clients in f, "equal" or "by size". `cut`: how
    many leading layers stay at the client in split learning. `shift`, `mirror`: the images of a mini-batch are moved at
    random by up to so many pixels in both directions, and mirrored with probability ½. `loss`: "cross_entropy" (where
    the data have a number to predict: "squared"); "squared" or "mse", half the squared distance and the mean squared
    distance of the outputs from the targets, or from the label's unit vector; or your own, "file.py:name", a function
    (outputs, targets) of a batch. `metric`: one of your own of the same kind, a column of that name.
    """
    from ..data import load  # takes a second: only those wait who need it
    from .partition import drawing

    build, draw = model_builder(model), None if partition is None else drawing(partition)
    chosen, metrics = own_loss(loss), own_metric(metric)
    dataset = load(data, data_dir=data_dir, progress=sys.stderr.isatty())
    parts = (draw or drawing(natural_partition(dataset)))(dataset, clients, data_seed)
    augment = Augment(shift, mirror) if shift or mirror else None
    train: Any = dataset.train
    test: Any = dataset.test
    if not dataset.classes:
        chosen = "squared" if loss == "cross_entropy" else chosen
        train, test = ((split.x, split.y[:, None].astype(np.float32)) for split in (train, test))
    elif loss in BY_UNIT_VECTORS and train.y.dtype.kind in "iu":
        train, test = ((split.x, _unit_vectors(split.y, dataset.classes)) for split in (train, test))
        metrics = {"accuracy": _nearest, **metrics}
    return make(
        build(dataset),
        train,
        parts,
        test=test,
        loss=chosen,
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


def own_loss(word: str) -> Any:
    """A loss by its name, or a function of the user's.

    >>> own_loss("mse")
    'mse'
    """
    if not is_own(word):
        return Criterion.of(word, None) and word  # which refuses a name that it does not know
    return _own_function(word, "loss")


def own_metric(word: str | None) -> dict[str, Any]:
    """A metric of the user's, by the name of its function."""
    if word is None:
        return {}
    if not is_own(word):
        raise InputError(f"a metric is a function of your own, file.py:name, got {word!r}; accuracy needs no asking")
    return {word.rpartition(MARK)[2]: _own_function(word, "metric")}


def _own_function(word: str, what: str) -> Any:
    found = own_object(word, what)
    if not callable(found) or isinstance(found, type):
        raise InputError(f"a {what} is a function (outputs, targets) -> one number per sample; {word} is {found!r:.80}")
    return found


def model_maker(words: str) -> Make:
    """What makes the model of that name and options, from classes and the shape of the input.

    >>> model_maker("vgg11:narrower=8")(classes=10, input=(32, 32, 3)).parameter_count
    153530
    """
    make_model: Make = _own_model(words) if is_own(words) else construct(words, MODELS, "model")
    return make_model


def _own_model(words: str) -> Make:
    """A model or module of the user's, or what his class or function makes of classes, input and options."""
    name, positional, options = split_word(words)
    found = own_object(name, "model")
    makes = isinstance(found, FunctionType | partial | type)
    if positional or (options and not makes):
        raise InputError(
            f"{name} takes options as key=value, and only if it is a class or a function (classes, input, …): got {words!r}"
        )
    if not makes or (isinstance(found, type) and not _makes_itself(found, {"classes", "input", *options})):
        return lambda classes, input: found
    known = inspect.signature(found).parameters
    for key in options:
        if key not in known:
            raise unknown(f"option of {name}", key, known)
    return lambda classes, input: _made(name, found, known, {"classes": classes, "input": input} | options)


def _makes_itself(module: type, given: set[str]) -> bool:
    """Whether a class needs nothing but what is given: Linen's do, those of NNX and Equinox want keys."""
    parameters = inspect.signature(module).parameters.values()
    needed = {p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    return needed <= given


def _made(name: str, function: Callable[..., Any], known: Any, given: dict[str, Any]) -> Any:
    try:
        return function(**{key: entry for key, entry in given.items() if key in known})
    except InputError:
        raise
    except Exception as error:  # the user's own code
        raise InputError(f"{name} cannot be made for {given}: {type(error).__name__}: {error}") from error


def is_convolutional(words: Any) -> bool:
    """Whether these words, if they are any, name a network with convolutions."""
    return isinstance(words, str) and split_word(words)[0] in CONVOLUTIONAL


def outputs(dataset: Dataset) -> int:
    """How many outputs a model of the data has: one per class, or one per number to predict."""
    y = dataset.train.y
    return dataset.classes if y.dtype.kind in "iu" else int(np.prod(y.shape[1:], dtype=int))


def model_builder(name: str) -> Callable[[Dataset], Model]:
    """The model of that name and options, for the shape and the classes of a data set."""
    make_model = model_maker(name)

    def build(dataset: Dataset) -> Model:
        shape = tuple(dataset.train.x.shape[1:])
        try:
            return make_model(classes=outputs(dataset), input=shape)
        except InputError as error:
            raise InputError(
                f"{name} does not fit {dataset.name}, whose samples have shape {shape}: {error}"
            ) from error

    return build
