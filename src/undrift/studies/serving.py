"""The server of a deployed study, over any carrier: gathers its sites, plays its rounds, survives its own death."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax

from .. import precision
from ..deploy.book import Book
from ..deploy.carrier import Carrier
from ..deploy.conversation import Conversation
from ..deploy.coordinator import Coordinator, State
from ..deploy.memory import NEVER
from ..deploy.reception import Reception
from ..engine.description import Run
from ..engine.history import History, Result
from ..engine.layout import memory_shapes
from ..errors import DivergenceError, Interrupted
from .agreement import Agreement
from .columns import write_columns

RESEND = 30.0  # seconds after which a message that nobody answered is sent again
FAREWELL = 60.0  # seconds in which sites that are away may come back to hear that the run is over


def serve(
    agreement: Agreement,
    carrier: Carrier,
    folder: Path,
    *,
    deadline: float | None = None,
    observe: Callable[[History], Any] | None = None,
    watch: Callable[[str, str], None] = lambda site, what: None,
    resend: float | None = RESEND,
    farewell: float = FAREWELL,
    traced: Callable[[Mapping[str, Any]], None] = lambda row: None,
) -> Result:
    """Play the run of this agreement with the sites that come over the carrier; `folder` keeps what must not be lost.

    `traced` is told every round as it stands in the trace.

    Called again with the same folder it continues. To stop it from outside let the carrier raise (`deploy.watch`).
    """
    contract, book = agreement.contract, Book(folder, agreement.contract)
    reception = Reception(contract, lambda site, facts: agreement.source.check(facts))
    talk = Conversation(carrier, contract.sites, reception.greet, deadline=deadline, resend=resend, watch=watch)
    if book.head is None:
        talk.gather(lambda: set(reception.facts) >= set(contract.sites))
        terms = agreement.source.terms([reception.facts[site] for site in contract.sites])
        book.begin(reception.facts, terms, reception.states, deadline)
        assert book.head is not None
    reception.facts, reception.states = dict(book.head.facts), dict(book.head.states)
    run = agreement.run(book.head.terms)
    if (columns := agreement.source.standardisation(book.head.terms)) is not None:
        sizes = dict(zip(contract.sites, run.population.sizes.tolist(), strict=True))
        write_columns(folder, {**columns, "clients": sizes})
    with precision.scope(run.population.dtype):
        return _play(agreement, run, talk, reception, book, observe, farewell, traced)


def _play(
    agreement: Agreement,
    run: Run,
    talk: Conversation,
    reception: Reception,
    book: Book,
    observe: Callable[[History], Any] | None,
    farewell: float,
    traced: Callable[[Mapping[str, Any]], None],
) -> Result:
    assert book.head is not None
    remembers = bool(jax.tree.leaves(memory_shapes(run.algorithm, run.population).clients))

    def note_memory() -> None:
        counted = [site for site, base in zip(talk.sites, talk.base, strict=True) if base != NEVER]
        reception.with_memory = set(counted) if remembers else set()

    last_model: list[Any] = []

    def keep(state: State) -> None:
        book.keep(state, reception.states)
        note_memory()
        last_model[:] = [state.server.x]
        if state.trace.last is not None:
            traced(state.trace.last)

    public = agreement.source.public
    reference, server_data = (None, None) if public is None else (public.reference(), public.server_data)
    coordinator = Coordinator(run, talk, keep=keep, observe=observe, reference=reference, server_data=server_data)
    book.restore(coordinator.state)
    last_model.append(coordinator.state.server.x)
    note_memory()
    reception.population = book.head.terms
    talk.admit()
    try:
        result = coordinator.play()
    except KeyboardInterrupt:
        recorder = coordinator.state.chronicle.recorder
        if recorder.length == 0:
            raise
        said = f"stopped after {recorder.length - 1} of {run.rounds} rounds"
        raise Interrupted(said, result=coordinator.state.chronicle.result(last_model[0])) from None
    except DivergenceError as diverged:
        _say_goodbye(talk, f"diverged in round {diverged.round}", farewell)
        raise
    _say_goodbye(talk, f"finished after round {result.rounds}", farewell)
    return result


def _say_goodbye(talk: Conversation, words: str, seconds: float) -> None:
    """Tell everybody that the run is over; those that are away have some seconds to come back."""
    with contextlib.suppress(KeyboardInterrupt):  # the run is whole: whoever asks to stop wants to wait no longer
        talk.finish(words, time.monotonic() + seconds)
