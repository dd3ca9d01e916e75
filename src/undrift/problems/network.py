"""Networks: f_i(x) = mean loss of a network with parameters x on client i's samples.

The data live once on the device; a client is a range of an index array, so unequal sizes cost nothing. The parameters are one
flat vector in layer order; the cut of split learning is an index into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import precision
from ..errors import InputError
from ..models.adapted import Adapted
from ..models.model import Model
from ..oracles import LastBatch, MiniBatch, Oracle, minibatch
from ..randomness import key_of
from ..sums import weighted
from .arrays import normalised_weights, on_disk, own_copy
from .augment import Augment
from .base import Problem, shapes_of
from .client import ClientLoss
from .evaluation import OWN, Evaluation, Reference, statistics
from .network_data import ServerData, check_tokens, index_sets, on_device, own_sample, read
from .network_data import train_sample as draw_sample
from .network_loss import Criterion, PerSample
from .network_model import Architecture, Halves, Net, as_net, input_dtype, output_shapes, parameter_shapes

TRAIN_SAMPLE = 2000
AUGMENTATION = 0xA46  # keeps what it draws apart from what the order of the samples draws
DROPOUT = 0xD09  # … and what the network draws apart from that
BY_SIZE = "by size"  # weights: of every client its share of all samples
TRACKED_SAMPLES = 32  # whose component gradients are taken at once
LOOP_ABOVE_PADDED_BYTES = 2**28  # what full gradients of all clients at once may take


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
        """Inputs and targets of the client's samples with these numbers."""
        place = self.shared["order"][self.start + indices]
        inputs, targets = self.shared["x"][place], self.shared["y"][place]
        if self.architecture.augment is not None and self.key is not None:
            inputs = self.architecture.augment(self.key, inputs)
        return inputs, targets

    @property
    def drawn(self) -> jax.Array | None:
        """The key of what the network itself draws, if it does and the samples are seen as training sees them."""
        if self.key is None or not self.architecture.net.random:
            return None
        return jax.random.fold_in(self.key, DROPOUT)

    def varied(self, key: jax.Array, step: Any) -> NetworkLoss:
        if not self.architecture.varies:
            return self
        key = jax.random.fold_in(jax.random.fold_in(key, AUGMENTATION), step)
        return NetworkLoss(self.architecture, self.shared, self.row, key)

    def loss(self, x: jax.Array) -> jax.Array:
        indices = jnp.arange(self.capacity)
        present = (indices < self.size).astype(x.dtype)
        inputs, targets = self.samples(jnp.minimum(indices, self.size - 1))
        return present @ self.architecture.losses(x, inputs, targets) / self.size

    def partial_gradient(self, x: jax.Array, indices: jax.Array, weights: jax.Array) -> jax.Array:
        inputs, targets = self.samples(indices)
        share = weights / self.size
        return jax.grad(lambda z: share @ self.architecture.losses(z, inputs, targets, self.drawn))(x)

    def fetched(self, indices: jax.Array) -> Any:
        if self.architecture.augment is not None:
            return indices
        # Looked up inside the loop over local steps, samples would be looked up again by every operation that uses them; flat,
        # because loops over a sample's own axes are short.
        inputs, targets = self.samples(indices)
        return inputs.reshape(*indices.shape, -1), targets

    def fetched_gradient(self, x: jax.Array, fetched: Any, present: jax.Array | None = None) -> jax.Array:
        if self.architecture.augment is not None:
            return super().fetched_gradient(x, fetched, present)
        flat, targets = fetched
        inputs = flat.reshape(-1, *self.shared["x"].shape[1:])

        def mean(z: Any) -> jax.Array:
            losses = self.architecture.losses(z, inputs, targets, self.drawn)
            return jnp.mean(losses) if present is None else present.astype(losses.dtype) @ losses / jnp.sum(present)

        return jax.grad(mean)(x)

    @property
    def pieces(self) -> tuple[Callable[[jax.Array], Any], Callable[[Any], jax.Array]]:
        if self.architecture.augment is not None:
            return super().pieces
        return self.architecture.unravel, lambda parts: jnp.concatenate([p.ravel() for p in jax.tree.leaves(parts)])

    def track(self, x: jax.Array, batch: int) -> tuple[Any, jax.Array]:
        """Components that exist, one after the other or a few at a time: most clients have fewer than the largest."""
        at_once = max(1, TRACKED_SAMPLES // batch)
        blocks = -(-self.capacity // (batch * at_once))

        def fill(k: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            table, total = carry
            new = jax.vmap(lambda j: self.component_gradient(x, j, batch))(k * at_once + jnp.arange(at_once))
            return table.at[k].set(new), total + jnp.sum(new, axis=0)

        table = jnp.zeros((blocks, at_once, *x.shape), x.dtype)
        table, total = jax.lax.fori_loop(0, -(-self.size // (batch * at_once)), fill, (table, jnp.zeros_like(x)))
        return table.reshape(blocks * at_once, *x.shape), total

    def measure(self, x: jax.Array, optimum: jax.Array | None, per_client: bool = False) -> dict[str, jax.Array]:
        """The loss on the client's part of the training sample, and what part that is; means over all its data if asked."""
        number = jnp.arange(self.architecture.sample_capacity)
        present = number < self.row["sample_size"]
        number = self.row["sample_start"] + jnp.where(present, number, 0)
        weights = jnp.where(present, self.shared["sample_weights"][number], 0)
        total = jnp.sum(weights)
        losses = self._measured(x, self.shared["sample"][number])["loss"]
        answers = {"loss": (weights / jnp.where(total > 0, total, 1)) @ losses, "weight": self.row["share"]}
        if per_client:
            indices = jnp.arange(self.capacity)
            present = (indices < self.size).astype(x.dtype)
            found = self._measured(x, self.start + jnp.minimum(indices, self.size - 1))
            answers |= {OWN + name: present @ values / self.size for name, values in found.items()}
        return answers

    def _measured(self, x: jax.Array, numbers: jax.Array) -> dict[str, jax.Array]:
        shared = self.shared
        return self.architecture.measure(x, shared["x"], shared["y"], shared["order"][numbers])


class Network(Problem):
    """See `network`."""

    name = "network"

    @classmethod
    def view_of(cls, static: tuple[Any, ...], shared: Any, row: Any) -> ClientLoss:
        return NetworkLoss(static[0], shared, row)

    @classmethod
    def oracle_of(cls, static: tuple[Any, ...]) -> MiniBatch:
        return minibatch(static[0].batch, last=static[0].last_batch)

    @classmethod
    def halves_of(cls, static: tuple[Any, ...]) -> Halves:
        return static[0].halves

    @property
    def architecture(self) -> Architecture:
        return self.static[0]

    @property
    def model(self) -> Model | Adapted | Net:
        """The network itself; `model.to_module(x)` of a module of Flax, Equinox or Haiku is that module, trained."""
        return self.architecture.net

    def unravel(self, x: Any) -> Any:
        """The network's parameters from the flat x, as the library that the network comes from has them.

        >>> import undrift as ud
        >>> data = np.zeros((4, 3)), np.zeros(4, int)
        >>> p = network(ud.models.mlp((), classes=2, input=(3,)), data, [np.arange(4)])
        >>> p.unravel(np.arange(8.0))[1].bias
        Array([6., 7.], dtype=float32)
        """
        net = self.architecture.net
        with precision.scope(self.dtype):
            return net.unravel(x) if isinstance(net, Adapted) else self.architecture.unravel(np.asarray(x, self.dtype))

    @property
    def server_data(self) -> ServerData | None:
        """The test data, apart from all others."""
        test = self.shared.get("test")
        return None if test is None else ServerData(self.architecture, test["x"], test["y"])

    def as_one_of_many(self, share: Any) -> Network:
        """The same client as one of many, of whose samples its own are this share."""
        with precision.scope(self.dtype):
            stack = {**self.stack, "share": jnp.asarray(share)[None]}
            return Network(stack, self.shared, self.weights, self.dim, self.dtype, self.static)

    @classmethod
    def shapes_for(cls, shared: Any, static: tuple[Any, ...], most: int) -> tuple[Any, tuple[Any, ...]]:
        longer = {name: jax.ShapeDtypeStruct((most, *part.shape[1:]), part.dtype) for name, part in shared.items()}
        return longer, (static[0]._replace(capacity=most, sample_capacity=most),)

    @classmethod
    def check_dialogue(cls, static: tuple[Any, ...], oracle: Oracle) -> None:
        batch = cls.halves_of(static).batch
        if not isinstance(oracle, MiniBatch) or oracle.size != batch:
            raise InputError(f"a split dialogue exchanges mini-batches of the problem's batch = {batch}, got {oracle}")
        if oracle.last == "short":
            raise InputError(
                f"a split dialogue exchanges full mini-batches, got {oracle}: use last_batch='full', or take the same steps by "
                "sequential_fl (for ssl) or fedavg (for sflv1) on the uncut model"
            )
        if static[0].net.random:
            raise InputError(
                "the two ends of a split dialogue have no draws in common, and dropout draws: use a model without it, or take "
                "the same steps by sequential_fl (for ssl) or fedavg (for sflv1) on the uncut model"
            )

    @classmethod
    def initial_of(cls, static: tuple[Any, ...], dim: int, dtype: np.dtype[Any], seed: int) -> np.ndarray:
        with precision.scope(dtype):
            leaves = jax.tree.leaves(static[0].net.init(key_of(seed)))
        # Flattened by NumPy: every reshape by JAX would be a program of its own, to be compiled or fetched from the disk.
        return np.concatenate([np.zeros(0, dtype), *(np.ravel(leaf).astype(dtype) for leaf in leaves)])

    def evaluator(self, reference: Reference | None, per_client: bool) -> Callable[[Any], Evaluation]:
        compiled = jax.jit(Network.evaluate, static_argnums=3)  # all samples together: there are no blocks of clients
        return lambda x: compiled(self, jnp.asarray(x, self.dtype), reference, per_client)

    @property
    def merges(self) -> bool:
        # Convolutions with weights of their own for every client do not merge into larger operations on a CPU.
        return not (self.architecture.convolutional and jax.default_backend() == "cpu")

    def prefers_loop(self, exact: bool) -> bool:
        if not self.merges:
            return True
        samples = self.shared["x"]
        padded = self.stack["size"].shape[0] * self.architecture.capacity * int(np.prod(samples.shape[1:]))
        return exact and padded * samples.dtype.itemsize > LOOP_ABOVE_PADDED_BYTES

    def evaluate(self, x: jax.Array, reference: Reference | None, per_client: bool = False) -> Evaluation:
        """Loss on a fixed sample of the training data; loss and metrics on the test data; on request those of every client.

        All clients' samples go through the network together: the same means as from their own answers, and faster.
        """
        shared, measure = self.shared, self.architecture.measure
        losses = measure(x, shared["x"], shared["y"], shared["order"][shared["sample"]])["loss"]
        everything = measure(x, shared["x"], shared["y"], shared["order"]) if per_client else None
        return self.recorded(x, losses, everything)

    def recorded(self, x: jax.Array, losses: jax.Array, everything: dict[str, jax.Array] | None) -> Evaluation:
        """Columns from the losses of the training sample and, if asked for, loss and metrics of all training data."""
        columns = {"loss": weighted(self.shared["sample_weights"], losses)}
        clients: dict[str, Any] = {}
        if everything is not None:
            clients = {name: self._mean_of_each(values) for name, values in everything.items()}
            columns |= statistics(clients)
        server = self.server_data
        return Evaluation(columns | (server.measure(x) if server else {}), jnp.int32(-1), clients)

    def _mean_of_each(self, values: jax.Array) -> jax.Array:
        sizes = self.stack["size"]
        owner = jnp.repeat(jnp.arange(sizes.shape[0]), sizes, total_repeat_length=values.shape[0])
        return jax.ops.segment_sum(values, owner, sizes.shape[0], indices_are_sorted=True) / sizes

    def reference(self, asked: bool = False) -> Reference | None:
        return None

    def at_clients(self) -> Network:
        shared = {name: part for name, part in self.shared.items() if name != "test"}
        return Network(self.stack, shared, self.weights, self.dim, self.dtype, self.static)

    def _client_shapes(self) -> tuple[Any, Any]:
        sizes = dict.fromkeys(("x", "y", "order"), self.architecture.capacity)
        sizes |= dict.fromkeys(("sample", "sample_weights"), self.architecture.sample_capacity)
        shapes = shapes_of(self.at_clients().shared)
        shared = {name: jax.ShapeDtypeStruct((sizes[name], *s.shape[1:]), s.dtype) for name, s in shapes.items()}
        return shapes_of(self.stack, rows=True), shared

    def _only(self, client: int) -> Network:
        row, shared = jax.tree.map(lambda leaf: np.array(leaf[client]), self.stack), self.shared
        start, size = int(row["start"]), int(row["size"])
        mine = np.asarray(shared["order"])[start : start + size]
        part = slice(int(row["sample_start"]), int(row["sample_start"]) + int(row["sample_size"]))
        places, weights = own_sample(
            np.asarray(shared["sample"])[part] - start, np.asarray(shared["sample_weights"], np.float64)[part], size
        )
        data = {name: jnp.asarray(np.asarray(shared[name])[mine]) for name in ("x", "y")}
        data["order"] = jnp.arange(size, dtype=jnp.int32)
        data["sample"] = jnp.asarray(places, jnp.int32)
        data["sample_weights"] = jnp.asarray(weights, self.dtype)
        stack = own_copy(self.stack, client)
        zero = jnp.zeros(1, jnp.int32)
        stack |= {"start": zero, "sample_start": zero, "sample_size": jnp.full(1, len(places), jnp.int32)}
        architecture = self.architecture._replace(capacity=size, sample_capacity=len(places))
        return Network(stack, data, jnp.ones(1, self.dtype), self.dim, self.dtype, (architecture,))


def network(
    model: Any,
    train: Any,
    parts: Sequence[Any],
    *,
    test: Any = None,
    loss: str | PerSample = "cross_entropy",
    metrics: Mapping[str, PerSample] | None = None,
    batch: int = 20,
    last_batch: LastBatch = "full",
    cut: int | None = None,
    weights: Any = None,
    augment: Augment | None = None,
    train_sample: int | None = TRAIN_SAMPLE,
) -> Network:
    """f_i(x) = mean loss of `model` on the samples `parts[i]` of `train`.

    model: one of `ud.models`, a module of Flax, Equinox or Haiku (docs/models.md), or any pair (init, apply). With dropout or
    the like: apply(parameters, inputs, key=None), which gets a key for the mini-batches of training, of its own for every
    client, round and step, and None elsewhere. train, test: objects with x and y, or pairs (x, y); whole numbers stay such
    where the model looks them up. parts: one index array per client (`ud.data.exdir` and its kin). loss: "cross_entropy" with
    labels y = 0, 1, …; for targets y of the output's shape "squared", ½‖output − y‖², or "mse", the mean over the outputs of
    (output − y)²; or a function (outputs, targets) -> one number per sample, in jax.numpy. metrics: functions of the same kind
    by name; their means over the test data are columns of the history, as the accuracy is with cross-entropy. batch: mini-batch
    size of the default oracle; last_batch: the last of an epoch is filled up from the next ("full") or has what is left
    ("short"), see `ud.oracles.minibatch`. cut: how many leading layers stay at the client in split learning. weights: of
    clients in f (equal by default), or "by size": n_i/Σ n_j. augment: how mini-batches of images vary (`ud.problems.Augment`);
    full gradients, component gradients and evaluations take the images as they are, and drop nothing. train_sample: `loss` in
    the history is measured on so many training samples, the same in every round (None: all). Inputs that are memory-mapped are
    read for those that take part (docs/out-of-core.md).

    >>> import undrift as ud
    >>> d = ud.data.load("digits")
    >>> parts = ud.data.exdir(d.train.y, clients=20, classes=2, alpha=10.0, seed=0)
    >>> p = network(ud.models.mlp((16,), input=(8, 8, 1)), d.train, parts, test=d.test)
    >>> r = ud.run(ud.fedavg(eta=0.5), p, rounds=30, steps=10)
    >>> bool(r.history["accuracy"][-1] > 0.7)
    True

    Regression, with the mean absolute error as a metric:

    >>> inputs = np.random.default_rng(0).normal(size=(200, 3))
    >>> data = inputs, inputs @ [1.0, -2.0, 0.5]
    >>> off = {"absolute_error": lambda outputs, targets: abs(outputs - targets)[:, 0]}
    >>> model = ud.models.mlp((), classes=1, input=(3,))
    >>> p = network(model, data, np.split(np.arange(200), 4), test=data, loss="squared", metrics=off)
    >>> r = ud.run(ud.fedavg(eta=0.1), p, rounds=30, steps=10)
    >>> bool(r.history["absolute_error"][-1] < 1e-3)
    True
    """
    criterion = Criterion.of(loss, metrics)
    inputs, targets = read(train, "train", criterion.classifies)
    net = as_net(model, inputs)
    order, start, sizes = index_sets(parts, len(targets))
    dtype = np.dtype(getattr(model if isinstance(net, Net) else net, "dtype", None) or np.float32)
    kept_as = input_dtype(net, dtype)
    if net.tokens:
        check_tokens(inputs, "train", getattr(net, "vocabulary", None))
    if cut is not None:
        if isinstance(net, Net):
            raise InputError(
                "only the models of ud.models and lists of modules can be cut: a pair (init, apply) has no layers to count"
            )
        if not isinstance(cut, int | np.integer) or isinstance(cut, bool):
            raise InputError(f"cut must be a whole number of layers, got {cut!r}: correct it")
        if net.split(cut)[1].tokens:  # which refuses a cut outside the model
            raise InputError(f"no gradient comes back through whole numbers: cut after the embedding, got cut = {cut}")
    if augment is not None:
        augment.check(inputs.shape)
    if isinstance(weights, str) and weights != BY_SIZE:
        raise InputError(f"weights are numbers, one per client, or the word {BY_SIZE!r}; got {weights!r}")
    w = normalised_weights(sizes if isinstance(weights, str) else weights, len(sizes), dtype)
    with precision.scope(dtype):
        targets = criterion.targets(targets, output_shapes(net, inputs, dtype), "train")
        sampled, rows = draw_sample(sizes, w, train_sample, dtype)
        kept = on_disk(inputs)
        shared: dict[str, Any] = {
            **on_device(inputs[:0] if kept else inputs, targets, dtype, kept_as),
            "order": jnp.asarray(order, jnp.int32),
            **sampled,
        }
        if test is not None:
            test_x, test_y = read(test, "test", criterion.classifies)
            test_y = criterion.targets(test_y, output_shapes(net, test_x, dtype), "test")
            if net.tokens:
                check_tokens(test_x, "test", getattr(net, "vocabulary", None))
            shared["test"] = on_device(test_x, test_y, dtype, kept_as)
        stack = {"start": jnp.asarray(start, jnp.int32), "size": jnp.asarray(sizes, jnp.int32), **rows}
        dim = sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(parameter_shapes(net)))
        most = max(1, int(rows["sample_size"].max()))
        oracle = minibatch(batch, last=last_batch)
        architecture = Architecture(net, int(sizes.max()), oracle.size, cut, augment, criterion, most, oracle.last)
        if not kept:
            return Network(stack, shared, jnp.asarray(w), dim, dtype, (architecture,))
        from .network_disk import OnDiskNetwork

        return OnDiskNetwork(stack, {**shared, "x": inputs}, jnp.asarray(w), dim, dtype, (architecture,))
