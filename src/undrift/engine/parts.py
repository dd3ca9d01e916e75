"""What the two ends of an exchange compute, as compiled functions, from the contract of a run alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import precision, wire
from ..errors import WireError
from ..local import Local
from ..problems.base import Problem
from ..protocol import Cohort, Exchange, OneByOne, Program, Repeat, drawn_again, exchanges, placed
from ..vectorise import take
from .description import Run
from .identity import plan_identity, program_identity
from .interpret import LOCAL, exchange_key
from .layout import memory_shapes, message_programs

MEASURE = -1  # the place of the exchange that evaluates a model


class Call(NamedTuple):
    """What accompanies a message: where in the run it belongs."""

    place: int  # of the exchange in the program
    round: int
    repeat: int = 0


class Parts:
    """One compiled function per exchange and end, from the contract alone."""

    def __init__(self, contract: Run) -> None:
        assert contract.data is None, "nodes share the contract, not the data"
        self.contract = contract
        self.in_turn = _places_in_turn(contract)
        self.opening = len(exchanges(contract.algorithm.start))  # exchanges before round 1, which all m clients play
        self._compiled: dict[tuple[Any, ...], Callable[..., Any]] = {}
        self._answer_forms: dict[bool, wire.Form] = {}

    def client(self, place: int, structure: Any) -> Callable[..., Any]:
        """(leaves of the client's problem, memory, down, [τ, number, round, repeat]) -> (memory, up).

        `structure`: of its problem, a tree that Python would have to take apart again for every message.
        """
        run = self.contract

        def play(leaves: list[Any], memory: Any, down: Any, numbers: Any) -> Any:
            problem = jax.tree.unflatten(structure, leaves)
            steps, number, round, repeat = numbers
            step = run.algorithm_at(round).exchanges[place]
            own_key = jax.random.fold_in(exchange_key(run.key, round, step.name, repeat), number)
            steps_key = jax.random.fold_in(exchange_key(run.key, round, LOCAL, 0), number)
            stride = jnp.asarray(run.importance)[number] if place in self.in_turn else None
            local = Local(loss_of(problem), steps, own_key, round, number, run.oracle, steps_key, stride)
            return step.client(memory, down, local)

        return self._once(("client", place, structure), play)

    def send(self, place: int) -> Callable[..., Any]:
        """(server, slot, round) -> down."""
        run = self.contract
        return self._once(
            ("send", place), lambda server, slot, t: run.algorithm_at(t).exchanges[place].send(server, slot)
        )

    def receive(self, place: int) -> Callable[..., Any]:
        """(server, slots, downs, ups, ids, steps, round, repeat) -> (server, slots, where the local paths ended).

        The paths of exchanges without an endpoint have none, (): nobody looks at their downs.
        """
        run = self.contract

        def play(
            server: Any, slots: Any, downs: Any, ups: Any, ids: Any, steps: Any, round: Any, repeat: Any
        ) -> tuple[Any, Any, Any]:
            step = run.algorithm_at(round).exchanges[place]
            key = exchange_key(run.key, round, step.name, repeat)
            cohort = self.cohort(ids, steps, key, place in self.in_turn, place < self.opening)
            endpoint = step.account.endpoint
            ends = () if endpoint is None else jax.vmap(endpoint)(downs, ups)
            return *step.receive(server, slots, ups, cohort), ends

        return self._once(("receive", place), play)

    def cohort(self, ids: Any, steps: Any, key: Any, in_turn: bool = False, opening: bool = False) -> Cohort:
        """Those that answered."""
        run = self.contract
        weights, importance = jnp.asarray(run.population.weights)[ids], jnp.asarray(run.importance)[ids]
        if in_turn:
            return Cohort(ids, steps, weights, None, None, key, stride=importance)
        counts = None if run.renormalise or opening else importance
        again = None if opening or run.distinct else drawn_again(ids)
        return Cohort(ids, steps, weights, counts, None, key, again=again)

    def measure(self, structure: Any) -> Callable[..., Any]:
        """(leaves of the client's problem, memory, x, x* or ()) -> what it answers about x, and what the method wants to know.

        `structure`: of its problem, as above.
        """

        def play(leaves: list[Any], memory: Any, x: jax.Array, optimum: Any) -> Any:
            loss = loss_of(jax.tree.unflatten(structure, leaves))
            return self._answer(loss, memory, x, None if isinstance(optimum, tuple) else optimum)

        return self._once(("measure", structure), play)

    def answer_form(self, knows_optimum: bool) -> wire.Form:
        """How answers about a model are read."""
        if knows_optimum not in self._answer_forms:
            self._answer_forms[knows_optimum] = wire.Form(self.answer_shapes(knows_optimum))
        return self._answer_forms[knows_optimum]

    def answer_shapes(self, knows_optimum: bool) -> Any:
        """What a client answers about a model."""
        run = self.contract
        memory = memory_shapes(run.algorithm, run.population).clients
        x = jax.ShapeDtypeStruct((run.population.dim,), run.population.dtype)

        def play(shared: Any, row: Any, memory: Any, x: Any) -> Any:
            return self._answer(run.population.view(shared, row), memory, x, x if knows_optimum else None)

        with precision.scope(run.population.dtype):
            return jax.eval_shape(play, run.population.shared, run.population.row, memory, x)

    def _answer(self, loss: Any, memory: Any, x: jax.Array, optimum: Any) -> Any:
        diagnosis = self.contract.algorithm.diagnostics if self.contract.diagnostics else None
        told = () if diagnosis is None else diagnosis.client(memory, x, loss)
        return loss.measure(x, optimum, self.contract.per_client), told

    def prepare(self, place: int) -> Callable[..., Any]:
        """(server, round, repeat) -> server: what it does once before it speaks to anyone."""
        run = self.contract

        def play(server: Any, round: Any, repeat: Any) -> Any:
            step = run.algorithm_at(round).exchanges[place]
            key = exchange_key(run.key, round, step.name, repeat)
            return server if step.prepare is None else step.prepare(server, key)

        return self._once(("prepare", place), play)

    @cached_property
    def forms(self) -> list[tuple[wire.Form, wire.Form]]:
        """How the messages down and up are read, by place."""
        return [(wire.Form(shapes.down), wire.Form(shapes.up)) for shapes in self.contract.shapes]

    @cached_property
    def questions(self) -> dict[bool, wire.Form]:
        """How the messages are read that ask about a model: with x* or without."""
        x0 = self.contract.x0
        return {True: wire.Form((x0, x0)), False: wire.Form((x0, ()))}

    def _once(self, name: tuple[Any, ...], function: Callable[..., Any]) -> Callable[..., Any]:
        known = self._compiled.get(name)  # to make a jitted function and throw it away takes longer than to call one
        if known is None:
            known = self._compiled[name] = jax.jit(function)
        return known

    @cached_property
    def run_name(self) -> bytes:
        """What both ends know a run by: a hash of the traced exchanges, their numbers, the start and the plan; of no data."""
        run = self.contract
        digest = hashlib.sha256()
        with precision.scope(run.population.dtype):
            for program in message_programs(run.algorithm, run.population, run.oracle):
                digest.update(program_identity(program).encode())
        for name, value in (*run.numbers.items(), ("x0", run.x0), ("weights", run.population.weights)):
            digest.update(f"{name} {value.dtype} {value.shape}".encode() + np.ascontiguousarray(value).tobytes())
        digest.update(f"{run.seed} {plan_identity(run.plan, 0)}".encode())
        return digest.digest()[:16]

    def exchange_name(self, place: int) -> str:
        """For complaints."""
        return "evaluation" if place == MEASURE else repr(self.contract.algorithm.exchanges[place].name)

    def check(self, call: Call, steps: int) -> None:
        """Refuse a call that no program of this run can make."""
        place, round, repeat = call
        places = len(self.forms)
        if place != MEASURE and not 0 <= place < places:
            raise WireError(f"the exchanges of this run have the places 0 … {places - 1}, got {place}")
        if min(round, repeat, steps) >= 0 and max(round, repeat, steps) < 2**31:
            return
        for name, value in (("round", round), ("repeat", repeat), ("steps", steps)):
            if not 0 <= value < 2**31:
                raise WireError(f"{name} must be at least 0 and below 2**31, got {value}")


def loss_of(problem: Problem) -> Any:
    """f_i of a problem of one client."""
    return problem.client(take(problem.stack, 0))


def _places_in_turn(contract: Run) -> frozenset[int]:
    """The exchanges that clients play one after the other."""
    found: set[int] = set()

    def walk(program: Program, place: int, in_turn: bool) -> None:
        for at, step in placed(program, place):
            if isinstance(step, Exchange) and in_turn:
                found.add(at)
            elif isinstance(step, Repeat | OneByOne):
                walk(step.program, at, in_turn or isinstance(step, OneByOne))

    algorithm, place = contract.algorithm, 0
    for program in (algorithm.start, algorithm.first or (), algorithm.round):
        walk(program, place, False)
        place += len(exchanges(program))
    return frozenset(found)
