"""What a network is to get right: a loss for each sample, and what else is worth knowing of its outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import InputError, unknown

PerSample = Callable[[jax.Array, jax.Array], jax.Array]  # (outputs, targets) -> one number for each sample
TAKEN = ("loss", "test_loss", "gap", "sq_distance", "grad_norm", "dissimilarity", "drift", "gradients", "round")


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """−log softmax(logits)[label], one number per sample."""
    picked = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    return jax.nn.logsumexp(logits, axis=1) - picked


def squared(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """½‖output − target‖², one number per sample."""
    return 0.5 * jnp.sum((outputs - targets).reshape(len(outputs), -1) ** 2, axis=1)


def mean_squared(outputs: jax.Array, targets: jax.Array) -> jax.Array:
    """The mean over a sample's outputs of (output − target)²."""
    return jnp.mean((outputs - targets).reshape(len(outputs), -1) ** 2, axis=1)


def correct(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Whether the largest logit is that of the label."""
    return jnp.argmax(logits, axis=1) == labels


LOSSES: dict[str, PerSample] = {"cross_entropy": cross_entropy, "squared": squared, "mse": mean_squared}


class Criterion(NamedTuple):
    """A loss per sample, and metrics by name."""

    loss: PerSample = cross_entropy
    metrics: tuple[tuple[str, PerSample], ...] = (("accuracy", correct),)

    @classmethod
    def of(cls, loss: str | PerSample, metrics: Mapping[str, PerSample] | None) -> Criterion:
        """From what the user gives."""
        if isinstance(loss, str):
            if loss not in LOSSES:
                raise unknown("loss", loss, LOSSES)
            loss = LOSSES[loss]
        if not callable(loss):
            raise InputError(f"a loss is one of {', '.join(LOSSES)} or a function (outputs, targets), got {loss!r}")
        known = (("accuracy", correct),) if loss is cross_entropy else ()
        given = tuple((metrics or {}).items())
        for name, function in given:
            _check_metric(name, function, (*TAKEN, *(name for name, _ in known)))
        return cls(loss, known + given)

    @property
    def classifies(self) -> bool:
        """Whether targets are labels 0, 1, …"""
        return self.loss is cross_entropy

    @property
    def names(self) -> tuple[str, ...]:
        """Of what it says about a sample, the loss first."""
        return ("loss", *(name for name, _ in self.metrics))

    def __call__(self, outputs: jax.Array, targets: jax.Array) -> dict[str, jax.Array]:
        """Everything there is to say about each sample."""
        return {"loss": self.loss(outputs, targets)} | {name: metric(outputs, targets) for name, metric in self.metrics}

    def targets(self, given: np.ndarray, outputs: Any, what: str) -> np.ndarray:
        """The targets as the loss takes them; refuses those that do not fit the network's outputs (shapes of a batch)."""
        if self.classifies:
            _check_labels(given, outputs)
        elif self.loss in (squared, mean_squared):
            given = _shaped(given, outputs.shape[1:], what)
        self._check_functions(given, outputs)
        return given

    def _check_functions(self, given: np.ndarray, outputs: Any) -> None:
        batch = outputs.shape[0]
        targets = jax.ShapeDtypeStruct((batch, *given.shape[1:]), target_dtype(given, outputs.dtype))
        for name, function in (("loss", self.loss), *self.metrics):
            try:
                shape = jax.eval_shape(function, outputs, targets).shape
            except (TypeError, ValueError) as error:
                raise InputError(
                    f"{name} cannot be evaluated on outputs {outputs.shape} and targets {targets.shape}: {error}"
                ) from error
            if shape != (batch,):
                raise InputError(
                    f"{name} returns one number per sample, of shape ({batch},) for {batch} samples; this one returns {shape}"
                )


def target_dtype(given: np.ndarray, dtype: Any) -> Any:
    """Whole numbers are kept as such; others are computed with as the network is."""
    return np.dtype(np.int32) if given.dtype.kind in "iu" else np.dtype(dtype)


def _check_metric(name: Any, function: Any, taken: tuple[str, ...]) -> None:
    if not isinstance(name, str) or not name.isidentifier():
        raise InputError(f"a metric is called as a column of the history, by letters and digits; got {name!r}")
    if name in taken or name.startswith(("bytes", "seconds", "loss_", "accuracy_")):
        raise InputError(f"the history has a column {name} of its own: give the metric another name")
    if not callable(function):
        raise InputError(f"a metric is a function (outputs, targets) -> one number per sample, {name} is {function!r}")


def _check_labels(labels: np.ndarray, logits: Any) -> None:
    if logits.ndim != 2:
        raise InputError(f"a model returns logits of shape (batch, classes), this one {logits.shape}")
    if labels.min() < 0 or labels.max() >= logits.shape[1]:
        strange = int(labels.min() if labels.min() < 0 else labels.max())
        raise InputError(
            f"the model has {logits.shape[1]} outputs, so labels are 0 … {logits.shape[1] - 1}, but there is the label "
            f"{strange}: give the model classes={int(labels.max()) + 1}, or mend the labels"
        )


def _shaped(targets: np.ndarray, output: tuple[int, ...], what: str) -> np.ndarray:
    """Targets of the output's shape; one number per sample fits a single output."""
    if targets.ndim == 1 and output == (1,):
        targets = targets[:, None]
    if targets.shape[1:] != output:
        raise InputError(
            f"a squared loss needs {what} targets of the output's shape {output}, got {targets.shape[1:]} per sample: "
            "give the model so many outputs (classes=…), or reshape the targets"
        )
    return targets.astype(np.result_type(targets, np.float32))
