"""What is minimised: f = Σ w_i f_i, one f_i per client.

A problem is data for all clients (`stack`, leading axis m), data that all share (`shared`), and a `view`: the class that turns
one client's row into its `ClientLoss`. It is a pytree, so that its arrays are inputs of the compiled program and problems of
the same kind and shape share it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from .. import precision
from ..errors import InputError
from ..oracles import Full, Oracle
from ..sums import weighted
from ..vectorise import over_clients, row_bytes, take
from .arrays import aligned_zeros, on_disk, own_copy, require_room_for_hessians
from .client import ClientLoss
from .evaluation import Evaluation, Reference, summarise
from .population import Population

if TYPE_CHECKING:
    from .network_data import ServerData

LOOP_ABOVE_BYTES = 2**16  # data of one client from which a loop over clients was measured to be faster


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


class Problem:
    """Base of all problems; see the module's docstring."""

    name: ClassVar[str] = "problem"
    is_pooled: ClassVar[bool] = False
    view: Callable[[Any, Any], ClientLoss]
    sampled: ClassVar[tuple[str, ...]] = ()  # the entries of `stack` with one row per sample behind the client axis
    # For people, and no part of what is computed: what the numbers of the model mean (`studies.columns`), and what was decided
    # on the way from a file to this problem.
    columns: Mapping[str, Any] | None = None
    remarks: tuple[str, ...] = ()

    def __init__(
        self, stack: Any, shared: Any, weights: Any, dim: int, dtype: Any, static: tuple[Any, ...] = ()
    ) -> None:
        self.stack, self.shared, self.weights = stack, shared, weights
        self.dim, self.dtype, self.static = int(dim), np.dtype(dtype), static

    def __init_subclass__(cls) -> None:
        jax.tree_util.register_pytree_node_class(cls)

    # ----- for users
    @property
    def client_names(self) -> tuple[str, ...] | None:
        """For tables and pages, where clients have names."""
        named = (self.columns or {}).get("clients")
        return None if named is None else tuple(named)

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
        """n_i: components per client, one where its row says nothing of them."""
        return np.asarray(self.stack.get("size", np.ones(self.clients)), np.int64)

    def value(self, x: Any) -> float:
        """f(x)."""
        with precision.scope(self.dtype):
            if self.is_on_disk:
                return float(self.evaluator(None, False)(jnp.asarray(x, self.dtype)).columns["loss"])
            return float(jax.jit(type(self).evaluate)(self, jnp.asarray(x, self.dtype), None).columns["loss"])

    def gradient(self, x: Any) -> np.ndarray:
        """∇f(x)."""
        with precision.scope(self.dtype):
            return np.asarray(jax.jit(type(self).mean_gradient)(self, jnp.asarray(x, self.dtype)))

    def initial(self, seed: int) -> np.ndarray:
        """x_0 where the user gives none."""
        return self.population.initial(seed)

    @cached_property
    def population(self) -> Population:
        """What a server may know: m, weights, sizes, d, dtype and shapes, and no sample."""
        row, shared = self._client_shapes()
        weights, sizes = np.array(self.weights), np.array(self.sizes)
        return Population(
            self.name, self.clients, weights, sizes, self.dim, self.dtype, row, shared, type(self), self.static
        )

    def only(self, client: int) -> Problem:
        """The problem of one client: f is its f_i, and the data are its own and nobody else's.

        What a deployed site builds from its own file. The optimum and the constants are those of f_i.

        >>> import undrift as ud
        >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
        >>> p.only(1).optimum.x
        array([50.])
        """
        if not isinstance(client, int | np.integer) or not 0 <= client < self.clients:
            raise InputError(f"clients are numbered 0 … {self.clients - 1}, there is no client {client!r}")
        with precision.scope(self.dtype):
            return self._only(int(client))

    @property
    def server_data(self) -> ServerData | None:
        """Data that the server itself measures models on (see `network`), or None."""
        return None

    @property
    def default_oracle(self) -> Oracle:
        """How clients take gradients where the user does not say."""
        return self.oracle_of(self.static)

    @property
    def halves(self) -> Any:
        """The two halves of a cut model."""
        return self.halves_of(self.static)

    def pooled(self) -> Problem:
        """The same f as the loss of one client that holds all data."""
        from .pooled import Pooled

        return Pooled.of(self)

    @property
    def is_on_disk(self) -> bool:
        """Whether some of its data lie in a memory-mapped file."""
        return any(on_disk(leaf) for leaf in jax.tree.leaves((self.stack, self.shared)))

    @property
    def client_bytes(self) -> int:
        """What the data of the largest client take when they are brought to the device for a few rounds."""
        return row_bytes(self.stack)

    def among(self, ids: np.ndarray, rows: int) -> Problem:
        """The clients with these numbers as a problem of so many rows; the last client again and again behind them.

        Weights are those among all m clients; nothing is weighed twice: those behind have the weight 0.
        """
        places = np.concatenate([ids, np.full(rows - len(ids), ids[-1], ids.dtype)])
        stack = jax.tree.map(lambda leaf: gathered(leaf, places), self.stack)
        weights = np.where(np.arange(rows) < len(ids), np.asarray(self.weights)[places], 0).astype(self.dtype)
        _, aux = self.tree_flatten()
        chosen: Self = self.tree_unflatten(aux, (stack, self.shared, weights))
        return chosen

    def evaluator(self, reference: Reference | None, per_client: bool) -> Callable[[Any], Evaluation]:
        """`evaluate` as a function that the host calls: it looks at a block of clients at a time."""
        from .streamed import Streamed

        return Streamed(self, reference, per_client)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.clients} clients, d = {self.dim}, {self.dtype}>"

    # ----- for interpreters, inside the compiled program
    def client(self, row: Any) -> ClientLoss:
        """The view of one client's row of `stack`."""
        return self.view_of(self.static, self.shared, row)

    def each(self, function: Callable[[Any], Any]) -> Any:
        """function(f_i) for every client, stacked."""
        return over_clients(lambda row: function(self.client(row)), self.stack, loop=self.prefers_loop(exact=True))

    def each_with(self, function: Callable[[Any, Any], Any], rows: Any) -> Any:
        """function(f_i, row_i) for every client, stacked."""
        loop = self.prefers_loop(exact=True)
        return over_clients(lambda row, own: function(self.client(row), own), self.stack, rows, loop=loop)

    def prefers_loop(self, exact: bool) -> bool:
        """Whether clients are better played one after the other (see `vectorise`); `exact`: with full gradients."""
        return exact and row_bytes(self.stack) > LOOP_ABOVE_BYTES

    @property
    def merges(self) -> bool:
        """Whether several models side by side (`vmap`) become larger operations, or are better played one by one."""
        return True

    def mean_gradient(self, x: jax.Array) -> jax.Array:
        return weighted(self.weights, self.each(lambda f: f.gradient(x)))

    def evaluate(self, x: jax.Array, reference: Reference | None, per_client: bool = False) -> Evaluation:
        """Everything that is recorded of a model x."""
        optimum = None if reference is None else reference.x
        answers = self.each(lambda f: f.measure(x, optimum, per_client))
        return summarise(x, answers, self.weights, reference, per_client)

    def evaluation_shapes(self, reference: Reference | None, per_client: bool = False) -> Evaluation:
        """What `evaluate` returns, as shapes: which columns there are, in the order of a history."""
        leaves, structure = jax.tree.flatten((self, reference))
        return _evaluation_shapes(structure, tuple(shapes_of(leaves)), self.dim, self.dtype, per_client)

    def reference(self, asked: bool = False) -> Reference | None:
        """x* and f* for the records, or None where they do not exist or would cost too much to find.

        `asked`: by somebody who needs them. A run that only records them looks for them where that takes about a second; who
        wants the columns `gap` and `sq_distance` of a larger problem looks at `problem.optimum` once before the run.
        """
        affordable = not self.is_on_disk and self._optimum_is_cheap() and (asked or self._optimum_is_quick())
        if not affordable and "optimum" not in self.__dict__:
            return None
        try:
            optimum = None if self._has_no_optimum else self.optimum
        except InputError:
            self._has_no_optimum, optimum = True, None  # the next run need not look for it again
        return None if optimum is None else Reference(np.asarray(optimum.x), np.asarray(optimum.value, self.dtype))

    # ----- for theory and advice
    constant_hessians: ClassVar[bool] = False  # f_i(x) = ½xᵀH_i x − c_iᵀx + constant
    has_prox: ClassVar[bool] = False  # whether clients know their proximal operator in closed form

    def loss_of(self, i: Any) -> ClientLoss:
        """f_i, by its number (which may be traced)."""
        return self.client(take(self.stack, i))

    def hessians(self, x: Any) -> np.ndarray:
        """∇²f_i(x) of every client, (m, d, d), symmetric and in double precision; constant ones ignore x."""
        require_room_for_hessians(self.clients, self.dim)
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
    @classmethod
    def view_of(cls, static: tuple[Any, ...], shared: Any, row: Any) -> ClientLoss:
        """f_i of a client with these data, without a problem at hand."""
        return cls.view(shared, row)

    @classmethod
    def oracle_of(cls, static: tuple[Any, ...]) -> Oracle:
        return Full()

    @classmethod
    def adds_samples(cls, static: tuple[Any, ...]) -> bool:
        """Whether f_i is a sum over client i's samples: f_i/n_i is then what compares clients of different sizes."""
        return False

    @classmethod
    def shapes_for(cls, shared: Any, static: tuple[Any, ...], most: int) -> tuple[Any, tuple[Any, ...]]:
        """What the clients share, and what is known besides data, where the largest client has so many samples."""
        return shared, static

    @classmethod
    def initial_of(cls, static: tuple[Any, ...], dim: int, dtype: np.dtype[Any], seed: int) -> np.ndarray:
        """x_0 where the user gives none."""
        return np.zeros(dim, dtype)

    @classmethod
    def check_dialogue(cls, static: tuple[Any, ...], oracle: Oracle) -> None:
        """Refuse a split dialogue that problems of this kind cannot hold."""
        cls.halves_of(static)

    @classmethod
    def halves_of(cls, static: tuple[Any, ...]) -> Any:
        raise InputError(f"split learning needs a model that is cut in two, and a {cls.name} problem has none")

    def _client_shapes(self) -> tuple[Any, Any]:
        """Shapes of the largest client's row and of what is shared."""
        return shapes_of(self.stack, rows=True), shapes_of(self.shared)

    def _only(self, client: int) -> Problem:
        size = int(self.sizes[client])
        sizes = {name: size if name in self.sampled else None for name in self.stack}
        row = {name: own_copy(part, client, sizes[name]) for name, part in self.stack.items()}
        return type(self)(row, self._own_shared(row), jnp.ones(1, self.dtype), self.dim, self.dtype, self.static)

    def _own_shared(self, row: dict[str, Any]) -> Any:
        """What is shared by all, where one client is all there are."""
        return jax.tree.map(lambda leaf: jnp.asarray(np.array(leaf)), self.shared)

    def at_clients(self) -> Self:
        """The problem without what only the server holds."""
        return self

    _has_no_optimum = False  # as far as was seen

    def _optimum_is_cheap(self) -> bool:
        """Whether x* can be had where somebody asks for it."""
        return True

    def _optimum_is_quick(self) -> bool:
        """Whether it can be had in passing."""
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


@lru_cache(maxsize=64)  # a trace takes as long as tens of rounds
def _evaluation_shapes(structure: Any, leaves: Any, dim: int, dtype: np.dtype[Any], per_client: bool) -> Evaluation:
    order: list[str] = []  # JAX sorts the names of a dictionary

    def evaluate(problem: Problem, reference: Reference | None, x: jax.Array) -> Evaluation:
        found = problem.evaluate(x, reference, per_client)
        order.extend(found.columns)
        return found

    with precision.scope(dtype):
        given = jax.tree.unflatten(structure, leaves)
        shapes = jax.eval_shape(evaluate, *given, jax.ShapeDtypeStruct((dim,), dtype))
    return shapes._replace(columns={name: shapes.columns[name] for name in order})


@jax.jit
def _hessians(problem: Any, x: jax.Array) -> jax.Array:
    found: jax.Array = problem.each(lambda f: jax.jacfwd(f.gradient)(x))
    return found


@jax.jit
def _gradients(problem: Any, x: jax.Array) -> jax.Array:
    found: jax.Array = problem.each(lambda f: f.gradient(x))
    return found


def gathered(leaf: Any, places: np.ndarray) -> np.ndarray:
    """These rows of an array, on the host, where a CPU device can take them over as they are."""
    array = np.asarray(leaf)
    rows = aligned_zeros((len(places), *array.shape[1:]), array.dtype)
    rows[...] = array[
        places
    ]  # `np.take` would first copy all of an array that is not aligned, as one within an .npz file
    return rows


def rows_alike(stack: Any) -> bool:
    """Whether all clients have the same row."""
    return all(bool(np.all(np.asarray(leaf) == np.asarray(leaf)[:1])) for leaf in jax.tree.leaves(stack))


def shapes_of(tree: Any, rows: bool = False) -> Any:
    """The shapes of a tree's leaves, or of one row of each."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(np.shape(leaf)[int(rows) :], leaf.dtype), tree)
