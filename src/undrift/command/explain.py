"""`undrift explain`: a method's round as a message diagram, its memory and its mathematics."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
from typing import Any

from ..engine.description import Run
from ..errors import InputError
from ..plan import full
from ..recipe import Method
from ..report.diagram import cost_lines, diagram, memory_lines, prose_lines
from ..report.protocol import Protocol, cut_network, protocol_of, stand_in
from ..studies.build import MethodMaker, parameters_of
from . import codes
from .setting import method_spec, with_flags
from .talk import Talk

PLACEHOLDER = 0.1  # any number will do: shapes do not depend on it


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    for name in ("dim", "steps"):
        if getattr(arguments, name) < 1:
            raise InputError(f"{name} must be a whole number ≥ 1, got {getattr(arguments, name)}")
    maker = MethodMaker.of(with_flags(method_spec(arguments.method), arguments, None))
    made = placeholder_method(maker, arguments.steps)
    problem = cut_network() if made.recipe.split else stand_in(arguments.dim, arguments.dtype)
    protocol = protocol_of(Run.of(made, problem, 1, steps=arguments.steps, participation=full()))
    mathematics = mathematics_of(maker)
    if arguments.json:
        content = {"method": maker.label, "dim": problem.dim, "steps": arguments.steps, "dtype": str(problem.dtype)}
        content |= {**dataclasses.asdict(protocol), "mathematics": mathematics, "step_rule": maker.known.rule}
        print(json.dumps(content, indent=2, ensure_ascii=False))
        return codes.OK
    head = f"{maker.label}   d = {problem.dim:,}, {problem.dtype}, τ = {arguments.steps}"
    where = " (a small network, cut after its hidden layer)" if made.recipe.split else ""
    _show(head + where, protocol, mathematics, maker.known.rule)
    return codes.OK


def placeholder_method(maker: MethodMaker, steps: int) -> Method:
    """The method with some value for everything that was not given."""
    values: dict[str, Any] = {}
    for name, parameter in parameters_of(maker.factory).items():
        given = name in maker.spec.parameters
        if not given and parameter.default is parameter.empty:
            values[name] = 1 if parameter.annotation is int else PLACEHOLDER
    inexact = maker.known.without_prox  # the stand-in problem has no closed form
    if inexact and inexact[0] not in maker.spec.parameters:
        values |= {name: PLACEHOLDER if name in maker.traced else steps for name in inexact}
    return maker.make(**values)


def mathematics_of(maker: MethodMaker) -> str:
    """The factory's documentation, without its runnable example."""
    text = inspect.getdoc(inspect.unwrap(maker.factory)) or "This method has no documentation."
    return text.partition(">>>")[0].strip()


def _show(head: str, protocol: Protocol, mathematics: str, rule: str) -> None:
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
    if rule:
        write()
        write("Step size by theorem", "bold")
        for line in prose_lines(rule, width):
            write(line)
