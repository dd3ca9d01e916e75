"""The functions that users call: they describe a run and hand it to an interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from .engine.description import Arguments, Run
from .engine.epsilon import check_private
from .engine.history import Result
from .engine.loopback import pass_messages
from .engine.simulate import simulate
from .engine.sweep import Sweep, SweepObserver, points_of, sweep_runs
from .errors import InputError, unknown
from .gate import NotNegative, check_value, shown, whole
from .problems.base import Problem
from .recipe import Factory, Method
from .track.following import Observers, follow


def describe(method: Any, problem: Problem, *, rounds: int, **arguments: Unpack[Arguments]) -> Run:
    """The run that these arguments mean; numbers that were left to a theorem or a certificate are filled in.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> describe(ud.fedlin(eta="theorem"), p, rounds=10, steps=5).method.chosen_by
    'FedLin, Theorem 1'
    """
    described = Run.of(method, problem, rounds, **arguments)
    check_private(described)
    if not described.method.waiting:
        return described
    from .theory.step_rule import resolve  # only where somebody asks for it: it takes a while to import

    return described.but(method=resolve(described))


def run(
    method: Any,
    problem: Problem,
    *,
    rounds: int,
    observe: Observers = None,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 10.0,
    resume: bool = False,
    store: str | Path | None = None,
    mesh: Any = None,
    **arguments: Unpack[Arguments],
) -> Result:
    """Simulate a method on a problem.

    steps: τ — one number, one per client, `plan.random_steps(low, high)`, `geometric_steps(p)`, `piecewise_steps({…})`,
    `scheduled_steps(f)`, or a function (round, key) -> m numbers; methods that draw their own (Scaffnew) take none.
    participation: `plan.full()` (default), `uniform(n)`, `weighted(n)`, `permuted(n)`, `rule(f, n)`. failures: probability that
    a member of the cohort does not answer. availability: `plan.availability(file)`, who is there in which round.
    oracle: `oracles.full()` (default), `minibatch(b)`, `noisy(variance)`. seed. x0:
    zeros by default. record_every: evaluate f and its gradients every so many rounds (NaN in between). keep_iterates: all
    x_t. per_client: losses, accuracies and drift of each client as well (`.clients`). diagnostics: what the method says about
    itself. stop: a rule such as `stop.at(gap=1e-6)` that ends the run in the first round that meets it (`.stopped` says why).
    on_divergence: "stop" raises `DivergenceError`, which carries the result so far; "continue" plays on. resources:
    `Resources.of(m, speeds, link)`, from which the virtual seconds in the history are counted. plan: `plan.trace(file)`, who
    was silent when machines played this run.

    observe: a function of the history so far, called after every chunk of rounds (about half a second); True stops the run. Or
    several in a list; `ud.track.tensorboard(dir)` and its kin are such functions (docs/trackers.md).
    checkpoint: a directory that allows `resume=True` to continue after a crash, with the same bits. It belongs to this run
    until it ends; if it is another's, or cannot be written, `StorageError` says so and carries the result so far.
    store: a directory for the clients' memories, of which only those that take part are brought to memory; the numbers are the
    same. Without it that is done where they would not fit, or where the data are memory-mapped (docs/out-of-core.md).
    mesh: True shares clients out over all devices of all processes (`jax.distributed`), a `jax.sharding.Mesh` over its own;
    same numbers to rounding. Every process makes the same call; observers and files are process 0's (docs/mesh.md).

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> r = run(ud.fedlin(eta=0.1), p, rounds=300, steps=[50, 30])
    >>> f"{r.x[0]:.6f} after {r.history['bytes_up'][-1]} bytes up"
    '34.333333 after 9616 bytes up'
    """
    check_value("checkpoint_seconds", checkpoint_seconds, NotNegative)
    described = describe(method, problem, rounds=rounds, **arguments)
    if described.absences is not None and described.absences.resets:  # between rounds: only messages can play that
        if checkpoint is not None or store is not None:
            raise InputError(
                "in this trace a site lost its memory (--reset), so it is played by message passing, without checkpoints and "
                "rows on disk: leave checkpoint and store out"
            )
        return follow(observe, described, lambda one: pass_messages(described, observe=one))
    return follow(
        observe,
        described,
        lambda one: simulate(
            described,
            observe=one,
            checkpoint=checkpoint,
            checkpoint_seconds=checkpoint_seconds,
            resume=resume,
            store=store,
            mesh=mesh,
        ),
        checkpoint,
        resume,
    )


def loopback(
    method: Any, problem: Problem, *, rounds: int, observe: Observers = None, **arguments: Unpack[Arguments]
) -> Result:
    """The run of `ud.run`, same arguments (checkpoints excepted) and same result, by message passing.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> a, b = (f(ud.fedlin(eta=0.1), p, rounds=3, steps=5).x for f in (ud.run, loopback))
    >>> bool(np.allclose(a, b, rtol=1e-14))
    True
    """
    described = describe(method, problem, rounds=rounds, **arguments)
    return follow(observe, described, lambda one: pass_messages(described, observe=one))


def sweep(
    factory: Callable[..., Any],
    problem: Problem,
    *,
    grid: Mapping[str, Sequence[Any]],
    seeds: int | Sequence[int] = 1,
    rounds: int,
    observe: SweepObserver | None = None,
    **arguments: Unpack[Arguments],
) -> Sweep:
    """Every point of the grid with every seed; runs that diverge are marked and do not stop the others.

    Grid keys that are numbers of the method (step sizes and the like) become a batch axis of one compiled program; keys that
    change the program (compressors, options) are compiled once per value. `arguments` are those of `run`. observe: called
    with (rounds played, rounds) after every chunk.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> s = sweep(ud.fedavg, p, grid={"eta": [0.01, 0.1, 0.3]}, seeds=2, rounds=50, steps=10)
    >>> s.history["gap"].shape, s.best("gap")
    ((3, 2, 51), {'eta': 0.01})
    """
    single = {"keep_iterates", "on_divergence", "seed", "stop", "per_client", "plan"} & set(arguments)
    if single:
        raise InputError(f"sweep does not take {', '.join(sorted(single))}: use run for a single case")
    if isinstance(problem, Problem) and problem.is_on_disk:
        raise InputError(
            "a sweep brings all data to memory, and some are memory-mapped: read them with np.array, or use run"
        )
    seed_list = _seeds(seeds)
    keys = _grid(grid)
    methods = [_method(factory, point) for point in points_of(keys)]
    arguments["on_divergence"] = "continue"
    alike: dict[Any, Run] = {}  # runs that differ in numbers only are described once
    runs = []
    for made in methods:
        if made.waiting or made.recipe not in alike:
            alike[made.recipe] = describe(made, problem, rounds=rounds, **arguments)
        runs.append(alike[made.recipe] if made.waiting else alike[made.recipe].but(method=made))
    return sweep_runs(runs, keys, seed_list, observe)


def _seeds(given: int | Sequence[int]) -> list[int]:
    rule = "a sweep needs seeds, or how many of them, as whole numbers"
    if isinstance(given, int | float):
        return list(range(whole(rule, given, 1)))
    seeds = [whole(rule, seed, 0, 2**32 - 1) for seed in given]
    if not seeds:
        raise InputError("a sweep needs at least one seed")
    return seeds


def _grid(given: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    if not isinstance(given, Mapping):
        raise InputError(f"a grid is a dictionary of lists such as {{'eta': [0.1, 0.2]}}, got {shown(given)}")
    for name, values in given.items():
        if isinstance(values, str) or not hasattr(values, "__iter__"):
            raise InputError(f"the grid of {name} must be a list of values, got {shown(values)}: put it into brackets")
    return {name: list(values) for name, values in given.items()}


def _method(factory: Callable[..., Any], point: dict[str, Any]) -> Method:
    if isinstance(factory, Factory):
        for name in point:
            if name not in factory.signature.parameters:
                raise unknown(f"parameter of {factory.name}", name, factory.signature.parameters)
    made = factory(**point)
    if not isinstance(made, Method):
        raise InputError(f"a sweep needs a method factory such as ud.fedavg, got {factory!r}")
    return made
