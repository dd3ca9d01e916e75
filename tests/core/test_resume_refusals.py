"""Resuming goes on with the very same run and with no other: what differs is refused, whatever it is called."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import optax
import pytest

import undrift as ud
from everyday import only, share
from undrift.engine import simulate
from undrift.protocol import Account, once

ROUNDS = 6


def data(l2: float = 0.1, weights: Any = (1.0, 2.0, 3.0), seed: int = 0) -> ud.problems.Problem:
    rng = np.random.default_rng(seed)
    signs = np.where(rng.normal(size=(3, 4)) > 0, 1, -1)
    return ud.problems.logistic(rng.normal(size=(3, 4, 2)), signs, l2=l2, weights=np.asarray(weights))


class Setting(NamedTuple):
    """A run, from scratch: nothing of it is the same object twice."""

    method: Callable[[], Any] = lambda: ud.fedavg(eta=0.1)
    problem: Callable[[], ud.problems.Problem] = data
    arguments: Callable[[], dict[str, Any]] = dict

    def play(self, rounds: int = ROUNDS, **more: Any) -> ud.Result:
        return ud.run(self.method(), self.problem(), rounds=rounds, **self.arguments(), **more)


def told(**arguments: Any) -> Setting:
    return Setting(arguments=lambda: {"steps": 2, "participation": ud.plan.uniform(2), "seed": 3, **arguments})


def by(method: Callable[[], Any]) -> Setting:
    return Setting(method, arguments=told().arguments)


def on(problem: Callable[[], ud.problems.Problem]) -> Setting:
    return Setting(problem=problem, arguments=told().arguments)


def own_algorithm(eta: float) -> ud.Algorithm:
    def receive(x: Any, slots: Any, gradients: Any, cohort: Any) -> Any:
        return x - eta * cohort.mean(gradients), slots

    def client(memory: Any, x: Any, local: Any) -> Any:
        return memory, local.gradient(x)

    return ud.Algorithm((ud.Exchange("gradient", lambda x, slot: x, client, receive, Account(once)),))


def own_factory(body: str) -> ud.Method:
    """A factory of the same name every time."""
    sign = {"plus": 1.0, "minus": -1.0}[body]

    @ud.method
    def mine(eta: float) -> ud.Algorithm:
        return own_algorithm(sign * eta)

    return mine(eta=0.1)


def until(t: int, low: int, high: int) -> Callable[[int, Any], int]:
    """Local steps that change after round t."""
    return lambda round, key: low if round <= t else high


def solver(transform: Callable[[], Any]) -> Setting:
    return by(lambda: ud.fedavg(eta=0.1, solver=transform()))


BASE = told()
# name -> (the run that was saved, the one that must not go on with it)
CASES: dict[str, tuple[Setting, Setting]] = {
    "eta": (BASE, by(lambda: ud.fedavg(eta=0.1000000001))),
    "method": (BASE, by(lambda: ud.fedprox(eta=0.1, beta=0.0))),
    "steps": (BASE, told(steps=3)),
    "steps of one client": (told(steps=[2, 2, 2]), told(steps=[2, 2, 3])),
    "random steps": (told(steps=ud.plan.random_steps(1, 3)), told(steps=ud.plan.random_steps(1, 4))),
    "coin": (told(steps=ud.plan.geometric_steps(0.4)), told(steps=ud.plan.geometric_steps(0.4000000001))),
    "steps function": (told(steps=until(9, 2, 2)), told(steps=until(ROUNDS - 1, 2, 3))),
    "rule": (
        told(participation=ud.plan.rule(lambda t, key: [t % 3, (t + 1) % 3], 2)),
        told(participation=ud.plan.rule(lambda t, key: [t % 3, (t + 2) % 3], 2)),
    ),
    "participation": (BASE, told(participation=ud.plan.weighted(2))),
    "cohort": (BASE, told(participation=ud.plan.uniform(1))),
    "renormalised means": (BASE, told(participation=ud.plan.uniform(2, renormalise=True))),
    "failures": (told(failures=0.2), told(failures=0.2000001)),
    "seed": (BASE, told(seed=4)),
    "data": (BASE, on(lambda: data(seed=1))),
    "l2": (BASE, on(lambda: data(l2=0.1000001))),
    "weights": (BASE, on(lambda: data(weights=(1.0, 2.0, 3.1)))),
    "x0": (BASE, told(x0=[0.0, 1e-12])),
    "oracle": (BASE, told(oracle=ud.oracles.minibatch(2))),
    "batch size": (told(oracle=ud.oracles.minibatch(2)), told(oracle=ud.oracles.minibatch(3))),
    "noise": (told(oracle=ud.oracles.noisy(0.1)), told(oracle=ud.oracles.noisy(0.1000000001))),
    "sgd(0.1), sgd(0.9)": (solver(lambda: optax.sgd(0.1)), solver(lambda: optax.sgd(0.9))),
    "sgd(0.1), adam": (solver(lambda: optax.sgd(0.1)), solver(lambda: optax.adam(0.1))),
    "clip": (
        solver(lambda: optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1))),
        solver(lambda: optax.chain(optax.clip_by_global_norm(2.0), optax.sgd(0.1))),
    ),
    "own algorithm": (by(lambda: own_algorithm(0.1)), by(lambda: own_algorithm(0.2))),
    "own factory of the same name": (by(lambda: own_factory("plus")), by(lambda: own_factory("minus"))),
    "compressor": (
        by(lambda: ud.compressed(ud.fedavg(eta=0.1), up=ud.top_k(1))),
        by(lambda: ud.compressed(ud.fedavg(eta=0.1), up=ud.top_k(2))),
    ),
    "memory of a compressor": (
        by(lambda: ud.fedlin(eta=0.1, up=ud.top_k(1))),
        by(lambda: ud.fedlin(eta=0.1, up=ud.top_k(1, memory=False))),
    ),
    "schedule": (
        by(lambda: ud.fedavg(eta=lambda count: 0.1 / (1 + count))),
        by(lambda: ud.fedavg(eta=lambda count: 0.1 / (1.5 + count))),
    ),
    "record_every": (told(record_every=2), told(record_every=3)),
    "stop rule": (told(stop=ud.stop.at(loss=1e-9)), told(stop=ud.stop.at(loss=1e-8))),
    "on_divergence": (BASE, told(on_divergence="continue")),
    "resources": (BASE, told(resources=ud.Resources.of(3, speeds=7.0))),
}


GO_ON = (
    "eta",
    "steps function",
    "rule",
    "clip",
    "own algorithm",
    "own factory of the same name",
    "schedule",
    "stop rule",
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The checkpoint of a setting, which is played once."""
    folders: dict[int, Any] = {}

    def of(setting: Setting) -> Any:
        if id(setting) not in folders:
            folders[id(setting)] = tmp_path_factory.mktemp("saved")
            setting.play(checkpoint=folders[id(setting)])
        return folders[id(setting)]

    return of


@pytest.mark.parametrize("name", share(CASES, 0, of=6, always=GO_ON))
def test_another_run_is_refused(name, saved):
    mine, other = CASES[name]
    folder = saved(mine)
    before = (folder / "checkpoint.npz").read_bytes()
    for rounds in (ROUNDS, ROUNDS + 3):
        with pytest.raises(ud.CheckpointError, match="belongs to another run"):
            other.play(rounds, checkpoint=folder, resume=True)
    assert (folder / "checkpoint.npz").read_bytes() == before


@pytest.mark.parametrize("name", GO_ON)
def test_the_same_run_made_anew_goes_on(name, saved, tmp_path):
    mine, _ = CASES[name]
    shutil.copytree(saved(mine), tmp_path / "copy")
    longer = mine.play(ROUNDS + 3, checkpoint=tmp_path / "copy", resume=True)
    whole = mine.play(ROUNDS + 3)
    np.testing.assert_array_equal(longer.x, whole.x)
    for column, values in whole.history.items():
        np.testing.assert_array_equal(longer.history[column], values, err_msg=column)


@pytest.mark.parametrize("kind", ["steps", "rule"])
def test_functions_that_part_late_are_told_apart(kind, tmp_path, monkeypatch):
    """In a round that was played, however late it was: the 1,200th."""
    late, count = 1200, 1201
    problem = ud.problems.quadratic(np.ones((3, 1, 1)), np.ones((3, 1)))

    def arguments(after: int) -> dict[str, Any]:
        if kind == "steps":
            return {"steps": lambda t, key: 1 if t < late else after}
        return {"participation": ud.plan.rule(lambda t, key: [0] if t < late else [after], 1)}

    for place in ("cohorts", "drawing"):  # a millisecond each, and nobody looks at them here
        monkeypatch.setattr(f"undrift.plan.{place}.user_key", lambda *place: None)
    ud.run(ud.fedsgd(eta=0.1), problem, rounds=count, checkpoint=tmp_path, **arguments(1))
    with pytest.raises(ud.CheckpointError, match="belongs to another run"):
        ud.run(ud.fedsgd(eta=0.1), problem, rounds=count, checkpoint=tmp_path, resume=True, **arguments(2))
    assert (
        ud.run(ud.fedsgd(eta=0.1), problem, rounds=count, checkpoint=tmp_path, resume=True, **arguments(1)).rounds
        == count
    )


def test_a_function_is_not_asked_about_rounds_that_nobody_plays(tmp_path):
    table = [2, 1, 2, 3]
    problem = ud.problems.quadratic(np.ones((3, 1, 1)), np.ones((3, 1)))
    result = ud.run(ud.fedsgd(eta=0.1), problem, rounds=4, steps=lambda t, key: table[t - 1], checkpoint=tmp_path)
    assert result.rounds == 4


# ----- more rounds, evaluated now and then
EXTENDED = {
    "plain": {},
    "with a rule": {"stop": ud.stop.patience(9)},
    "with a rule that the last round meets": {"stop": None},
    "per client": {"per_client": True, "keep_iterates": True},
}


@pytest.mark.parametrize("name", only(EXTENDED, {"with a rule that the last round meets", "per client"}))
def test_a_longer_run_has_no_row_that_only_the_shorter_one_evaluated(name, tmp_path, monkeypatch):
    monkeypatch.setattr(simulate, "CHUNK_SECONDS", 0.0)
    arguments = {"steps": 2, "record_every": 7, **EXTENDED[name]}

    def play(rounds: int, **more: Any) -> ud.Result:
        return ud.run(ud.fedavg(eta=0.1), data(), rounds=rounds, **arguments, **more)

    if name == "with a rule that the last round meets":
        arguments["stop"] = ud.stop.at(grad_norm=float(play(10).history["grad_norm"][10]))
    short = play(10, checkpoint=tmp_path)
    assert np.isfinite(short.history["loss"][[0, 7, 10]]).all()
    same(play(10, checkpoint=tmp_path, resume=True), short)
    longer, whole = play(21, checkpoint=tmp_path, resume=True), play(21)
    assert np.isnan(whole.history["loss"][10])
    same(longer, whole)
    assert longer.stopped == whole.stopped


def same(one: ud.Result, other: ud.Result) -> None:
    np.testing.assert_array_equal(one.x, other.x)
    np.testing.assert_array_equal(one.iterates, other.iterates)
    for table, others in ((one.history, other.history), (one.clients, other.clients)):
        assert list(table) == list(others)
        for name, column in table.items():
            np.testing.assert_array_equal(column, others[name], err_msg=name)


def test_divergence_that_only_the_last_round_shows_is_seen_where_the_longer_run_sees_it(tmp_path):
    """The loss overflows in round 9, the shorter run looks in round 10, the longer one in round 14."""
    steep = ud.problems.quadratic(np.full((2, 1, 1), 1e17), np.ones((2, 1)))
    arguments = {"x0": [1.0], "record_every": 7}
    with pytest.raises(ud.DivergenceError) as short:
        ud.run(ud.fedsgd(eta=1.0), steep, rounds=10, checkpoint=tmp_path, **arguments)
    assert short.value.round == 10
    with pytest.raises(ud.DivergenceError) as longer:
        ud.run(ud.fedsgd(eta=1.0), steep, rounds=21, checkpoint=tmp_path, resume=True, **arguments)
    with pytest.raises(ud.DivergenceError) as whole:
        ud.run(ud.fedsgd(eta=1.0), steep, rounds=21, **arguments)
    assert longer.value.round == whole.value.round == 14
    same(longer.value.result, whole.value.result)


def test_a_round_that_was_not_evaluated_cannot_become_the_last_one(tmp_path, monkeypatch):
    monkeypatch.setattr(simulate, "CHUNK_SECONDS", 0.0)

    def stop_after(history: ud.History) -> bool:
        return history.length > 2

    problem = data()
    ud.run(ud.fedavg(eta=0.1), problem, rounds=21, record_every=7, checkpoint=tmp_path, observe=stop_after)
    with pytest.raises(ud.CheckpointError, match="round 2 was not evaluated: ask for more"):
        ud.run(ud.fedavg(eta=0.1), problem, rounds=2, record_every=7, checkpoint=tmp_path, resume=True)
