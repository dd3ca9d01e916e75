"""A global step after the clients took their turns: x ← x + η_s(where they arrived − x)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from ..protocol import Algorithm, AtServer, Cohort, Diagnostics, OneByOne, Program, Repeat, Step
from ..recipe import positive
from ..signatures import Receive


class Anchored(NamedTuple):
    """A server's memory, now and when the round began."""

    now: Any
    before: Any


def _moved(now: Any, moved: Any) -> Any:
    """All of the server's memory is the model."""
    return moved


def with_global_step(algorithm: Algorithm, server_eta: Any, keep: Callable[[Any, Any], Any] = _moved) -> Algorithm:
    """The algorithm with a step of size η_s along what a round changed; itself where η_s is None.

    keep(now, moved): the server's memory with the model of `moved`, where it has something besides.
    """
    if server_eta is None:
        return algorithm
    positive(server_eta=server_eta)

    def server(x: jax.Array) -> tuple[Anchored, Any]:
        own, slot = algorithm.server(x)
        return Anchored(own, own), slot

    def step(server: Anchored, slots: Any, ups: Any, cohort: Cohort) -> tuple[Anchored, Any]:
        moved = jax.tree.map(lambda now, before: before + server_eta * (now - before), server.now, server.before)
        new = keep(server.now, moved)
        return Anchored(new, new), slots

    return algorithm._replace(
        round=(*_on_anchored(algorithm.round), AtServer(step)),
        server=server,
        model=lambda server: algorithm.model(server.now),
        diagnostics=_of_now(algorithm.diagnostics),
    )


def _of_now(diagnostics: Diagnostics | None) -> Diagnostics | None:
    if diagnostics is None:
        return None
    tell = diagnostics.server
    return diagnostics._replace(server=lambda server, told, weights: tell(server.now, told, weights))


def _on_anchored(program: Program) -> Program:
    def lifted(step: Step) -> Step:
        if isinstance(step, Repeat | OneByOne):
            return step._replace(program=_on_anchored(step.program))
        if isinstance(step, AtServer):
            return AtServer(_anchored(step.step))
        send = step.send
        return step._replace(send=lambda server, slot: send(server.now, slot), receive=_anchored(step.receive))

    return tuple(lifted(step) for step in program)


def _anchored(receive: Receive) -> Receive:
    def anchored(server: Anchored, slots: Any, ups: Any, cohort: Cohort) -> tuple[Anchored, Any]:
        now, slots = receive(server.now, slots, ups, cohort)
        return server._replace(now=now), slots

    return anchored
