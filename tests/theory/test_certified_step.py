"""`eta="certified"`: what the table is asked, what is made of its answer, and refusals that name what is missing.

What certificates there are is tested with the table. Here most tests ask a table of their own, which writes down its questions.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from instances import CLIENTS, DIM, SMALL_RUN

import undrift as ud
from undrift.cli import main
from undrift.engine.description import Run
from undrift.theory import closed_form
from undrift.theory.certificates import Certificate, table
from undrift.theory.certificates.choice import certificate_of, certified
from undrift.theory.step_rule import by_theorem

TAU = [2, 3, 3, 5]
KAPPA = 10.0


@pytest.fixture(scope="module")
def squares():
    """Quadratics with L = 10 and μ = 1, of which no single client has both."""
    rng = np.random.default_rng(0)
    turns = [np.linalg.qr(rng.normal(size=(DIM, DIM)))[0] for _ in range(CLIENTS)]
    spectra = [np.linspace(1.0 + i, KAPPA - (CLIENTS - 1 - i), DIM) for i in range(CLIENTS)]
    A = np.stack([q @ np.diag(s) @ q.T for q, s in zip(turns, spectra, strict=True)])
    return ud.problems.quadratic(A, rng.normal(size=(CLIENTS, DIM)))


@pytest.fixture(scope="module")
def alike():
    A = np.diag(np.linspace(1.0, KAPPA, DIM))
    return ud.problems.quadratic(np.stack([A] * CLIENTS), np.ones((CLIENTS, DIM)))


class Table:
    """Answers every question with these numbers, and remembers it."""

    def __init__(self, **changes):
        self.asked, self.changes = [], changes

    def __call__(self, method, L, mu, steps, settings):
        self.asked.append((method, L, mu, steps, dict(settings)))
        given = {"numbers": {"eta": 0.01 / L}, "measure": "sq_distance", "rate": 0.9, "exact": True, "memory": None}
        given |= self.changes
        return Certificate(
            method=method, eta=next(iter(given["numbers"].values())), residual=0.0, L=L, mu=mu, steps=tuple(steps),
            scope="any clients", source="a test", **given,
        )  # fmt: skip


@pytest.fixture
def book(monkeypatch):
    def of(**changes):
        made = Table(**changes)
        monkeypatch.setattr(table, "lookup", made)
        return made

    return of


def resolved(method, problem, steps=None, **options):
    given = {} if method.recipe.draws else {"steps": TAU if steps is None else steps}
    return ud.describe(method, problem, rounds=1, **given, **options).method


def test_the_step_is_the_one_of_the_table(squares):
    found = table.lookup("fedlin", squares.constants.L, squares.constants.mu, (4,), {})
    made = resolved(ud.fedlin(eta="certified"), squares, steps=4)
    assert made.numbers["eta"] == pytest.approx(found.numbers["eta"], rel=1e-12)
    assert "certificate" in made.chosen_by
    assert not made.waiting
    assert str(ud.fedlin(eta="certified")) == "fedlin(eta=certified)"


def test_the_table_is_asked_with_the_clients_own_constants_and_their_distinct_steps(squares, book):
    asked = book().asked
    resolved(ud.fedlin(eta="certified"), squares)
    resolved(ud.fedlin(eta="certified"), squares, steps=ud.plan.random_steps(2, 4))
    resolved(ud.fedsgd(eta="certified"), squares)
    c = ud.theory.constants(squares)
    np.testing.assert_allclose(asked[0][1:3], [KAPPA, 1.0])  # max_i L_i and min_i μ_i
    assert asked[0][3] == (2, 3, 5)
    assert asked[1][3] == (2, 3, 4)
    assert asked[2][0] == "fedsgd"  # which takes no local steps, and sees nothing but ∇f
    np.testing.assert_allclose(asked[2][1:3], [c.L_mean, c.mu_mean])
    assert asked[2][3] == (1,)
    assert c.L_mean < KAPPA


@pytest.mark.parametrize(
    ("make", "name", "told"),
    [
        (lambda: ud.fedlin(eta="certified"), "fedlin", {}),
        (lambda: ud.fedlin(eta="certified", table=True), "fedlin", {}),  # nothing else where nobody misses a round
        (lambda: ud.fedlin(eta="certified", down=ud.top_k(2, memory=False)), "fedlin", {"down": DIM / 2}),
        (lambda: ud.fedlin(eta="certified", down=ud.top_k(2)), "fedlin+feedback", {"down": DIM / 2}),
        (
            lambda: ud.fedlin(eta="certified", up=ud.top_k(2, memory="difference")),
            "fedlin+differences",
            {"up": DIM / 2},
        ),
        (lambda: ud.fedlin(eta="certified", up=ud.top_k(2)), "fedlin", {"up": DIM / 2, "up_memory": True}),
        (lambda: ud.scaffold(eta="certified", option=1), "scaffold", {"option": 1}),
        (lambda: ud.fedprox(eta="certified", beta=2.0), "fedprox", {"beta": 2.0}),
        (
            lambda: ud.fedsplit(s=1.0, inner_steps=3, inner_eta=0.1),
            "fedsplit",
            {"inner_steps": 3, "start": "prox-point"},
        ),
        (lambda: ud.fedsplit(s=1.0, start="model"), "fedsplit", {}),  # the exact proximal step starts nowhere
    ],
)
def test_the_table_is_told_the_settings_that_matter(alike, book, make, name, told):
    asked = book().asked
    certificate_of(Run.of(make(), alike, 0, steps=TAU))
    assert (asked[0][0], asked[0][4]) == (name, told)


def test_fedtrack_is_asked_about_with_the_constants_of_its_components(book):
    rng = np.random.default_rng(1)
    p = ud.problems.logistic(rng.normal(size=(CLIENTS, 7, DIM)), np.sign(rng.normal(size=(CLIENTS, 7))), l2=0.1)
    asked = book().asked
    resolved(ud.fedtrack(eta="certified", batch=2), p)
    method, L, mu, _, settings = asked[0]
    assert method == "fedtrack"
    assert settings == {"components": 4}
    assert p.constants.L < L == closed_form.fedtrack_smoothness(p, 2)
    assert mu == pytest.approx(0.1 * 4 * 1 / 7)  # the last of four components has one of seven samples
    squares = ud.problems.least_squares(rng.normal(size=(CLIENTS, 8, DIM)), rng.normal(size=(CLIENTS, 8)))
    with pytest.raises(ud.InputError, match="every component"):
        resolved(ud.fedtrack(eta="certified"), squares)


def test_all_numbers_of_a_method_come_from_one_certificate(squares, book):
    book(numbers={"eta": 0.02, "p": 0.25})
    made = resolved(ud.scaffnew(eta="certified", p="certified"), squares)
    assert made.numbers == {"eta": 0.02, "p": 0.25}
    assert resolved(ud.scaffnew(eta="certified", p=0.25), squares).numbers == {"eta": 0.02, "p": 0.25}
    with pytest.raises(ud.InputError, match='say p="certified"'):
        resolved(ud.scaffnew(eta="certified", p=0.5), squares)
    with pytest.raises(ud.InputError, match="choose one rule for all"):
        resolved(ud.scaffnew(eta="certified", p="theorem"), squares)
    asked = book(numbers={"s": 0.3, "inner_eta": 0.1}).asked
    made = resolved(ud.fedsplit(s="certified", inner_steps=3, inner_eta="certified"), squares)
    assert (made.numbers["s"], made.numbers["inner_eta"]) == (0.3, 0.1)
    assert asked[-1][3:] == ((1,), {"inner_steps": 3, "start": "prox-point"})
    book()
    with pytest.raises(ud.InputError, match="says nothing about s"):
        resolved(ud.fedsplit(s="certified"), squares)


@ud.method
def unknown_method(eta: float) -> ud.Algorithm:
    return ud.fedavg.function(eta)


def falling(count):
    return 0.9**count


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (lambda: unknown_method(eta="certified"), {}, "no certificate for unknown_method"),
        (lambda: ud.feddyn(eta="certified", alpha=1.0), {}, "there are certificates for .*fedlin"),
        (lambda: ud.fedavg(eta="certified"), {}, "same data.*drift.*take fedlin"),
        (lambda: ud.fedprox(eta="certified", beta=1.0), {}, "same data.*drift.*take fedlin"),
        (lambda: ud.fednova(eta="certified"), {}, "same data.*drift.*take fedlin"),
        (lambda: ud.fedlin(eta="certified"), {"participation": ud.plan.uniform(2)}, "every client takes part"),
        (lambda: ud.fedlin(eta="certified"), {"failures": 0.5}, "every client takes part"),
        (lambda: ud.fedlin(eta="certified"), {"oracle": ud.oracles.noisy(0.1)}, "exact gradients"),
        (lambda: ud.fedlin(eta="certified"), {"steps": lambda t, key: 2}, "know the local steps beforehand"),
        (lambda: ud.fedlin(eta="certified", exchanges=1), {}, "method itself, here with exchanges=1"),
        (lambda: ud.fedlin(eta="certified", first_direction=[0.0] * DIM), {}, "first_direction"),
        (lambda: ud.fedlin(eta="certified", up=ud.random_k(2)), {}, "contract every message"),
        (lambda: ud.scaffold(eta="certified", server_eta=2.0), {}, "server_eta = 1"),
        (lambda: ud.scaffold(eta="certified", server_eta=falling), {}, "changes by round"),
        (lambda: ud.compressed(ud.fedsgd(eta="certified"), up=ud.top_k(2)), {}, "whole messages"),
        (lambda: ud.private(ud.fedsgd(eta="certified"), clip=1.0, noise=1.0), {}, "plain steps"),
        (lambda: ud.sgd(eta="certified"), {}, "no certificate for sgd|exact gradients"),
    ],
)
def test_a_refusal_names_what_is_missing(squares, book, make, options, message):
    book()
    with pytest.raises(ud.InputError, match=f"(?s){message}"):
        resolved(make(), squares, **options)


def test_losses_must_be_strongly_convex_with_constants_that_are_known(book):
    book()
    flat = ud.problems.quadratic(np.stack([np.diag([0.0, 1.0])] * 2), np.ones((2, 2)))
    with pytest.raises(ud.InputError, match="strong convexity of every f_i"):
        ud.run(ud.fedlin(eta="certified"), flat, rounds=1)
    half = ud.problems.quadratic(np.stack([np.diag([0.0, 1.0]), np.diag([1.0, 0.0])]), np.ones((2, 2)))
    with pytest.raises(ud.InputError, match="strong convexity of every f_i"):  # though f itself is strongly convex
        ud.run(ud.fedlin(eta="certified"), half, rounds=1)
    own = ud.problems.custom(lambda x, row: ((x - row) ** 2).sum(), np.ones((2, 3)), dim=3)
    with pytest.raises(ud.InputError, match="no L in closed form"):
        ud.run(ud.fedlin(eta="certified"), own, rounds=1)


def test_where_clients_are_alike_methods_that_drift_are_served(alike, book):
    asked = book().asked
    for factory in (ud.fedavg, ud.fednova):
        resolved(factory(eta="certified"), alike)
    assert [one[0] for one in asked] == ["fedavg", "fednova"]


def test_every_step_of_gradient_descent_is_one_of_the_certificate(squares, book):
    asked = book(rate=0.5).asked
    bound = certified(Run.of(ud.gd(eta="certified"), squares, 0, steps=3)).bound
    assert asked[0][0] == "fedsgd"
    assert asked[0][3] == (1,)
    assert bound.rate == pytest.approx(0.5**3)
    with pytest.raises(ud.InputError, match="same steps in every round"):
        resolved(ud.gd(eta="certified"), squares, steps=ud.plan.random_steps(1, 3))


def test_what_the_table_refuses_is_refused_in_its_words(squares, monkeypatch):
    def none(*question):
        raise ud.InputError("the table covers κ ≤ 5")

    monkeypatch.setattr(table, "lookup", none)
    with pytest.raises(ud.InputError, match="covers κ ≤ 5"):
        resolved(ud.fedlin(eta="certified"), squares)


@pytest.mark.parametrize("steps", [1, 4])
def test_a_run_keeps_its_certificate(squares, steps):
    run = ud.run(ud.fedlin(eta="certified"), squares, rounds=40, steps=steps)
    assert "certificate" in run.setting["theorem"]
    assert "certified" not in run.setting["method"]
    bound = ud.theory.promise(
        ud.describe(ud.fedlin(eta="certified"), squares, rounds=0, steps=steps).method, squares, steps=steps
    )
    assert bound.certified
    assert bound.theorem.startswith("certified: FedLin")
    verdict = ud.theory.check(run, bound)
    assert verdict.holds, str(verdict)
    theorem = ud.theory.fedlin.strongly_convex(ud.theory.constants(squares), 1)
    assert bound.rate < theorem.rate


def test_a_certificate_that_was_not_checked_exactly_says_so(squares, book):
    book(exact=False)
    bound = certified(Run.of(ud.fedlin(eta="certified"), squares, 0, steps=2)).bound
    assert not bound.holds_here
    assert any(a.name == "the certificate" and a.status == "measured" for a in bound.assumptions)


def test_a_certificate_with_memory_gives_a_step_and_no_curve(squares, book):
    book(memory="‖x − x*‖² + ‖c − c*‖²")
    chosen = certified(Run.of(ud.scaffold(eta="certified"), squares, 0, steps=2))
    assert chosen.bound is None
    assert "‖c − c*‖²" in chosen.theorem
    assert ud.theory.promise(ud.scaffold(**chosen.numbers), squares, steps=2) is None


def test_fedsplits_memory_at_the_start_is_known(squares, book):
    """V_0 = ‖x_0 − x*‖² + s²Σ w_i‖∇f_i(x*)‖²; with s = 1/√(Lμ) V contracts by ((√κ − 1)/(√κ + 1))² in the worst case."""
    root = np.sqrt(KAPPA)
    book(numbers={"s": 1 / root}, rate=((root - 1) / (root + 1)) ** 2, memory="V = mean ‖z_i − z_i*‖²")
    method = resolved(ud.fedsplit(s="certified"), squares)
    bound = ud.theory.promise(method, squares)
    c = ud.theory.constants(squares)
    assert bound.curve(1, 2.0)[1] == pytest.approx(bound.rate * (2.0 + float(c.zeta_star_sq) / KAPPA))
    verdict = ud.theory.check(ud.run(method, squares, rounds=25), bound)
    assert verdict.holds, str(verdict)


def test_the_theorem_stands_beside_with_its_own_step(squares):
    run = ud.describe(ud.fedlin(eta="certified"), squares, rounds=1, steps=3)
    assert by_theorem(run).numbers["eta"] == pytest.approx(1 / (6 * squares.constants.L))
    new = ud.describe(ud.scaffnew(eta=0.1 / KAPPA, p=0.5), squares, rounds=1)
    assert by_theorem(new).numbers["eta"] == pytest.approx(1 / KAPPA)


def test_a_sweep_takes_both_words_among_its_values(squares):
    found = [resolved(ud.fedlin(eta=word), squares, steps=4).numbers["eta"] for word in ("certified", "theorem")]
    swept = ud.sweep(ud.fedlin, squares, grid={"eta": [found[0], "certified", "theorem", found[1]]}, rounds=20, steps=4)
    gaps = np.asarray(swept.history["gap"])
    np.testing.assert_allclose(gaps[0], gaps[1])
    np.testing.assert_allclose(gaps[2], gaps[3])


def test_the_adviser_puts_the_certificate_beside_the_theorem(squares):
    made = ud.theory.advise(squares, 1e-6, steps=[4], methods=["fedlin", "fedavg"])
    fedlin, fedavg = made.candidates
    found = table.lookup("fedlin", squares.constants.L, squares.constants.mu, (4,), {})
    assert fedlin.certified.numbers == pytest.approx(found.numbers)
    assert fedlin.guarantee is fedlin.certified
    assert fedlin.forecast.rounds <= fedlin.certified.rounds < fedlin.theorem.rounds
    assert fedavg.certified is None
    words = fedlin.words()
    assert words["theorem"].startswith("FedLin, Theorem")
    assert words["guaranteed_rounds"] == words["certified_rounds"] == fedlin.certified.rounds < words["theorem_rounds"]
    assert words["guaranteed_step"] == pytest.approx(found.numbers)
    assert any("(certified)" in sentence and "Theorem 1 promises" in sentence for sentence in made.why)


def test_the_command_line_and_study_files_take_the_word(tmp_path, capsys):
    assert main(["run", "--method", "fedlin", "--eta", "certified", *SMALL_RUN, "--out", str(tmp_path / "flags")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "certificate" in told["chosen"]["eta"]["why"]
    assert 'eta = "certified"' in (tmp_path / "flags" / "study.toml").read_text()  # asked
    study = tmp_path / "study.toml"
    head = '[problem]\nname = "quadratic"\nclients = 3\ndim = 4\n[run]\nrounds = 3\nsteps = 2\n[[method]]\n'
    study.write_text(f'{head}name = "fedlin"\neta = [0.001, "certified", "theorem"]\n')
    assert main(["compare", str(study), "--out", str(tmp_path / "file"), "--no-figures"]) == 0
    said = capsys.readouterr().err
    assert "FedLin, Theorem 1; " in said
    assert "certificate" in said
    study.write_text(f'{head}name = "fedavg"\neta = "certified"\n')
    assert main(["run", str(study), "--out", str(tmp_path / "drift"), "--quiet"]) != 0
    assert "take fedlin" in capsys.readouterr().err
