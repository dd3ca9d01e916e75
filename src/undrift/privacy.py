"""Differential privacy on the up-link, for any parallel method: what a client sends is clipped, and noise is added.

    private(fedavg(eta=0.1), clip=1.0, noise=1.0)                    # each client adds noise: the server is not trusted
    private(fedavg(eta=0.1), clip=1.0, noise=1.0, where="server")    # the server adds noise to sums: it is trusted

The mathematics stands with `private`; how ε is counted in `engine.epsilon`; what is not covered in docs/privacy.md.
"""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import jax
import jax.numpy as jnp

from .compression import Compressor
from .errors import InputError, unknown
from .gate import Positive, check_value
from .links import Compressed
from .local import Local
from .protocol import Algorithm, AtServer, Cohort, Exchange, Program, shares_of_count, shares_of_weight
from .randomness import tag
from .recipe import Method, Recipe, as_method
from .sharding import by_all
from .signatures import Tree

WHERE = ("client", "server")
COHORTS = ("secret", "public")
CLIENT_NOISE = "client"


def private(
    method: Any,
    clip: float,
    noise: float,
    delta: float = 1e-5,
    where: str = "client",
    cohorts: str = "secret",
) -> Method:
    """The method with every message of a client clipped and noised; `history["epsilon"]` is ε at `delta` after each round.

    *Clipping.* All floating arrays of one message together are one vector v; what is sent instead is v̄ = v·min(1, C/‖v‖),
    C = `clip`, so that ‖v̄‖ ≤ C (to rounding). What is not finite is sent as zero. A model (FedLin's y_i, FedTrack's,
    FedSplit's z_i) is clipped around the model that the client started from, v = y_i − x. Whole numbers in a message
    (FedNova's τ_i) travel as they are: the plan, which everybody knows, says them.

    *Noise*, σ = `noise`, in units of C, in every exchange in which clients send something, those before round 1 included:
     - where="client" (local model): client i sends v̄_i + N(0, σ²C² I), with noise of its own. Nobody need be trusted: this
       is the default, since the other way round a promise would rest on a trust that nobody was asked for. The mean of n
       such messages carries noise of variance σ²C²/n in every coordinate.
     - where="server" (central model): clients clip, and the trusted server releases Σ c_i v̄_i + N(0, σ²C² max_i c_i² I),
       where c_i is the share of client i in the mean (a_i/|S| of those that answered) or in the sum (w_i): σ²C²/n² for equal
       shares. It may look at messages only through `cohort.mean`, `average` and `total`; a method whose server looks at
       single messages is refused.

    *What is promised.* Two runs are neighbours if they differ in all that one client sends, whatever its data are replaced by
    (m, weights, sizes, plan and failures are the same, and known unless sampling amplifies). An exchange then changes by at
    most 2C (or 2C·max c_i) where the noise has σC (or σC·max c_i): a Gaussian mechanism with multiplier σ/2, Rényi DP of order
    α with 2α/σ². k exchanges add up to 2kα/σ², and ε = min_α 2kα/σ² + log(1 − 1/α) − log(δα)/(α − 1). k counts the messages of
    the client that was asked most often. Where cohorts are drawn by `plan.uniform(n)` at a trusted server and
    `cohorts="secret"`, sampling amplifies (Wang, Balle, Kasiviswanathan 2019, Theorem 27); see docs/privacy.md for when
    that is due. Against neighbours in which a client is left out (zeros in its place), as DP-FedAvg counts, σ is worth
    twice as much.

    noise=0 clips only and promises nothing: ε = ∞. δ must be below 1/m. Needs `pip install "undrift[dp]"`.

    Dwork, Roth, "The algorithmic foundations of differential privacy" (2014); McMahan, Ramage, Talwar, Zhang, "Learning
    differentially private recurrent language models" (2018); Mironov, "Rényi differential privacy" (2017).

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> r = ud.run(ud.private(ud.fedavg(eta=0.1), clip=1.0, noise=20.0), p, rounds=3)
    >>> print(r.history["epsilon"].round(3))
    [0.    0.375 0.546 0.68 ]
    """
    method = as_method(method)
    clip, noise, delta = _numbers(clip, noise, delta)
    wrapper = Private(delta, where, cohorts)
    if where not in WHERE:
        raise unknown("place of the noise (where)", where, WHERE)
    if cohorts not in COHORTS:
        raise unknown("kind of cohorts", cohorts, COHORTS)
    _check(method)
    made = method.wrapped(wrapper, clip=clip, noise=noise)
    made.build()  # refuses programs that are no parallel rounds
    return made


@dataclasses.dataclass(frozen=True)
class Private:
    """The wrapper of an algorithm: hashable, part of the compiled program's identity. See `private`."""

    delta: float
    where: str
    cohorts: str

    numbers = ("clip", "noise")  # traced: a grid of them is one compiled program

    @property
    def at_client(self) -> bool:
        return self.where == CLIENT_NOISE

    @property
    def as_it_is(self) -> str | None:
        """Why what clients send may not be changed any more; None: it may, noise and all."""
        if self.at_client:
            return None
        return (
            "the noise of where='server' is right for messages of norm ≤ clip, and a compressor (with memory, or unbiased) may "
            "make them longer. Compress the way down, or let clients add the noise: where='client'"
        )

    def __call__(self, algorithm: Algorithm, /, **numbers: Any) -> Algorithm:
        if not any(
            isinstance(value, jax.Array) for value in numbers.values()
        ):  # those of a program were checked before
            _numbers(**numbers, delta=self.delta)
        link = Link(self.at_client, **numbers)
        return algorithm._replace(
            round=link.program(algorithm.round),
            start=link.program(algorithm.start),
            first=None if algorithm.first is None else link.program(algorithm.first),
        )

    def __str__(self) -> str:
        return f"private(noise by {'each client' if self.at_client else 'the server'}, delta={self.delta:g})"


@dataclasses.dataclass(frozen=True)
class Link:
    """The way up of a private method, with numbers that may be traced."""

    at_client: bool
    clip: Any
    noise: Any

    def program(self, program: Program) -> Program:
        return tuple(step if isinstance(step, AtServer) else self._exchange(step) for step in program)

    def _exchange(self, inner: Any) -> Exchange:
        if not isinstance(inner, Exchange):
            raise InputError(
                "private is for parallel rounds, and this method's clients play in turn or in a dialogue: what they send is a "
                "model or a step of it, and its norm says nothing about one client. Take fedavg, scaffold, fedlin, …"
            )
        _refuse_models(inner)
        around = inner.centre

        def client(memory: Tree, down: Tree, local: Local) -> tuple[Tree, Tree]:
            after, up = inner.client(memory, down, local)
            centre = None if around is None else around(memory, down)
            return after, self._sent(inner.name, up, centre, local.key)

        def receive(server: Tree, slots: Tree, ups: Tree, cohort: Cohort) -> tuple[Tree, Tree]:
            noisy = cast(Cohort, Noisy(cohort, self.noise * self.clip))
            try:
                return inner.receive(server, slots, _seal(ups, inner.name), noisy)
            except (TypeError, ValueError) as error:
                if Sealed.__name__ in str(error):  # of JAX's, which cannot compute with it
                    raise looks_inside(inner.name) from error
                raise

        return inner._replace(client=client, receive=inner.receive if self.at_client else receive)

    def _sent(self, exchange: str, up: Tree, centre: Tree | None, key: jax.Array) -> Tree:
        """The message clipped and, where that is the client's affair, noised."""
        _refuse_packed(exchange, up)
        moves = up if centre is None else jax.tree.map(jnp.subtract, up, centre)
        sent = clipped(moves, self.clip)
        if self.at_client:
            sent = _noised(sent, self.noise * self.clip, _privacy_key(key))
        return sent if centre is None else jax.tree.map(jnp.add, sent, centre)


def private_of(recipe: Recipe) -> Private | None:
    """The wrapper that makes a method private, if one does."""
    return next((wrapper for wrapper in recipe.wrap if isinstance(wrapper, Private)), None)


def clipped(message: Tree, clip: Any) -> Tree:
    """v·min(1, clip/‖v‖) for the vector v of all floating arrays of a message; zero where ‖v‖ is not finite.

    >>> clipped((jnp.array([3.0]), jnp.array([4.0]), jnp.array(7)), 1.0)[1:]
    (Array([0.8], dtype=float32), Array(7, dtype=int32, weak_type=True))
    """
    floats = [leaf for leaf in jax.tree.leaves(message) if _is_float(leaf)]
    if not floats:
        return message
    norm = jnp.sqrt(sum(jnp.sum(leaf * leaf) for leaf in floats))
    factor = jnp.where(norm > clip, clip / jnp.maximum(norm, clip), 1)

    def leaf_of(leaf: jax.Array) -> jax.Array:
        if not _is_float(leaf):
            return leaf
        return jnp.where(jnp.isfinite(norm), leaf * factor.astype(leaf.dtype), jnp.zeros_like(leaf))

    return jax.tree.map(leaf_of, message)


class Sealed:
    """The messages of a cohort that only a noisy sum may open, and only once: a second sum would be a second release."""

    def __init__(self, rows: jax.Array, exchange: str) -> None:
        self._rows: jax.Array | None = rows
        self._exchange = exchange

    def opened(self) -> jax.Array:
        rows, self._rows = self._rows, None
        if rows is None:
            raise InputError(
                f"private, where='server': the server sums the messages of exchange {self._exchange!r} twice, and each sum "
                "tells something of them: let clients add the noise, where='client'"
            )
        return rows

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__array__", "__jax_array__"):
            raise AttributeError(name)
        raise looks_inside(self._exchange)


def looks_inside(exchange: str) -> InputError:
    """The refusal of a server that opens single messages."""
    return InputError(
        f"private, where='server', adds noise to sums of messages, and in exchange {exchange!r} the server of this method "
        "looks at single ones (not only at cohort.mean, average and total): let clients add the noise, where='client'"
    )


class Noisy:
    """A cohort whose sums Σ c_i v̄_i over sealed messages carry noise N(0, (scale·max c_i)² I), scale = σC."""

    def __init__(self, cohort: Cohort, scale: Any) -> None:
        self._cohort, self._scale = cohort, scale
        self._releases = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cohort, name)

    def mean(self, ups: Tree, around: Tree | None = None) -> Tree:
        """As `Cohort.mean`."""
        cohort = self._cohort
        if cohort.importance is None:
            return self.average(ups)
        largest = by_all(lambda *given: jnp.max(shares_of_count(*given)), cohort.importance, cohort.answered)
        return self._released(ups, lambda rows: cohort.mean(rows, around), largest)

    def average(self, ups: Tree) -> Tree:
        """As `Cohort.average`."""
        cohort = self._cohort
        largest = by_all(lambda *given: jnp.max(shares_of_weight(*given)), cohort.weights, cohort.answered)
        return self._released(ups, cohort.average, largest)

    def total(self, ups: Tree) -> Tree:
        """As `Cohort.total`."""
        cohort = self._cohort
        return self._released(ups, cohort.total, by_all(_largest_weight, cohort.weights, cohort.answered))

    def _released(self, ups: Tree, summed: Any, largest: jax.Array) -> Tree:
        leaves, structure = jax.tree.flatten(ups)
        opened = [leaf.opened() if isinstance(leaf, Sealed) else leaf for leaf in leaves]
        sums = jax.tree.leaves(summed(jax.tree.unflatten(structure, opened)))
        key = jax.random.fold_in(_privacy_key(self._cohort.key), self._releases)
        self._releases += 1
        noisy = _noised(sums, self._scale * largest, key)
        chosen = [n if isinstance(leaf, Sealed) else s for leaf, n, s in zip(leaves, noisy, sums, strict=True)]
        return jax.tree.unflatten(structure, chosen)


def _largest_weight(weights: jax.Array, answered: jax.Array | None) -> jax.Array:
    """Of those that answered."""
    return jnp.max(weights if answered is None else jnp.where(answered, weights, 0))


def _seal(ups: Tree, exchange: str) -> Tree:
    return jax.tree.map(lambda rows: Sealed(rows, exchange) if _is_float(rows) else rows, ups)


def _noised(message: Tree, scale: Any, key: jax.Array) -> Tree:
    """The message with independent Gaussian noise of this standard deviation on every floating number."""
    leaves, structure = jax.tree.flatten(message)
    noisy = [
        leaf + jnp.asarray(scale, leaf.dtype) * jax.random.normal(jax.random.fold_in(key, i), leaf.shape, leaf.dtype)
        if _is_float(leaf)
        else leaf
        for i, leaf in enumerate(leaves)
    ]
    return jax.tree.unflatten(structure, noisy)


def _is_float(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jnp.floating)


def _privacy_key(key: jax.Array) -> jax.Array:
    """The randomness of the noise, apart from all other of the exchange."""
    return jax.random.fold_in(key, tag("privacy"))


# ----- what is refused
def _numbers(clip: Any, noise: Any, delta: Any) -> tuple[float, float, float]:
    for name, value in (("clip", clip), ("noise", noise), ("delta", delta)):
        if isinstance(value, bool) or value is None:
            raise InputError(
                f"private: {name} must be a number, got {value}: for example clip=1.0, noise=1.0, delta=1e-5"
            )
    clip = check_value("clip", _plain(clip), Positive)
    noise = check_value("noise", _plain(noise), float)
    if noise < 0:
        raise InputError(
            f"noise, the multiplier of clip, must be ≥ 0, got {noise:g}: 1.0 is a common one, 0 clips only"
        )
    delta = check_value("delta", _plain(delta), float)
    if not 0 < delta < 1:
        raise InputError(
            f"delta must be > 0 and < 1, got {delta:g}: Gaussian noise promises nothing at delta = 0; take one far below 1/m, "
            "such as 1e-5"
        )
    return float(clip), float(noise), float(delta)


def _plain(value: Any) -> Any:
    value = value.item() if getattr(value, "ndim", None) == 0 else value
    return float(value) if isinstance(value, int) else value


def _check(method: Method) -> None:
    recipe = method.recipe
    if recipe.split:
        raise InputError(
            f"the messages of {method.name} are halves of a model and activations of single samples, which no clipping to one "
            "norm makes private: private is for parallel methods such as fedavg"
        )
    if recipe.centralised:
        raise InputError(
            f"{method.name} holds all data in one place and sends nothing: there is nothing to make private"
        )
    if recipe.ordered:
        raise InputError(
            f"the clients of {method.name} play in turn and hand the model itself on, which no clipping bounds: private is for "
            "parallel methods such as fedavg"
        )
    if private_of(recipe) is not None:
        raise InputError(f"{method} is private already: give clip and noise once")
    packed = [c.up for c in recipe.wrap if isinstance(c, Compressed) and c.up is not None]
    packed += [value for key, value in recipe.settings if isinstance(value, Compressor) and not key.startswith("down")]
    if packed:
        raise InputError(
            f"{method.name} sends {packed[0]}: which entries are sent tells of the data, and noise on these alone does not "
            f"hide it. Let noise be added before compression: ud.private of a method without up, then ud.compressed(…, up=…)"
        )


def _refuse_models(inner: Exchange) -> None:
    """A client whose message is the end of its path sends a model: its norm is that of the model, not of what it changed."""
    endpoint = inner.account.endpoint
    if endpoint is None or inner.centre is not None:
        return
    down, up = _Anything(), _Anything()
    try:
        is_model = endpoint(down, up) is cast(Any, up)
    except Exception:  # it computes: what is sent is a difference
        return
    if is_model:
        raise InputError(
            f"exchange {inner.name!r} sends a model, and clipping it to a norm is nonsense: let it send a difference, or say "
            "around what it lies, ud.Exchange(…, centre=lambda memory, down: x)"
        )


class _Anything:
    """Stands for a message of unknown shape."""


def _refuse_packed(exchange: str, up: Tree) -> None:
    nodes = jax.tree.leaves(up, is_leaf=lambda node: hasattr(node, "wire_size"))
    if any(hasattr(node, "wire_size") for node in nodes):
        raise InputError(
            f"exchange {exchange!r} sends a compressed vector: which entries are sent tells of the data. Compress after the "
            "noise: ud.compressed(ud.private(…), up=…)"
        )


def accountant() -> Any:
    """The package that counts ε."""
    try:
        import dp_accounting
    except ImportError as error:
        raise InputError(
            'private needs the package dp-accounting, which counts epsilon: pip install "undrift[dp]"'
        ) from error
    return dp_accounting
