"""Calls of the library with things of the wrong kind."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
from hostile_case import Case

import undrift as ud
from undrift.resources import Resources
from undrift.studies.catalogue import least_squares
from undrift.studies.study import study_from

A, B = np.stack([np.eye(2), 2 * np.eye(2)]), np.ones((2, 2))


def problem() -> Any:
    return ud.problems.quadratic(A, B)


def run(**arguments: Any) -> Callable[[], Any]:
    return lambda: ud.run(ud.fedavg(eta=0.1), problem(), **{"rounds": 2, **arguments})


def sweep(**arguments: Any) -> Callable[[], Any]:
    return lambda: ud.sweep(ud.fedavg, problem(), **{"grid": {"eta": [0.1]}, "rounds": 2, **arguments})


def rule(clients: Any) -> Any:
    return ud.plan.rule(lambda round, key: clients, 2)


PATIENCE = "patience"
LEAST = "a share of the best value, must be a number ≥ 0"


def private(method: Any = None, **arguments: Any) -> Callable[[], Any]:
    """Made and run: some things only a run can know."""
    given = {"clip": 1.0, "noise": 1.0, **arguments}
    return lambda: ud.run(ud.private(method or ud.fedavg(eta=0.1), **given), problem(), rounds=2)


def private_run(**arguments: Any) -> Callable[[], Any]:
    made = ud.private(ud.fedavg(eta=0.1), clip=1.0, noise=1.0, where="server")
    return lambda: ud.run(made, problem(), rounds=2, **arguments)


TOP, PARALLEL = ud.top_k(1), "private is for parallel"
PRIVATE: list[tuple[str, Callable[[], Any], tuple[str, ...]]] = [
    ("private: no clip", private(clip=None), ("clip must be a number", "got None", "clip=1.0")),
    ("private: clip of zero", private(clip=0), ("clip must be a number > 0", "got 0")),
    ("private: negative clip", private(clip=-1.0), ("clip must be a number > 0", "got -1.0")),
    ("private: infinite clip", private(clip=float("inf")), ("clip must be a finite number", "got inf")),
    ("private: clip in words", private(clip="1"), ("clip must be a number", "'1'")),
    ("private: true clip", private(clip=True), ("clip must be a number", "True")),
    ("private: negative noise", private(noise=-0.5), ("must be ≥ 0", "got -0.5", "0 clips only")),
    ("private: noise that is none", private(noise=float("nan")), ("noise must be a finite number", "got nan")),
    ("private: delta of zero", private(delta=0), ("delta must be > 0 and < 1", "got 0", "1e-5")),
    ("private: delta of one", private(delta=1.0), ("delta must be > 0 and < 1", "got 1")),
    (
        "private: delta above 1/m",
        private(delta=0.6),
        ("delta must be below 1/m", "1/2 = 0.5", "got 0.6", "take delta ="),
    ),
    ("private: where", private(where="sever"), ("'sever'", "did you mean 'server'")),
    ("private: cohorts", private(cohorts="hidden"), ("unknown kind of cohorts 'hidden'", "secret")),
    ("private: a factory", private(ud.fedavg), ("a method is what ud.fedlin(…)", "call the factory")),
    ("private: ssl", private(ud.ssl(eta=0.1)), ("messages of ssl are halves", PARALLEL)),
    ("private: sflv1", private(ud.sflv1(eta=0.1)), ("messages of sflv1 are halves", PARALLEL)),
    ("private: in turn", private(ud.sequential_fl(eta=0.1)), ("sequential_fl play in turn", PARALLEL)),
    ("private: centralised", private(ud.gd(eta=0.1)), ("gd holds all data in one place", "nothing to make private")),
    ("private: twice", private(ud.private(ud.fedavg(eta=0.1), 1.0, 1.0)), ("is private already", "once")),
    (
        "private: compressed before",
        private(ud.compressed(ud.fedavg(eta=0.1), up=TOP)),
        ("sends top_k(1)", "ud.compressed(…, up=…)"),
    ),
    (
        "private: compressed inside",
        private(ud.fedlin(eta=0.1, up=TOP)),
        ("fedlin sends top_k(1)", "a method without up"),
    ),
    (
        "private: compressed behind a server's noise",
        lambda: ud.compressed(ud.private(ud.fedavg(eta=0.1), 1.0, 1.0, where="server"), up=TOP),
        ("cannot be compressed afterwards", "where='client'"),
    ),
    (
        "private: drawn twice",
        private_run(participation=ud.plan.weighted(2)),
        ("nobody is drawn twice", "weighted(2)", "where='client'"),
    ),
    (
        "private: drawn twice, uniformly",
        private_run(participation=ud.plan.uniform(2, replace=True)),
        ("nobody is drawn twice", "replace=True"),
    ),
]


def played(method: Any) -> Callable[[], Any]:
    return lambda: ud.run(method, problem(), rounds=2)


FLAG = "must be True or False"
CONSTANTS = ud.theory.constants(problem())
BEYOND: list[tuple[str, Callable[[], Any], tuple[str, ...]]] = [
    ("private: where that is no word", private(where=None), ("place of the noise", "None", "client, server")),
    ("fedlin: correction that is true", lambda: ud.fedlin(0.1, correction=True), ("correction of fedlin True", "kept")),
    ("fedlin: a direction in words", played(ud.fedlin(0.1, first_direction="g")), ("first_direction", "'g'")),
    ("mimelite: fedlin's correction", lambda: ud.mimelite(0.1, correction="kept"), (FLAG, "correction", "'kept'")),
    ("fedexp: average of nothing", lambda: ud.fedexp(0.1, average=float("nan")), (FLAG, "average", "nan")),
    ("in turn: corrected in words", lambda: ud.sequential_fl(0.1, corrected="no"), (FLAG, "corrected", "'no'")),
    ("ssl: corrected in words", lambda: ud.ssl(0.1, corrected="no"), (FLAG, "corrected", "'no'")),
    ("feddyn: no alpha", lambda: ud.feddyn(0.1, alpha=None), ("feddyn: alpha must be a number", "got None")),
    ("mimelite: no beta", lambda: ud.mimelite(0.1, beta=None), ("mimelite: beta must be a number", "got None")),
    ("scaffnew: hardly a coin", played(ud.scaffnew(0.1, p=5e-324)), ("local steps τ_i must be ≤", "got inf")),
    ("numbers: p", lambda: ud.scaffnew(0.1, p=0.5).with_numbers(p=-1), ("a number in (0, 1]", "got -1.0")),
    ("numbers: in words", lambda: ud.fedavg(0.1).with_numbers(eta="a"), ("eta must be a number", "'a'")),
    (
        "numbers: clip",
        lambda: ud.private(ud.fedavg(0.1), 1.0, 1.0).with_numbers(clip=-1),
        ("clip must be a number > 0", "-1"),
    ),
    (
        "theory: a cohort in words",
        lambda: ud.theory.scaffold.nonconvex(CONSTANTS, cohort="a"),
        ("a cohort is a whole number of clients", "'a'"),
    ),
    (
        "theory: a light heaviest",
        lambda: ud.theory.scaffold.nonconvex(CONSTANTS, cohort=1, heaviest=-1.0),
        ("heaviest = M·max w_i is between 1", "got -1.0"),
    ),
    ("theory: a coin", lambda: ud.theory.scaffnew.strongly_convex(CONSTANTS, p=0.0), ("a number in (0, 1]", "got 0.0")),
]
ROWS: list[tuple[str, Callable[[], Any], tuple[str, ...]]] = [
    *PRIVATE,
    *BEYOND,
    ("run: rounds", run(rounds="ten"), ("rounds must be a whole number", "'ten'")),
    ("run: negative rounds", run(rounds=-1), ("rounds must be a whole number ≥ 0", "got -1")),
    ("run: fractional rounds", run(rounds=2.0), ("rounds must be a whole number", "got 2.0")),
    ("run: true rounds", run(rounds=True), ("rounds must be a whole number", "got true")),
    ("run: rounds that are nothing", run(rounds=None), ("rounds must be a whole number", "got None")),
    ("run: seed", run(seed="a"), ("seed must be a whole number", "got 'a'")),
    ("run: negative seed", run(seed=-1), ("seed must be a whole number ≥ 0", "got -1")),
    ("run: large seed", run(seed=2**40), ("seed must be", str(2**40))),
    ("run: failures of one", run(failures=1.0), ("[0, 1)", "got 1.0")),
    ("run: failures that are no number", run(failures=float("nan")), ("failures must be a finite number", "got nan")),
    ("run: record_every", run(record_every=0), ("record_every must be a whole number ≥ 1", "got 0")),
    ("run: fractional record_every", run(record_every=1.5), ("record_every must be a whole number", "got 1.5")),
    ("run: an unknown argument", run(ronds=3), ("unknown argument of a run 'ronds'", "did you mean 'rounds'")),
    ("run: on_divergence", run(on_divergence="contineu"), ("unknown on_divergence 'contineu'", "did you mean 'continue'")),
    ("run: steps of zero", run(steps=0), ("τ_i must be ≥ 1", "got 0")),
    ("run: fractional steps", run(steps=2.5), ("must be whole numbers", "2.5")),
    ("run: too few steps", run(steps=[1, 2, 3]), ("one per client (2)", "(3,)")),
    ("run: participation", run(participation="full"), ("participation is one of ud.plan.full()", "full")),
    ("run: a large cohort", run(participation=ud.plan.uniform(3)), ("a cohort of 3 cannot be drawn", "at most 2")),
    ("run: an oracle in words", run(oracle="full"), ("an oracle is one of ud.oracles.full()", "full")),
    ("run: an oracle without components", run(oracle=ud.oracles.minibatch(2)), ("no components", "oracles.full()")),
    ("run: stop in words", run(stop="gap=1"), ("stop", "'gap=1'")),
    ("run: resources", run(resources=5), ("Resources", "5")),
    ("run: x0 of another shape", run(x0=np.zeros(3)), ("x0 must have shape (d,) = (2,)", "got (3,)")),
    ("run: x0 that is not finite", run(x0=[0.0, np.inf]), ("x0 must be finite", "entry 1")),
    ("run: a column that is not there", run(stop=ud.stop.at(gapp=1.0)), ("unknown column", "did you mean 'gap'")),
    ("run: a method that was not called", lambda: ud.run(ud.gd, problem(), rounds=1), ("call the factory", "ud.fedlin(eta=…)")),
    ("run: a method in words", lambda: ud.run("fedlin", problem(), rounds=1), ("a method is what ud.fedlin(…)", "'fedlin'")),
    ("run: arrays for a problem", lambda: ud.run(ud.gd(eta=0.1), A, rounds=1), ("a problem is what ud.problems", "ndarray")),
    ("sweep: no seeds", sweep(seeds=[]), ("a sweep needs at least one seed", "seed")),
    ("sweep: a seed of its own", sweep(seed=3), ("sweep does not take seed", "use run")),
    ("sweep: a rule", sweep(stop=ud.stop.at(gap=1.0)), ("sweep does not take stop", "use run")),
    ("sweep: an unknown parameter", sweep(grid={"etta": [0.1]}), ("unknown parameter of fedavg 'etta'", "did you mean 'eta'")),
    ("sweep: a value that is none", sweep(grid={"eta": ["big"]}), ("eta must be a number", "'big'")),
    ("sweep: a negative step", sweep(grid={"eta": [-1.0]}), ("eta must be a finite number > 0", "got -1.0")),
    ("sweep: a function that makes no method", lambda: ud.sweep(dict, problem(), grid={"eta": [1.0]}, rounds=1),
     ("a sweep needs a method factory", "dict")),
    ("plan: a cohort of nobody", lambda: ud.plan.uniform(0), ("a whole number of members ≥ 1", "got 0")),
    ("plan: half a member", lambda: ud.plan.weighted(1.5), ("a whole number of members ≥ 1", "got 1.5")),
    ("plan: members in words", lambda: ud.plan.permuted("two"), ("a whole number of members ≥ 1", "got 'two'")),
    ("plan: true members", lambda: ud.plan.uniform(True), ("a whole number of members ≥ 1", "got true")),
    ("plan: steps that fall", lambda: ud.plan.random_steps(5, 2), ("1 ≤ low ≤ high", "low = 5, high = 2")),
    ("plan: a rule that names too many", run(participation=rule([0, 1, 0])), ("must name 2 clients", "shape (3,)")),
    ("plan: a rule that names a stranger", run(participation=rule([0, 7])), ("named the client 7", "0 … 1")),
    ("stop: nothing", lambda: ud.stop.at(), ("say which column ends the run", "ud.stop.at(gap=1e-6)")),
    ("stop: a value in words", lambda: ud.stop.at(gap="small"), ("must be a number", "got 'small'")),
    ("stop: true", lambda: ud.stop.at(gap=True), ("must be a number", "got True")),
    ("stop: not a number", lambda: ud.stop.above(recall=float("nan")), ("must be a number", "got nan")),
    ("stop: both directions", lambda: ud.stop.at(gap=1.0, accuracy=0.9), ("combine two of them", "|")),
    ("stop: no patience", lambda: ud.stop.patience(0), (PATIENCE, "got 0")),
    ("stop: patience in words", lambda: ud.stop.patience("long"), (PATIENCE, "got 'long'")),
    ("stop: infinite patience", lambda: ud.stop.patience(np.inf), (PATIENCE, "got inf")),
    ("stop: an improvement that is none", lambda: ud.stop.patience(3, least=-1.0), (LEAST, "got -1.0")),
    ("stop: an improvement in words", lambda: ud.stop.patience(3, least="some"), (LEAST, "got 'some'")),
    ("stop: a column that is none", lambda: ud.stop.patience(3, column=5), ("column", "got 5")),
    ("compressor: k of zero", lambda: ud.top_k(0), ("k must be a whole number ≥ 1", "got 0")),
    ("compressor: half a k", lambda: ud.random_k(2.5), ("k must be a whole number ≥ 1", "got 2.5")),
    ("compressor: true", lambda: ud.top_k(True), ("k must be a whole number ≥ 1", "got True")),
    ("compressor: levels", lambda: ud.quantise(0), ("levels must be a whole number ≥ 1", "got 0")),
    ("compressor: a large k", lambda: ud.run(ud.fedlin(eta=0.1, up=ud.top_k(7)), problem(), rounds=1),
     ("between 1 and the dimension d = 2", "k = 7")),
    ("compressed: which exchange", lambda: ud.compressed(ud.fedlin(eta=0.1), up=ud.top_k(1)),
     ("local, gradient", "say which one")),
    ("compressed: an unknown exchange", lambda: ud.compressed(ud.fedavg(eta=0.1), up=ud.top_k(1), exchange="locall"),
     ("unknown exchange of fedavg 'locall'", "did you mean 'local'")),
    ("method: no step", lambda: ud.fedavg(), ("fedavg", "'eta'")),
    ("method: a step in words", lambda: ud.fedavg(eta="fast"), ("eta must be a number", "got 'fast'")),
    ("method: a step that is an array", lambda: ud.fedavg(eta=np.ones(2)), ("eta must be one number", "(2,)")),
    ("method: a step that is infinite", lambda: ud.fedlin(eta=np.inf), ("eta must be a finite number > 0", "inf")),
    ("method: a schedule that fails", lambda: ud.fedavg(eta=lambda count: count["a"]), ("a schedule of eta", "this one fails")),
    ("method: a schedule of vectors", lambda: ud.fedavg(eta=lambda count: np.ones(3)), ("returns one number", "(3,)")),
    ("method: a server in words", lambda: ud.fedavg(eta=0.1, server="adam"), ("server must be an Optax transform", "adam")),
    ("method: a solver in words", lambda: ud.fedavg(eta=0.1, solver=3), ("a solver is an Optax transform", "3")),
    ("method: an option", lambda: ud.scaffold(eta=0.1, option=3), ("options 1 and 2", "got 3")),
    ("method: an unknown parameter", lambda: ud.fedprox(eta=0.1, bta=1.0),
     ("unknown parameter of fedprox 'bta'", "did you mean 'beta'")),
    ("oracle: no size", lambda: ud.oracles.minibatch(0), ("mini-batch", "got 0")),
    ("oracle: negative noise", lambda: ud.oracles.noisy(-1.0), ("the variance of the noise must be a number ≥ 0", "got -1.0")),
    ("resources: a link", lambda: Resources.of(2, link=5), ("a link is a table or a word", "got 5")),
    ("resources: a link twice", lambda: Resources.of(2, link="up=1,up=2"), ("each once", "got 'up=1,up=2'")),
    ("resources: a link of nothing", lambda: Resources.of(2, link={"up": 0}), ("up must be a number > 0", "got 0")),
    ("resources: a link in true", lambda: Resources.of(2, link={"up": True}), ("up must be a number > 0", "got true")),
    ("resources: speeds", lambda: Resources.of(2, speeds=[1, "a"]), ("speeds are written 100", "'a'")),
    ("resources: speeds of nothing", lambda: Resources.of(2, speeds=-1), ("finite numbers > 0", "got -1")),
    ("resources: speeds of some", lambda: Resources.of(2, speeds=[1, 2, 3]), ("one per client (2)", "got 3")),
    ("resources: a table of speeds", lambda: Resources.of(2, speeds={"a": 1}), ("speeds are written 100", "{'a': 1}")),
    ("catalogue: memory", lambda: least_squares(dim=10**8), ("dim = 100000000", "of memory")),
    ("study: a date", lambda: study_from({"run": {"rounds": datetime.date(2024, 1, 1)}}, "text"),
     ("rounds must be a whole number", "datetime.date(2024, 1, 1)")),
    ("run: failures in words", run(failures="half"), ("[0, 1)", "'half'")),
    ("run: failures that are true", run(failures=True), ("failures must be a probability in [0, 1)", "got true")),
    ("run: x0 in words", run(x0="zero"), ("x0", "zero")),
    ("run: complex x0", run(x0=np.array([1j, 0])), ("x0", "complex")),
    ("run: per_client in words", run(per_client="no"), ("per_client", "'no'")),
    ("run: keep_iterates in words", run(keep_iterates="no"), ("keep_iterates", "'no'")),
    ("run: diagnostics in words", run(diagnostics=1), ("diagnostics", "1")),
    ("run: on_divergence that is a number", run(on_divergence=3), ("on_divergence", "3")),
    ("run: checkpoint_seconds", run(checkpoint_seconds=float("nan")), ("checkpoint_seconds", "nan")),
    ("run: negative checkpoint_seconds", run(checkpoint_seconds=-1.0), ("checkpoint_seconds", "-1.0")),
    ("run: an observer that is none", run(observe=5), ("observe", "5")),
    ("sweep: no seeds at all", sweep(seeds=0), ("a sweep needs seeds", "seed")),
    ("sweep: a grid that is a list", sweep(grid=[0.1]), ("grid", "[0.1]")),
    ("sweep: a grid of a number", sweep(grid={"eta": 0.1}), ("grid", "0.1")),
    ("sweep: a grid of nothing", sweep(grid={"eta": []}), ("grid", "eta")),
    ("compressor: k in words", lambda: ud.top_k("many"), ("k must be a whole number ≥ 1", "'many'")),
    ("compressor: k that is no number", lambda: ud.random_k(float("nan")), ("k must be a", "nan")),
    ("compressor: memory in words", lambda: ud.top_k(3, memory="no"), ("memory", "'no'")),
    ("compressed: not a compressor", lambda: ud.compressed(ud.fedavg(eta=0.1), up="top_k:3"), ("compressor", "'top_k:3'")),
    ("compressed: nothing", lambda: ud.compressed(ud.fedavg(eta=0.1)), ("up", "down")),
    ("oracle: a size in words", lambda: ud.oracles.minibatch("a"), ("mini-batch", "got 'a'")),
    ("oracle: a true size", lambda: ud.oracles.minibatch(True), ("mini-batch", "rue")),
    ("oracle: infinite noise", lambda: ud.oracles.noisy(np.inf), ("the variance of the noise must be", "got inf")),
    ("oracle: noise in words", lambda: ud.oracles.noisy("loud"), ("the variance of the noise must be", "got 'loud'")),
    ("oracle: replace in words", lambda: ud.oracles.minibatch(2, replace="no"), ("replace must be true or false", "'no'")),
    ("schedule: a scale in words", lambda: ud.schedules.Inverse("a", 1.0), ("scale of an inverse schedule", "got 'a'")),
    ("schedule: no offset", lambda: ud.schedules.Inverse(1.0, 0.0), ("offset of an inverse schedule", "got 0.0")),
]  # fmt: skip

CASES = [Case(name, says, call=call) for name, call, says in ROWS]
