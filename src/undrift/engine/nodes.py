"""A server and its clients as nodes that share nothing but encoded messages.

Both know the contract: the run without its data. A client also knows its own problem, the server what it may know of all. The
seam is the *transport*: given where in the program we are and one encoded message per client, it returns one encoded reply per
client that answered; a deployment replaces it and nothing else.

Nodes trust nobody: whatever arrives is checked before it is used (`wire.decode`, `envelope`), and a complaint names the client
and the exchange. Numbers that are not finite are refused too, unless a node was told `not_finite=True`: loopback does, where
all nodes are one's own and a run that diverges is to be reported as the simulation reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from .. import envelope, wire
from ..envelope import Envelope
from ..errors import NotFiniteError, WireError
from ..plan import Draw
from ..problems.base import Problem
from ..problems.evaluation import Evaluation, Reference, summarise
from ..protocol import AtServer, Exchange, OneByOne, Program, Repeat, exchanges, placed
from ..sums import weighted_on_host
from ..vectorise import take
from .interpret import exchange_key
from .ledger import LINKS
from .parts import MEASURE, Call, Parts, loss_of

OF_THE_MODEL = ("sq_distance",)  # columns that no client has a say in


class Transport(Protocol):
    """Brings messages to clients and their replies back."""

    def deliver(self, call: Call, messages: Mapping[int, tuple[int, bytes]]) -> dict[int, bytes]:
        """messages: client -> (its τ_i, payload). Returns client -> reply, for those that answered."""


class ClientNode:
    """A client: its own problem, its memory, the contract, and nothing of anyone else."""

    def __init__(self, number: int, problem: Problem, parts: Parts, *, not_finite: bool = False) -> None:
        self.number, self.problem, self.parts, self.not_finite = number, problem, parts, not_finite
        self._leaves, structure = jax.tree.flatten(problem)
        self._play = [parts.client(place, structure) for place in range(len(parts.forms))]
        self._measure = parts.measure(structure)
        self.forget()

    def forget(self) -> None:
        """The memory of the very beginning."""
        run = self.parts.contract
        self.memory = jax.tree.map(jnp.asarray, run.algorithm_at(0).client(jnp.asarray(run.x0), loss_of(self.problem)))

    def answer(self, frame: bytes) -> bytes:
        """The answer to one message in its envelope, in its own."""
        return self.begin(frame)()

    def begin(self, frame: bytes) -> Callable[[], bytes]:
        """Begin to work on a message in its envelope; what is returned waits for the answer and puts it into its own."""
        told, payload = envelope.unseal(frame)
        if told[:3] != (mine := (envelope.DOWN, self.parts.run_name, self.number)):
            envelope.must_be(told, Envelope(*mine, *told[3:]))
        reply = self._begin(Call(told.place, told.round, told.repeat), told.steps, payload)
        return lambda: envelope.seal(told.reply(), reply())

    def handle(self, call: Call, steps: int, payload: bytes) -> bytes:
        """The answer to one message."""
        return self._begin(call, steps, payload)()

    def _begin(self, call: Call, steps: int, payload: bytes) -> Callable[[], bytes]:
        """JAX computes behind the scenes: only who wants the numbers waits for them."""
        self.parts.check(call, steps)
        if call.place == MEASURE:
            return self._begin_measuring(payload)

        def where() -> str:
            exchange = self.parts.exchange_name(call.place)
            return f"what client {self.number} was told in exchange {exchange} of round {call.round}"

        told, answered = self.parts.forms[call.place]
        down = _arrived(payload, told, self.not_finite, where)
        numbers = np.array([steps, self.number, call.round, call.repeat], np.int32)
        self.memory, up = self._play[call.place](self._leaves, self.memory, down, numbers)
        return lambda: answered.encode(up)

    def _begin_measuring(self, payload: bytes) -> Callable[[], bytes]:
        """(x, x*) or x alone, told apart by their length."""
        form = self.parts.questions[len(payload) > self.parts.contract.x0.nbytes]
        where = f"the model that client {self.number} is to evaluate"
        x, optimum = _arrived(payload, form, self.not_finite, lambda: where)
        found = self._measure(self._leaves, self.memory, x, optimum)
        return lambda: wire.encode(found)


class Seen(NamedTuple):
    """What the server noticed in a round, for people."""

    drift: float = 0.0
    drift_worst: float = 0.0
    suspect: int = -1
    drifts: Mapping[int, float] = MappingProxyType({})


class ServerNode:
    """The server: its memory, the slots, the contract and a transport."""

    def __init__(
        self,
        parts: Parts,
        transport: Transport,
        reference: Reference | None = None,
        server_data: Any = None,
        *,
        not_finite: bool = False,
        refuse: Callable[[int, str], None] | None = None,
    ) -> None:
        """`refuse`: told of clients whose view of a model is nonsense; without it they are an error."""
        self.parts, self.transport, self.run, self.not_finite = parts, transport, parts.contract, not_finite
        self.refuse = refuse
        self.reference, self.server_data = reference, server_data
        self.memory, slot = self.run.algorithm_at(0).server(jnp.asarray(self.run.x0))
        self.slots = [slot] * self.run.population.clients
        self.weights = np.asarray(self.run.population.weights)
        self.travelled = dict.fromkeys((*LINKS, "none"), 0)
        self.seen, self.complete = Seen(), True

    @property
    def x(self) -> jax.Array:
        return self.run.algorithm.model(self.memory)

    @property
    def state(self) -> tuple[Any, list[Any], dict[str, int]]:
        """All that changes from round to round: memory, slots, bytes that travelled."""
        return self.memory, list(self.slots), dict(self.travelled)

    @state.setter
    def state(self, state: tuple[Any, list[Any], dict[str, int]]) -> None:
        self.memory, self.slots, self.travelled = state[0], list(state[1]), dict(state[2])

    def play_round(self, t: int, plan: Draw | None = None) -> Draw:
        """Round t (0: the start) with the members that the plan names; those that stay silent hear its first message only.

        `plan`: of this round, where somebody else has drawn it.
        """
        algorithm, m = self.run.algorithm_at(t), self.run.population.clients
        plan = self.run.plan.draw(max(t, 1), 1) if plan is None else plan
        self.seen = Seen()
        if t == 0:
            self._steps(algorithm.start, 0, Call(0, 0), np.arange(m), np.ones(m, np.int64))
            return plan
        ids = np.arange(m) if plan.ids is None else plan.ids[0]
        answers = np.ones(len(ids), bool) if plan.answered is None else plan.answered[0]
        opening, special = len(exchanges(algorithm.start)), algorithm.first or ()
        place = opening if t == 1 and special else opening + len(exchanges(special))
        program = special if t == 1 and special else algorithm.round
        account = algorithm.exchanges[place].account
        if account.on_wire:
            asked = self.run.plan.asked(range(t, t + 1), ids[None])
            for i in ids[~answers if asked is None else ~answers & asked[0]]:
                told = wire.encode(self.parts.send(place)(self.memory, self.slots[i], t))
                self.travelled[account.down_link] += len(told)
        self._steps(program, place, Call(place, t), ids[answers], plan.steps[0][answers])
        return plan

    def evaluate(self) -> Evaluation:
        """Ask every client about the model; off the ledger. The server's own data are a second source.

        What a client that gave no answer would have said is NaN, and so is everything that is made of all answers.
        """
        run, x = self.run, self.x
        optimum = () if self.reference is None else jnp.asarray(self.reference.x)
        payload = wire.encode((x, optimum))
        everyone = dict.fromkeys(range(run.population.clients), (1, payload))
        call = Call(MEASURE, 0)
        replies = self.transport.deliver(call, everyone)
        shapes = self.parts.answer_shapes(self.reference is not None)
        known = self._views(call, replies, self.parts.answer_form(self.reference is not None))
        self.complete = len(known) == run.population.clients
        unknown = jax.tree.map(lambda s: np.full(s.shape, np.nan if s.dtype.kind == "f" else 0, s.dtype), shapes)
        answers, told = _stack([known.get(i, unknown) for i in range(run.population.clients)])
        weights = jnp.asarray(self.weights)
        found = summarise(x, answers, weights, self.reference, run.per_client)
        columns, clients = dict(found.columns), dict(found.clients)
        if run.diagnostics and run.algorithm.diagnostics is not None:
            columns |= run.algorithm.diagnostics.server(self.memory, told, weights)
        if not self.complete:
            here = np.isin(np.arange(run.population.clients), list(known))
            columns = {name: value if name in OF_THE_MODEL else np.nan for name, value in columns.items()}
            clients = {name: np.where(here, rows, np.nan) for name, rows in clients.items()}
        if self.server_data is not None:
            columns |= self.server_data.measure(x)
        return found._replace(columns=columns, clients=clients)

    def _steps(
        self, program: Program, place: int, call: Call, ids: np.ndarray, steps: np.ndarray, in_turn: bool = False
    ) -> None:
        for at, step in placed(program, place):
            here = call._replace(place=at)
            if isinstance(step, Exchange):
                self._exchange(step, here, ids, steps)
            elif isinstance(step, AtServer):
                self._by_itself(step, here, ids, steps, in_turn)
            elif isinstance(step, OneByOne):
                for k in range(len(ids)):
                    self._steps(step.program, at, here, ids[k : k + 1], steps[k : k + 1], in_turn=True)
            else:
                self._repeat(step, at, here, ids, steps, in_turn)

    def _repeat(self, step: Repeat, place: int, call: Call, ids: np.ndarray, steps: np.ndarray, in_turn: bool) -> None:
        counts = np.asarray(step.counts(steps))
        for r in range(counts.max(initial=0)):
            self._steps(step.program, place, call._replace(repeat=r), ids[counts > r], steps[counts > r], in_turn)

    def _exchange(self, step: Exchange, call: Call, ids: np.ndarray, steps: np.ndarray) -> None:
        if not len(ids):
            return
        account, (down, up), moment = step.account, self.parts.forms[call.place], (call.round, call.repeat)
        server = self.memory if step.prepare is None else self.parts.prepare(call.place)(self.memory, *moment)
        messages = self._messages(step, call, server, ids, steps)
        replies = self.transport.deliver(call, messages)
        answers = self._answers(call, ids, replies, up)
        payloads = [messages[i][1] for i in ids.tolist()]
        if account.on_wire:  # a client drawn twice is spoken to once but counted twice, as in the simulation
            self.travelled[account.down_link] += sum(map(len, payloads))
            self.travelled[account.up_link] += sum(len(replies[i]) for i in ids.tolist())
        if not self.weights[ids].sum() > 0:
            return
        ups = _stack(answers)
        downs = () if account.endpoint is None else _read_again(payloads, down)
        receive = self.parts.receive(call.place)
        slots = _stack([self.slots[i] for i in ids])
        members = ids.astype(np.int32), steps.astype(np.int32)
        self.memory, slots, ends = receive(server, slots, downs, ups, *members, *moment)
        self._keep(ids, slots)
        self._notice(ids, ups, ends)

    def _messages(
        self, step: Exchange, call: Call, server: Any, ids: np.ndarray, steps: np.ndarray
    ) -> dict[int, tuple[int, bytes]]:
        """client -> (τ_i, what it is told)."""
        send, form = self.parts.send(call.place), self.parts.forms[call.place][0]
        alike = not jax.tree.leaves(self.slots[ids[0]])  # the server keeps nothing for each: all are told the same
        spoken_to = ids[:1].tolist() if alike else ids.tolist()
        messages = [send(server, self.slots[i], call.round) for i in spoken_to]
        for i, message in zip(spoken_to, messages, strict=True):
            if not self.not_finite and not _finite(message):
                raise NotFiniteError(
                    f"what the server would tell client {i} in exchange {step.name!r} of round {call.round} is not finite"
                )
        payloads = [form.encode(message) for message in messages] * (len(ids) if alike else 1)
        return dict(zip(ids.tolist(), zip(steps.tolist(), payloads, strict=True), strict=True))

    def _answers(self, call: Call, ids: np.ndarray, replies: Mapping[int, bytes], form: wire.Form) -> list[Any]:
        """What the clients answered, decoded; all of it is checked before anything is used."""
        return [self._answer(call, i, replies, form) for i in ids.tolist()]

    def _answer(self, call: Call, client: int, replies: Mapping[int, bytes], form: wire.Form) -> Any:
        def where() -> str:
            exchange = self.parts.exchange_name(call.place)
            return f"the answer of client {client} in exchange {exchange} of round {call.round}"

        if client not in replies:
            raise WireError(
                f"{where()} is missing: the transport must bring one from everybody it was asked to speak to"
            )
        return _arrived(replies[client], form, self.not_finite, where, client)

    def _views(self, call: Call, replies: Mapping[int, bytes], form: wire.Form) -> dict[int, Any]:
        """What the clients say about the model. Whoever says nonsense is as good as absent, where somebody wants to know.

        Numbers that are not finite are nonsense of one client, but a divergence if all that answered have them.
        """
        found: dict[int, Any] = {}
        refused: dict[int, WireError] = {}
        for i in sorted(replies):
            try:
                found[i] = self._answer(call, i, replies, form)
            except WireError as error:
                if self.refuse is None:
                    raise
                refused[i] = error
        if refused and not found and all(isinstance(error, NotFiniteError) for error in refused.values()):
            return {i: form.decode(replies[i], not_finite=True) for i in refused}
        for i, why in refused.items():
            assert self.refuse is not None
            self.refuse(i, str(why))
        return found

    def _by_itself(self, step: AtServer, call: Call, ids: np.ndarray, steps: np.ndarray, in_turn: bool) -> None:
        if not self.weights[ids].sum() > 0:
            return
        key = exchange_key(self.run.key, call.round, "server", call.repeat)
        cohort = self.parts.cohort(ids.astype(np.int32), steps.astype(np.int32), key, in_turn, opening=call.round == 0)
        self.memory, slots = step.step(self.memory, _stack([self.slots[i] for i in ids]), (), cohort)
        self._keep(ids, slots)

    def _keep(self, ids: np.ndarray, slots: Any) -> None:
        if jax.tree.leaves(slots):
            slots = jax.tree.map(_on_host, slots)
            for k, i in enumerate(ids.tolist()):
                self.slots[i] = take(slots, k)

    @np.errstate(over="ignore", invalid="ignore")  # a run that diverges ends in an error of its own
    def _notice(self, ids: np.ndarray, ups: Any, ends: Any) -> None:
        """What people want to know of these answers; `ends`: of the local paths, or () where there are none."""
        seen = self.seen
        if seen.suspect < 0 and self.not_finite and not _finite(ups):  # else it would not have been let in
            seen = seen._replace(suspect=next(int(i) for k, i in enumerate(ids) if not _finite(take(ups, k))))
        if not isinstance(ends, tuple):
            places, share, everyone = np.asarray(ends), self.weights[ids].astype(np.float64), ids.tolist()
            away = np.linalg.norm(places - weighted_on_host(share / share.sum(), places), axis=1)
            farthest = np.fmax([seen.drifts.get(i, np.nan) for i in everyone], away).tolist()
            own = dict(zip(everyone, farthest, strict=True))
            seen = seen._replace(
                drift=float(np.maximum(seen.drift, np.mean(away))),
                drift_worst=float(np.maximum(seen.drift_worst, np.max(away))),
                drifts={**seen.drifts, **own},
            )
        self.seen = seen


def _stack(trees: list[Any]) -> Any:
    """One tree of many, on the host: a dozen small operations on the device take longer than the step that follows."""

    def stack(*leaves: Any) -> Any:
        own = [_on_host(leaf) for leaf in leaves]
        return np.array(own) if isinstance(own[0], np.ndarray) else jnp.stack(own)

    return jax.tree.map(stack, *trees)


def _read_again(payloads: list[bytes], form: wire.Form) -> Any:
    """What members were told, the server's own words, as one tree; messages that all got are read once."""
    different = {payload: k for k, payload in enumerate(dict.fromkeys(payloads))}
    told = _stack([form.decode(payload, not_finite=True) for payload in different])
    return take(told, np.array([different[payload] for payload in payloads]))


def _on_host(leaf: Any) -> Any:
    """An array where indexing costs nothing; random keys exist on the device alone."""
    is_key = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.extended)
    return leaf if is_key else np.asarray(leaf)


def _arrived(
    payload: bytes, form: wire.Form, not_finite: bool, where: Callable[[], str], client: int | None = None
) -> Any:
    """A message that came from elsewhere; `where` begins the complaint."""
    try:
        return form.decode(payload, not_finite=not_finite)
    except WireError as error:
        refusal = type(error)(f"{where()} is refused: {error}")
        refusal.client = client
        raise refusal from None


def _finite(tree: Any) -> bool:
    return all(wire.finite(leaf) for leaf in jax.tree.leaves(tree))
