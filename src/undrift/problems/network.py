"""Networks: f_i(x) = mean cross-entropy of a network with parameters x on client i's samples.

The data live once on the device; a client is a range of an index array, so unequal sizes cost nothing. The parameters are one
flat vector in layer order; the cut of split learning is an index into it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from .. import precision
from ..errors import InputError
from ..models.layers import Conv
from ..models.model import Model
from ..oracles import MiniBatch, Oracle, minibatch
from ..vectorise import spread
from .augment import Augment
from .base import ClientLoss, Evaluation, Problem, Reference, normalised_weights

EVALUATION_BATCH = 250
TRAIN_SAMPLE = 2000
AUGMENTATION = 0xA46  # keeps what it draws apart from what the order of the samples draws
LOOP_ABOVE_PADDED_BYTES = 2**28  # what full gradients of all clients at once may take


class Net(NamedTuple):
    """Any pair (init, apply): init(key) -> parameters, apply(parameters, inputs) -> logits (batch, classes)."""

    init: Callable[[Any], Any]
    apply: Callable[[Any, Any], Any]


class Architecture(NamedTuple):
    """The hashable part of a network problem."""

    net: Net | Model
    capacity: int
    batch: int
    cut: int | None
    augment: Augment | None = None

    def unravel(self, x: jax.Array) -> Any:
        return unraveler(self.net, str(x.dtype))(x)

    def logits(self, x: jax.Array, inputs: jax.Array) -> jax.Array:
        return self.net.apply(self.unravel(x), inputs)


class Halves(NamedTuple):
    """A model cut in two: the first `cut` layers at the client, the others at the server."""

    model: Model
    cut: int
    batch: int

    @property
    def boundary(self) -> int:
        """Where the server's half begins in x."""
        return self.model.split(self.cut)[0].parameter_count

    @property
    def activation_shape(self) -> tuple[int, ...]:
        return self.model.activation_shape(self.cut, self.batch)

    def client(self, x_c: jax.Array, inputs: jax.Array) -> jax.Array:
        """Activations at the cut."""
        half = self.model.split(self.cut)[0]
        return half.apply(unraveler(half, str(x_c.dtype))(x_c), inputs)

    def server_loss(self, x_s: jax.Array, activations: jax.Array, labels: jax.Array) -> jax.Array:
        """Mean cross-entropy from the activations on."""
        half = self.model.split(self.cut)[1]
        return jnp.mean(cross_entropy(half.apply(unraveler(half, str(x_s.dtype))(x_s), activations), labels))

    def batch_of(self, local: Any, step: Any) -> tuple[jax.Array, jax.Array]:
        """The client's batch at a local step: the one that FedAvg would take there."""
        indices = local.oracle.indices(local.loss.size, local.steps_key, step)
        return local.loss.varied(local.steps_key, step).samples(indices)


class NetworkLoss(ClientLoss):
    """One client's samples under the common network."""

    def __init__(
        self, architecture: Architecture, shared: dict[str, Any], row: dict[str, Any], key: jax.Array | None = None
    ) -> None:
        self.architecture, self.shared, self.row, self.key = architecture, shared, row, key
        self.start, self.size = row["start"], row["size"]

    @property
    def capacity(self) -> int:
        return self.architecture.capacity

    def samples(self, indices: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Inputs and labels of the client's samples with these numbers."""
        place = self.shared["order"][self.start + indices]
        inputs, labels = self.shared["x"][place], self.shared["y"][place]
        if self.architecture.augment is not None and self.key is not None:
            inputs = self.architecture.augment(self.key, inputs)
        return inputs, labels

    def varied(self, key: jax.Array, step: Any) -> NetworkLoss:
        if self.architecture.augment is None:
            return self
        key = jax.random.fold_in(jax.random.fold_in(key, AUGMENTATION), step)
        return NetworkLoss(self.architecture, self.shared, self.row, key)

    def loss(self, x: jax.Array) -> jax.Array:
        indices = jnp.arange(self.capacity)
        present = (indices < self.size).astype(x.dtype)
        inputs, labels = self.samples(jnp.minimum(indices, self.size - 1))
        return present @ cross_entropy(self.architecture.logits(x, inputs), labels) / self.size

    def partial_gradient(self, x: jax.Array, indices: jax.Array, weights: jax.Array) -> jax.Array:
        inputs, labels = self.samples(indices)
        share = weights / self.size
        return jax.grad(lambda z: share @ cross_entropy(self.architecture.logits(z, inputs), labels))(x)


class Network(Problem):
    """See `network`."""

    name = "network"

    @property
    def architecture(self) -> Architecture:
        return self.static[0]

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("loss", "test_loss", "accuracy") if "test_x" in self.shared else ("loss",)

    @property
    def sizes(self) -> np.ndarray:
        return np.asarray(self.stack["size"], np.int64)

    @property
    def default_oracle(self) -> MiniBatch:
        return minibatch(self.architecture.batch)

    @property
    def halves(self) -> Halves:
        architecture = self.architecture
        if architecture.cut is None or not isinstance(architecture.net, Model):
            raise InputError("this problem is not cut: make it with network(…, cut=number of layers at the client)")
        return Halves(architecture.net, architecture.cut, architecture.batch)

    def check_dialogue(self, oracle: Oracle) -> None:
        batch = self.halves.batch
        if not isinstance(oracle, MiniBatch) or oracle.size != batch:
            raise InputError(f"a split dialogue exchanges mini-batches of the problem's batch = {batch}, got {oracle}")

    def initial(self, seed: int) -> np.ndarray:
        with precision.scope(self.dtype):
            return np.asarray(ravel_pytree(self.architecture.net.init(jax.random.key(seed)))[0])

    def view_with(self, shared: Any, row: Any) -> ClientLoss:
        return NetworkLoss(self.architecture, shared, row)

    @property
    def convolutional(self) -> bool:
        """Whether the network has (or, as far as one can see, may have) convolutions."""
        net = self.architecture.net
        return not isinstance(net, Model) or any(isinstance(layer, Conv) for layer in net.layers)

    def prefers_loop(self, exact: bool) -> bool:
        # Convolutions with weights of their own for every client do not merge into larger operations on a CPU.
        if self.convolutional and jax.default_backend() == "cpu":
            return True
        samples = self.shared["x"]
        padded = self.stack["size"].shape[0] * self.architecture.capacity * int(np.prod(samples.shape[1:]))
        return exact and padded * samples.dtype.itemsize > LOOP_ABOVE_PADDED_BYTES

    def evaluate(self, x: jax.Array, reference: Reference | None) -> Evaluation:
        """Loss on a fixed sample of the training data; loss and accuracy on the test data."""
        shared = self.shared
        chosen = shared["sample"]
        losses, _ = self._measure(x, shared["x"], shared["y"], chosen)
        columns = {"loss": shared["sample_weights"] @ losses}
        if "test_x" in shared:
            everything = jnp.arange(shared["test_y"].shape[0])
            losses, correct = self._measure(x, shared["test_x"], shared["test_y"], everything)
            columns |= {"test_loss": jnp.mean(losses), "accuracy": jnp.mean(correct.astype(x.dtype))}
        return Evaluation(columns, jnp.int32(-1))

    def _measure(self, x: jax.Array, inputs: jax.Array, labels: jax.Array, places: jax.Array) -> tuple[Any, Any]:
        """Cross-entropy and correctness of these samples, in batches that stay in the cache."""
        params = self.architecture.unravel(x)

        def one(place: jax.Array) -> tuple[jax.Array, jax.Array]:
            logits = self.architecture.net.apply(params, inputs[place][None])
            label = labels[place][None]
            return cross_entropy(logits, label)[0], jnp.argmax(logits[0]) == label[0]

        return spread(one, places, block=EVALUATION_BATCH)

    def reference(self) -> Reference | None:
        return None


def network(
    model: Any,
    train: Any,
    parts: Sequence[Any],
    *,
    test: Any = None,
    batch: int = 20,
    cut: int | None = None,
    weights: Any = None,
    augment: Augment | None = None,
    train_sample: int | None = TRAIN_SAMPLE,
) -> Network:
    """f_i(x) = mean cross-entropy of `model` on the samples `parts[i]` of `train`.

    model: one of `ud.models`, or any pair (init, apply). train, test: objects with x and y, or pairs (x, y). parts: one index
    array per client (`ud.data.exdir` and its kin). batch: mini-batch size of the default oracle. cut: how many leading layers
    stay at the client in split learning. weights: of clients in f (equal by default). augment: how mini-batches of images vary
    (`ud.problems.Augment`); full gradients, component gradients and evaluations take the images as they are. train_sample:
    `loss` in the history is measured on so many training samples, the same in every round (None: all).

    >>> import undrift as ud
    >>> d = ud.data.load("digits")
    >>> parts = ud.data.exdir(d.train.y, clients=20, classes=2, alpha=10.0, seed=0)
    >>> p = network(ud.models.mlp((16,), input=(8, 8, 1)), d.train, parts, test=d.test)
    >>> r = ud.run(ud.fedavg(eta=0.5), p, rounds=30, steps=10)
    >>> bool(r.history["accuracy"][-1] > 0.7)
    True
    """
    net = model if isinstance(model, Model) else _pair(model)
    inputs, labels = _data(train, "train")
    order, start, sizes = _index_sets(parts, len(labels))
    dtype = np.dtype(getattr(model, "dtype", np.float32))
    if cut is not None:
        if not isinstance(net, Model):
            raise InputError("only the models of ud.models can be cut: a pair (init, apply) has no layers to count")
        net.split(cut)  # refuses a cut outside the model
    if augment is not None:
        augment.check(inputs.shape)
    w = normalised_weights(weights, len(sizes), dtype)
    _check_output(net, inputs, labels, dtype)
    sample, sample_weights = _train_sample(order, start, sizes, w, train_sample)
    with precision.scope(dtype):
        shared = {
            "x": jnp.asarray(inputs, dtype),
            "y": jnp.asarray(labels, jnp.int32),
            "order": jnp.asarray(order, jnp.int32),
            "sample": jnp.asarray(sample, jnp.int32),
            "sample_weights": jnp.asarray(sample_weights, dtype),
        }
        if test is not None:
            test_x, test_y = _data(test, "test")
            _check_output(net, test_x, test_y, dtype)
            shared |= {"test_x": jnp.asarray(test_x, dtype), "test_y": jnp.asarray(test_y, jnp.int32)}
        stack = {"start": jnp.asarray(start, jnp.int32), "size": jnp.asarray(sizes, jnp.int32)}
        dim = sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(_parameter_shapes(net)))
        architecture = Architecture(net, int(sizes.max()), minibatch(batch).size, cut, augment)
        return Network(stack, shared, jnp.asarray(w), dim, dtype, (architecture,))


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """−log softmax(logits)[label], one number per sample."""
    picked = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    return jax.nn.logsumexp(logits, axis=1) - picked


@functools.lru_cache(maxsize=64)
def unraveler(net: Net | Model, dtype: str) -> Callable[[jax.Array], Any]:
    """From the flat vector to the network's parameters."""
    shapes = _parameter_shapes(net)
    leaves, structure = jax.tree.flatten(shapes)
    ends = np.cumsum([int(np.prod(leaf.shape)) for leaf in leaves])

    def unravel(x: jax.Array) -> Any:
        pieces = jnp.split(x, ends[:-1]) if leaves else []
        return jax.tree.unflatten(structure, [p.reshape(leaf.shape) for p, leaf in zip(pieces, leaves, strict=True)])

    return unravel


def _parameter_shapes(net: Net | Model) -> Any:
    with precision.scope(getattr(net, "dtype", "float32")):
        return jax.eval_shape(net.init, jax.eval_shape(lambda: jax.random.key(0)))


def _pair(model: Any) -> Net:
    if hasattr(model, "init") and hasattr(model, "apply"):
        return Net(model.init, model.apply)
    if isinstance(model, tuple) and len(model) == 2 and all(callable(part) for part in model):
        return Net(*model)
    raise InputError(f"a model is one of ud.models, or a pair of functions (init, apply); got {model!r}")


def _data(given: Any, what: str) -> tuple[np.ndarray, np.ndarray]:
    inputs, labels = (given.x, given.y) if hasattr(given, "x") else given
    inputs, labels = np.asarray(inputs), np.asarray(labels)
    if len(inputs) != len(labels) or labels.ndim != 1:
        raise InputError(
            f"{what} needs one label per sample, got {inputs.shape} inputs and labels of shape {labels.shape}"
        )
    if inputs.dtype.kind == "f" and not np.isfinite(inputs).all():
        bad = int(np.argwhere(~np.isfinite(inputs))[0][0])
        raise InputError(f"{what} inputs must be finite, but sample {bad} holds NaN or infinity: clean the data first")
    if labels.dtype.kind not in "iu":
        raise InputError(f"{what} labels must be whole numbers 0, 1, …, got dtype {labels.dtype}")
    return inputs, labels


def _index_sets(parts: Sequence[Any], samples: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    arrays = [np.asarray(part, np.int64) for part in parts]
    if not arrays:
        raise InputError("parts must name at least one client")
    sizes = np.array([len(part) for part in arrays])
    if sizes.min() < 1:
        raise InputError(f"client {int(sizes.argmin())} has no samples: partition with min_size=1 or leave it out")
    order = np.concatenate(arrays)
    if order.min() < 0 or order.max() >= samples:
        raise InputError(f"parts name sample {order.max()}, but there are only 0 … {samples - 1}")
    return order, np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes


def _check_output(net: Net | Model, inputs: np.ndarray, labels: np.ndarray, dtype: Any) -> None:
    with precision.scope(dtype):
        shapes = jax.tree.map(lambda s: jax.ShapeDtypeStruct(s.shape, dtype), _parameter_shapes(net))
        logits = jax.eval_shape(net.apply, shapes, jax.ShapeDtypeStruct((1, *inputs.shape[1:]), dtype))
    if logits.ndim != 2:
        raise InputError(f"a model returns logits of shape (batch, classes), this one {logits.shape}")
    if labels.min() < 0 or labels.max() >= logits.shape[1]:
        strange = int(labels.min() if labels.min() < 0 else labels.max())
        raise InputError(
            f"the model has {logits.shape[1]} outputs, so labels are 0 … {logits.shape[1] - 1}, but there is the label "
            f"{strange}: give the model classes={int(labels.max()) + 1}, or mend the labels"
        )


def _train_sample(order: Any, start: Any, sizes: Any, weights: Any, count: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Samples on which the training loss is measured, and weights that make it an estimate of f."""
    share = np.repeat(np.asarray(weights, np.float64) / sizes, sizes)
    if count is None or count >= len(order):
        return order, share / share.sum()
    chosen = np.sort(np.random.default_rng(0).choice(len(order), count, replace=False))
    return order[chosen], share[chosen] / share[chosen].sum()
