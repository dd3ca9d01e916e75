"""SSL's theory on quadratics, the FedAvg paper's lemmas and its published toy: what their claims rest on, piece by piece."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import undrift as ud
from undrift_papers import fedavg_lemmas, ssl_moments
from undrift_papers.data import Data
from undrift_papers.fedavg_published import SLOPES, buffered, play
from undrift_papers.fedavg_tau import differences
from undrift_papers.fedavg_toy import toy
from undrift_papers.fedavg_toy_runs import pair, problem
from undrift_papers.item import Item, Work
from undrift_papers.registry import all_items
from undrift_papers.report import write_report
from undrift_papers.reproduce import reproduce
from undrift_papers.ssl import THIRDS, group
from undrift_papers.ssl_local_steps import enough
from undrift_papers.ssl_moments import FEDAVG, ONE_ORDER, SGD, SSL, Pairs, gaps
from undrift_papers.ssl_rounds import CELLS, _printed
from undrift_papers.ssl_settings import METHODS
from undrift_papers.ssl_table1 import least_bound
from undrift_papers.store import Store

GROUP_4 = Pairs((4 / 3, 2 / 3), 1.0)
DIFFERS = {  # what the papers say and the data do not, of the items that train nothing
    "ssl/local-steps": ["enough local steps grow", "on figure 4's grid"],
    "ssl/table1": [
        "without noise SSL's guarantee", "with noise SSL's guarantee", "without noise SSL's error", "with noise both are",
    ],
    "fedavg/toy": ["D is the paper's 2"],
    "fedavg/lemma2.2": ["Lemma 2.2 holds as printed"],
    "fedavg/lemma2.3": [],
}  # fmt: skip


def decide(name: str, sentence: str, data: Data) -> Any:
    (claim,) = [claim for claim in all_items()[name].claims if claim.sentence.startswith(sentence)]
    return claim.decide(data)


# ----- expectations without runs
def test_expected_gaps_are_those_of_runs_where_nothing_is_random() -> None:
    clients = group(4)
    for method, name in ((FEDAVG, "fedavg"), (ONE_ORDER, "sequential_fl")):
        expected = gaps(method, GROUP_4, 7, np.array([0.05]), 10.0, [0, 1, 2, 5])[:, 0]
        if method == FEDAVG:
            run = ud.run(getattr(ud, name)(eta=0.05), clients, rounds=5, steps=7, x0=np.array([10.0]))
            assert np.allclose(0.5 * run.history["sq_distance"][[0, 1, 2, 5]], expected, rtol=1e-9)
        else:
            assert np.allclose(_in_order([(0, 1)] * 5, 0.05, 7)[[0, 1, 2, 5]], expected, rtol=1e-9)


def _in_order(orders: list[tuple[int, int]], eta: float, K: int, start: float = 10.0) -> np.ndarray:
    x, found = start, [0.5 * start**2]
    for order in orders:
        for m in order:
            a, c = GROUP_4.curvatures[m], GROUP_4.slopes[m]
            for _ in range(K):
                x -= eta * (a * x + c)
        found.append(0.5 * x**2)
    return np.array(found)


def test_expected_gap_of_a_random_order_is_the_mean_over_all_orders() -> None:
    rounds = itertools.product([(0, 1), (1, 0)], repeat=3)
    mean = np.mean([_in_order(list(orders), 0.1, 4) for orders in rounds], axis=0)
    assert np.allclose(gaps(SSL, GROUP_4, 4, np.array([0.1]), 10.0, [0, 1, 2, 3])[:, 0], mean, rtol=1e-10)


@pytest.mark.slow
def test_expected_gaps_with_noise_agree_with_many_runs() -> None:
    noisy = GROUP_4._replace(sigma=2.0)
    found = ud.sweep(ud.sequential_fl, group(4), grid={"eta": [0.05]}, seeds=list(range(400)), rounds=40, steps=3,
                     x0=np.array([10.0]), oracle=ud.oracles.noisy(4.0))  # fmt: skip
    measured = 0.5 * found.history["sq_distance"][0, :, 20:].mean()
    expected = gaps(SSL, noisy, 3, np.array([0.05]), 10.0, list(range(41)))[20:, 0].mean()
    assert measured == pytest.approx(expected, rel=0.15)  # about six standard errors


def test_many_local_steps_are_summed_in_closed_form() -> None:
    one, many = (gaps(SSL, GROUP_4, K, np.array([0.3]), 10.0, [1])[0, 0] for K in (200, 2**20))
    assert one == pytest.approx(many, rel=1e-9), "both end at the last client's optimum"
    assert gaps(FEDAVG, GROUP_4, 1, np.array([0.3]), 4.0, [3]) == pytest.approx(
        gaps(SGD, GROUP_4, 1, np.array([0.3]), 4.0, [3])
    )


def test_random_orders_leave_less_than_one_order_and_the_bound_is_above() -> None:
    after = [100, 400]
    random, fixed = (ssl_moments.best(method, GROUP_4, 10, 10.0, after) for method in (SSL, ONE_ORDER))
    slopes = [ssl_moments.exponent(np.array(after, float), values) for values in (random, fixed)]
    assert slopes[0] < -2.4 < slopes[1] < -1.5
    assert np.all(least_bound(SSL, GROUP_4, 10, 10.0, after) > random)


# ----- claims can fail
def test_the_claim_on_thirds_needs_a_difference() -> None:
    rows = {"group": [4, 4], "series": ["FedAvg", "SSL"], "eta": [0.1, 0.1], THIRDS: [2.0, 1.0]}
    moved = {"0.67 and 0.33": [2.04, 1.0], "0.67 and 0.33, best step": [2.04, 1.0]}
    assert decide("ssl/fig4", "0.67 and 0.33", Data({"thirds": {**rows, **moved}})).holds
    same = {"0.67 and 0.33": [2.0, 1.0], "0.67 and 0.33, best step": [2.0, 1.0]}
    assert not decide("ssl/fig4", "0.67 and 0.33", Data({"thirds": {**rows, **same}})).holds


def test_enough_local_steps_are_read_off_where_noise_no_longer_leads() -> None:
    K = [1, 2, 4, 8, 16, 32]
    rows = {"zeta": [1.0] * 6, "K": K, "R": [100] * 6, "gap": [1 / k + 0.1 for k in K], "without noise": [0.1] * 6}
    assert 8 < enough(Data({"tuned": rows}), 1.0, 100) < 16
    assert enough(Data({"tuned": {**rows, "without noise": [1e-9] * 6}}), 1.0, 100) == float("inf")


def _cells(rounds: dict[Any, int]) -> Data:
    keys = [(cell, method) for cell in CELLS for method in METHODS]
    columns: dict[str, list[Any]] = {
        "data": [c.data for c, _ in keys], "variant": [c.variant for c, _ in keys], "classes": [c.classes for c, _ in keys],
        "K": [c.steps for c, _ in keys], "method": [m for _, m in keys], "rounds": [400 for _ in keys],
        "rounds_to": [rounds.get((c.data, c.classes, c.steps, m), _printed(c, m)) for c, m in keys],
    }  # fmt: skip
    return Data({"cells": columns}, setting={"evaluated every": 4})


def test_rounds_to_target_are_compared_cell_by_cell() -> None:
    as_printed = _cells({})
    assert decide("ssl/rounds", "in every cell", as_printed).margin > 1
    other = decide("ssl/rounds", "in every cell", _cells({("mnist", 2, 10, "SSL"): 30}))
    assert not other.holds
    assert "MNIST, ExDir(2, 10), K = 10" in other.explanation
    assert not decide("ssl/rounds", "SSL needs", _cells({("mnist", 2, 10, "SSL"): 30})).holds
    assert not decide("ssl/rounds", "twice the local steps", as_printed).holds, "19 to 25 in the paper"


# ----- the FedAvg paper
def test_a_shuffle_buffer_uses_every_sample_and_begins_with_more_of_the_first_class() -> None:
    rng = np.random.default_rng(1)
    found = buffered(100, 20, rng)
    assert np.all(np.bincount(found.ravel(), minlength=100) == 20)
    assert len(np.unique(found[0])) < 100, "a batch has some samples twice"
    share = np.mean([(buffered(100, 2, rng)[0] < 50).mean() for _ in range(200)])
    assert 0.53 < share < 0.65


def test_the_published_toy_played_in_numpy_is_the_run_of_the_library() -> None:
    data = toy(20, 0.25, 0)
    run = ud.run(ud.fedavg(eta=0.2), problem(data), rounds=4, steps=10, x0=np.array([2.0]), participation=pair(20, 0),
                 keep_iterates=True)  # fmt: skip
    b = np.asarray(run.iterates)[:, 0]
    mine, apart = play(data, 10, 0.2, 2.0, 4, seed=0)
    assert np.allclose(mine, b, rtol=1e-6)
    assert np.allclose(apart, differences(data, mine, pair(20, 0).function, 0.2, 10), atol=1e-9)


def test_slope_and_start_decide_the_first_loss_and_smoothness() -> None:
    (ones, last), at = (toy(20, 0.25, 0, slope) for slope in SLOPES.values()), np.array([2.0])
    gap = [float(data.loss(at)[0] - data.loss(np.array([data.optimum()]))[0]) for data in (ones, last)]
    assert gap[0] == pytest.approx(0.755, rel=0.01)
    assert gap[1] > 0.85
    assert ones.smoothness() > 1.3 * last.smoothness()
    assert ones.dissimilarity() >= max(np.abs(g - g.mean()).max() for g in map(ones.gradients, (-3.0, -1.0, 0.0)))


def test_lemma_2_2_needs_its_L() -> None:
    """F_1 = a x² + a x, F_2 = −a x from x* = 0: the iterates do not depend on a, and all but the drift is ∝ a."""
    found = {}
    for a in (0.1, 1000.0):
        clients = fedavg_lemmas.quadratics(np.array([[[2 * a]], [[0.0]]]), np.array([[-a], [a]]))
        found[a], _ = fedavg_lemmas.sides(clients, clients.best, 1 / (4 * clients.L), 10)
    assert all(sides["left"] < sides["right, L"] for sides in found.values())
    assert found[0.1]["left"] < found[0.1]["right, 1"]
    assert found[1000.0]["left"] > found[1000.0]["right, 1"]


def test_drift_of_linear_clients_is_an_eighteenth_of_lemma_2_3() -> None:
    """Two almost linear clients of slopes ±ζ: after τ steps each is τηζ from their mean."""
    clients = fedavg_lemmas.logistic(np.array([[60.0], [-60.0]]), np.array([[0.0], [1.0]]), 1.0)
    found, _ = fedavg_lemmas.sides(clients, np.array([0.0]), 0.1, 10)
    assert found["drift / (τηζ)²"] == pytest.approx(1.0, rel=1e-6)


# ----- whole items
def test_items_run_and_say_where_they_differ(tmp_path: Path) -> None:
    _differs("ssl/local-steps", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in DIFFERS if name != "ssl/local-steps"])
def test_long_items_run_and_say_where_they_differ(name: str, tmp_path: Path) -> None:
    _differs(name, tmp_path)


def _differs(name: str, folder: Path) -> None:
    made = reproduce(all_items()[name], Store(folder), "quick")
    failed = [claim for claim in made.claims if not claim["holds"]]
    assert len(failed) == len(DIFFERS[name])
    for claim, begins in zip(failed, DIFFERS[name], strict=True):
        assert claim["sentence"].startswith(begins)
        assert claim["explanation"]
    assert (made.folder / "figure.png").stat().st_size > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ssl/eq12", "ssl/rounds"])
def test_reduced_items_run(name: str, tmp_path: Path) -> None:
    made = reproduce(all_items()[name], Store(tmp_path), "quick")
    assert made.scale == "quick"
    assert [claim["sentence"] for claim in made.claims if not claim["holds"]] == []


# ----- what the full scale is called
def test_an_item_on_other_data_is_not_called_the_papers_size(tmp_path: Path) -> None:
    fig4 = all_items()["fedavg/fig4"]
    assert fig4.full
    assert "paper’s" not in fig4.full
    item = Item("fedavg/small", "small", (), lambda work: Data({"t": {"x": [1]}}), _nothing_drawn, (), full="on stand-in data",
                page_figures=lambda data: [])  # fmt: skip
    store = Store(tmp_path / "results")
    made = reproduce(item, store, "paper")
    assert "on stand-in data" in (made.folder / "page.html").read_text(encoding="utf-8")
    page = write_report(tmp_path / "page.md", store, [item]).read_text(encoding="utf-8")
    assert "on stand-in data" in page
    assert "| the paper’s |" not in page


def _nothing_drawn(data: Data) -> Any:
    from undrift_papers.draw import panels

    return panels(1, 1)[0]


def test_work_knows_no_setting_that_is_not_said(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="setting"):
        Work(all_items()["ssl/table1"], "quick", tmp_path)["nothing"]
