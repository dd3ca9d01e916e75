"""Message mode and tickets without a federation: a post in this process whose nodes forget everything between two letters."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from undrift.errors import InputError
from undrift.flower.messages import MessageCarrier
from undrift.flower.node import Settings, answer
from undrift.flower.post import Reply
from undrift.studies.agreement import Agreement
from undrift.studies.serving import serve
from undrift.studies.study import study_from

PROBLEM = {"name": "least_squares", "clients": 3, "samples": 5, "dim": 2}


def agreement_of(method: Mapping[str, Any], rounds: int = 3, **run: Any) -> Agreement:
    tables = {"problem": PROBLEM, "run": {"rounds": rounds, "steps": 2, **run}, "method": [dict(method)]}
    return Agreement.of(study_from(tables, "test"))


class Nodes:
    """A post whose nodes answer at once or, by a seed, not at all; the process of a node ends with every letter."""

    def __init__(
        self, folder: Path, parts: Iterable[int], *, names: Mapping[int, str] | None = None, fail: float = 0.0
    ):
        self.settings = {
            100 + part: Settings(part=part, state=str(folder / f"node-{part}")) for part in parts
        }  # node -> what its operator told it
        self.names, self.fail, self.random = names or {}, fail, random.Random(3)
        self.away: set[int] = set()
        self.letters: dict[str, Reply] = {}
        self.content: list[Mapping[str, Any]] = []
        self.numbers = itertools.count()
        self.failed = 0

    def nodes(self) -> dict[int, str]:
        return {node: self.names.get(node, "") for node in self.settings if node not in self.away}

    def send(self, node: int, content: Mapping[str, Any]) -> str:
        letter = str(next(self.numbers))
        self.content.append(content)
        try:
            reply = Reply(letter, answer(content, self.settings[node], None))
        except InputError as error:
            reply = Reply(letter, {}, str(error))
        if self.random.random() < self.fail:
            self.failed += 1
            reply = Reply(letter, {}, "the node died after it had done its work")
        self.letters[letter] = reply
        return letter

    def collect(self, letters: Iterable[str]) -> list[Reply]:
        return [self.letters.pop(letter) for letter in list(letters) if letter in self.letters]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting where nothing can happen meanwhile."""
    monkeypatch.setattr("undrift.flower.messages.LOOK_ROUND", 0.0)
    monkeypatch.setattr("undrift.flower.messages.AGAIN", 0.0)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("method", "fail"),
    [
        ({"name": "scaffold", "eta": 0.05}, 0.0),
        ({"name": "fedlin", "eta": 0.05, "up": {"name": "top_k", "k": 1}}, 0.2),
    ],
)
def test_a_run_over_messages_equals_the_simulation(tmp_path: Path, method: dict[str, Any], fail: float) -> None:
    agreement = agreement_of(method)
    nodes = Nodes(tmp_path, range(3), fail=fail)
    carrier = MessageCarrier(nodes, agreement.contract, pause=0.0)
    result = serve(agreement, carrier, tmp_path, resend=None, farewell=0.0)
    simulated = simulation(agreement)
    np.testing.assert_allclose(result.x, simulated.x, rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.history["loss"], simulated.history["loss"], rtol=0, atol=1e-12)
    assert (nodes.failed > 0) == (fail > 0)


def simulation(agreement: Agreement) -> Any:
    from undrift.engine.simulate import simulate

    return simulate(agreement.simulated(agreement.source.whole([None] * 3)))
