"""What is minimised: f = Σ w_i f_i, one f_i per client.

A problem is data for all clients (`stack`, leading axis m), data that all share (`shared`), and a `view`: the class that turns
one client's row into its `ClientLoss`. It is a pytree, so that its arrays are inputs of the compiled program and problems of
the same kind and shape share it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import precision
from ..errors import InputError
from ..oracles import Full, Oracle
from ..vectorise import over_clients, row_bytes, take

ALIGNMENT = 64  # bytes
BLOCK_ENTRIES = 2**22
LOOP_ABOVE_BYTES = 2**16  # data of one client from which a loop over clients was measured to be faster


class ClientLoss:
    """f_i as client i sees it. Only `loss` is compulsory."""

    size: Any = 1  # number of components f_ij

    def loss(self, x: jax.Array) -> jax.Array:
        raise NotImplementedError

    def gradient(self, x: jax.Array) -> jax.Array:
        return jax.grad(self.loss)(x)

    def partial_gradient(self, x: jax.Array, indices: jax.Array, weights: jax.Array) -> jax.Array:
        """Σ_j weights_j ∇f̂_j(x) over these samples, where f_i = Σ_j f̂_j over all."""
        raise InputError(
            "this problem's clients have no components, so mini-batches are not defined: use oracles.full()"
        )

    def batch_gradient(self, x: jax.Array, indices: jax.Array) -> jax.Array:
        """An unbiased estimate of ∇f_i from these samples: (n_i/b) Σ_j ∇f̂_j(x)."""
        scale = jnp.asarray(self.size, x.dtype) / indices.shape[0]
        return self.partial_gradient(x, indices, jnp.full(indices.shape, scale, x.dtype))

    def varied(self, key: jax.Array, step: Any) -> ClientLoss:
        """f_i with its samples as they are seen at this local step (data augmentation); itself where they do not vary."""
        return self

    # ----- incremental aggregation (FedTrack, IAG): components are runs of `batch` consecutive samples
    @property
    def capacity(self) -> int:
        """The largest number of samples any client has; sizes are padded to it."""
        raise InputError("this problem's clients have no components, so incremental aggregation is not defined")

    def component_count(self, batch: int) -> Any:
        return -(-self.size // batch)

    def component_gradient(self, x: jax.Array, index: Any, batch: int) -> jax.Array:
        """What one component contributes to ∇f_i(x)."""
        samples, present = self.component(index, batch)
        return self.partial_gradient(x, samples, present.astype(x.dtype))

    def component(self, index: Any, batch: int) -> tuple[jax.Array, jax.Array]:
        """The samples of a component, and which of them exist (the last component may be short)."""
        samples = index * batch + jnp.arange(batch)
        return jnp.minimum(samples, self.size - 1), samples < self.size

    def track(self, x: jax.Array, batch: int) -> tuple[Any, jax.Array]:
        """A table of all component gradients at x, and their sum ∇f_i(x)."""
        rows = -(-self.capacity // batch)
        table = jax.vmap(lambda j: self.component_gradient(x, j, batch))(jnp.arange(rows))
        return table, jnp.sum(table, axis=0)

    def refresh(self, table: Any, index: Any, y: jax.Array, batch: int) -> tuple[Any, jax.Array]:
        """The table with one component taken anew at y, and by how much the sum changes."""
        new = self.component_gradient(y, index, batch)
        return table.at[index].set(new), new - table[index]

    def spectrum(self) -> tuple[jax.Array, jax.Array] | None:
        """(λ, V) of a constant Hessian V diag(λ) Vᵀ, where it is worth using."""
        return None

    def prox(self, centre: jax.Array, s: Any) -> jax.Array | None:
        """argmin_y f_i(y) + ‖y − centre‖²/(2s) in closed form, where there is one."""
        return None


@dataclasses.dataclass(frozen=True)
class Optimum:
    """x* and f* = f(x*), and how they were found."""

    x: np.ndarray
    value: float
    how: str


@dataclasses.dataclass(frozen=True)
class Constants:
    """Every f_i is L-smooth and μ-strongly convex: L = max_i L_i, μ = min_i μ_i."""

    L: float
    mu: float
    per_client_L: np.ndarray
    per_client_mu: np.ndarray

    @property
    def kappa(self) -> float:
        """Condition number L/μ."""
        return self.L / self.mu if self.mu > 0 else float("inf")


class Factors(NamedTuple):
    """Samples of linear models: ∇²f_i(x) = A_iᵀ diag(curvatures(x)_i) A_i + l2·I."""

    A: Any  # (m, n, d), rows of zeros below a client's own
    steepest: float  # the largest ℓ''
    curvatures: Callable[[Any], np.ndarray]  # x -> ℓ_j''(a_jᵀx), (m, n)
    l2: float = 0.0


class Reference(NamedTuple):
    """What the records are measured against, where x* is known."""

    x: Any
    value: Any


class Evaluation(NamedTuple):
    """What is recorded of one model."""

    columns: dict[str, Any]  # the problem's own, "loss" among them
    suspect: Any  # the client to look at if the loss is not finite


class Problem:
    """Base of all problems; see the module's docstring."""

    name: ClassVar[str] = "problem"
    columns: tuple[str, ...] = ("loss", "gap", "sq_distance", "grad_norm", "dissimilarity")
    view: Callable[[Any, Any], ClientLoss]

    def __init__(
        self, stack: Any, shared: Any, weights: Any, dim: int, dtype: Any, static: tuple[Any, ...] = ()
    ) -> None:
        self.stack, self.shared, self.weights = stack, shared, weights
        self.dim, self.dtype, self.static = int(dim), np.dtype(dtype), static

    def __init_subclass__(cls) -> None:
        jax.tree_util.register_pytree_node_class(cls)

    # ----- for users
    @property
    def clients(self) -> int:
        """m"""
        return int(np.shape(self.weights)[0])

    @cached_property
    def optimum(self) -> Optimum:
        """x* and f*; computed when first asked for."""
        with precision.scope(self.dtype):
            return self._solve()

    @cached_property
    def constants(self) -> Constants:
        """L and μ; computed when first asked for."""
        with precision.scope(self.dtype):
            return self._constants()

    @property
    def sizes(self) -> np.ndarray:
        """n_i: components per client."""
        return np.ones(self.clients, np.int64)

    def value(self, x: Any) -> float:
        """f(x)."""
        with precision.scope(self.dtype):
            return float(jax.jit(type(self).evaluate)(self, jnp.asarray(x, self.dtype), None).columns["loss"])

    def gradient(self, x: Any) -> np.ndarray:
        """∇f(x)."""
        with precision.scope(self.dtype):
            return np.asarray(jax.jit(type(self).mean_gradient)(self, jnp.asarray(x, self.dtype)))

    def initial(self, seed: int) -> np.ndarray:
        """x_0 where the user gives none."""
        return np.zeros(self.dim, self.dtype)

    @property
    def default_oracle(self) -> Oracle:
        """How clients take gradients where the user does not say."""
        return Full()

    @property
    def halves(self) -> Any:
        """The two halves of a cut model."""
        raise InputError(f"split learning needs a model that is cut in two, and a {self.name} problem has none")

    def check_dialogue(self, oracle: Oracle) -> None:
        """Refuse a split dialogue that this problem cannot hold."""
        self.halves  # noqa: B018

    def pooled(self) -> Problem:
        """The same f as the loss of one client that holds all data."""
        from .pooled import Pooled

        return Pooled.of(self)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.clients} clients, d = {self.dim}, {self.dtype}>"

    # ----- for interpreters, inside the compiled program
    def client(self, row: Any) -> ClientLoss:
        """The view of one client's row of `stack`."""
        return self.view_with(self.shared, row)

    def view_with(self, shared: Any, row: Any) -> ClientLoss:
        """The view of a row, with the shared part given: all that a client needs to know."""
        return self.view(shared, row)

    def each(self, function: Callable[[Any], Any]) -> Any:
        """function(f_i) for every client, stacked."""
        return over_clients(lambda row: function(self.client(row)), self.stack, loop=self.prefers_loop(exact=True))

    def prefers_loop(self, exact: bool) -> bool:
        """Whether clients are better played one after the other (see `vectorise`); `exact`: with full gradients."""
        return exact and row_bytes(self.stack) > LOOP_ABOVE_BYTES

    def mean_gradient(self, x: jax.Array) -> jax.Array:
        return self.weights @ self.each(lambda f: f.gradient(x))

    def evaluate(self, x: jax.Array, reference: Reference | None) -> Evaluation:
        """Everything that is recorded of a model x."""
        losses, gradients = self.each(lambda f: (f.loss(x), f.gradient(x)))
        loss = self.weights @ losses
        gap = jnp.full_like(loss, jnp.nan) if reference is None else loss - reference.value
        return self._evaluation(x, reference, loss, gap, gradients, losses)

    def _evaluation(
        self,
        x: jax.Array,
        reference: Reference | None,
        loss: Any,
        gap: Any,
        gradients: jax.Array,
        losses: jax.Array | None = None,
    ) -> Evaluation:
        mean = self.weights @ gradients
        distance = jnp.full_like(loss, jnp.nan) if reference is None else jnp.sum((x - reference.x) ** 2)
        columns = {
            "loss": loss,
            "gap": gap,
            "sq_distance": distance,
            "grad_norm": jnp.linalg.norm(mean),
            "dissimilarity": jnp.max(jnp.linalg.norm(gradients - mean[None, :], axis=1)),
        }
        steepest = jnp.nan_to_num(jnp.max(jnp.abs(gradients), axis=1), nan=jnp.inf)
        if losses is not None:
            steepest = jnp.where(jnp.isfinite(losses), steepest, jnp.inf)
        return Evaluation(columns, jnp.argmax(steepest).astype(jnp.int32))

    def reference(self) -> Reference | None:
        """x* and f* for the records, or None where they do not exist or would cost too much to find."""
        try:
            optimum = self.optimum if self._optimum_is_cheap() or "optimum" in self.__dict__ else None
        except InputError:
            return None
        return None if optimum is None else Reference(np.asarray(optimum.x), np.asarray(optimum.value, self.dtype))

    # ----- for theory and advice
    constant_hessians: ClassVar[bool] = False  # f_i(x) = ½xᵀH_i x − c_iᵀx + constant
    has_prox: ClassVar[bool] = False  # whether clients know their proximal operator in closed form

    def loss_of(self, i: Any) -> ClientLoss:
        """f_i, by its number (which may be traced)."""
        return self.client(take(self.stack, i))

    def hessians(self, x: Any) -> np.ndarray:
        """∇²f_i(x) of every client, (m, d, d), symmetric and in double precision; constant ones ignore x."""
        with precision.scope(self.dtype):
            found = np.asarray(_hessians(self, jnp.asarray(x, self.dtype)), np.float64)
        return (found + np.swapaxes(found, 1, 2)) / 2

    def gradients(self, x: Any) -> np.ndarray:
        """∇f_i(x) of every client, (m, d)."""
        with precision.scope(self.dtype):
            return np.asarray(_gradients(self, jnp.asarray(x, self.dtype)), np.float64)

    def mean_hessian(self) -> np.ndarray | None:
        """Σ w_i H_i where it is constant and kept."""
        return None

    def factors(self) -> Factors | None:
        """The samples of linear models, f_i(x) = Σ_j ℓ_j(a_jᵀx) + (l2/2)‖x‖²; None for other problems."""
        return None

    @property
    def finite_sum(self) -> bool:
        """Whether clients hold several components whose gradients can be kept in a table of numbers."""
        return self.factors() is not None and bool(np.any(self.sizes > 1))

    def all_alike(self) -> bool:
        """Whether all f_i are the same function, as far as the data show it."""
        return rows_alike(self.stack)

    # ----- for subclasses
    def _optimum_is_cheap(self) -> bool:
        return True

    def _solve(self) -> Optimum:
        raise InputError(f"the minimiser of a {self.name} problem is not known: give it as optimum=(x, value)")

    def _constants(self) -> Constants:
        raise InputError(
            f"L and μ of a {self.name} problem are not known in closed form: give them as constants=(L, mu)"
        )

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return (self.stack, self.shared, self.weights), (self.dim, self.dtype, self.static)

    @classmethod
    def tree_unflatten(cls, aux: tuple[Any, ...], children: tuple[Any, ...]) -> Any:
        problem = object.__new__(cls)
        problem.stack, problem.shared, problem.weights = children
        problem.dim, problem.dtype, problem.static = aux
        return problem


@jax.jit
def _hessians(problem: Any, x: jax.Array) -> jax.Array:
    found: jax.Array = problem.each(lambda f: jax.jacfwd(f.gradient)(x))
    return found


@jax.jit
def _gradients(problem: Any, x: jax.Array) -> jax.Array:
    found: jax.Array = problem.each(lambda f: f.gradient(x))
    return found


def rows_alike(stack: Any) -> bool:
    """Whether all clients have the same row."""
    return all(bool(np.all(np.asarray(leaf) == np.asarray(leaf)[:1])) for leaf in jax.tree.leaves(stack))


def normalised_weights(weights: Any, clients: int, dtype: Any) -> np.ndarray:
    """w_i ≥ 0 with Σ w_i = 1; equal where the user gives none."""
    if weights is None:
        return np.full(clients, 1 / clients, dtype)
    w = np.asarray(weights, np.float64)
    if w.shape != (clients,):
        raise InputError(f"weights must have one entry per client: expected shape ({clients},), got {w.shape}")
    if not np.all(np.isfinite(w)) or np.any(w < 0) or w.sum() <= 0:
        raise InputError(f"weights must be finite, ≥ 0 and not all zero, got {w}")
    return (w / w.sum()).astype(dtype)


def padded_rows(blocks: Any, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Equal or unequal blocks as one array with zeros below, and the true lengths."""
    if hasattr(blocks, "ndim") and blocks.ndim >= 2:
        return blocks, np.full(blocks.shape[0], blocks.shape[1], np.int64)
    rows = [np.asarray(b) for b in blocks]
    if not rows:
        raise InputError(f"{what} must hold at least one client, got an empty list")
    if any(r.ndim == 0 for r in rows):
        raise InputError(f"{what} must have one entry per row of each client's block, got one number per client")
    tails = {r.shape[1:] for r in rows}
    if len(tails) != 1:
        raise InputError(f"all clients' {what} must agree in their last dimensions, got {sorted(tails)}")
    sizes = np.array([len(r) for r in rows])
    out = aligned_zeros((len(rows), sizes.max(), *rows[0].shape[1:]), np.result_type(*rows))
    for target, row in zip(out, rows, strict=True):
        target[: len(row)] = row
    return out, sizes


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros that start at a multiple of 64 bytes: what a CPU device takes over without a copy. NumPy's own start anywhere."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(shape)


def to_device(array: Any, dtype: Any) -> jax.Array:
    """On the device in this dtype. Large aligned arrays that already fit are not copied (do not write to them afterwards)."""
    array = array if isinstance(array, jax.Array) else np.asarray(array)
    if array.dtype == np.dtype(dtype) and array.nbytes > 2**28:
        return jax.device_put(array, may_alias=True)
    return jnp.asarray(array, dtype)


def require_finite(**arrays: Any) -> None:
    for name, array in arrays.items():
        if not all(np.isfinite(block).all() for block in _blocks(np.asarray(array))):
            where = np.argwhere(~np.isfinite(np.asarray(array)))[0].tolist()
            raise InputError(f"{name} must be finite, but its entry {where} is not: clean the data first")


def _blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """The array in pieces, so that a look at all of it needs little memory."""
    rows = max(1, BLOCK_ENTRIES * len(array) // max(array.size, 1)) if array.ndim else 1
    yield from (array[k : k + rows] for k in range(0, len(array), rows)) if array.ndim else [array]
