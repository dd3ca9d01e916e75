"""Each method at its own best step: the search is widened as far as it must be, and what was not run is not claimed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from undrift_papers import jobs
from undrift_papers.data import Data
from undrift_papers.item import Item, reduced
from undrift_papers.learning_fair_runs import BEST, GRID, PAPERS, job_at, widened
from undrift_papers.learning_fair_words import fair_sentence, not_run
from undrift_papers.learning_table import Cell
from undrift_papers.registry import all_items
from undrift_papers.reproduce import reproduce
from undrift_papers.store import Store

ROOT = Path(__file__).parents[2]
CELL = Cell("mnist", 1, 10)


@pytest.mark.parametrize("best", GRID)
def test_a_search_ends_with_the_best_between_its_neighbours(best: float) -> None:
    tried: list[float] = []

    def score(eta: float) -> float:
        tried.append(eta)
        return -abs(GRID.index(eta) - GRID.index(best))

    found = widened(score, [0.03, 0.1, 0.3], GRID)
    assert found.best == best
    assert len(tried) == len(set(tried)), "no step is run twice"
    place = GRID.index(best)
    assert set(GRID[max(place - 1, 0) : place + 2]) <= set(tried)


def test_a_search_with_a_step_missing_has_no_best() -> None:
    found = widened(lambda eta: None if eta == 1.0 else eta, [0.1, 0.3], GRID)
    assert (found.best, found.missing) == (None, [1.0])
    assert found.scores == {0.1: 0.1, 0.3: 0.3}


def values_of(name: str) -> dict[str, object]:
    return {setting.key: setting.value for setting in all_items()[name].settings("paper")}


def test_the_runs_are_those_of_table_3_but_for_their_steps_and_rounds() -> None:
    values = values_of("ssl/fair-steps")
    grid, best, papers = (job_at(values, CELL, "FedAvg", 0.001, 1234, how) for how in ("grid", BEST, PAPERS))
    assert [(job.rounds, job.record_every) for job in (grid, best, papers)] == [(400, 12), (1000, 8), (1000, 8)]
    assert jobs.outcome(papers, ROOT / "reproduction" / "jobs") is not None, "a finer run of table 3 serves"
    assert jobs.outcome(grid, ROOT / "reproduction" / "jobs") is not None, "so does a longer one"
    clipped = job_at(values, Cell("mnist", 2, 10), "SSL", 0.1, 1234, "grid")
    assert (clipped.clip, grid.clip, clipped.method) == (10.0, None, "sequential_fl")
    cifar = job_at(values_of("ssl/cifar-small"), Cell("cifar10", 2, 5), "SSL", 0.1, 22, BEST)
    assert (cifar.model, cifar.rounds, cifar.images, cifar.steps) == ("lenet5", 1000, jobs.MOVED, 5)


def fabricated(fedavg: tuple[float, int], ssl: tuple[float, int], seeds: int = 3) -> Data:
    """One cell, searched and run: (accuracy, rounds to 75 %) at the best steps; at the paper's SSL is 40 points ahead."""
    key = {"data": ["mnist"] * 2, "classes": [1] * 2, "K": [10] * 2, "method": ["FedAvg", "SSL"]}
    ends: dict[str, list[object]] = {name: column * 2 for name, column in key.items()}
    ends |= {"steps": [BEST] * 2 + [PAPERS] * 2, "eta": [0.1, 0.03, 0.001, 0.01], "seeds": [seeds] * 4}
    ends |= {"rounds": [1000] * 4, "accuracy": [fedavg[0], ssl[0], 58.0, 98.0], "deviation": [0.3, 0.4, 5.0, 0.2]}
    ends |= {"to_30": [8] * 4, "to_75": [fedavg[1], ssl[1], -1, 40]}
    grid = {**key, "eta": [0.1, 0.03], "accuracy": [fedavg[0], ssl[0]]}
    searches = {**key, "best": [0.1, 0.03], "not_run": ["none"] * 2}
    return Data({"searches": searches, "grid": grid, "ends": ends}, [1234, 666, 22], values_of("ssl/fair-steps"))


def verdicts(data: Data) -> dict[str, bool]:
    claims = [claim for claim in all_items()["ssl/fair-steps"].claims if "paper" in claim.scales and claim.ready(data)]
    return {claim.sentence.partition("K = 10: ")[2]: claim.verdict(data)["holds"] for claim in claims}


AHEAD = "at fair steps SSL ends higher, by more than the spread over rounds and seeds"
LITTLE = "at fair steps SSL ends less than 5 points higher"
SOON = "at fair steps SSL reaches 75 % in at most half the rounds of FedAvg"


@pytest.mark.parametrize(
    ("fedavg", "ssl", "ahead", "little", "soon"),
    [
        ((97.0, 96), (98.5, 32), True, True, True),
        ((98.2, 96), (98.5, 32), False, True, True),
        ((90.0, 60), (98.5, 32), True, False, False),
        ((97.0, -1), (98.5, -1), True, True, False),
    ],
)
def test_claims_can_fail(
    fedavg: tuple[float, int], ssl: tuple[float, int], ahead: bool, little: bool, soon: bool
) -> None:
    found = verdicts(fabricated(fedavg, ssl))
    assert (found[AHEAD], found[LITTLE], found[SOON]) == (ahead, little, soon)
    assert found["at the paper's steps SSL ends at least 30 points higher"]
    assert not found["the best step of FedAvg is at most one place of the grid from the paper's"]
    assert found["the best step of SSL is at most one place of the grid from the paper's"]


def test_what_was_not_run_is_listed_and_not_claimed() -> None:
    data = fabricated((97.0, 96), (98.5, 32), seeds=2)
    assert AHEAD not in verdicts(data)
    assert not_run(data) == ["3 seeds at the best steps in MNIST, ExDir(1, 10), K = 10"]
    assert "one seed" in fair_sentence(data, CELL)
    assert fair_sentence(fabricated((97.0, 96), (98.5, 32)), CELL).endswith("SSL is +1.5 points ahead instead of 40.0.")
    assert fair_sentence(data, Cell("fmnist", 1, 10)).endswith("not run yet.")


def smaller(item: Item) -> Item:
    changes = {"model": "softmax_regression", "clients": 10, "clients per round": 5, "grid": [0.1, 0.3, 1.0], "seeds": [1234],
               "first steps": [0.3], "rounds, grid": 8, f"rounds, {BEST}": 12}  # fmt: skip
    kept = tuple(setting for setting in item.reduced if setting.key not in changes)
    return dataclasses.replace(item, reduced=(*kept, *(reduced(key, value) for key, value in changes.items())))


def test_a_reduced_item_from_jobs_to_the_page(tmp_path: Path) -> None:
    item, store = smaller(all_items()["ssl/fair-steps"]), Store(tmp_path)
    nothing = reproduce(item, store, "quick", train=False)
    assert (nothing.claims, jobs.archive(store.jobs).read()) == ([], {})
    assert any("Not run yet" in remark for remark in nothing.remarks)
    whole = reproduce(item, store, "quick", again=True)
    assert len(whole.claims) == 2
    assert not any("Not run yet" in remark for remark in whole.remarks)
    assert (whole.folder / "figure.png").stat().st_size > 0
    assert "Several seeds at the best step" in (whole.folder / "page.html").read_text()
    kept = reproduce(item, store, "quick", again=True, train=False)
    assert kept.claims == whole.claims, "finished runs are found without training"
