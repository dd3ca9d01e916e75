"""`eta="theorem"`: the right rule for every method and situation, or a refusal that names what is missing."""

from __future__ import annotations

import json

import numpy as np
import pytest
from instances import CLIENTS, DIM, SMALL_RUN, hard_quadratic, run_all, setup, uneven_steps

import undrift as ud
from everyday import only
from undrift.cli import main

TAU = [2, 3, 4, 5]


@pytest.fixture(scope="module")
def squares():
    rng = np.random.default_rng(0)
    return ud.problems.least_squares(rng.normal(size=(CLIENTS, 8, DIM)), rng.normal(size=(CLIENTS, 8)))


@pytest.fixture(scope="module")
def logistic():
    rng = np.random.default_rng(1)
    return ud.problems.logistic(rng.normal(size=(CLIENTS, 8, DIM)), np.sign(rng.normal(size=(CLIENTS, 8))), l2=0.1)


def resolved(method, problem, steps=TAU, **options):
    return ud.describe(method, problem, rounds=1, steps=steps, **options).method


def test_every_rule_is_the_formula_of_its_theorem(squares):
    c = ud.theory.constants(squares)
    L, K, M = c.L, 5, CLIENTS
    rules = {
        "fedlin": 1 / (6 * L),
        "fedavg": 1 / (6 * L * K),
        "fednova": 1 / (L * 3.5),
        "fedtrack": 1 / (18 * c.L_components * K),
        "scaffold": 1 / (81 * L * K),
        "sequential_fl": 1 / (6 * L * M * K),
        "gd": 1 / c.L_mean,
        "fedsgd": 1 / c.L_mean,
    }
    for name, expected in rules.items():
        made = resolved(ud.METHODS[name](eta="theorem"), squares)
        np.testing.assert_allclose(made.numbers["eta"], expected, err_msg=name)
        assert made.chosen_by
        assert not made.by_theorem
    prox = resolved(ud.fedprox(eta="theorem", beta=2.0), squares)
    np.testing.assert_allclose(prox.numbers["eta"], 1 / (6 * (L + 2.0) * K))
    split = resolved(ud.fedsplit(s="theorem", inner_steps=4, inner_eta="theorem"), squares)
    s = 1 / np.sqrt(L * c.mu)
    np.testing.assert_allclose([split.numbers["s"], split.numbers["inner_eta"]], [s, 2 / (L + c.mu + 2 / s)])


def test_fedlin_follows_its_compressors_and_its_oracle(squares):
    c, delta = ud.theory.constants(squares), DIM / 2
    expected = {
        (None, ud.top_k(2, memory=False)): (1 / (2 * (2 + np.sqrt(delta)) * c.L), "Theorem 6"),
        (None, ud.top_k(2)): (1 / (72 * c.L * delta), "Theorem 7"),
        (ud.top_k(2), None): (1 / (72 * c.L * delta * c.C), "Theorem 8"),
    }
    for (up, down), (eta, theorem) in expected.items():
        made = resolved(ud.fedlin(eta="theorem", up=up, down=down), squares)
        np.testing.assert_allclose(made.numbers["eta"], eta)
        assert theorem in made.chosen_by
    noisy = resolved(ud.fedlin(eta="theorem"), squares, oracle=ud.oracles.noisy(0.1))
    np.testing.assert_allclose(noisy.numbers["eta"], 1 / (12 * c.L))


def test_the_kind_of_loss_decides_between_theorems():
    convex = ud.problems.quadratic(np.array([[[1.0]], [[0.0]]]), np.array([[1.0], [0.0]]))
    wild = ud.problems.quadratic(np.array([[[3.0]], [[-1.0]]]), np.array([[1.0], [0.0]]))
    assert "Theorem 2" in resolved(ud.fedlin(eta="theorem"), convex, 2).chosen_by
    assert "Theorem 3" in resolved(ud.fedlin(eta="theorem"), wild, 2).chosen_by
    assert "(81)" in resolved(ud.fedavg(eta="theorem"), convex, 2).chosen_by
    assert "(82)" in resolved(ud.fedavg(eta="theorem"), wild, 2).chosen_by
    assert "(7)" in resolved(ud.sequential_fl(eta="theorem"), convex, 2).chosen_by


def test_cohorts_and_steps_that_change(squares):
    cohort = resolved(ud.fedavg(eta="theorem"), squares, 3, participation=ud.plan.uniform(2))
    assert "(108)" in cohort.chosen_by
    again = resolved(ud.fedavg(eta="theorem"), squares, 3, participation=ud.plan.uniform(2, replace=True))
    assert "(119)" in again.chosen_by
    drawn = resolved(ud.fedavg(eta="theorem"), squares, ud.plan.random_steps(1, 9))
    np.testing.assert_allclose(drawn.numbers["eta"], 1 / (6 * squares.constants.L * 9))
    assert "not covered" in drawn.chosen_by  # the theorem assumes the same K everywhere
    assert "not covered" not in resolved(ud.fedlin(eta="theorem"), squares, ud.plan.random_steps(1, 9)).chosen_by


@ud.method
def unknown_method(eta: float) -> ud.Algorithm:
    """Nothing is known of it."""
    return ud.fedsgd.function(eta)


def falling(t):
    """A number that changes by round."""
    return 1 / (t + 10.0)


@pytest.mark.parametrize(
    ("make", "options", "missing"),
    [
        (lambda: unknown_method(eta="theorem"), {}, "no theorem is known here that gives unknown_method"),
        (lambda: ud.fedlin(eta="theorem", up=ud.top_k(2), down=ud.top_k(2)), {}, "both directions"),
        (lambda: ud.fedlin(eta="theorem", up=ud.top_k(2, memory=False)), {}, "error feedback"),
        (lambda: ud.fedlin(eta="theorem", down=ud.scaled_sign()), {}, "about TOP-k"),
        (lambda: ud.fedlin(eta="theorem", exchanges=1), {}, "paper's own algorithm, here with exchanges=1"),
        (lambda: ud.fedlin(eta="theorem", up=ud.top_k(2, memory="difference")), {}, "paper's own algorithm"),
        (lambda: ud.fedlin(eta="theorem", up_model=ud.top_k(2)), {}, "up_model"),
        (
            lambda: ud.fedlin(eta="theorem", table=True),
            {"participation": ud.plan.uniform(2)},
            "every client takes part",
        ),
        (lambda: ud.fedtrack(eta="theorem", up=ud.top_k(2)), {}, "whole messages"),
        (
            lambda: ud.ef21(eta="theorem", up=ud.top_k(2)),
            {"participation": ud.plan.uniform(2)},
            "every client takes part",
        ),
        (lambda: ud.ef21(eta="theorem", up=ud.top_k(2)), {"oracle": ud.oracles.noisy(0.1)}, "exact gradients"),
        (lambda: ud.fedlin(eta="theorem"), {"participation": ud.plan.uniform(2)}, "every client takes part"),
        (lambda: ud.fedavg(eta="theorem"), {"failures": 0.5}, "every client takes part"),
        (lambda: ud.fedavg(eta="theorem", server_eta=2.0), {}, "server_eta = 1"),
        (lambda: ud.fedavg(eta="theorem", server_eta=falling), {}, "server_eta of fedavg changes by round"),
        (lambda: ud.sequential_fl(eta="theorem", server_eta=5.0), {}, "server_eta = 1"),
        (lambda: ud.scaffold(eta="theorem", server_eta=falling), {}, "server_eta of scaffold changes by round"),
        (lambda: ud.fedprox(eta="theorem", beta=falling), {}, "beta of fedprox changes by round"),
        (lambda: ud.fedsplit(s=falling, inner_steps=2, inner_eta="theorem"), {}, "s of fedsplit changes by round"),
        (lambda: ud.compressed(ud.fedavg(eta="theorem"), up=ud.top_k(2)), {}, "whole messages"),
        (lambda: ud.fedavg(eta="theorem"), {"oracle": ud.oracles.minibatch(2)}, "variance ≤ σ² everywhere"),
        (lambda: ud.sequential_fl(eta="theorem"), {"participation": ud.plan.uniform(2)}, "full passes"),
        (lambda: ud.iag(eta="theorem", order="reshuffled"), {}, "cyclic"),
        (lambda: ud.fedavg(eta="theorem"), {"steps": lambda t, key: 2}, "know the local steps beforehand"),
    ],
)
def test_refusals_name_what_is_missing(squares, make, options, missing):
    with pytest.raises(ud.InputError, match=missing):
        resolved(make(), squares, **{"steps": 3, **options})


@pytest.mark.parametrize(
    "method",
    [
        ud.fedavg(eta=falling),
        ud.fedprox(eta=0.01, beta=falling),
        ud.scaffold(eta=0.01, server_eta=falling),
        ud.fedsplit(s=falling, inner_steps=2, inner_eta=falling),
    ],
    ids=str,
)
def test_nothing_is_promised_of_numbers_that_change_by_round(squares, method):
    assert ud.theory.promise(method, squares, steps=3) is None


def test_a_first_direction_keeps_the_step_and_loses_the_guarantee(squares):
    method = ud.fedlin(eta="theorem", first_direction=[1e3] * DIM)
    made = resolved(method, squares)
    assert "not covered: a first direction" in made.chosen_by
    assert made.numbers == resolved(ud.fedlin(eta="theorem"), squares).numbers
    assert ud.theory.promise(made, squares, steps=TAU) is None
    assert ud.theory.promise(resolved(ud.fedlin(eta="theorem"), squares), squares, steps=TAU) is not None
    result = ud.run(made, squares, rounds=3, steps=TAU)  # Theorem 1 would be broken at once
    assert not ud.theory.check(result, ud.theory.fedlin.strongly_convex(ud.theory.constants(squares), steps=TAU)).holds


def test_refusals_on_problems_without_constants(logistic):
    import jax.numpy as jnp

    own = ud.problems.custom(lambda x, t: jnp.sum((x - t) ** 2), np.ones((2, 3)), dim=3)
    for method in (
        ud.fedlin(eta="theorem"),
        ud.fedavg(eta="theorem"),
        ud.gd(eta="theorem"),
        ud.scaffold(eta="theorem"),
    ):
        with pytest.raises(ud.InputError, match="smooth"):
            resolved(method, own, 2)
    with pytest.raises(ud.InputError, match="β² of bounded dissimilarity"):
        resolved(ud.fednova(eta="theorem"), logistic)
    with pytest.raises(ud.InputError, match="Assumption 1"):
        resolved(ud.fedlin(eta="theorem", up=ud.top_k(2)), logistic)
    with pytest.raises(ud.InputError, match="number"):
        ud.fedavg(eta="theory")


def test_a_users_own_method_has_no_theorem(squares):
    @ud.method
    def mine(eta: float) -> ud.Algorithm:
        return ud.fedavg(eta=0.1).build()

    with pytest.raises(ud.InputError, match="gives mine a step size"):
        resolved(mine(eta="theorem"), squares)


def test_the_run_says_which_theorem_chose(squares):
    run = ud.run(ud.fedlin(eta="theorem"), squares, rounds=20, steps=TAU)
    assert run.setting["theorem"] == "FedLin, Theorem 1"
    assert "theorem" not in run.setting["method"]
    bound = ud.theory.fedlin.strongly_convex(ud.theory.constants(squares), TAU)
    assert ud.theory.check(run, bound).holds
    assert str(ud.fedlin(eta="theorem")) == "fedlin(eta=theorem)"
    given = ud.run(ud.fedlin(**bound.numbers), squares, rounds=20, steps=TAU)
    np.testing.assert_array_equal(run.x, given.x)
    assert "theorem" not in given.setting


def test_a_sweep_takes_the_word_among_its_values(squares):
    eta = 1 / (6 * squares.constants.L)
    swept = ud.sweep(ud.fedlin, squares, grid={"eta": ["theorem", float(eta)]}, rounds=20, steps=TAU)
    np.testing.assert_allclose(swept.history["gap"][0], swept.history["gap"][1])


FEW_OR_MANY = only([50, 200], {50})


@pytest.mark.parametrize("count", FEW_OR_MANY)
def test_fednova_never_moves_away_from_where_it_settles(count):
    """η = 1/(L·mean τ_i): the round map is I − M with 0 ⪯ M ⪯ I, so in the end no coordinate oscillates."""
    rng = np.random.default_rng(2)
    problems = [hard_quadratic(rng, 1e3) for _ in range(count)]
    steps = [uneven_steps(rng) for _ in problems]
    for p, tau in zip(problems, steps, strict=True):
        eta = resolved(ud.fednova(eta="theorem"), p, tau).numbers["eta"]
        A = np.asarray(p.stack["hessian"])
        powers = np.stack([np.linalg.matrix_power(np.eye(DIM) - eta * a, int(t)) for a, t in zip(A, tau, strict=True)])
        M = np.mean(tau.mean() / tau[:, None, None] * (np.eye(DIM) - powers), axis=0)
        values = np.linalg.eigvalsh((M + M.T) / 2)
        assert values[0] > 0
        assert values[-1] <= 1 + 1e-9
    runs = run_all(
        [setup(ud.fednova(eta="theorem"), p, rounds=60, steps=t) for p, t in zip(problems, steps, strict=True)]
    )
    assert all(np.isfinite(r.history["gap"]).all() for r in runs)


def test_fedprox_and_scaffold_and_fedsplit_and_iag_converge_or_settle(squares):
    for method, steps, target in (
        (ud.scaffold(eta="theorem"), 5, 1e-3),
        (ud.fedsplit(s="theorem"), 1, 1e-12),
        (ud.fedsplit(s="theorem", inner_steps=8, inner_eta="theorem", start="model"), 1, 1e-6),
    ):
        gap = ud.run(method, squares, rounds=3000 if target == 1e-3 else 300, steps=steps).history["gap"]
        assert gap[-1] <= target * gap[0], str(method)
    prox = ud.run(ud.fedprox(eta="theorem", beta=1.0), squares, rounds=300, steps=TAU, keep_iterates=True)
    moves = np.linalg.norm(np.diff(prox.iterates, axis=0), axis=1)
    assert np.all(np.diff(moves) <= 1e-15)  # towards its surrogate's minimiser, without oscillation


def test_iag_keeps_the_rate_of_its_theorem(squares):
    """dist_k ≤ (1 − c/(Q + 1)²)^k dist_0 with c = (2/25)/(N(2N + 1)), Q = L/μ (Gürbüzbalaban et al. 2017, Theorem 3.3)."""
    run = ud.run(ud.iag(eta="theorem"), squares, rounds=200, steps=100)
    rows = np.asarray(squares.stack["A"]).reshape(-1, DIM)
    N, L = len(rows), np.sum(rows**2) / CLIENTS
    Q = L / ud.theory.constants(squares).mu_mean
    rate = (1 - 2 / 25 / (N * (2 * N + 1)) / (Q + 1) ** 2) ** 100
    distance = np.sqrt(run.history["sq_distance"])
    assert np.all(distance <= rate ** np.arange(201.0) * distance[0] * (1 + 1e-9))


def test_sgd_with_single_samples_keeps_its_bound_where_one_over_L_diverges(squares):
    bound = ud.theory.centralised.sgd_minibatch(squares, 1, 10)
    made = resolved(ud.sgd(eta="theorem"), squares, 10)
    np.testing.assert_allclose(made.numbers["eta"], bound.numbers["eta"])
    grid = {"eta": [made.numbers["eta"]]}
    swept = ud.sweep(ud.sgd, squares, grid=grid, seeds=200, rounds=60, steps=10)
    verdict = ud.theory.check(swept, bound)
    assert verdict.holds, str(verdict)
    assert verdict.measured[-1] + 3 * verdict.error[-1] < verdict.promised[-1]
    largest = 1 / ud.theory.constants(squares).L_mean
    wild = ud.sweep(ud.sgd, squares, grid={"eta": [largest]}, seeds=200, rounds=60, steps=10)
    assert not ud.theory.check(wild, bound).holds


@pytest.mark.parametrize("count", FEW_OR_MANY)
def test_gradient_descent_and_noisy_fedsgd_keep_theirs(count):
    rng = np.random.default_rng(3)
    problems = [hard_quadratic(rng) for _ in range(count)]
    bounds = [ud.theory.centralised.gd(ud.theory.constants(p)) for p in problems]
    runs = run_all([setup(ud.fedsgd(eta="theorem"), p, rounds=60) for p in problems])
    assert all(ud.theory.check(r, b).holds for r, b in zip(runs, bounds, strict=True))
    wild = run_all(
        [setup(ud.fedsgd(eta=3 * b.numbers["eta"]), p, rounds=60) for p, b in zip(problems, bounds, strict=True)]
    )
    assert not any(ud.theory.check(r, b).holds for r, b in zip(wild, bounds, strict=True))
    p, oracle = hard_quadratic(rng, 20.0), ud.oracles.noisy(100.0)
    noisy = ud.theory.centralised.sgd(ud.theory.constants(p, oracle=oracle), gradients=CLIENTS)
    noise = run_all([setup(ud.fedsgd(eta="theorem"), p, rounds=60, seed=s, oracle=oracle) for s in range(count)])
    verdict = ud.theory.check(noise, noisy)
    assert verdict.holds, str(verdict)


def test_the_command_line_and_study_files_take_the_word(tmp_path, capsys):
    assert main(["run", "--method", "fedlin", "--eta", "theorem", *SMALL_RUN, "--out", str(tmp_path / "flags")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["chosen"]["eta"]["why"] == "FedLin, Theorem 1"
    study = tmp_path / "study.toml"
    study.write_text(
        '[problem]\nname = "quadratic"\nclients = 3\ndim = 4\n[run]\nrounds = 3\nsteps = 2\n'
        '[[method]]\nname = "fedavg"\neta = ["theorem", 0.001]\n[[method]]\nname = "fedsplit"\ns = "theorem"\n'
    )
    assert main(["compare", str(study), "--out", str(tmp_path / "file"), "--no-figures", "--quiet"]) == 0
    nova = ["run", "--method", "fednova", "--eta", "theorem", "--problem", "logistic_synthetic", "--rounds", "3"]
    assert main([*nova, "--out", str(tmp_path / "nova"), "--quiet"]) != 0
    assert "β²" in capsys.readouterr().err


def test_a_variant_without_a_theorem_is_refused_by_its_name():
    p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    with pytest.raises(ud.InputError, match="gives sequential_fl with corrected a step size"):
        ud.run(ud.sequential_fl(eta="theorem", corrected=True), p, rounds=1)
