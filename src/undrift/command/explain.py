"""`undrift explain`: a method's round as a message diagram, its memory and its mathematics."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
from collections.abc import Mapping
from typing import Any

from ..engine.description import Run, refused_steps
from ..errors import InputError
from ..plan import full
from ..recipe import Method
from ..report.contract import contract_lines
from ..report.diagram import cost_lines, diagram, memory_lines, prose_lines
from ..report.protocol import Protocol, cut_network, protocol_of, stand_in
from ..studies.agreement import Agreement
from ..studies.method import StudyMethod, parameters_of, traced_by
from ..studies.study import read_study
from ..theory.known import Known
from . import codes
from .setting import study_method, vouched
from .talk import Talk

USUAL_STEPS = 10
PLACEHOLDER = 0.1  # any number will do: shapes do not depend on it


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    if arguments.deployed:
        return _explain_deployed(arguments)
    asked = with_links(study_method(arguments.method, arguments).checked(), arguments.dim)
    made = placeholder_method(asked, arguments.steps or USUAL_STEPS)
    problem = cut_network() if made.recipe.split else stand_in(arguments.dim, arguments.dtype)
    steps = steps_of(made, arguments.steps)
    protocol = protocol_of(
        Run.of(made, problem, 1, participation=full(), failures=arguments.failures or 0.0, **made.given(steps))
    )
    mathematics = mathematics_of(asked)
    if arguments.json:
        content = {"method": asked.title, "dim": problem.dim, "steps": steps, "dtype": str(problem.dtype)}
        content |= {**dataclasses.asdict(protocol), "mathematics": mathematics, "step_rule": asked.known.rule}
        content["certified_rule"] = certified_rule(asked.known)
        print(json.dumps(content, indent=2, ensure_ascii=False))
        return codes.OK
    head = f"{asked.title}   d = {problem.dim:,}, {problem.dtype}, τ = {steps}"
    where = " (a small network, cut after its hidden layer)" if made.recipe.split else ""
    rules = {"Step size by theorem": asked.known.rule, "Certified step size": certified_rule(asked.known)}
    _show(head + where, protocol, mathematics, rules)
    return codes.OK


def _explain_deployed(arguments: argparse.Namespace) -> int:
    """The contract of a study, as `undrift join` shows it."""
    agreement = Agreement.of(vouched(read_study(arguments.method), arguments))
    talk = Talk()
    if arguments.json:
        contract = json.loads(agreement.contract.document())
        print(json.dumps({"hash": agreement.contract.hash, **contract}, indent=2, ensure_ascii=False))
        return codes.OK
    for line in contract_lines(agreement, talk.results.width):
        talk.results.print(line)
    return codes.OK


def steps_of(made: Method, given: int | None) -> Any:
    """τ for the count of gradients; in words where the method draws it itself."""
    drawn = made.drawn_steps
    if drawn is not None and given is not None:
        raise InputError(refused_steps(made, given))
    return str(drawn) if drawn is not None else USUAL_STEPS if given is None else given


def placeholder_method(asked: StudyMethod, steps: int) -> Method:
    """The method with some value for everything that was not given."""
    known = parameters_of(asked.factory)
    values: dict[str, Any] = {name: 1 if known[name].annotation is int else PLACEHOLDER for name in asked.missing}
    inexact = asked.known.without_prox  # the stand-in problem has no closed form
    if inexact and inexact[0] not in asked.parameters:
        values |= {name: PLACEHOLDER if name in traced_by(asked.factory) else steps for name in inexact}
    return asked.make(**values)


def with_links(asked: StudyMethod, dim: int) -> StudyMethod:
    """The method with some compressor where it cannot do without one (EF21)."""
    some: dict[str, Any] = {name: f"top_k:{max(1, dim // 10)}" for name in asked.missing if name in asked.own_links}
    return dataclasses.replace(asked, **some)


def mathematics_of(asked: StudyMethod) -> str:
    """The factory's documentation, without its runnable example."""
    text = inspect.getdoc(inspect.unwrap(asked.factory)) or "This method has no documentation."
    return text.partition(">>>")[0].strip()


def certified_rule(known: Known) -> str:
    """What eta="certified" asks of a run with this method, in words; "" where there is no certificate."""
    if known.certified is None:
        return ""
    same = ", and all clients with the same data, as it drifts otherwise" if known.drifts else ""
    of = {"clients": "every client's loss", "mean": "f", "components": "every component"}[known.certified.losses]
    return (
        f'{known.number}="certified": the step with the best worst case of a round over all L-smooth, μ-strongly convex '
        f"losses, from the table of certificates, for L and μ of {of}; with exact gradients, everyone in every round{same}."
    )


def _show(head: str, protocol: Protocol, mathematics: str, rules: Mapping[str, str]) -> None:
    talk = Talk()
    width = talk.results.width

    def write(text: str = "", style: str = "") -> None:
        talk.results.print(text, markup=False, style=style or None)

    write(head, "bold")
    write()
    for line in diagram(protocol, width):
        write(line)
    for line in cost_lines(protocol):
        write(line)
    write()
    write("Memory between rounds", "bold")
    for line in memory_lines(protocol, width):
        write(line)
    write()
    write("The method", "bold")
    for line in prose_lines(mathematics, width):
        write(line)
    for title, rule in rules.items():
        if rule:
            write()
            write(title, "bold")
            for line in prose_lines(rule, width):
                write(line)
