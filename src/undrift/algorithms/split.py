"""Split learning: the model is cut, x = [x_c ; x_s], and a local step is a dialogue.

    begin   ↓ x_c                        client: activations of its first batch          ↑ activations, labels
    step    ↓ activation gradients       client: backward, update, next activations      ↑ activations, labels
    end     ↓ activation gradients       client: backward, update                        ↑ x_c

The server answers every (activations, labels) with a forward and a backward pass through its half, updates it, and keeps the
gradient of the activations for the next message down. A client keeps the number of its batch and repeats its forward pass
when the gradient arrives (where both ends are one program and clients play in turn, it is computed once). Both halves take the
same step, so the dialogue equals local steps on the uncut model: SFLV1 = FedAvg, and one client after the other, SSL =
sequential FL, wherever the cut is. (A solver that looks at the whole vector, such as clipping by the global norm, acts on each
half by itself and breaks the equality.) In turn, both halves step m·w_i as far.
"""

from __future__ import annotations

from typing import Any

from ..errors import InputError, unknown
from ..protocol import Algorithm, AtServer, Cohort, OneByOne, Repeat, all_but_one
from ..recipe import method
from ..signatures import Tree as Message
from .correction import check_flag
from .dialogue import Dialogue, Server, Slot
from .dialogue_corrected import CorrectedDialogue
from .global_step import with_global_step

MODES = ("peer", "central")


@method
def sflv1(eta: float, solver: Any = None, halves: Any = None) -> Algorithm:
    """All clients in parallel, each with its own copy of the server's half; both halves are averaged after the round.

    Thapa et al., "SplitFed: when federated learning meets split learning" (2022), version 1. Equals FedAvg on the uncut model.
    The problem must be cut: `ud.problems.network(…, cut=…)`.
    """
    dialogue = Dialogue(eta, solver, halves)
    return dialogue.algorithm((dialogue.begin(), Repeat((dialogue.step(),), all_but_one), dialogue.end()))


@method(ordered=True)
def ssl(
    eta: float,
    mode: str = "central",
    server_eta: float | None = None,
    solver: Any = None,
    corrected: bool = False,
    halves: Any = None,
) -> Algorithm:
    """Sequential split learning: SFLV1's dialogue, one client after the other in a fresh random order.

    mode: how x_c is handed on — "peer" (client → client) or "central" (client → server → client): the same numbers, other
    bytes. server_eta: a global step after the last client's turn, x ← x + η_s(what it left − x), in mode "central" (the server
    must hold x_c for it). Li, Lyu, "Convergence analysis of sequential split learning on heterogeneous data" (2023), app. D.
    Equals sequential FL on the uncut model.

    corrected (ours; the paper leaves it to future work): the control variates of `ud.sequential_fl(corrected=True)`, cut as the
    model is. Those of the server's half stay at the server; c of the client's half travels with x_c, ↓(x_c, c) and
    ↑(x_c, c_i⁺ − c_i), or from client to client (x_c, c and the sum of the round's changes). c_i stays where it arose.
    """
    if mode not in MODES:
        raise unknown("mode of ssl", mode, MODES)
    if mode == "peer" and server_eta is not None:
        raise InputError(
            "a global step is taken at the server, which does not hold x_c in mode 'peer': use mode='central'"
        )
    check_flag("corrected", corrected)
    dialogue = CorrectedDialogue(eta, solver, halves, mode == "peer") if corrected else Dialogue(eta, solver, halves)
    begin, end = dialogue.begin(), dialogue.end()
    if mode == "peer":  # the predecessor has brought x_c already
        begin = begin._replace(account=begin.account._replace(down_link="none"))
        end = end._replace(account=end.account._replace(up_link="peer"))
    turns = OneByOne((begin, Repeat((dialogue.step(),), all_but_one), end))
    return with_global_step(dialogue.algorithm((turns, *dialogue.after)), server_eta, dialogue.with_model)


@method(ordered=True)
def sflv2(eta: float, solver: Any = None, halves: Any = None) -> Algorithm:
    """Clients' halves start equal and are averaged; one server half is updated by the clients in turn, in random order.

    With unequal weights the mean weighs the clients' halves, and the server's half steps m·w_i as far with client i.
    Thapa et al., "SplitFed: when federated learning meets split learning" (2022), version 2.
    """
    dialogue = Dialogue(eta, solver, halves, clients_in_turn=False)

    def keep(server: Server, slots: Slot, ups: Message, cohort: Cohort) -> tuple[Server, Slot]:
        return server._replace(x_s=cohort.mean(slots.x_s)), slots._replace(x_c=ups["client_model"])

    def average(server: Server, slots: Slot, ups: Message, cohort: Cohort) -> tuple[Server, Slot]:
        return server._replace(x_c=cohort.mean(slots.x_c, around=server.x_c)), slots

    turn = (dialogue.begin(), Repeat((dialogue.step(),), all_but_one), dialogue.end()._replace(receive=keep))
    return dialogue.algorithm((OneByOne(turn), AtServer(average)))
