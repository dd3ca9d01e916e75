"""Certificates: their rounds are the methods', their rates tight, their inequalities exact, and nothing beats them."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from certificate_worlds import hostile, play, quadratic

import undrift as ud
from undrift.errors import InputError
from undrift.theory.certificates import exact, solver, table
from undrift.theory.certificates.certify import rates_of
from undrift.theory.certificates.closed_form import quadratic_rate

WEIGHTS = (0.25, 0.75)
A = [np.diag([1.0, 0.3]), np.array([[0.6, 0.2], [0.2, 0.5]])]
START = np.array([1.0, -2.0])


def centred_problem() -> Any:
    """Quadratics whose minima all lie at zero, and hence x*."""
    return ud.problems.quadratic(np.array(A), np.zeros((2, 2)), weights=WEIGHTS)


def simulated(method: Any, steps: Any, rounds: int = 1, problem: Any = None) -> np.ndarray:
    return np.asarray(ud.run(method, problem or centred_problem(), rounds=rounds, steps=steps, x0=START).x)


LOSSES = [[quadratic(one)] for one in A]
ZERO = [np.zeros(2), np.zeros(2)]


@pytest.mark.parametrize(
    ("name", "method", "eta", "settings"),
    [
        ("fedsgd", ud.fedsgd(eta=0.4), 0.4, {}),
        ("fedavg", ud.fedavg(eta=0.4), 0.4, {}),
        ("fedprox", ud.fedprox(eta=0.4, beta=0.2), 0.4, {"beta": 0.2}),
        ("fedlin", ud.fedlin(eta=0.8), 0.8, {}),
        ("fedlin", ud.fedlin(eta=0.8, down=ud.top_k(1, memory=False)), 0.8, {"down": 2}),
    ],
)
def test_rounds_without_memory_are_those_of_the_simulation(name: str, method: Any, eta: float, settings: Any) -> None:
    # What is compressed is the second g that is sent, so that compression shows in the second round only.
    rounds = 2 if settings.get("down") else 1
    x = START
    for number in range(rounds):
        told = {**settings, "down": None} if number == 0 and "down" in settings else settings
        x = play(name, LOSSES, [3, 5], WEIGHTS, eta, [x], **told).x_after
    np.testing.assert_allclose(x, simulated(method, [3, 5], rounds), rtol=1e-12)


def test_fedtrack_is_that_of_the_simulation() -> None:
    # Components ½a_j(x_j)² with one sample each: f_i is their mean.
    rows = np.array([[[1.0, 0.5], [0.2, -1.0]], [[0.3, 0.7], [1.0, 0.1]]])
    problem = ud.problems.least_squares(rows, np.zeros((2, 2)), weights=WEIGHTS)
    scale = float(problem.constants.L) / max(
        np.linalg.norm(np.mean([np.outer(a, a) for a in own], axis=0), 2) for own in rows
    )
    losses = [[quadratic(scale * np.outer(a, a)) for a in own] for own in rows]
    played = play("fedtrack", losses, [3, 5], WEIGHTS, 0.1, [START])
    np.testing.assert_allclose(played.x_after, simulated(ud.fedtrack(eta=0.1), [3, 5], 1, problem), rtol=1e-10)


@pytest.mark.parametrize("option", [1, 2])
def test_scaffold_is_that_of_the_simulation(option: int) -> None:
    x, c = START, ZERO
    for _ in range(3):
        after = play("scaffold", LOSSES, [3, 5], WEIGHTS, 0.2, [x, c], option=option, server_eta=0.9).after[0][1]
        x, c = after[0][0], [state[1] for state in after]
    method = ud.scaffold(eta=0.2, option=option, server_eta=0.9)
    np.testing.assert_allclose(x, simulated(method, [3, 5], 3), rtol=1e-12)


def test_scaffnew_is_that_of_the_simulation() -> None:
    result = ud.run(ud.scaffnew(eta=0.4, p=0.5), centred_problem(), rounds=4, x0=START, seed=3)
    y, h = [START, START], ZERO
    for tosses in _tosses(result):
        for toss in range(tosses):
            (_, tails), (_, heads) = play("scaffnew", LOSSES, [1, 1], WEIGHTS, 0.4, [y, h], p=0.5).after
            states = heads if toss == tosses - 1 else tails
            y, h = [state[0] for state in states], [state[1] for state in states]
    np.testing.assert_allclose(y[0], result.x, rtol=1e-10)


def _tosses(result: Any) -> list[int]:
    """τ of every round, from what the clients' gradients counted."""
    counts = np.diff(np.asarray(result.history["gradients"], float))
    return [round(count / 2) for count in counts]


def test_fedsplit_is_that_of_the_simulation() -> None:
    exact_z, inner_z = [START, START], [START, START]
    for _ in range(3):
        exact_z = [s[0] for s in play("fedsplit", LOSSES, [1, 1], WEIGHTS, 1.5, [exact_z]).after[0][1]]
        inner_z = [
            s[0]
            for s in play("fedsplit", LOSSES, [1, 1], WEIGHTS, 1.5, [inner_z], inner_steps=4, inner_eta=0.5).after[0][1]
        ]
    means = [sum(w * z for w, z in zip(WEIGHTS, own, strict=True)) for own in (exact_z, inner_z)]
    methods = [ud.fedsplit(s=1.5), ud.fedsplit(s=1.5, inner_steps=4, inner_eta=0.5, start="model")]
    for mean, method in zip(means, methods, strict=True):
        np.testing.assert_allclose(mean, simulated(method, 1, 3), rtol=1e-10)


@pytest.mark.parametrize("kappa", [1.5, 10.0, 1000.0])
@pytest.mark.parametrize("eta", [0.3, 1.0, 1.7, 1.95])
@pytest.mark.parametrize("measure", ["sq_distance", "gap"])
def test_gradient_descent_has_its_known_tight_rate(kappa: float, eta: float, measure: Any) -> None:
    c = ud.theory.certify(ud.fedsgd, L=2.0, mu=2.0 / kappa, eta=eta / 2.0, measure=measure)
    known = max((1 - eta / kappa) ** 2, (1 - eta) ** 2)
    assert c.exact
    assert -1e-12 <= c.rate - known <= 1e-6
    assert abs(c.residual) <= 1e-6


def test_the_contract() -> None:
    c = ud.theory.certify(ud.fedlin, L=1.0, mu=0.1, clients=2, steps=4, measure="sq_distance")
    assert c.exact
    # Gradient descent's best is 0.669: local steps are worth something in the worst case.
    assert c.rate < 0.35
    assert c.eta > 4.5
    assert 0 <= c.residual + 1e-7 <= 1e-5
    assert c.rounds_to(1e-6) == math.ceil(math.log(1e-6) / math.log(c.rate))
    again = ud.theory.certify(ud.fedlin, L=10.0, mu=1.0, clients=2, steps=4, eta=c.eta / 10)
    assert again.rate == pytest.approx(c.rate, abs=1e-6)


def test_the_number_of_clients_does_not_matter_from_two_on() -> None:
    from undrift.theory.certificates.finite import worst_case
    from undrift.theory.certificates.rounds import METHODS

    at = {
        "eta": 3.0,
        "kappa": 10.0,
        "measure": "sq_distance",
        "settings": {"down": None},
        "P": np.ones((1, 1)),
        "alike": False,
    }
    values = [worst_case(METHODS["fedlin"], [3] * m, [1 / m] * m, **at) for m in (2, 3)]  # type: ignore[arg-type]
    certificate = ud.theory.certify(ud.fedlin, L=1.0, mu=0.1, clients=50, steps=3, eta=3.0)
    assert all(found is not None and found.value == pytest.approx(certificate.rate, abs=2e-6) for found in values)


def test_fixed_proportions_are_worth_more_than_any_mixture() -> None:
    fixed = ud.theory.certify(ud.fedlin, L=1.0, mu=0.1, clients=2, steps=[1, 4], eta=2.2)
    mixture = ud.theory.certify(ud.fedlin, L=1.0, mu=0.1, clients=2, steps={1, 4}, eta=2.2)
    assert fixed.rate < 1 < mixture.rate  # beyond 2/L all clients might take one step


def test_peaceman_rachford_has_its_known_tight_rate() -> None:
    c = ud.theory.certify(ud.fedsplit, L=1.0, mu=0.25, eta=2.0)  # s = 1/√(Lμ)
    assert c.rate == pytest.approx(((2 - 1) / (2 + 1)) ** 2, abs=1e-6)


def test_methods_with_memory_contract_a_lyapunov_function() -> None:
    """SCAFFOLD with one step is gradient descent; Scaffnew beats its theorem's 1 − min{γμ, p²}."""
    one = ud.theory.certify(ud.scaffold, L=1.0, mu=0.1, steps=1, eta=1.0)
    assert one.memory is not None
    assert 0.81 <= one.rate <= 0.8101
    assert np.linalg.eigvalsh(one.P - np.diag([1.0, 0.0])).min() > -1e-9  # V ≥ ‖x − x*‖²
    coin = ud.theory.certify(ud.scaffnew, L=1.0, mu=0.1, eta=1.0, p=0.5)
    assert coin.per == "local step"
    assert 0.81 <= coin.rate < 1 - min(0.1, 0.25)


def test_compressors_enter_as_contractions() -> None:
    plain = ud.theory.certify(ud.fedlin, L=1.0, mu=0.1, steps=2, eta=0.3, measure="gap")
    top = ud.theory.certify(ud.fedlin, L=1.0, mu=0.1, steps=2, eta=0.3, down=2.0, measure="gap")
    differences = ud.theory.certify("fedlin+differences", L=1.0, mu=0.1, steps=1, eta=0.1, up=2.0)
    assert plain.rate < top.rate < 1
    assert differences.rate < 1


def test_a_rate_that_is_too_good_is_not_proved() -> None:
    rates = rates_of("fedlin", Fraction(10), {3}, {})
    programme = rates.programme(Fraction(2))
    solution = solver.contraction(programme, 1e-7)
    assert solution is not None
    assert exact.certified_rate(programme, solution) is not None
    assert exact.certified_rate(programme, dataclasses.replace(solution, rate=solution.rate - 1e-4)) is None
    spoilt = [values * 0.99 for values in solution.multipliers]
    assert exact.certified_rate(programme, dataclasses.replace(solution, multipliers=spoilt)) is None


@pytest.mark.parametrize(("tau", "limit"), [(1, 2.0), (2, 4.0)])
def test_a_slightly_larger_step_than_stable_diverges(tau: int, limit: float) -> None:
    """On f_i(x) = (L/2)x², at all clients."""
    p = ud.problems.quadratic(np.ones((2, 1, 1)), np.zeros((2, 1)))
    within = ud.theory.certify(ud.fedlin, L=1.0, mu=0.01, steps=tau, eta=0.99 * limit)
    ends = [
        abs(ud.run(ud.fedlin(eta=factor * limit), p, rounds=200, steps=tau, x0=np.ones(1)).x[0])
        for factor in (0.99, 1.01)
    ]
    assert within.rate < 1
    assert ends[0] < 1 < ends[1]


@pytest.mark.parametrize(("tau", "eta"), [(2, 2.0), (4, 6.0)])
def test_the_worst_functions_attain_the_worst_case_and_no_more(tau: int, eta: float) -> None:
    """τ = 4 at 6/L lies beyond the best step, where no quadratic in one dimension is the worst case."""
    c = ud.theory.certify(ud.fedlin, L=1.0, mu=0.1, clients=2, steps=tau, eta=eta)
    worst = c.worst
    x = worst.states[0][0]
    played = play("fedlin", worst.losses, worst.steps, worst.weights, eta, [x])
    ratio = float(played.x_after @ played.x_after) / float(x @ x)
    assert ratio <= c.rate * (1 + 1e-6)
    assert ratio == pytest.approx(c.rate, rel=1e-3)
    if tau == 4:
        assert ratio > quadratic_rate("fedlin", eta, 10.0, [tau]) + 0.1


def _certificates() -> list[Any]:
    chosen = [
        ("fedsgd", (1,)),
        ("fedlin", (2,)),
        ("fedlin", (5,)),
        ("fedlin", (1, 2, 3, 4, 5)),
        ("fedlin", (2, 3, 4, 5)),
    ]
    return [
        table.lookup(name, 1.0, 1 / kappa, steps, {}) for name, steps in chosen for kappa in (2.0, 10.0, 100.0, 1000.0)
    ]


def test_nothing_hostile_beats_its_certificate() -> None:
    """500 instances: curvatures at the ends of [μ, L], in directions of each client's own, quadratic or bent."""
    rng = np.random.default_rng(20261117)
    certificates = _certificates()
    closest = 0.0
    for number in range(500):
        c = certificates[number % len(certificates)]
        clients = int(rng.integers(1, 6))
        losses, x = hostile(rng, clients, c.L, c.mu)
        weights = rng.dirichlet(np.ones(clients))
        for _ in range(4):
            steps = rng.choice(c.steps, size=clients)
            after = play(c.method, losses, steps, weights, c.eta, [x]).x_after
            assert after @ after <= c.rate * (x @ x) * (1 + 1e-9) + 1e-300, (number, c)
            closest = max(closest, float(after @ after) / (c.rate * float(x @ x)))
            x = after
    assert closest > 0.95  # some of them are nearly as bad as it gets, so the promise is not an empty one


def test_every_row_of_the_table_is_proved_and_nearly_tight() -> None:
    rows = table.rows()
    assert len(rows) > 100
    for row in rows:
        assert row["exact"]
        # Where a best step is, other losses than quadratics begin to be worse; with memory so does the older information.
        assert -1e-9 <= row["rate"] - row["below"] <= (0.03 if "option" in row else 0.02)
        assert row["rate"] < 1


@pytest.mark.parametrize("number", [3, 40, 90])
def test_rows_of_the_table_can_be_solved_again(number: int) -> None:
    row = [
        row for row in table.rows() if row["method"] != "scaffold" and len(row["steps"]) == 1 and row["steps"][0] < 6
    ][number]
    rates = rates_of(row["method"], Fraction(str(row["kappa"])), set(row["steps"]), {})
    again = rates.certified(Fraction(row["eta"]).limit_denominator(10**6), worst=False)
    assert again.exact
    assert again.rate == pytest.approx(row["rate"], abs=1e-5)


def test_the_table_is_read_in_the_safe_direction() -> None:
    rows = [row for row in table.rows() if row["method"] == "fedlin" and row["steps"] == [4]]
    kappas = sorted(row["kappa"] for row in rows)
    between = (kappas[5] + kappas[6]) / 2
    c = table.lookup("fedlin", 1.0, 1 / between, [4], {})
    assert c.rate == next(row["rate"] for row in rows if row["kappa"] == kappas[6])
    mixture = table.lookup("fedlin", 1.0, 0.1, [2, 4], {})
    assert set(mixture.steps) >= {2, 4}
    with pytest.raises(InputError, match="goes to κ"):
        table.lookup("fedlin", 1.0, 1e-9, [4], {})
    with pytest.raises(InputError, match="with τ = "):
        table.lookup("fedlin", 1.0, 0.1, [1000], {})
    with pytest.raises(InputError, match="has nothing on mine"):
        table.lookup("mine", 1.0, 0.1, [1], {})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mu": 0.0}, "finite number > 0"),
        ({"mu": 1.0}, "0 < μ < L"),
        ({"steps": 0}, "whole numbers ≥ 1"),
        ({"steps": [1, 2, 3]}, "3 entries for 2 clients"),
        ({"clients": 0}, "clients: whole numbers"),
        ({"clients": None}, "clients: whole numbers"),
        ({"steps": 2.0}, "local steps: whole numbers"),
        ({"steps": None}, "local steps: whole numbers"),
        ({"steps": np.array([1, 4, 4])}, "3 entries for 2 clients"),
        ({"L": "1"}, "L is a finite number"),
        ({"mu": 1e-9}, "up to κ"),
        ({"eta": "certified"}, "finite number > 0"),
        ({"down": 0.5}, "δ ≥ 1"),
        ({"down": math.nan}, "finite number > 0"),
        ({"measure": "distance"}, "measure"),
        ({"eta": -1.0}, "finite number > 0"),
        ({"colour": 3}, "colour"),
        ({"steps": 500}, "501 vectors|vectors"),
    ],
)
def test_bad_questions_are_refused_by_name(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        ud.theory.certify(ud.fedlin, **{"L": 1.0, "mu": 0.1, "clients": 2, **given})
    with pytest.raises(InputError, match="certificate"):
        ud.theory.certify("feddyn", L=1.0, mu=0.1)
    with pytest.raises(InputError, match="without its numbers"):
        ud.theory.certify(ud.fedlin(eta=0.1), L=1.0, mu=0.1)


@pytest.mark.parametrize(
    ("method", "given", "words"),
    [
        ("scaffnew", {}, "depends on p"),
        ("scaffnew", {"p": 2}, "probability"),
        ("scaffold", {"option": 3}, "options 1 and 2"),
        ("fedprox", {"beta": -1.0}, "finite number > 0"),
        ("fedtrack", {"components": 2.0}, "whole numbers"),
        ("fedsplit", {"inner_steps": 3}, "go together"),
        ("fedavg", {"steps": {1, 6}, "measure": "sq_gradient"}, "need not be convex"),
    ],
)
def test_bad_settings_are_refused_by_name(method: str, given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        ud.theory.certify(method, **{"L": 1.0, "mu": 0.1, "clients": 2, "eta": 0.5, **given})


def test_numbers_are_taken_as_they_are_given() -> None:
    """No rounding of a short step, and no difference between 1 and 1.0."""
    short = ud.theory.certify(ud.fedlin, L=1.0, mu=0.1, eta=6e-7)
    assert short.rate >= (1 - 6e-8) ** 2
    whole, real = (ud.theory.certify(ud.fedprox, L=10.0, mu=1.0, eta=0.05, steps=3, beta=beta) for beta in (1, 1.0))
    assert whole.rate == real.rate
    assert whole.numbers == {"eta": 0.05, "beta": 1.0}


def test_the_table_has_fedsplits_best_steps() -> None:
    rows = [row for row in table.rows() if row["method"] == "fedsplit"]
    for row in rows:
        root = math.sqrt(row["kappa"])
        assert row["rate"] == pytest.approx(((root - 1) / (root + 1)) ** 2, abs=1e-3)
