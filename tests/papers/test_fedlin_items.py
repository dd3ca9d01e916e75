"""FedLin's table, bounds and findings, and FedTrack's costs: what they compute is right, and their claims can fail."""

from __future__ import annotations

import math

import numpy as np
import pytest

import undrift as ud
from everyday import only
from undrift.theory import stability
from undrift_papers import fedlin_distortion, fedlin_fedsplit, fedlin_lower, fedlin_memory, fedlin_price
from undrift_papers import fedlin_fixed_point as fixed_point
from undrift_papers import fedlin_logistic as logistic
from undrift_papers import fedlin_table as table
from undrift_papers import fedtrack_cost as cost
from undrift_papers.data import Curves, Data
from undrift_papers.fedlin_quadratic import spectral_radius
from undrift_papers.item import Item
from undrift_papers.lines import Lines, names, page_lines, points
from undrift_papers.registry import all_items
from undrift_papers.reproduce import reproduce
from undrift_papers.store import Store

FAST = ("fedlin/thm5",)
SLOW = ("fedlin/prop1", "fedlin/appendixJ", "fedlin/table1", "fedlin/eq9", "fedlin/thm7", "fedlin/fixed-point")
DRAWN = ("fedtrack/cost",)  # medians over draws, of which quick scale has too few to decide as the paper's scale does
REFUTED = {
    "fedlin/table1": {"that of SCAFFOLD does not"},
    "fedlin/thm5": {
        "for even H every stable step is below 1/H",
        "for even H ‖x_T‖² ≥ exp(−4T)‖x_0‖² at every stable step",
    },
    "fedlin/thm7": {
        "for some δ up to 100 Theorem 7 promises fewer rounds to 1e-6 than Theorem 6",
        "at the theorems' own steps runs with memory take fewer rounds, for every δ",
        "with each at its best step memory takes fewer rounds, for every δ",
    },
}


def verdicts(item: Item, data: Data) -> dict[str, bool]:
    """Sentence -> whether it holds on these data."""
    return {claim.sentence: claim.verdict(data)["holds"] for claim in item.claims}


def test_all_are_there_and_have_all_they_ask_for():
    for name in (*FAST, *SLOW, *DRAWN):
        item = all_items()[name]
        for scale in ("quick", "paper"):
            assert len({setting.key for setting in item.settings(scale)}) == len(item.settings(scale))


@pytest.mark.computes
@pytest.mark.parametrize("name", only([*FAST, *SLOW], FAST))
def test_decided_as_they_should_at_quick_scale(name, tmp_path):
    made = reproduce(all_items()[name], Store(tmp_path), "quick")
    assert made.scale == "quick"
    assert {claim["sentence"] for claim in made.claims if not claim["holds"]} == REFUTED.get(name, set())
    for file in ("figure.png", "page.html"):
        assert (made.folder / file).stat().st_size > 0


# ---------------------------------------------------------------- appendix J
@pytest.mark.parametrize("kappa", [500.0, 2000.0, 50000.0])
def test_fedsplit_diverges_as_far_as_derived(kappa):
    """κ that the item does not have."""
    limit = fedlin_fedsplit.expected_reach(kappa)
    assert abs(fedlin_fedsplit.reach(kappa, 1, int(2 * limit)) - limit) <= 2
    assert fedlin_fedsplit.reach(kappa, 0, int(2 * limit)) == 0


@pytest.mark.parametrize("e", [1, 2, 7, 40, 41])
def test_radius_of_fedsplit_in_closed_form(e):
    q = (math.sqrt(700.0) - 1) / (math.sqrt(700.0) + 1)
    sign = -1 if e % 2 == 0 else 1
    expected = math.sqrt(abs((q + sign * (1 + q) * q**e) * (q + (1 - q) * q**e)))
    assert spectral_radius(700.0, 1.0, e) == pytest.approx(expected, rel=1e-9)


# ---------------------------------------------------------------- Theorem 5
@pytest.mark.parametrize(("L", "H"), [(14.0, 10), (14.0, 20), (30.0, 21)])
def test_stable_steps_are_those_of_the_round_map(L, H):
    found = fedlin_lower.stable_steps(H, L)
    assert stability.largest_stable_eta(stability.theorem5_instance(L), H) / H == pytest.approx(found.end, rel=1e-6)
    assert (found.again is None) == (H % 2 == 1)
    inside = [0.99 * found.end, *([] if found.again is None else [np.mean(found.again)])]
    outside = [1.01 * found.end, *([] if found.again is None else [0.999 * found.again[0], 1.001 * found.again[1]])]
    assert np.all(fedlin_lower.radius(np.array(inside), H, L) < 1)
    assert np.all(fedlin_lower.radius(np.array(outside), H, L) > 1)


def test_two_local_steps_have_one_interval():
    assert fedlin_lower.stable_steps(2, 14.0).again is None


# ---------------------------------------------------------------- Theorem 7 against 6
def test_guarantees_are_those_of_the_theorems():
    front, rate = fedlin_memory.guarantee(True, 4.0, 10.0)
    assert (front, rate) == (pytest.approx(20.0), pytest.approx(1 - 1 / 3840))
    front, rate = fedlin_memory.guarantee(False, 4.0, 10.0)
    assert (front, rate) == (pytest.approx(1.0), pytest.approx(1 - 1 / 320))


def test_memory_pays_in_the_guarantee_only_for_huge_delta():
    pays = fedlin_memory.first_delta_that_pays(10.0)
    expected = (48 * math.log(2e7) / math.log(1e6) - 2) ** 2  # 96 δ ln(2κ·1e6) = 2δ(2 + √δ) ln(1e6), to leading order
    assert pays == pytest.approx(expected, rel=0.01)


def memory_data(without: float, with_: float) -> Data:
    """Two δ, one seed, two steps; rounds at the theorems' steps are twice those of the grid."""
    deltas, etas = [2, 8], [0.1, 0.5]
    rounds = {"False": without, "True": with_}
    cases = [(memory, d, eta) for memory in rounds for d in deltas for eta in etas]
    grid = {
        "memory": [memory for memory, _, _ in cases],
        "delta": [d for _, d, _ in cases],
        "seed": [0] * len(cases),
        "eta": [eta for _, _, eta in cases],
        "rounds": [rounds[memory] * d / eta for memory, d, eta in cases],
    }
    own = {name: column[::2] for name, column in grid.items() if name != "eta"} | {"bound holds": ["True"] * 4}
    setting = {"kappa": 10.0, "d of the paper": 100, "delta": deltas, "eta": etas, "rounds": 10**6}
    return Data({"own": own, "grid": grid}, [0], setting)


def test_claims_on_memory_can_go_either_way():
    better, worse = (verdicts(fedlin_memory.THM7, memory_data(*rounds)) for rounds in ((100.0, 10.0), (10.0, 100.0)))
    for sentence in (
        "at the theorems' own steps runs with memory take fewer rounds, for every δ",
        "at the same small step memory saves a factor √δ of the rounds or more, for every δ",
        "with each at its best step memory takes fewer rounds, for every δ",
    ):
        assert better[sentence]
        assert not worse[sentence]


# ---------------------------------------------------------------- eq. (9)
def test_one_local_step_is_one_step_of_gradient_descent():
    problem = stability.theorem5_instance(14.0)
    radius = ud.theory.round_map.fedlin(problem, fedlin_price.best_step(problem, 1), 1).spectral_radius
    assert radius == pytest.approx(fedlin_price.descent_rate(problem), rel=0.01)


def test_equal_clients_lose_nothing():
    problem = fedlin_price.equal_clients(stability.theorem5_instance(14.0))
    eta = fedlin_price.step_of_descent(problem, 5)
    radius = ud.theory.round_map.fedlin(problem, eta, 5).spectral_radius
    assert radius == pytest.approx(fedlin_price.descent_rate(problem) ** 5, rel=1e-9)


# ---------------------------------------------------------------- fixed points
def fixed_point_data(**far: float) -> Data:
    curves = Curves()
    for name in (fixed_point.LIN, fixed_point.UNEQUAL, fixed_point.TRACK, *fixed_point.SCAFFOLD.values()):
        curves.add(fixed_point.PANEL, name, [0.0, far.get(name.split(",")[0], 0.0), 0.0])
    rows = {
        "problem": [0],
        "option": [2],
        "rounds from x*": [2.0],
        "rounds from 0": [9.0],
        "moved with its own memory": [0.0],
    }
    return Data({"curves": curves.table(), "scaffold": rows}, [0], {"near": 1e-6})


def test_a_fixed_point_is_one_and_not_the_other():
    leaves = next(c.sentence for c in fixed_point.FIXED.claims if "leaves" in c.sentence)
    stays = next(c.sentence for c in fixed_point.FIXED.claims if "FedLin stays" in c.sentence)
    right, wrong = fixed_point_data(SCAFFOLD=0.1), fixed_point_data(FedLin=0.1)
    assert verdicts(fixed_point.FIXED, right)[leaves]
    assert verdicts(fixed_point.FIXED, right)[stays]
    assert not verdicts(fixed_point.FIXED, wrong)[leaves]
    assert not verdicts(fixed_point.FIXED, wrong)[stays]


# ---------------------------------------------------------------- figure 6
def logistic_data(unstable: int) -> Data:
    """Four draws, of which some stay where they start."""
    curves, t = Curves(), np.arange(251)
    for name in (logistic.NONE, "TOP-50"):
        for seed in range(4):
            curves.add(logistic.PANEL, name, np.ones(251) if seed < unstable else 0.9**t, seed=seed)
    factor = [1.05 if seed < unstable else 0.95 for seed in range(4)]
    stability_table = {"data": range(4), "draw": range(4), "factor": factor, "factor at the smaller step": [0.9] * 4}
    return Data({"curves": curves.table(), "stability": stability_table}, range(4))


def test_one_draw_that_does_not_converge_refutes_always():
    always, half = (claim.sentence for claim in logistic.FIG6.claims[:2])
    assert all(verdicts(logistic.FIG6, logistic_data(0)).values())
    one, most = (verdicts(logistic.FIG6, logistic_data(n)) for n in (1, 3))
    assert not one[always]
    assert one[half]
    assert not most[half]


# ---------------------------------------------------------------- figure 4
def test_the_printed_step_is_judged_by_the_grid():
    from undrift_papers.fedlin_regression import FIG4

    sentence = "1e-3 is the best step of the grid for SCAFFOLD"
    claim = next(c for c in FIG4.claims if c.sentence == sentence)
    for needed, holds in (([30.0, 20.0], True), ([20.0, np.inf], False)):
        steps = {"seed": [0, 0], "method": ["SCAFFOLD"] * 2, "step": [1e-4, 1e-3], "rounds to 1e-20": needed}
        assert claim.verdict(Data({"steps": steps}, [0], {"eta": 1e-3, "rounds": 250}))["holds"] is holds


# ---------------------------------------------------------------- FedTrack's cost
def cost_data(lin: list[float], track: list[float]) -> Data:
    rows = [
        (0, H, name, step, 0.1, 10.0, gradients[at])
        for step in (cost.THEOREM, cost.BEST)
        for name, gradients in ((cost.LIN, lin), (cost.TRACK, track))
        for at, H in enumerate((1, 5, 40))
    ]
    columns = ("seed", "H", "method", "step", "eta", "rounds", "gradients")
    return Data({"costs": dict(zip(columns, zip(*rows, strict=True), strict=True))}, [0], {"H": [1, 5, 40]})


def test_fedtrack_is_not_cheaper_by_counting_alone():
    cheap = verdicts(cost.COST, cost_data([100.0, 500.0, 4000.0], [100.0, 90.0, 300.0]))
    dear = verdicts(cost.COST, cost_data([100.0, 500.0, 4000.0], [100.0, 600.0, 5000.0]))
    assert all(cheap.values())
    assert not any(dear.values())


def test_cost_of_a_round_is_that_of_the_paper():
    from undrift_papers.fedtrack import least_squares_of

    problem = least_squares_of(0, 3, 6, 2).problem
    for name, a_round in ((cost.LIN, 4 * 6), (cost.TRACK, 6 + 4 - 1)):
        rounds, gradients = cost.spent(name, problem, 4, 0.5 / problem.constants.L, 400)
        assert math.isfinite(rounds)
        assert gradients == pytest.approx(rounds * a_round, abs=6 + a_round)


# ---------------------------------------------------------------- table 1, Propositions 1 and 2, lines
def table_data(end_of_fedsplit: float) -> Data:
    runs = [
        (
            0,
            name,
            plan,
            end_of_fedsplit if name == table.SPLIT else (1e-3 if name in table.BIASED else 1e-25),
            1.0,
            0.999,
            "True",
        )
        for name in table.ROWS
        for plan in (table.EQUAL, table.UNEQUAL)
    ]
    limits = [
        (0, name, eta, eta if name in table.BIASED else 0.0) for name in table.BOTH_STEPS[:-1] for eta in (1e-3, 0.5)
    ]
    columns = ("problem", "method", "steps", "end", "last quarter", "straight", "bound holds")
    return Data(
        {
            "runs": dict(zip(columns, zip(*runs, strict=True), strict=True)),
            "limits": dict(zip(("problem", "method", "eta", "distance"), zip(*limits, strict=True), strict=True)),
        },
        [0],
    )


def test_a_method_that_reaches_the_minimiser_refutes_its_cross():
    crosses = table.TABLE1.claims[0].sentence
    assert verdicts(table.TABLE1, table_data(1e-4))[crosses]
    assert not verdicts(table.TABLE1, table_data(1e-30))[crosses]


def test_distortion_that_falls_is_seen():
    sentence = fedlin_distortion.PROP1.claims[0].sentence
    claim = fedlin_distortion.PROP1.claims[0]
    for values, holds in (([0.1, 0.2, 0.2], True), ([0.1, 0.3, 0.2], False)):
        lines = Lines()
        lines.add(fedlin_distortion.PROX, [0.01, 0.1, 1.0], values)
        verdict = claim.verdict(Data({"lines": lines.table()}))
        assert (verdict["sentence"], verdict["holds"]) == (sentence, holds)


def test_lines_reach_the_page():
    lines = Lines()
    lines.add("bound", [1, 2], [2.0, 1.0], kind="bound")
    lines.add("run", [1, 2], [1.0, np.inf])
    data = Data.from_files(Data({"lines": lines.table()}).files(), (), {})
    assert names(data) == ["bound", "run"]
    assert points(data, "run")[1][0] == 1.0
    (figure,) = page_lines(data, "title", "H", "rounds")
    assert [one["y"] for one in figure["series"]] == [[2.0, 1.0], [1.0, None]]
