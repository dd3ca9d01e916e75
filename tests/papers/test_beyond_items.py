"""Past the papers: ensembles are what they are said to be, curves are judged rightly, claims can fail, the page is in step."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest

from undrift_papers import beyond_page
from undrift_papers.beyond_difference import ITEM as DIFFERENCE_ITEM
from undrift_papers.beyond_difference import VARIANTS as DIFFERENCE_VARIANTS
from undrift_papers.beyond_ef21 import promise
from undrift_papers.beyond_problems import COHORT, DIM, KAPPA, LONGEST, Case, case
from undrift_papers.beyond_runs import Ends, contracts, step_range, to_rounding
from undrift_papers.beyond_table import ALL, FRESH, KEPT, RULE, TABLE
from undrift_papers.data import Curves, Data
from undrift_papers.item import Item
from undrift_papers.registry import all_items
from undrift_papers.reproduce import reproduce
from undrift_papers.store import Store

ROOT = Path(__file__).parents[2]
BEYOND = [item for item in all_items().values() if item.paper == "beyond"]
OURS = ("table", "one-exchange", "difference", "models", "noise", "fedtrack", "ef21")
ROUNDS = np.arange(0, 1001, 5)


def linear(rate: float) -> np.ndarray:
    return np.maximum(rate**ROUNDS, 1e-30)


def floor(level: float) -> np.ndarray:
    return np.maximum(0.9**ROUNDS, level)


def nobody(kind: str, number: int) -> Case:
    """The name of a problem, without the problem."""
    return Case(kind, number, None, 1.0, 1.0, [], np.zeros(1))


def made_up(curves: dict[tuple[str, str], np.ndarray], steps: tuple[float, ...], setting: dict | None = None) -> Data:
    """Two problems of each kind whose runs are these curves, at every step."""
    ends, drawn = Ends(), Curves()
    costs = {"bytes": 8.0 * ROUNDS, "gradients": 5.0 * ROUNDS}
    for (kind, name), curve in curves.items():
        for number in (1000, 1001):
            ends.add(nobody(kind, number), name, steps, ROUNDS, [curve] * len(steps), costs)
            drawn.add(kind, name, curve[::8], seed=number, round=ROUNDS[::8])
    return Data({"ends": ends.table(), "curves": drawn.table()}, [1000, 1001], setting)


def test_every_item_is_there_and_has_all_it_asks_for():
    assert {f"beyond/{name}" for name in OURS} <= set(all_items())
    for item in BEYOND:
        for scale in ("quick", "paper"):
            assert len({setting.key for setting in item.settings(scale)}) == len(item.settings(scale))
            assert item.key(scale)


@pytest.mark.parametrize("number", [0, 1, 5])
def test_least_squares_have_the_curvature_they_are_said_to_have(number):
    one = case("quadratic", number)
    assert pytest.approx(1.0) == one.problem.constants.L
    assert one.problem.constants.mu == pytest.approx(1 / KAPPA["quadratic"][number % 3])
    assert min(one.steps) >= 1
    assert max(one.steps) <= LONGEST["quadratic"]
    weights = np.asarray(one.problem.weights)
    assert weights.sum() == pytest.approx(1)
    assert (np.ptp(weights) < 1e-12) == (number % 2 == 0)


def test_logistic_problems_have_their_condition_number():
    one = case("logistic", 1)
    assert one.problem.constants.kappa == pytest.approx(KAPPA["logistic"][1])
    assert pytest.approx(one.problem.constants.L) == one.L


def test_networks_are_not_convex():
    one = case("network", 0)
    assert np.linalg.eigvalsh(one.problem.hessians(one.x0)).min() < -0.1
    assert np.linalg.eigvalsh(one.problem.hessians(one.x0)).max() <= one.L


@pytest.mark.parametrize("kind", ["quadratic", "logistic"])
def test_problems_of_a_kind_share_their_shapes(kind):
    shapes = {str(jax.tree.map(np.shape, case(kind, number).problem.stack)) for number in (0, 1, 2)}
    assert len(shapes) == 1
    assert case(kind, 0).problem.dim == DIM > COHORT


@pytest.mark.parametrize(
    ("curve", "falls", "ends"),
    [
        (linear(0.9), True, True),
        (linear(0.99), True, False),  # slow, but a line
        (floor(1e-3), False, False),
        (floor(1e-28), True, True),
        (1.001**ROUNDS, False, False),
        (np.full(len(ROUNDS), np.inf), False, False),
    ],
)
def test_curves_are_judged_by_what_they_do(curve, falls, ends):
    curve = np.concatenate([[1.0], curve[1:]])
    table = made_up({("quadratic", "x"): curve}, (1.0,))["ends"]
    assert contracts(table).tolist() == [falls] * 2
    assert to_rounding(table).tolist() == [ends] * 2


def test_gaps_in_the_range_of_steps_are_shown():
    ends = Ends()
    curves = [linear(0.9), floor(1e-2), linear(0.9), linear(0.9)]
    costs = {"bytes": ROUNDS, "gradients": ROUNDS}
    ends.add(nobody("quadratic", 1000), "x", (0.1, 0.2, 0.5, 1.0), ROUNDS, curves, costs)
    assert step_range(Data({"ends": ends.table()}), "quadratic", "x") == "0.1, 0.5 to 1"


def table_data(good: np.ndarray, paper: np.ndarray) -> Data:
    kinds = ("quadratic", "logistic", "network")
    curves = {(kind, name): good for kind in kinds for name in (FRESH, KEPT, ALL)}
    return made_up(curves | {(kind, RULE): paper for kind in kinds}, (0.05, 0.2, 0.5, 1.0, 2.0))


def test_claims_of_the_table_hold_if_it_works_and_fail_if_it_does_not():
    works = [claim.verdict(table_data(linear(0.9), floor(1e-2))) for claim in TABLE.claims]
    assert [verdict["sentence"] for verdict in works if not verdict["holds"]] == []
    stops = [claim.verdict(table_data(floor(1e-2), linear(0.9))) for claim in TABLE.claims]
    assert [verdict["holds"] for verdict in stops[:6]] == [False] * 6
    assert stops[3]["explanation"]


def test_claims_of_differences_fail_if_they_have_a_floor():
    curves = {
        (kind, name): floor(1e-3) for kind in ("quadratic", "logistic", "network") for name in DIFFERENCE_VARIANTS
    }
    verdicts = [claim.verdict(made_up(curves, (0.2, 0.5, 1.0))) for claim in DIFFERENCE_ITEM.claims]
    failed = [verdict["sentence"] for verdict in verdicts if not verdict["holds"]]
    assert len(failed) == len(verdicts) - 2, failed  # error feedback stops, with everyone and with a few: those hold


def test_the_promise_of_ef21_is_the_librarys_or_sharper():
    import undrift as ud

    one = case("quadratic", 4)
    promised = promise(one)
    bound = ud.theory.ef21.pl(ud.theory.constants(one.problem), delta=DIM / 2)
    assert promised.rate <= bound.rate + 1e-12  # with L of f, and L̃ for the largest L_i
    assert promised.gamma >= bound.numbers["eta"] - 1e-12


@pytest.mark.slow
@pytest.mark.computes
def test_the_table_in_small(tmp_path):
    store = Store(tmp_path)
    made = reproduce(TABLE, store, "quick")
    assert made.scale == "quick"
    assert [claim["sentence"] for claim in made.claims if not claim["holds"]] == []
    for file in ("figure.png", "figure.svg", "page.html"):
        assert (made.folder / file).stat().st_size > 0, file


def stored() -> list[Item]:
    store = Store(ROOT / "reproduction")
    return [item for item in BEYOND if store.archive(item, "paper").path.exists()]


@pytest.mark.parametrize("item", stored(), ids=lambda item: item.name)
def test_what_is_stored_was_made_from_the_items_and_stands_on_the_page(item):
    store, page = Store(ROOT / "reproduction"), (ROOT / "docs" / "beyond.md").read_text()
    assert store.result(item, "paper") is not None, "the setting has changed since: run it again"
    if item.name.removeprefix("beyond/") not in OURS:
        return
    data = store.load(item, "paper")
    for claim in item.claims:
        verdict = claim.verdict(data)
        assert verdict["measured"] in page, f"{beyond_page.__name__} puts it there"
