"""A site: one client that answers frames, and keeps its memory so that it can answer them again.

Its part of an exchange is a pure function of (memory, message, data, keys from (seed, round, exchange, client)). So nothing is
logged but where rounds began: told the same messages again, it gives the same answers.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from .. import precision
from ..engine.nodes import MEASURE, Call, ClientNode
from .frames import Answer, Ask, Behind, Commit, Committed, Finished, Frame, FrameError, FromServer, Look, Saw
from .memory import NEVER, Snapshots

START = (-1, -1)  # no round, no attempt


class Site:
    """A client of the contract. `hear` answers a frame; it knows no network and no clock."""

    def __init__(self, node: ClientNode, snapshots: Snapshots) -> None:
        self.node, self.snapshots = node, snapshots
        self.first, self.structure = jax.tree.flatten(node.memory)
        self.finished = False
        self.rejoin()

    def rejoin(self) -> None:
        """A new connection: whatever was not committed is played again."""
        self.position, self.base, self.answered = START, NEVER, 0
        self.last: Answer | None = None

    def hear(self, frame: FromServer) -> Frame | None:
        """The answer to a frame, or None where there is none."""
        with precision.scope(self.node.parts.contract.population.dtype):
            return self._hear(frame)

    def _hear(self, frame: FromServer) -> Frame | None:
        if isinstance(frame, Ask):
            return self._ask(frame)
        if isinstance(frame, Commit):
            return self._commit(frame)
        if isinstance(frame, Look):
            return Saw(frame.round, self.node.handle(Call(MEASURE, frame.round), 1, frame.payload))
        if isinstance(frame, Finished):
            self.finished = True
            return None
        raise FrameError(f"a site that takes part does not expect {type(frame).__name__}")

    def _ask(self, ask: Ask) -> Frame | None:
        here = (ask.round, ask.attempt)
        if here < self.position:
            return None  # late: the round has been begun anew since
        if here > self.position:
            self._begin(here, ask.base)
        if ask.number > self.answered:
            return Behind(ask.round, ask.attempt, self.answered)
        if ask.number < self.answered:
            return self.last if self.last is not None and self.last.number == ask.number else None
        reply = self.node.handle(Call(ask.place, ask.round, ask.repeat), ask.steps, ask.payload)
        self.last, self.answered = Answer(ask.round, ask.attempt, ask.number, reply), self.answered + 1
        return self.last

    def _begin(self, here: tuple[int, int], base: int) -> None:
        leaves = self.first if base == NEVER or not self.first else self.snapshots.at(base, self.first)
        self._remember(leaves)
        self.position, self.base, self.answered, self.last = here, base, 0, None

    def _remember(self, leaves: list[Any]) -> None:
        self.node.memory = jax.tree.unflatten(self.structure, [jax.numpy.asarray(leaf) for leaf in leaves])

    def _commit(self, commit: Commit) -> Frame | None:
        here = (commit.round, commit.attempt)
        if here < self.position:
            return None
        if here > self.position or self.answered < commit.asks:
            return Behind(commit.round, commit.attempt, 0 if here > self.position else self.answered)
        if self.first:
            leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(self.node.memory)]
            self.snapshots.keep(commit.round, leaves, self.base)
        return Committed(*here)
