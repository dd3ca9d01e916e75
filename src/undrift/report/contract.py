"""The contract of a deployed run in words: for the people at a site, before anything is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ..studies.agreement import Agreement
from .diagram import cost_lines, diagram, prose_lines
from .protocol import protocol_of

INDENT = 2


def contract_lines(agreement: Agreement, width: int = 100) -> list[str]:
    """Which method, what each message holds, how many bytes a round, what the server can learn from it."""
    return list(_lines(agreement, max(width, 60)))


def _lines(agreement: Agreement, width: int) -> Iterator[str]:
    contract, run = agreement.contract, agreement.preview
    words = {key: entry for key, entry in contract.study["problem"].items() if key != "name"}
    problem = f"{contract.study['problem']['name']} {json.dumps(words, ensure_ascii=False)}"
    waiting = (
        "a round may be played without sites that are away (a deadline)"
        if contract.absences
        else "everybody is waited for"
    )
    yield f"Contract {contract.hash}"
    for name, text in (
        ("method", f"{run.method}, {run.rounds} rounds, seed {run.seed}"),
        ("problem", problem),
        ("model", f"{run.population.dim:,} numbers, {run.population.dtype}"),
        ("sites", ", ".join(contract.sites)),
        ("each round", str(run.plan)),
        ("absences", waiting),
        ("software", f"undrift {contract.undrift}, protocol {contract.protocol}"),
        *((f"program {file}", f"SHA-256 {digest}") for file, digest in contract.code.items()),
    ):
        yield from _item(name, text, width)
    yield ""
    yield "What is told before the first round"
    yield from _indented(agreement.source.told(), width)
    yield ""
    yield "What is sent in every round (client = this site)"
    protocol = protocol_of(run)
    yield from diagram(protocol, width)
    yield from cost_lines(protocol)
    yield from _item("evaluation", _evaluation(agreement), width)
    yield ""
    yield "What the server can learn"
    yield from _indented(_learns(agreement), width)


def _evaluation(agreement: Agreement) -> str:
    run = agreement.preview
    often = "every round" if run.record_every == 1 else f"every {run.record_every} rounds"
    told = ", its accuracy where there is one" if run.per_client else ""
    return f"after {often} the server sends the model; the site answers with its loss{told} and its gradient there"


def _learns(agreement: Agreement) -> str:
    recipe = agreement.preview.recipe
    more = (
        " The model is cut: the server sees what the site's half makes of single samples, and their labels where its half "
        "computes the loss. What one site hands to the next passes through the server, which can read it."
        if recipe.split
        else " What one site hands to the next, where the method does so, passes through the server, which can read it."
        if recipe.ordered
        else ""
    )
    return (
        "Samples and labels are not sent as such. But the server reads every message above in the clear: single sites' "
        "models, gradients and losses, from which it can infer properties of the data, for small sites even single samples "
        "(gradient inversion, membership inference). Other sites see only what the server sends to all." + more
    )


def _item(name: str, text: str, width: int) -> Iterator[str]:
    lines = prose_lines(text, width - 14)
    for number, line in enumerate(lines):
        yield f"  {name if number == 0 else '':<11} {line.strip()}"


def _indented(text: str, width: int) -> Iterator[str]:
    for line in prose_lines(text, width - INDENT):
        yield f"{' ' * INDENT}{line.strip()}"
