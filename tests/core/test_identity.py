"""What makes a run this run and no other: resuming goes by the traced program and its constants, never by names."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import undrift as ud
from undrift import precision
from undrift.engine import simulate
from undrift.engine.identity import plan_identity, program_identity
from undrift.engine.rounds import compilations
from undrift.engine.sweep import sweep_identity
from undrift.protocol import Account, once

DATA = np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]])


def problem(**arguments):
    return ud.problems.quadratic(*DATA, **arguments)


def scaled(factor):
    """A method of one's own, with a number that nobody but its functions knows."""

    def client(memory, x, local):
        return memory, factor * local.gradient(x)

    def receive(x, slots, gradients, cohort):
        return x - 0.1 * cohort.mean(gradients), slots

    return ud.Algorithm((ud.Exchange("gradient", lambda x, slot: x, client, receive, Account(once)),))


def tabled(values):
    """A schedule that looks up its numbers."""
    table = np.asarray(values)
    return lambda count: jnp.asarray(table)[jnp.minimum(count, len(table) - 1)]


def loss_around(centre):
    def loss(x, data):
        return 0.5 * jnp.sum((x - data - jnp.asarray(centre)) ** 2)

    return loss


def custom(centre):
    return ud.problems.custom(loss_around(centre), np.arange(4.0).reshape(2, 2), dim=2)


AFTER_TENTH = float(np.nextafter(0.1, 1))
PAIRS = {  # (method, how its problem is made, arguments) of a run, and of one that is not the same
    "bare algorithm": ((scaled(1.0), problem), (scaled(2.0), problem)),
    "steps function": (
        (ud.fedavg(eta=0.1), problem, {"steps": lambda t, key: 1 + t % 2}),
        (ud.fedavg(eta=0.1), problem, {"steps": lambda t, key: 1 + t % 3}),
    ),
    "rule of who takes part": (
        (ud.fedavg(eta=0.1), problem, {"participation": ud.plan.rule(lambda t, key: [t % 2], 1)}),
        (ud.fedavg(eta=0.1), problem, {"participation": ud.plan.rule(lambda t, key: [0], 1)}),
    ),
    "number inside a solver": (
        (ud.fedavg(eta=0.1, solver=optax.sgd(0.1, momentum=0.9)), problem),
        (ud.fedavg(eta=0.1, solver=optax.sgd(0.1, momentum=0.8)), problem),
    ),
    "last digit of a number inside a solver": (
        (ud.fedavg(eta=0.1, solver=optax.sgd(0.1)), problem),
        (ud.fedavg(eta=0.1, solver=optax.sgd(AFTER_TENTH)), problem),
    ),
    "number inside a server's optimiser": (
        (ud.fedavg(eta=0.1, server=optax.adam(0.1, b2=0.99)), problem),
        (ud.fedavg(eta=0.1, server=optax.adam(0.1, b2=0.999)), problem),
    ),
    "keeping the solver": (
        (ud.fedavg(eta=0.1, solver=optax.sgd(0.1, momentum=0.9)), problem),
        (ud.fedavg(eta=0.1, solver=optax.sgd(0.1, momentum=0.9), keep_solver=True), problem),
    ),
    "schedule": (
        (ud.fedsgd(eta=lambda count: 0.1 / (1 + count)), problem),
        (ud.fedsgd(eta=lambda count: 0.1 / (2 + count)), problem),
    ),
    "table of a schedule": (
        (ud.fedsgd(eta=tabled([0.1, 0.2, 0.3])), problem),
        (ud.fedsgd(eta=tabled([0.1, 0.2, AFTER_TENTH])), problem),
    ),
    "schedule that is still the same number": (
        (ud.fedsgd(eta=0.1), problem),
        (ud.fedsgd(eta=lambda count: 0.1 + 0.01 * count), problem),
    ),
    "loss of the same name": (
        (ud.fedsgd(eta=0.1), partial(custom, [1.0, 2.0])),
        (ud.fedsgd(eta=0.1), partial(custom, [1.0, 3.0])),
    ),
    "weights": (
        (ud.fedsgd(eta=0.1), partial(problem, weights=[1, 2])),
        (ud.fedsgd(eta=0.1), partial(problem, weights=[1, 3])),
    ),
    "what cohorts count": (
        (ud.fedsgd(eta=0.1), partial(problem, weights=[1, 2]), {"participation": ud.plan.uniform(1)}),
        (ud.fedsgd(eta=0.1), partial(problem, weights=[1, 2]), {"participation": ud.plan.uniform(1, renormalise=True)}),
    ),
    "first direction": (
        (ud.fedlin(eta=0.1, first_direction=[1.0]), problem),
        (ud.fedlin(eta=0.1, first_direction=[2.0]), problem),
    ),
    "how fast clients and links are": (
        (ud.fedsgd(eta=0.1), problem, {"resources": ud.Resources.of(2, speeds=10.0)}),
        (ud.fedsgd(eta=0.1), problem, {"resources": ud.Resources.of(2, speeds=20.0)}),
    ),
    "noise": (
        (ud.fedsgd(eta=0.1), problem, {"oracle": ud.oracles.noisy(1.0)}),
        (ud.fedsgd(eta=0.1), problem, {"oracle": ud.oracles.noisy(2.0)}),
    ),
}


def identity(method, make, arguments=None):
    """Of the run and of its plan, without playing it."""
    run = ud.describe(method, make(), rounds=2, **(arguments or {}))
    with precision.scope(run.population.dtype):
        return simulate._Simulation(run, None)._identity(), plan_identity(run.plan, 3)


@pytest.mark.parametrize("what", PAIRS)
def test_another_run_has_another_identity(what):
    one, other = PAIRS[what]
    assert identity(*one) == identity(*one)
    assert identity(*one) != identity(*other)


def test_the_same_made_anew_is_the_same():
    """Other objects, other closures, other addresses."""

    def make():
        kept = ud.fedavg(eta=lambda count: 0.1 / (1 + count), solver=optax.sgd(0.1, momentum=0.9), keep_solver=True)
        return kept, partial(custom, [1.0, 2.0]), {"steps": lambda t, key: 1 + t % 2, "stop": ud.stop.at(loss=1e-3)}

    assert identity(*make()) == identity(*make())
    assert identity(scaled(1.0), problem) == identity(scaled(1.0), problem)


SCRIPT = """
import sys
sys.path[:0] = sys.argv[2:]
from test_identity import own_run
r = own_run(int(sys.argv[1]))
print("played", r.rounds, r.x.tobytes().hex())
"""


def own_run(rounds, folder=None, **arguments):
    """A run with everything in it that a process might name by an address: losses, schedules, solvers, rules."""

    def loss(x, data):
        return (
            jax.nn.softplus(x - data).sum() + 0.5 * x @ x
        )  # softplus has a derivative of its own, a function in the program

    method = ud.fedavg(eta=lambda count: 0.1 / (1 + count), solver=lambda eta: optax.adam(eta), server=optax.sgd(0.9))
    given = ud.problems.custom(loss, np.arange(4.0).reshape(2, 2), dim=2)
    where = Path("checkpoint") if folder is None else folder
    return ud.run(
        method, given, rounds=rounds, steps=lambda t, key: 1 + t % 2, checkpoint=where, resume=True, **arguments
    )


def test_another_process_resumes_it_with_the_same_bits(tmp_path):
    here = Path(__file__).parent
    own_run(2, tmp_path / "checkpoint")
    command = [sys.executable, "-c", SCRIPT, "5", str(Path(ud.__file__).parents[1]), str(here), str(here.parent)]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert said.returncode == 0, said.stderr
    whole = own_run(5, tmp_path / "elsewhere")
    assert said.stdout.split() == ["played", "5", whole.x.tobytes().hex()]


def test_more_rounds_are_the_same_run_and_fewer_are_refused(tmp_path):
    ud.run(ud.fedsgd(eta=0.1), problem(), rounds=3, checkpoint=tmp_path)
    assert ud.run(ud.fedsgd(eta=0.1), problem(), rounds=5, checkpoint=tmp_path, resume=True).rounds == 5
    with pytest.raises(ud.CheckpointError, match="more than the 4 asked for"):
        ud.run(ud.fedsgd(eta=0.1), problem(), rounds=4, checkpoint=tmp_path, resume=True)


# ----- the program itself
def test_programs_of_equal_text_with_other_constants_differ():
    def program(table, deep):
        table = np.asarray(table)

        def inside(x):
            return x * jnp.asarray(table)

        return jax.make_jaxpr(jax.jit(inside) if deep else inside)(jnp.ones(3, jnp.float32))

    for deep in (False, True):
        one, same, other = (program(np.float32([1, 2, last]), deep) for last in (3, 3, 4))
        assert program_identity(one) == program_identity(same)
        assert program_identity(one) != program_identity(other)


def test_a_bare_algorithm_compiles_once():
    algorithm = scaled(3.0)
    before = compilations["own"]
    ends = [ud.run(algorithm, problem(), rounds=rounds).x for rounds in (2, 2, 50)]
    assert compilations["own"] == before + 1
    np.testing.assert_array_equal(ends[0], ends[1])


def test_a_checkpoint_does_not_trace_the_program_again(tmp_path):
    def fresh(count):
        return 0.05 / (1 + count)

    before = compilations["fedsgd"]
    ud.run(ud.fedsgd(eta=fresh), problem(), rounds=3, checkpoint=tmp_path)
    ud.run(ud.fedsgd(eta=fresh), problem(), rounds=5, checkpoint=tmp_path, resume=True)
    assert compilations["fedsgd"] == before + 1


def test_a_comparison_knows_its_runs_by_their_programs_numbers_and_seeds():
    """What `undrift compare` resumes by: two solvers that differ in a captured number are two comparisons."""

    def grid(etas, momentum, seeds=(0, 1)):
        made = [ud.fedavg(eta=eta, solver=optax.sgd(0.1, momentum=momentum)) for eta in etas]
        runs = [ud.describe(method, problem(), rounds=3, participation=ud.plan.uniform(1)) for method in made]
        return sweep_identity(runs, seeds)

    mine = grid((0.1, 0.2), 0.5)
    assert mine == grid((0.1, 0.2), 0.5)
    others = [grid((0.1, 0.2), AFTER_TENTH), grid((0.1, 0.3), 0.5), grid((0.1, 0.2), 0.5, seeds=(0, 2))]
    assert len({mine, *others}) == 4
