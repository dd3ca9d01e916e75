"""A site: one client that answers frames, and keeps its memory so that it can answer them again.

Its part of an exchange is a pure function of (memory, message, data, keys from (seed, round, exchange, client)). So nothing is
logged but where rounds began: told the same messages again, it gives the same answers.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from .. import precision
from ..engine.nodes import ClientNode
from ..engine.parts import MEASURE, Call
from . import faults
from .frames import Answer, Ask, Behind, Commit, Committed, Finished, Frame, FrameError, FromServer, Look, Saw
from .memory import NEVER, Snapshots

START = (-1, -1)  # no round, no attempt
OVER = 2**31  # the attempt after the last one


class Site:
    """A client of the contract. `hear` answers a frame; it knows no network and no clock."""

    def __init__(self, node: ClientNode, snapshots: Snapshots) -> None:
        self.node, self.snapshots = node, snapshots
        self.first, self.structure = jax.tree.flatten(node.memory)
        self.holds: int | None = NEVER  # the round after which its memory was as it is now; None inside a round
        self.finished = False
        self.rejoin()

    def rejoin(self) -> None:
        """A new connection: whatever was not committed is played again."""
        self.position, self.base, self.answered = START, NEVER, 0
        self.last: Answer | None = None

    def forget(self) -> None:
        """Begin without memory: the operator said so, and the server knows it."""
        self.snapshots.forget()
        self.holds = None

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
            return self._look(frame)
        if isinstance(frame, Finished):
            self.finished = True
            return None
        raise FrameError(f"a site that takes part does not expect {type(frame).__name__}")

    def _ask(self, ask: Ask) -> Frame | None:
        here = (ask.round, ask.attempt)
        if here < self.position:
            return None  # late: the round has been begun anew since
        if here > self.position:
            self._check_round(ask.round)
            self._return_to(ask.base)
            self.position, self.base, self.answered, self.last = here, ask.base, 0, None
        if ask.number > self.answered:
            return Behind(ask.round, ask.attempt, self.answered)
        if ask.number < self.answered:
            return self.last if self.last is not None and self.last.number == ask.number else None
        self.holds = None
        reply = self.node.handle(Call(ask.place, ask.round, ask.repeat), ask.steps, ask.payload)
        self.last, self.answered = Answer(ask.round, ask.attempt, ask.number, reply), self.answered + 1
        return self.last

    def _look(self, look: Look) -> Frame | None:
        if look.round < self.position[0]:
            return None  # late
        self._check_round(look.round)
        self._return_to(look.base)
        self.position = (look.round, OVER)  # who is asked about a round's model has no part in that round any more
        return Saw(look.round, self.node.handle(Call(MEASURE, look.round), 1, look.payload))

    def _check_round(self, round: int) -> None:
        if self.position == START:  # the first that is heard of the server since it, or the connection, was lost
            self.snapshots.check(round)

    def _return_to(self, base: int) -> None:
        """The memory as it was after this round, from the disk where it is another one now."""
        if self.holds != base and self.first:
            leaves = self.first if base == NEVER else self.snapshots.at(base, self.first)
            self.node.memory = jax.tree.unflatten(self.structure, [jax.numpy.asarray(leaf) for leaf in leaves])
        self.holds = base

    def _commit(self, commit: Commit) -> Frame | None:
        here = (commit.round, commit.attempt)
        if here < self.position:
            return None
        if here > self.position or self.answered < commit.asks:
            return Behind(commit.round, commit.attempt, 0 if here > self.position else self.answered)
        if self.holds != commit.round:
            self._keep(commit.round)
        return Committed(*here)

    def _keep(self, round: int) -> None:
        faults.point("site:before-snapshot")
        if self.first:
            leaves: list[Any] = [np.asarray(leaf) for leaf in jax.tree.leaves(self.node.memory)]
            self.snapshots.keep(round, leaves, self.base)
        self.holds = round
        faults.point("site:after-snapshot")
