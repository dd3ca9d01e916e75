"""Does a method, a compressor or a sampling rule of your own keep its contract? The checks that the library's own pass.

    report = ud.testing.check_method(mine(eta=0.05))
    print(report)
    assert report.ok

A report lists every check with what was found; nothing is raised unless what is given is of another kind. Problems are small
and random, so that a check takes seconds, and what a check cannot see (that the method is the one you meant) it does not say.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from . import plan, precision, problems, wire
from .api import describe, loopback, run
from .compression import Compressor, arrived, feedback, receiver_memory, sender_memory
from .engine.rounds import compilations
from .engine.sweep import sweep_runs
from .errors import InputError
from .gate import shown
from .plan import Participation, Plan
from .problems.base import Problem
from .recipe import Method, as_method

CLIENTS, DIM, SAMPLES, ROUNDS = 5, 6, 8, 6
CLOSE = 1e-9  # two interpreters add in another order
VECTORS, DRAWS = 20, 400  # that contraction is looked at with


class Finding(NamedTuple):
    """One check and what came of it."""

    check: str
    ok: bool
    detail: str = ""

    def __str__(self) -> str:
        return f"{'ok    ' if self.ok else 'FAILED'} {self.check}{f': {self.detail}' if self.detail else ''}"


@dataclasses.dataclass(frozen=True)
class Report:
    """All checks of one thing, in order."""

    subject: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(finding.ok for finding in self.findings)

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the checks that did not."""
        return tuple(finding.check for finding in self.findings if not finding.ok)

    def __str__(self) -> str:
        return "\n".join([self.subject, *map(str, self.findings)])


def check_method(method: Any, problem: Problem | None = None, **arguments: Any) -> Report:
    """Whether interpreters agree about a method: what `CONTRIBUTING.md` asks of every method of the library.

    With all clients, and with cohorts of which some members are silent: message passing gives the numbers of the simulation; a
    run that was stopped and resumed has the bits of one that was not; a row of a sweep is the single run; another value of its
    numbers needs no other program. `problem`: least squares with unequal clients, where none is given. `arguments`: more of a
    run's, such as `oracle`; `steps` are 1 … 4 where they are not given.

    >>> import undrift as ud
    >>> print(check_method(ud.fedsgd(eta=0.05)))
    fedsgd(eta=0.05)
    ok     message passing gives the numbers of the simulation, all clients
    ok     message passing gives the numbers of the simulation, some clients
    ok     resumed, it has the same bits
    ok     a row of a sweep is the single run
    ok     other numbers need no other program
    ok     it keeps single precision
    """
    made = as_method(method)
    problem = _least_squares(np.float64) if problem is None else problem
    told = {**made.given(plan.random_steps(1, 4)), "seed": 1, **arguments}
    some = told if made.recipe.centralised else {**told, "participation": _some(problem.clients), "failures": 0.3}
    checks: list[tuple[str, Callable[[], str]]] = [
        ("message passing gives the numbers of the simulation, all clients", lambda: _by_messages(made, problem, told)),
        (
            "message passing gives the numbers of the simulation, some clients",
            lambda: _by_messages(made, problem, some),
        ),
        ("resumed, it has the same bits", lambda: _resumed(made, problem, some)),
        ("a row of a sweep is the single run", lambda: _swept(made, problem, some)),
        ("other numbers need no other program", lambda: _one_program(made, problem, some)),
        ("it keeps single precision", lambda: _single_precision(made, told)),
    ]
    if made.recipe.centralised:
        del checks[1]
    return _report(str(made), checks)


def check_compressor(compressor: Compressor, dim: int = 40) -> Report:
    """Whether a compressor keeps its promises: contraction δ, size, a wire without loss, zero for zero, memory that forgets
    nothing.

    E‖C(v) − v‖² ≤ (1 − 1/δ)‖v‖² is measured on vectors of many shapes, to five standard errors of the mean.

    >>> import undrift as ud
    >>> print(check_compressor(ud.top_k(3)))
    top_k(3)
    ok     it is hashable, and equal to its like
    ok     it contracts as it says: δ = 13.3333, worst measured 13.33
    ok     zero is sent as zero
    ok     its size on the wire is what it says: 27 bytes of 320
    ok     the wire gives back what was sent
    ok     it works in compiled programs, for many clients at once
    ok     its memory loses nothing
    """
    if not isinstance(compressor, Compressor):
        raise InputError(f"a compressor is derived from undrift.compression.Compressor, got {shown(compressor)}")
    with precision.scope(np.dtype("float64")):
        return _report(
            str(compressor),
            [
                ("it is hashable, and equal to its like", lambda: _hashable(compressor)),
                ("it contracts as it says", lambda: _contracts(compressor, dim)),
                ("zero is sent as zero", lambda: _same(_sent(compressor, np.zeros(dim)), np.zeros(dim))),
                ("its size on the wire is what it says", lambda: _sizes(compressor, dim)),
                ("the wire gives back what was sent", lambda: _travels(compressor, dim)),
                ("it works in compiled programs, for many clients at once", lambda: _batched(compressor, dim)),
                ("its memory loses nothing", lambda: _remembers(compressor, dim)),
            ],
        )


def check_participation(who: Participation, clients: int = 12, rounds: int = 2000) -> Report:
    """Whether a sampling rule draws cohorts that a run can use, and how fair it is.

    Means are unbiased where all clients are taken equally often (`uniform`, `permuted`, fair rules) or in proportion to their
    weights (a rule with an `importance` of its own): see docs/participation.md. Here weights are equal.

    >>> import undrift as ud
    >>> print(check_participation(ud.plan.uniform(4)))
    uniform(4)
    ok     cohorts are of one size, of clients that exist
    ok     nobody is drawn twice unless it says so
    ok     chunks of rounds draw what all rounds do
    ok     all clients are taken equally often: 0.317 to 0.355 of the rounds
    """
    if not isinstance(who, Participation):
        raise InputError(
            f"participation is one of ud.plan.full(), uniform(n), weighted(n), rule(f, n); got {shown(who)}"
        )
    drawn = Plan(clients, who.among(np.full(clients, 1 / clients)), 1, 0.0, 0)
    return _report(
        str(who),
        [
            ("cohorts are of one size, of clients that exist", lambda: _cohorts(drawn, rounds)),
            ("nobody is drawn twice unless it says so", lambda: _distinct(drawn, rounds)),
            ("chunks of rounds draw what all rounds do", lambda: _chunks(drawn)),
            ("all clients are taken equally often", lambda: _fair(drawn, rounds)),
        ],
    )


class _Broken(Exception):
    """A check did not pass, for this reason."""


def _report(subject: str, checks: Iterable[tuple[str, Callable[[], str]]]) -> Report:
    return Report(subject, tuple(_finding(name, check) for name, check in checks))


def _finding(name: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(name, True, check())
    except _Broken as broken:
        return Finding(name, False, str(broken))
    except Exception as error:  # the user's own code, which may do anything
        return Finding(name, False, f"{type(error).__name__}: {error}")


# ----- methods
def _least_squares(dtype: Any) -> Problem:
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(CLIENTS, SAMPLES, DIM)), rng.normal(size=(CLIENTS, SAMPLES))
    return problems.least_squares((A / 4).astype(dtype), b.astype(dtype), weights=[1.0, 2.0, 0.5, 1.5, 3.0])


def _some(clients: int) -> Participation:
    return plan.uniform(max(1, (clients + 1) // 2))


def _by_messages(method: Method, problem: Problem, told: dict[str, Any]) -> str:
    a, b = (play(method, problem, rounds=ROUNDS, **told) for play in (run, loopback))
    _near(a.x, b.x)
    for column in ("bytes_up", "bytes_down", "gradients"):
        if not np.array_equal(a.history[column], b.history[column]):
            raise _Broken(f"{column} differ: {a.history[column][-1]} and {b.history[column][-1]}")
    return ""


def _resumed(method: Method, problem: Problem, told: dict[str, Any]) -> str:
    whole = run(method, problem, rounds=ROUNDS, **told)
    with tempfile.TemporaryDirectory() as folder:
        run(method, problem, rounds=ROUNDS // 2, checkpoint=folder, checkpoint_seconds=0.0, **told)
        after = run(method, problem, rounds=ROUNDS, checkpoint=folder, resume=True, **told)
    return _same(after.x, whole.x)


def _swept(method: Method, problem: Problem, told: dict[str, Any]) -> str:
    made = _with_other_numbers(method)
    runs = [describe(one, problem, rounds=ROUNDS, on_divergence="continue", **told) for one in made]
    swept = sweep_runs(runs, {"point": list(range(len(made)))}, [told["seed"]])
    for place, one in enumerate(made):
        _near(swept.x[place, 0], run(one, problem, rounds=ROUNDS, **told).x)
    return ""


def _with_other_numbers(method: Method) -> list[Method]:
    return [method, method.with_numbers(**{name: 0.9 * value for name, value in method.numbers.items()})]


def _one_program(method: Method, problem: Problem, told: dict[str, Any]) -> str:
    one, other = _with_other_numbers(method)
    run(one, problem, rounds=ROUNDS, **told)
    before = dict(compilations)
    run(other, problem, rounds=ROUNDS, **{**told, "seed": 2})
    if dict(compilations) != before:
        raise _Broken(
            "it was compiled again; numbers are parameters annotated `float`, and settings must be equal to their like"
        )
    return ""


def _single_precision(method: Method, told: dict[str, Any]) -> str:
    x = run(method, _least_squares(np.float32), rounds=2, **told).x
    if x.dtype != np.float32:
        raise _Broken(f"data of float32 led to a model of {x.dtype}: make arrays with the dtype of x")
    return ""


# ----- compressors
def _hashable(compressor: Compressor) -> str:
    like = dataclasses.replace(compressor)
    if like != compressor or hash(like) != hash(compressor):
        raise _Broken("make it a frozen dataclass: it is part of the compiled program")
    return ""


def _vectors(dim: int) -> np.ndarray:
    """Of equal entries, of a few large ones, of anything in between."""
    rng = np.random.default_rng(0)
    spread = np.linspace(0, 4, VECTORS)[:, None] * rng.normal(size=(VECTORS, dim))
    return np.asarray(np.where(rng.random((VECTORS, dim)) < 0.5, -1, 1) * np.exp(spread))


def _sent(compressor: Compressor, v: np.ndarray, key: int = 0) -> np.ndarray:
    return np.asarray(compressor.compress(jnp.asarray(v), jax.random.key(key)).dense())


def _contracts(compressor: Compressor, dim: int) -> str:
    delta, worst = float(compressor.contraction(dim)), 0.0
    if not delta >= 1:
        raise _Broken(f"δ ≥ 1 (∞ where there is none), got {delta:g}")
    draw = jax.jit(jax.vmap(lambda v, key: compressor.compress(v, key).dense(), in_axes=(None, 0)))
    keys = jax.random.split(jax.random.key(1), DRAWS)
    for v in _vectors(dim):
        errors = np.sum((np.asarray(draw(jnp.asarray(v), keys)) - v) ** 2, axis=1) / (v @ v)
        slack = 5 * errors.std() / np.sqrt(DRAWS) + 1e-12
        if np.isfinite(delta) and errors.mean() > 1 - 1 / delta + slack:
            raise _Broken(
                f"E‖C(v) − v‖² = {errors.mean():.4g} ‖v‖², more than 1 − 1/δ = {1 - 1 / delta:.4g} with δ = {delta:g}"
            )
        worst = max(worst, float(errors.mean()))
    return f"δ = {delta:g}, worst measured {1 / (1 - worst):.4g}" if worst < 1 else f"δ = {delta:g}"


def _sizes(compressor: Compressor, dim: int) -> str:
    message = compressor.compress(jnp.asarray(_vectors(dim)[0]), jax.random.key(0))
    sent, said = len(message.to_wire()), compressor.wire_size(dim)
    if sent != said or message.wire_size() != said:
        raise _Broken(f"it writes {sent} bytes and says {said}")
    return f"{said} bytes of {8 * dim}"


def _travels(compressor: Compressor, dim: int) -> str:
    for v in _vectors(dim):
        message = compressor.compress(jnp.asarray(v), jax.random.key(0))
        came = wire.decode(wire.encode(message), message)
        _same(np.asarray(came.dense()), np.asarray(message.dense()))
    return ""


def _batched(compressor: Compressor, dim: int) -> str:
    rows, keys = jnp.asarray(_vectors(dim)), jax.random.split(jax.random.key(0), VECTORS)
    many = np.asarray(jax.jit(jax.vmap(lambda v, key: compressor.compress(v, key).dense()))(rows, keys))
    one = np.stack([np.asarray(compressor.compress(v, key).dense()) for v, key in zip(rows, keys, strict=True)])
    return _near(many, one)


def _remembers(compressor: Compressor, dim: int) -> str:
    """Error feedback: what was sent and what is withheld add up; difference memory: both ends hold the same."""
    if not compressor.memory:
        return "it has none"
    v = jnp.asarray(_vectors(dim)[3])
    kept, held = sender_memory(compressor, v), receiver_memory(compressor, v)
    total = jnp.zeros_like(v)
    for turn in range(3):
        message, kept = feedback(compressor, kept, v, jax.random.key(turn))
        vector, held = arrived(compressor, held, message)
        total = total + vector
    return (
        _near(np.asarray(held), np.asarray(kept))
        if compressor.differs
        else _near(np.asarray(total + kept), 3 * np.asarray(v))
    )


# ----- cohorts
def _ids(drawn: Plan, rounds: int) -> np.ndarray:
    ids = drawn.cohorts(range(1, rounds + 1))
    return np.tile(np.arange(drawn.clients), (rounds, 1)) if ids is None else np.asarray(ids)


def _cohorts(drawn: Plan, rounds: int) -> str:
    ids = _ids(drawn, rounds)
    if ids.shape != (rounds, drawn.cohort_size):
        raise _Broken(f"it says {drawn.cohort_size} members, and {rounds} rounds have shape {ids.shape}")
    if ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= drawn.clients:
        raise _Broken(f"clients are whole numbers 0 … {drawn.clients - 1}, got {ids.min()} … {ids.max()}")
    return ""


def _distinct(drawn: Plan, rounds: int) -> str:
    twice = [row for row in _ids(drawn, rounds).tolist() if len(set(row)) < len(row)]
    if twice and drawn.participation.distinct:
        raise _Broken(f"a cohort is {twice[0]}: draw each once, or let `distinct` be False")
    return ""


def _chunks(drawn: Plan) -> str:
    whole = _ids(drawn, 12)
    parts = [drawn.draw(first, 4).ids for first in (1, 5, 9)]
    if parts[0] is None:
        return ""
    return _same(np.concatenate([np.asarray(part) for part in parts]), whole)


def _fair(drawn: Plan, rounds: int) -> str:
    shares = np.bincount(_ids(drawn, rounds).ravel(), minlength=drawn.clients) / rounds
    mean = drawn.cohort_size / drawn.clients
    slack = 5 * np.sqrt(mean * max(1 - mean, 0) / rounds) + 1 / rounds
    if not drawn.participation.distinct:
        slack += 5 * np.sqrt(mean / rounds)
    if np.abs(shares - mean).max() > slack:
        often, seldom = int(np.argmax(shares)), int(np.argmin(shares))
        raise _Broken(
            f"client {often} in {shares[often]:.3g} of the rounds, client {seldom} in {shares[seldom]:.3g}: means are biased "
            "unless `importance` makes up for it"
        )
    return f"{shares.min():.3g} to {shares.max():.3g} of the rounds"


def _same(a: np.ndarray, b: np.ndarray) -> str:
    if not np.array_equal(a, b):
        raise _Broken(f"not the same bits; the largest difference is {np.max(np.abs(a - b)):.3g}")
    return ""


def _near(a: np.ndarray, b: np.ndarray) -> str:
    scale = max(float(np.max(np.abs(b), initial=0)), 1e-300)
    if not np.all(np.isfinite(a)) or float(np.max(np.abs(a - b), initial=0)) > CLOSE * scale:
        raise _Broken(f"the largest difference is {np.max(np.abs(a - b)):.3g}, of numbers up to {scale:.3g}")
    return ""
