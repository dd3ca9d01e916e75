"""Corrected turns: the items run, and what they claim is decided by their data, for and against."""

from __future__ import annotations

import dataclasses

import pytest

from undrift_papers.beyond_sequence import CORRECTED, PLAIN, SCAFFOLD
from undrift_papers.beyond_sequence_images import ITEM as IMAGES
from undrift_papers.data import Data
from undrift_papers.item import reduced
from undrift_papers.registry import all_items
from undrift_papers.reproduce import reproduce
from undrift_papers.store import Store

ITEM = all_items()["beyond/sequence"]


def test_a_pair_of_quadratics_with_few_steps(tmp_path):
    fewer = (reduced("groups", [7]), reduced("seeds", [0]), reduced("eta", [0.03, 0.1]))
    made = reproduce(dataclasses.replace(ITEM, reduced=fewer), Store(tmp_path), "quick")
    holds = {claim["sentence"]: claim["holds"] for claim in made.claims}
    assert holds["the paper's sequential FL keeps a floor in every group, at every step of the grid"]
    assert (made.folder / "figure.png").stat().st_size > 0


@pytest.mark.slow
@pytest.mark.computes
def test_two_pairs_of_quadratics(tmp_path):
    made = reproduce(ITEM, Store(tmp_path), "quick")
    holds = {claim["sentence"]: claim["holds"] for claim in made.claims}
    assert holds["corrected, it reaches x* in every group"]
    assert holds["the paper's sequential FL keeps a floor in every group, at every step of the grid"]
    assert (made.folder / "figure.png").stat().st_size > 0


@pytest.mark.slow
@pytest.mark.computes
@pytest.mark.parametrize("name", ["beyond/sequence-random", "beyond/sequence-images"])
def test_the_others_run_at_quick_scale(name, tmp_path):
    made = reproduce(all_items()[name], Store(tmp_path), "quick")
    assert (made.folder / "figure.png").stat().st_size > 0
    if name.endswith("random"):
        assert [claim["sentence"] for claim in made.claims if not claim["holds"]] == []


@pytest.mark.parametrize(("gain", "holds"), [(0.05, True), (-0.05, False)])
def test_accuracies_decide_for_and_against(gain, holds):
    rows = [(2, 0, label, eta, 0.8 + (label == CORRECTED) * gain) for label in (PLAIN, CORRECTED) for eta in (0.1, 0.3)]
    table = dict(zip(("C", "seed", "series", "eta", "accuracy"), zip(*rows, strict=True), strict=True))
    data = Data({"ends": table}, seeds=[0], setting={"C": [2], "eta": [0.1, 0.3]})
    helps, harmless = IMAGES.claims[1], IMAGES.claims[-1]
    assert (helps.decide(data).holds, harmless.decide(data).holds) == (holds, holds)


@pytest.mark.parametrize(("rounds", "holds"), [(10.0, True), (30.0, False)])
def test_rounds_beside_scaffold_decide(rounds, holds):
    rows = [(4, CORRECTED, 0.1, 1e-12, rounds), (4, SCAFFOLD, 0.1, 1e-12, 20.0)]
    table = dict(zip(("group", "series", "eta", "distance", "rounds"), zip(*rows, strict=True), strict=True))
    data = Data({"ends": table}, setting={"groups": [4], "eta": [0.1]})
    claim = next(c for c in ITEM.claims if "SCAFFOLD" in c.sentence)
    decision = claim.decide(data)
    assert (decision.holds, decision.explanation) == (holds, None)
