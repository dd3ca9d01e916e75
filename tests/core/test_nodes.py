"""Nodes that hold the contract and their own data and nothing else play every method, with the records of the simulation."""

from __future__ import annotations

import functools
import gc
import types
from typing import Any

import jax
import numpy as np
import pytest
from core_cases import told
from twins import linear_layers, network_data, network_problem

import undrift as ud
from everyday import only
from undrift import precision
from undrift.engine.loopback import Direct
from undrift.engine.nodes import ClientNode, ServerNode
from undrift.engine.parts import Parts
from undrift.problems.base import Problem

SIZES, DIM, ROUNDS = (4, 3, 5), 3, 2
PARTIAL = {"participation": ud.plan.uniform(2), "failures": 0.3}

METHODS = {
    "fedsgd": ud.fedsgd(eta=0.02),
    "ef21": ud.ef21(eta=0.02, up=ud.top_k(2)),
    "fedavg": ud.fedavg(eta=0.02),
    "fedprox": ud.fedprox(eta=0.02, beta=0.5),
    "fednova": ud.fednova(eta=0.02),
    "fedsplit": ud.fedsplit(s=0.3, inner_steps=3, inner_eta=0.02),
    "scaffold": ud.scaffold(eta=0.02),
    "scaffnew": ud.scaffnew(eta=0.02, p=0.4),
    "feddyn": ud.feddyn(eta=0.02, alpha=1.0),
    "fedexp": ud.fedexp(eta=0.02),
    "mimelite": ud.mimelite(eta=0.02),
    "mime": ud.mimelite(eta=0.02, correction=True),
    "fedlin": ud.fedlin(eta=0.02, up=ud.top_k(2), down=ud.quantise(3)),
    "fedlin table": ud.fedlin(eta=0.02, table=True, up=ud.top_k(2, memory="difference")),
    "fedtrack": ud.fedtrack(eta=0.01, order="uniform"),
    "sequential_fl": ud.sequential_fl(eta=0.02, server_eta=0.8),
    "gd": ud.gd(eta=0.02),
    "sgd": ud.sgd(eta=0.02, batch=2),
    "iag": ud.iag(eta=0.01),
    "ssl": ud.ssl(eta=0.05),
    "sflv1": ud.sflv1(eta=0.05),
    "sflv2": ud.sflv2(eta=0.05),
    "fedtrack compressed": ud.compressed(ud.fedtrack(eta=0.01), up=ud.top_k(2), exchange="gradient"),
    "iag compressed": ud.compressed(ud.iag(eta=0.01), up=ud.top_k(2)),
}
SPLIT = ("ssl", "sflv1", "sflv2")


@functools.cache
def samples() -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(11)
    return [rng.normal(size=(n, DIM)) for n in SIZES], [rng.normal(size=n) for n in SIZES]


@functools.cache
def servers_data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(12)
    return rng.normal(size=(5, 2)), rng.normal(size=5)


def problem_of(name: str) -> Problem:
    if name in SPLIT:
        return network_problem(linear_layers(2, 1), 2, (0.5, 0.3, 0.2), servers_data())
    return ud.problems.least_squares(*samples(), weights=(0.5, 0.3, 0.2))


def marks(name: str) -> list[np.ndarray]:
    """Every client's own numbers."""
    if name in SPLIT:
        inputs, targets = network_data()
        return [np.concatenate([inputs[i].ravel(), targets[i].ravel()]) for i in range(3)]
    return [np.concatenate([A.ravel(), b, (A.T @ A).ravel(), A.T @ b]) for A, b in zip(*samples(), strict=True)]


class Walk:
    """Everything that can be reached from an object: attributes, containers, closures, bound arguments, bases of arrays."""

    def __init__(self, root: Any) -> None:
        self.seen: dict[int, Any] = {}
        self.queue = [root]
        while self.queue:
            self._visit(self.queue.pop())

    def _visit(self, thing: Any) -> None:
        if id(thing) in self.seen or isinstance(thing, types.ModuleType | type | str | int | float | None):
            return
        self.seen[id(thing)] = thing
        if isinstance(thing, types.FunctionType):  # not its globals: they are the library's, not the node's
            cells = [cell.cell_contents for cell in thing.__closure__ or () if cell != types.CellType()]
            self.queue += [*cells, thing.__defaults__, thing.__kwdefaults__, thing.__dict__]
            return
        wrapped = getattr(thing, "__wrapped__", None) if callable(thing) else None
        self.queue += [vars(thing) if hasattr(thing, "__dict__") else None, wrapped]
        if isinstance(thing, np.ndarray):
            self.queue.append(thing.base)
        elif not isinstance(thing, jax.Array):
            self.queue += gc.get_referents(thing)

    def numbers(self) -> np.ndarray:
        """All floating numbers in arrays and in bytes."""
        found = [np.zeros(0)]
        for thing in self.seen.values():
            if isinstance(thing, np.ndarray | np.generic | jax.Array) and getattr(thing.dtype, "kind", "") == "f":
                found.append(np.asarray(thing, np.float64).ravel())
            elif isinstance(thing, bytes | bytearray | memoryview) and len(thing) % 8 == 0:
                found.append(np.frombuffer(thing, np.float64))
        return np.concatenate(found)

    def problems(self) -> list[Problem]:
        """With data: a population describes some by trees of shapes."""
        found = [thing for thing in self.seen.values() if isinstance(thing, Problem)]
        return [p for p in found if not all(isinstance(s, jax.ShapeDtypeStruct) for s in jax.tree.leaves(p))]


def holds(root: Any, numbers: np.ndarray) -> int:
    """How many of these numbers can be found, up to rounding: another CPU may add up AᵀA in another order."""
    there = np.sort(np.append(Walk(root).numbers(), [-np.inf, np.inf]))
    place = np.searchsorted(there, numbers)
    nearest = np.minimum(np.abs(there[place - 1] - numbers), np.abs(there[place] - numbers))
    return int((nearest <= 1e-13 * np.abs(numbers)).sum())


def play(run: Any) -> tuple[ServerNode, list[ClientNode], list[Any]]:
    """The run by nodes; clients are made from the contract and their own problem."""
    parts = Parts(run.contract)
    clients = [ClientNode(i, run.problem.only(i), parts) for i in range(run.population.clients)]
    server = ServerNode(parts, Direct(clients), run.reference, run.problem.server_data)
    found = []
    for t in range(run.rounds + 1):
        server.play_round(t)
        found.append((server.evaluate(), np.asarray(server.x), server.seen))
    return server, clients, found


def test_every_method_is_here():
    assert set(ud.METHODS) <= set(METHODS)


OFTEN = {"fedlin table", "sflv1", "iag compressed"}


@pytest.mark.parametrize("name", only(METHODS, OFTEN))
def test_nodes_play_the_run_and_hold_nothing_of_anyone_else(name):
    method, given = METHODS[name], problem_of(name)
    partial = {} if method.recipe.centralised or name in (*SPLIT, "fedlin", "fedtrack") else PARTIAL
    arguments = told(method, rounds=ROUNDS, per_client=True, diagnostics=True, seed=5, **{"steps": 2, **partial})
    simulated = ud.run(method, given, keep_iterates=True, **arguments)
    run = ud.describe(method, given, **arguments).to_play()
    with precision.scope(given.dtype):
        server, clients, found = play(run)

    for t, (evaluation, x, seen) in enumerate(found):
        np.testing.assert_allclose(x, simulated.iterates[t], rtol=1e-9, atol=1e-12)
        own = {"drift": seen.drift, "drift_worst": seen.drift_worst}
        columns = {**evaluation.columns, **own}
        costs = ("bytes", "gradients", "component", "seconds")
        assert set(columns) == {column for column in simulated.history if not column.startswith(costs)}
        for column, value in columns.items():
            np.testing.assert_allclose(
                value, simulated.history[column][t], rtol=1e-9, atol=1e-10, err_msg=f"{column} in round {t}"
            )
        for what, values in evaluation.clients.items():
            np.testing.assert_allclose(
                values, simulated.clients[what][t], rtol=1e-9, atol=1e-10, err_msg=f"{what} in round {t}"
            )
    travelled = {link: int(simulated.history[f"bytes_{link}"][-1]) for link in ("up", "down", "peer")}
    assert {link: server.travelled[link] for link in travelled} == travelled

    everyone = marks(name)
    server.transport = None  # what is left is the server's own
    assert holds(server, np.concatenate(everyone)) == 0
    assert not Walk(server).problems()
    if method.recipe.centralised:  # one machine holds all data
        assert holds(clients[0], np.concatenate(everyone)) > 0
        return
    for i, node in enumerate(clients):
        others = np.concatenate([everyone[j] for j in range(3) if j != i])
        assert holds(node, others) == 0, f"client {i} holds data of others"
        assert holds(node, everyone[i]) == len(everyone[i])  # the walk sees what is there
        reached = Walk(node)
        assert [p.clients for p in reached.problems()] == [1]
        assert id(given) not in reached.seen
        assert id(run) not in reached.seen


def test_the_walk_finds_what_is_hidden():
    """Data behind closures, views, partial functions, bound methods, compiled functions, bytes."""
    secret = np.arange(1.0, 7.0) * np.pi

    class Holder:
        __slots__ = ("inside",)

        def __init__(self, inside):
            self.inside = inside

        def method(self):
            return self.inside

    with jax.enable_x64(True):
        on_device = jax.numpy.asarray(secret)
    view = secret.reshape(2, 3)[:1, :1]
    for hidden in (
        lambda: secret,
        (lambda held=secret: held),
        functools.partial(print, secret),
        view,
        Holder(secret),
        Holder(secret).method,
        jax.jit(lambda x: x + on_device),
        secret.tobytes(),
        {"a": [(Holder({1: on_device}),)]},
    ):
        assert holds(types.SimpleNamespace(a=[hidden]), secret) == len(secret)
    assert holds(types.SimpleNamespace(a=[secret[:2].copy()]), secret) == 2


@pytest.mark.parametrize("kind", ["quadratic", "logistic", "custom", "few samples"])
def test_the_problem_of_one_client_holds_its_own_data_alone(kind):
    A, b = samples()
    rng = np.random.default_rng(3)
    hessians = np.stack([np.diag(row) for row in rng.uniform(1, 2, size=(3, DIM))])
    linear = rng.normal(size=(3, DIM))
    labels = [np.where(row > 0, 1, -1) for row in b]
    whole, own = {
        "quadratic": (
            lambda: ud.problems.quadratic(hessians, linear, weights=(3, 2, 1)),
            [np.concatenate([np.diag(hessians[i]), linear[i]]) for i in range(3)],
        ),
        "logistic": (lambda: ud.problems.logistic(A, labels, l2=0.1), [block.ravel() for block in A]),
        "custom": (
            lambda: ud.problems.custom(lambda x, a: (a @ x) ** 2, A, dim=DIM, per_sample=True),
            [block.ravel() for block in A],
        ),
        "few samples": (
            lambda: ud.problems.least_squares([block[:2] for block in A], [row[:2] for row in b]),
            [np.concatenate([block[:2].ravel(), row[:2]]) for block, row in zip(A, b, strict=True)],
        ),
    }[kind]
    problem = whole()
    run = ud.describe(ud.fedavg(eta=0.01), problem, rounds=1)
    problem.population, run.shapes, run.algorithm, run.importance, run.key  # noqa: B018 (kept once asked for)
    assert holds(run.contract, np.concatenate(own)) == 0
    assert holds(problem.population, np.concatenate(own)) == 0
    for i in range(3):
        mine = problem.only(i)
        assert holds(mine, own[i]) == len(own[i])
        assert holds(mine, np.concatenate([own[j] for j in range(3) if j != i])) == 0
        with precision.scope(problem.dtype):
            mean = np.asarray(jax.tree.leaves(problem.shared)[0]).ravel() if kind == "quadratic" else np.zeros(0)
        assert holds(mine, mean[mean != 0]) == 0  # nor the mean of all Hessians


def test_population_and_contract_know_what_a_server_may_know():
    problem = problem_of("fedavg")
    known = problem.population
    assert (known.clients, known.dim, known.dtype) == (3, DIM, np.float64)
    np.testing.assert_allclose(known.weights, (0.5, 0.3, 0.2))
    np.testing.assert_array_equal(known.sizes, SIZES)
    contract = ud.describe(ud.fedavg(eta=0.01), problem, rounds=1).contract
    with pytest.raises(ud.InputError, match="contract holds no data"):
        contract.problem  # noqa: B018


def test_clients_that_do_not_exist_are_refused():
    for strange in (-1, 3, 1.5, "0"):
        with pytest.raises(ud.InputError, match="there is no client"):
            problem_of("fedavg").only(strange)
