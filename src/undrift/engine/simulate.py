"""Simulation: whole runs as one compiled program.

`advance` plays a chunk of rounds on the device: a loop over rounds with the cohort vectorised and the local loops inside.
Everything that may differ between runs of one kind (data, numbers of the method, seed, plan, how many rounds) is an input, so
there is one compilation per kind of run. Python touches a chunk at a time, to report progress and to write checkpoints.
Round 0 is the start program: its record is the state before the first round.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import precision
from ..errors import CheckpointError, DivergenceError, Interrupted
from ..oracles import Oracle
from ..plan import Draw, Everyone
from ..problems.base import Problem
from ..problems.evaluation import Evaluation, Reference
from ..protocol import Memory
from ..recipe import Recipe
from ..resources import Resources
from ..vectorise import on_all_devices, replicated
from .checkpoint import Checkpoint
from .history import Result
from .interpret import Context, Members, everyone, lay_out, play
from .interrupt import Deferred
from .recorder import Recorder
from .setup import Setup, prepare

CAPACITY = 256  # most rounds in one chunk
PLAN_ENTRIES = 4_000_000  # most (round, member) pairs in one chunk
FIRST_CHUNK = 2  # nobody knows yet how long a round takes
CHUNK_SECONDS = 0.5  # how long a chunk should take, so that progress is seen and Ctrl-C is heard

compilations: Counter[str] = Counter()  # how often `advance` was traced, by method


@dataclasses.dataclass(frozen=True)
class Kind:
    """What a compiled program depends on besides shapes."""

    recipe: Recipe
    oracle: Oracle
    everyone: bool  # full participation
    every_round: bool  # … and nobody fails
    keep_iterates: bool
    record_every: int
    capacity: int
    spread: bool = False  # over several devices


class Carry(NamedTuple):
    """What one round hands to the next."""

    memory: Memory
    round: Any
    last_finite: Any  # the latest model whose loss was finite
    diverged: Any  # first round with a loss that is not finite, or −1
    suspect: Any  # the client to blame there, or −1


class Records(NamedTuple):
    evaluation: Evaluation
    drift: Any
    iterates: Any


def advance(
    kind: Kind,
    problem: Problem,
    reference: Reference | None,
    numbers: dict[str, Any],
    x0: jax.Array,
    key: jax.Array,
    carry: Carry,
    plan: Draw,
    count: Any,
    rounds: Any,
) -> tuple[Carry, Records]:
    """`count` rounds from where the carry stands; the plan has one row for each."""
    compilations[kind.recipe.name] += 1
    algorithm = kind.recipe.build(numbers, problem)

    def body(k: jax.Array, state: tuple[Carry, Records]) -> tuple[Carry, Records]:
        carry, records = state
        t = carry.round
        context = Context(problem, kind.oracle, key, t, kind.every_round)
        members = Members(*jax.tree.map(lambda part: part[k], tuple(plan)))

        def opening(memory: Memory) -> Any:
            del memory  # what came in is only a placeholder of the right shape
            return play(algorithm.start, lay_out(algorithm, x0, problem), everyone(problem.clients), context)

        branches = [opening, lambda memory: play(algorithm.round, memory, members, context)]
        if algorithm.first is not None:
            special = algorithm.first
            branches.insert(1, lambda memory: play(special, memory, members, context))
        memory, info = jax.lax.switch(jnp.minimum(t, len(branches) - 1), branches, carry.memory)
        x = algorithm.model(memory.server)
        evaluation = _evaluate(kind, problem, reference, x, t, rounds)
        suspect = jnp.where(info.suspect >= 0, info.suspect, evaluation.suspect)
        skipped = (t % kind.record_every != 0) & (t != rounds)
        fine = jnp.all(jnp.isfinite(x)) & (skipped | jnp.isfinite(evaluation.columns["loss"]))
        carry = Carry(
            memory,
            t + 1,
            jnp.where(fine, x, carry.last_finite),
            jnp.where((carry.diverged < 0) & ~fine, t, carry.diverged),
            jnp.where((carry.diverged < 0) & ~fine, suspect, carry.suspect),
        )
        new = Records(evaluation, info.drift, x if kind.keep_iterates else ())
        return carry, jax.tree.map(lambda column, value: column.at[k].set(value), records, new)

    model = jax.ShapeDtypeStruct((problem.dim,), problem.dtype)
    number = jax.ShapeDtypeStruct((), problem.dtype)
    shapes = Records(problem.evaluation_shapes(reference), number, model if kind.keep_iterates else ())
    blank = jax.tree.map(lambda s: jnp.zeros((kind.capacity, *s.shape), s.dtype), shapes)
    return jax.lax.fori_loop(0, count, body, (carry, blank))


def _evaluate(
    kind: Kind, problem: Problem, reference: Reference | None, x: jax.Array, t: jax.Array, rounds: Any
) -> Evaluation:
    if kind.record_every == 1:
        return problem.evaluate(x, reference)
    shapes = problem.evaluation_shapes(reference)
    nothing = Evaluation({k: jnp.full(s.shape, jnp.nan, s.dtype) for k, s in shapes.columns.items()}, jnp.int32(-1), {})
    due = (t % kind.record_every == 0) | (t == rounds)
    return jax.lax.cond(due, lambda: problem.evaluate(x, reference), lambda: nothing)


@partial(jax.jit, static_argnums=0, donate_argnums=6)
def compiled_advance(kind: Kind, *arguments: Any) -> Any:
    """`advance`, compiled; on all devices where that helps."""
    play_rounds = partial(advance, kind)
    return (on_all_devices(play_rounds) if kind.spread else play_rounds)(*arguments)


def kind_of(setup: Setup) -> Kind:
    """The kind of program this run needs."""
    n = setup.plan.cohort_size
    return Kind(
        setup.method.recipe,
        setup.oracle,
        isinstance(setup.plan.participation, Everyone),
        setup.plan.everyone_every_round,
        setup.keep_iterates,
        setup.record_every,
        max(1, min(CAPACITY, PLAN_ENTRIES // n)),
        dealt_out(setup),
    )


def dealt_out(setup: Setup) -> bool:
    """Whether clients are looped over and there are several devices to share the loop."""
    return jax.device_count() > 1 and setup.problem.prefers_loop(setup.oracle.exact)


def fresh_carry(setup: Setup) -> Carry:
    """Zeros of the right shape: round 0 fills them in on the device."""

    def shape(x: jax.Array, problem: Problem) -> Memory:
        return lay_out(setup.algorithm, x, problem)

    memory = jax.eval_shape(shape, jax.ShapeDtypeStruct((setup.problem.dim,), setup.problem.dtype), setup.problem)
    memory = jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), memory)
    minus = np.asarray(-1, np.int32)
    return Carry(memory, np.asarray(0, np.int32), np.array(setup.x0), minus, minus.copy())


def padded_plan(setup: Setup, first: int, count: int, capacity: int) -> Draw:
    """The plan of these rounds (round 0 has none), filled up to the capacity of a chunk."""
    ahead = max(first, 1)
    draw = setup.plan.draw(ahead, max(1, first + count - ahead))

    def pad(part: Any, dtype: Any) -> Any:
        if part is None:
            return None
        rows = np.zeros((capacity, part.shape[1]), dtype)
        rows[ahead - first : ahead - first + len(part)] = part[: capacity - (ahead - first)]
        return rows

    return Draw(pad(draw.ids, np.int32), pad(draw.steps, np.int32), pad(draw.answered, bool))


def run(
    method: Any,
    problem: Problem,
    *,
    rounds: int,
    steps: Any = 1,
    seed: int = 0,
    x0: Any = None,
    participation: Any = None,
    failures: float = 0.0,
    oracle: Oracle | None = None,
    keep_iterates: bool = False,
    record_every: int = 1,
    on_divergence: str = "stop",
    resources: Resources | None = None,
    progress: Callable[[int, int], None] | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 10.0,
    resume: bool = False,
) -> Result:
    """Simulate a method on a problem.

    steps: τ — one number, one per client, `plan.random_steps(low, high)`, or a function (round, key) -> m numbers.
    participation: `plan.full()` (default), `plan.uniform(n)`, `plan.rule(f, n)`. failures: probability that a member of the
    cohort does not answer. oracle: `oracles.full()` (default), `minibatch(b)`, `noisy(variance)`. x0: zeros by default.
    record_every: evaluate f and its gradients every so many rounds (NaN in between). on_divergence: "stop" raises
    `DivergenceError`, which carries the result so far; "continue" plays on. resources: `Resources.of(m, speeds, link)`, from
    which the virtual seconds in the history are counted. progress: called with (round, rounds) after every
    chunk. checkpoint: a directory that allows `resume=True` to continue after a crash, with the same bits.

    >>> import undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> r = run(ud.fedlin(eta=0.1), p, rounds=300, steps=[50, 30])
    >>> f"{r.x[0]:.6f} after {r.history['bytes_up'][-1]} bytes up"
    '34.333333 after 9616 bytes up'
    """
    setup = prepare(
        method,
        problem,
        rounds=rounds,
        steps=steps,
        seed=seed,
        x0=x0,
        participation=participation,
        failures=failures,
        oracle=oracle,
        keep_iterates=keep_iterates,
        record_every=record_every,
        on_divergence=on_divergence,
        resources=resources,
    )
    with precision.scope(setup.problem.dtype):
        return _run(setup, progress, Checkpoint.at(checkpoint, setup, checkpoint_seconds), resume)


def _run(
    setup: Setup, progress: Callable[[int, int], None] | None, checkpoint: Checkpoint | None, resume: bool
) -> Result:
    began = time.perf_counter()
    kind, recorder = kind_of(setup), Recorder(setup)
    carry, done = fresh_carry(setup), 0
    if resume and checkpoint is not None and checkpoint.exists():
        carry = checkpoint.load(carry, recorder)
        done = recorder.length
        if done > setup.rounds + 1:
            raise CheckpointError(
                f"{checkpoint.path} holds {done - 1} rounds already, more than the {setup.rounds} asked for: ask for at least "
                "as many, or choose another directory"
            )
    reference = setup.problem.reference()
    problem = replicated(setup.problem) if kind.spread else setup.problem
    numbers = {name: np.asarray(value, setup.problem.dtype) for name, value in setup.method.numbers.items()}
    key, total = jax.random.key(setup.seed), setup.rounds + 1
    size = min(FIRST_CHUNK, kind.capacity)
    try:
        with Deferred() as interrupt:
            while done < total and not (recorder.diverged and setup.on_divergence == "stop"):
                count = min(size, total - done, kind.capacity)
                tick = time.perf_counter()
                plan = padded_plan(setup, done, count, kind.capacity)
                carry, records = compiled_advance(
                    kind, problem, reference, numbers, setup.x0, key, carry, plan, count, setup.rounds
                )
                recorder.add(jax.device_get(records), plan, done, count, int(carry.diverged), int(carry.suspect))
                done += count
                if progress is not None:
                    progress(min(done, total) - 1, setup.rounds)
                if checkpoint is not None:
                    checkpoint.maybe_save(carry, recorder)
                size = int(np.clip(count * CHUNK_SECONDS / (time.perf_counter() - tick), 1, kind.capacity))
                interrupt.check()
    except KeyboardInterrupt:
        if checkpoint is not None:
            checkpoint.save(carry, recorder)
        result = recorder.result(np.asarray(carry.last_finite), time.perf_counter() - began)
        raise Interrupted(f"stopped after {result.rounds} of {setup.rounds} rounds", result=result) from None
    if checkpoint is not None:
        checkpoint.save(carry, recorder)
    continued = setup.on_divergence == "continue"
    final = setup.algorithm.model(carry.memory.server) if continued else carry.last_finite
    result = recorder.result(np.asarray(final), time.perf_counter() - began)
    if recorder.diverged and not continued:
        raise divergence(result)
    return result


def divergence(result: Result) -> DivergenceError:
    """The error that ends a run whose loss stopped being finite."""
    assert result.diverged is not None
    t, client = result.diverged
    who = "in the mean of all clients" if client is None else f"first at client {client}"
    return DivergenceError(
        f"{result.setting['method']} diverged: the loss is not finite in round {t}, {who}. Everything before is kept in "
        f".result; take a smaller step size, or on_divergence='continue' to study it",
        round=t,
        client=client,
        result=result,
    )
