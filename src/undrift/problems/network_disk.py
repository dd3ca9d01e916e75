"""Networks whose training inputs lie in a memory-mapped file: samples of those that take part are read, nothing else.

The inputs may be of any number type (pixels as bytes, say); what is read is converted. Targets, index arrays and test data
are in memory. Loss and metrics are measured by blocks of samples.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import precision
from .arrays import aligned_zeros
from .evaluation import Evaluation, Reference
from .network import Network
from .network_model import Architecture, input_dtype
from .streamed import BLOCK_BYTES


class OnDiskNetwork(Network):
    """See `network`; `shared["x"]` is a view of the file."""

    @property
    def client_bytes(self) -> int:
        return self.architecture.capacity * self._sample_bytes

    @property
    def _sample_bytes(self) -> int:
        return int(np.prod(self.shared["x"].shape[1:], dtype=np.int64)) * self._kept_as.itemsize

    @property
    def _kept_as(self) -> np.dtype[Any]:
        return input_dtype(self.architecture.net, self.dtype)

    def among(self, ids: np.ndarray, rows: int) -> Network:
        """With the samples of these clients in memory; room for those of as many of the largest clients."""
        behind = rows - len(ids)
        starts, sizes = (np.asarray(self.stack[name], np.int64)[ids] for name in ("start", "size"))
        begins = np.cumsum(sizes) - sizes
        places = np.repeat(starts - begins, sizes) + np.arange(int(sizes.sum()))
        everyone = np.asarray(self.stack["size"])
        room = int(np.partition(everyone, len(everyone) - rows)[len(everyone) - rows :].sum(dtype=np.int64))
        own = {
            "start": np.pad(begins, (0, behind)).astype(np.int32),
            "size": np.pad(sizes, (0, behind), constant_values=1).astype(np.int32),
        }
        rest = {
            name: np.pad(np.asarray(leaf)[ids], (0, behind)) for name, leaf in self.stack.items() if name not in own
        }
        shared = {
            **self._read(np.asarray(self.shared["order"])[places], room),
            "order": np.arange(room, dtype=np.int32),
            "sample": np.zeros(1, np.int32),  # nothing is measured here, see `evaluator`
            "sample_weights": np.zeros(1, self.dtype),
        }
        weights = np.pad(np.asarray(self.weights)[ids], (0, behind))
        return Network({**rest, **own}, shared, weights, self.dim, self.dtype, self.static)

    def evaluate(self, x: jax.Array, reference: Reference | None, per_client: bool = False) -> Evaluation:
        """With all inputs in memory: to see which columns there are."""
        shared = {**self.shared, "x": jnp.asarray(self.shared["x"], self._kept_as)}
        whole = Network(self.stack, shared, self.weights, self.dim, self.dtype, self.static)
        return whole.evaluate(x, reference, per_client)

    def _read(self, samples: np.ndarray, room: int) -> dict[str, np.ndarray]:
        """Inputs and targets of these samples, filled up to so many; no samples at the end are zeros."""
        inputs, targets = self.shared["x"], np.asarray(self.shared["y"])
        x = aligned_zeros((room, *inputs.shape[1:]), self._kept_as)
        y = np.zeros((room, *targets.shape[1:]), targets.dtype)
        x[: len(samples)], y[: len(samples)] = inputs[samples], targets[samples]
        return {"x": x, "y": y}

    def evaluator(self, reference: Reference | None, per_client: bool) -> Callable[[Any], Evaluation]:
        return partial(self._evaluate_in_blocks, per_client)

    def _evaluate_in_blocks(self, per_client: bool, x: Any) -> Evaluation:
        with precision.scope(self.dtype):
            x = jnp.asarray(x, self.dtype)
            order = np.asarray(self.shared["order"])
            losses = self._measured(x, order[np.asarray(self.shared["sample"])])["loss"]
            everything = self._measured(x, order) if per_client else None
            return _recorded(self._without_inputs(), x, losses, everything)

    def _without_inputs(self) -> Network:
        """What the last step of an evaluation needs: no training data, which a compiled function would be given whole."""
        shared = {name: part for name, part in self.shared.items() if name not in ("x", "y", "order")}
        return Network(self.stack, shared, self.weights, self.dim, self.dtype, self.static)

    def _measured(self, x: jax.Array, samples: np.ndarray) -> dict[str, np.ndarray]:
        """Loss and metrics of these samples, one number each."""
        rows = int(np.clip(BLOCK_BYTES // self._sample_bytes, 1, len(samples)))
        found = []
        for first in range(0, len(samples), rows):
            block = samples[first : first + rows]
            read = self._read(block, rows)
            answers = _block_measured(self.architecture, x, read["x"], read["y"])
            found.append({name: np.asarray(values)[: len(block)] for name, values in answers.items()})
        return {name: np.concatenate([block[name] for block in found]) for name in found[0]}

    def _client_shapes(self) -> tuple[Any, Any]:
        row, shared = super()._client_shapes()
        return row, {**shared, "x": jax.ShapeDtypeStruct(shared["x"].shape, self._kept_as)}

    def _only(self, client: int) -> Network:
        """One client's problem, with its data in memory."""
        mine = np.asarray(self.stack["start"])[client] + np.arange(int(self.sizes[client]))
        samples = np.asarray(self.shared["order"])[mine]
        held, places = np.unique(samples, return_inverse=True)
        order = np.array(self.shared["order"])
        order[mine] = places  # the only part of it that is looked at
        shared = {**self.shared, **self._read(held, len(held)), "order": order}
        return Network(self.stack, shared, self.weights, self.dim, self.dtype, self.static)._only(client)


@partial(jax.jit, static_argnums=0)
def _block_measured(architecture: Architecture, x: jax.Array, inputs: Any, targets: Any) -> dict[str, jax.Array]:
    return architecture.measure(x, inputs, targets, jnp.arange(targets.shape[0]))


@jax.jit
def _recorded(problem: Network, x: jax.Array, losses: jax.Array, everything: Any) -> Evaluation:
    return problem.recorded(x, losses, everything)
