"""A global step after the clients took their turns: x ← x + η_s(where they arrived − x)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

from ..protocol import Algorithm, AtServer, Cohort, Exchange, OneByOne, Program, Repeat, Step
from ..recipe import positive


class Anchored(NamedTuple):
    """A server's memory that is the model and nothing else, now and when the round began."""

    now: Any
    before: Any


def with_global_step(algorithm: Algorithm, server_eta: Any) -> Algorithm:
    """The algorithm with a step of size η_s along what a round changed; itself where η_s is None."""
    if server_eta is None:
        return algorithm
    positive(server_eta=server_eta)

    def server(x: jax.Array) -> tuple[Anchored, Any]:
        own, slot = algorithm.server(x)
        return Anchored(own, own), slot

    def step(server: Anchored, slots: Any, ups: Any, cohort: Cohort) -> tuple[Anchored, Any]:
        new = jax.tree.map(lambda now, before: before + server_eta * (now - before), server.now, server.before)
        return Anchored(new, new), slots

    return algorithm._replace(
        round=(*_on_anchored(algorithm.round), AtServer(step)),
        server=server,
        model=lambda server: algorithm.model(server.now),
    )


def _on_anchored(program: Program) -> Program:
    def lifted(step: Step) -> Step:
        if isinstance(step, Repeat | OneByOne):
            return step._replace(program=_on_anchored(step.program))
        assert isinstance(step, Exchange)
        send, receive = step.send, step.receive

        def receive_anchored(server: Anchored, slots: Any, ups: Any, cohort: Cohort) -> tuple[Anchored, Any]:
            now, slots = receive(server.now, slots, ups, cohort)
            return server._replace(now=now), slots

        return step._replace(send=lambda server, slot: send(server.now, slot), receive=receive_anchored)

    return tuple(lifted(step) for step in program)
