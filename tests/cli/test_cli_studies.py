"""Study files: written, read back, and the notation of flags."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st

import undrift as ud
from undrift.engine.simulate import simulate
from undrift.errors import InputError
from undrift.studies.build import COMPRESSORS, build_steps
from undrift.studies.catalogue import digits, fedsplit, figure1, least_squares, logistic_synthetic, quadratic
from undrift.studies.study import study_from
from undrift.studies.words import construct

letters = st.text(st.sampled_from("ab0_- .\"'\\#=[]{}éτ\U0001f600"), max_size=20)
numbers = st.floats(1e-300, 1e300)
counts = st.integers(1, 2**31 - 1)
studies = st.fixed_dictionaries(
    {
        "problem": st.fixed_dictionaries(
            {"name": st.just("quadratic")}, optional={"clients": counts, "L": numbers, "data_seed": st.integers(0, 9)}
        ),
        "run": st.fixed_dictionaries(
            {},
            optional={
                "rounds": st.integers(0, 2**31 - 2),
                "steps": counts | st.lists(counts, max_size=3) | st.fixed_dictionaries({"low": counts, "high": counts}),
                "participation": letters | st.fixed_dictionaries({"uniform": counts}),
                "stop": st.dictionaries(letters.filter(bool), numbers | letters, max_size=2),
                "per_client": st.booleans(),
                "link": st.fixed_dictionaries({}, optional={"up": numbers, "latency": st.just(0)}),
            },
        ),
        "method": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(["/own/mine.py:factory", "/own/mine.py:other"])},
                optional={
                    "label": letters.filter(bool),
                    "eta": numbers
                    | st.lists(numbers | st.sampled_from(["theorem", "certified"]), min_size=1, max_size=3),
                    "up": letters | st.dictionaries(letters, counts | st.booleans(), max_size=2),
                    "beta": st.fixed_dictionaries(
                        {"schedule": letters, "of": st.dictionaries(letters, numbers, max_size=2)}
                    ),
                },
            ),
            max_size=3,
        ),
    }
)


@given(studies, st.lists(letters, max_size=2))
def test_studies_read_back(words, comments):
    """What is written is read back as it was, under any comments."""
    study = study_from(words, "text", Path())
    assert study_from(tomllib.loads(study.to_toml(tuple(comments))), "text", Path()) == study


def test_a_study_survives_writing():
    text = """
    [problem]
    name = "least_squares"
    alpha = 10.0
    [run]
    rounds = 50
    steps = { low = 2, high = 100 }
    participation = { uniform = 10 }
    [[method]]
    name = "fedlin"
    eta = [1e-3, 1e-2]
    up = "top_k:75"
    down = { name = "top_k", k = 50, memory = false }
    """
    study = study_from(tomllib.loads(text), "text", Path())
    again = study_from(tomllib.loads(study.to_toml(("why",))), "text", Path())
    assert again == study


@pytest.mark.parametrize(
    "words", ["top_k:5,memory=false", {"name": "top_k", "k": 5, "memory": False}, {"top_k": 5, "memory": False}]
)
def test_three_ways_to_say_the_same(words):
    assert str(construct(words, COMPRESSORS, "compressor")) == "top_k(5, memory=False)"


@pytest.mark.parametrize("words", ["top_k:5,6,7", "top_k:k=5,k2=3", "top_k", {"k": 5}, 17, "top_k:5,k=5", "top_k:2.5"])
def test_nonsense_is_refused(words):
    with pytest.raises(InputError):
        construct(words, COMPRESSORS, "compressor")


def test_steps():
    assert build_steps("20", 3) == 20
    assert build_steps("5,10,20", 3) == [5, 10, 20]
    assert build_steps("2..4:fixed", 50) == build_steps({"low": 2, "high": 4, "fixed": True}, 50)
    assert set(build_steps("2..4:fixed", 50)) == {2, 3, 4}
    assert build_steps({"low": 2, "high": 400, "fixed": True, "seed": 1}, 5) != build_steps("2..400:fixed", 5)


def test_named_problems_are_what_the_papers_say():
    assert figure1().optimum.x[0] == pytest.approx(103 / 3)
    assert fedsplit().constants.L == 1000
    p = least_squares(alpha=50.0)
    assert (p.clients, p.dim, p.sizes[0]) == (20, 100, 500)
    q = quadratic(clients=3, dim=5, L=8.0, mu=0.5)
    assert pytest.approx(8) == q.constants.L
    assert q.constants.mu == pytest.approx(0.5)
    apart = quadratic(clients=3, dim=5, heterogeneity=0.0)
    assert np.allclose(apart.optimum.x, np.linalg.solve(apart.stack["hessian"][0], apart.stack["linear"][0]), atol=1e-5)
    k = logistic_synthetic(clients=2, samples=30, dim=4)
    assert (k.clients, k.dim) == (2, 4)
    d = digits(clients=8, classes=3)
    assert (d.clients, d.dim, d.sizes.sum()) == (8, 65, 1797)
    assert not np.array_equal(digits(data_seed=1).sizes, digits(data_seed=2).sizes)


def test_whatever_a_run_can_be_told_can_be_said():
    """Arguments of a run are keys of [run], but where it starts and another run's trace; means have two keys of their own.

    Seeds and how grids grow are of comparisons.
    """
    from undrift.engine.description import Arguments
    from undrift.studies.study import DEFAULTS

    said = set(DEFAULTS) - {"rounds", "seeds", "speeds", "link", "refine"}
    assert said == set(Arguments.__annotations__) - {"x0", "plan", "resources"}


def described(run: str, method: str = "eta = 0.1"):
    study = study_from(tomllib.loads(f"[run]\n{run}\n[[method]]\nname = 'fedavg'\n{method}"), "text")
    return study.describe(study.methods[0].checked().make(), figure1())


@pytest.mark.parametrize(
    ("run", "field", "value"),
    [
        ("stop = { gap = 1e-6 }", "stop", ud.stop.at(gap=1e-6)),
        ('stop = "gap=1e-6"', "stop", ud.stop.at(gap=1e-6)),
        ("stop = { patience = 7 }", "stop", ud.stop.patience(7)),
        ('stop = "gap=1e-6,patience=7,column=grad_norm,least=0.1"', "stop",
         ud.stop.at(gap=1e-6) | ud.stop.patience(7, "grad_norm", 0.1)),
        ("participation = { weighted = 1 }", "participation", ud.plan.weighted(1).among(np.array([0.5, 0.5]))),
        ('participation = "uniform:1,renormalise=true"', "participation", ud.plan.uniform(1, renormalise=True)),
        ("per_client = true", "per_client", True),
        ("diagnostics = true", "diagnostics", True),
        ("keep_iterates = true", "keep_iterates", True),
    ],
)  # fmt: skip
def test_words_of_a_run(run, field, value):
    assert getattr(described(run), field) == value


@pytest.mark.parametrize(
    ("run", "text"),
    [
        ('stop = "1e-6"', "column=value"),
        ("stop = 5", "a table"),
        ("stop = { gap = 'small' }", "must be a number"),
        ("stop = { column = 'loss' }", "patience = rounds, which is missing"),
        ("stop = { patience = 2.5 }", "rounds must be a whole number"),
        ("per_client = 'yes'", "per_client must be true or false"),
        ("participation = { weighted = 1, replace = true }", "unknown key of participation 'weighted'"),
    ],
)
def test_words_that_no_run_understands(run, text):
    with pytest.raises(InputError, match=text) as refused:
        described(run)
    assert "text, table [run]" in str(refused.value)


def test_schedules_in_words():
    words = "eta = { schedule = 'exponential_decay', init_value = 0.1, transition_steps = 10, decay_rate = 0.9 }"
    written, given = described("rounds = 12", words), ud.fedavg(eta=optax.exponential_decay(0.1, 10, 0.9))
    assert described("rounds = 12", words).recipe == written.recipe  # the same words are the same program
    assert np.array_equal(simulate(written).x, ud.run(given, figure1(), rounds=12, steps=10).x)
    steps = "eta = { schedule = 'piecewise_constant_schedule', init_value = 0.1, boundaries_and_scales = { 5 = 0.5 } }"
    assert float(described("", steps).recipe.schedules[0][1](6)) == pytest.approx(0.05)
    both = "eta = 0.1\nserver_eta = { schedule = 'inverse', scale = 1.0, offset = 2.0 }"
    assert described("", both).recipe.schedules[0][0] == "server_eta"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("eta = { schedule = 'exponential' }", "unknown schedule 'exponential'.*exponential_decay"),
        ("eta = { schedule = 'inverse', scal = 1.0 }", "did you mean 'scale'"),
        ("eta = { schedule = 'inverse' }", "needs scale, offset"),
        ("eta = { schedule = 'inverse', scale = -1.0, offset = 1.0 }", "scale of an inverse schedule must be a number > 0"),
        ("eta = { schedule = 'linear_schedule', init_value = 0.1 }", "needs end_value"),
        ("eta = { value = 0.1 }", "eta must be a number"),
        ("eta = 0.1\nkeep_solver = { schedule = 'inverse', scale = 1.0, offset = 2.0 }", "keep_solver must be true or false"),
        ("eta = { schedule = 'piecewise_constant_schedule', init_value = 0.1, boundaries_and_scales = { soon = 2.0 } }",
         "the keys of boundaries_and_scales are rounds"),
    ],
)  # fmt: skip
def test_schedules_that_are_none(words, text):
    with pytest.raises(InputError, match=text):
        described("", words)


def test_links_of_a_method_and_links_around_it():
    text = """
    [problem]
    name = "quadratic"
    [[method]]
    name = "fedlin"
    eta = 0.1
    table = true
    exchanges = 1
    up = "top_k:2,memory=difference"
    up_model = { top_k = 3 }
    [[method]]
    name = "ef21"
    eta = 0.1
    up = "top_k:2"
    down = { name = "top_k", k = 4, memory = "difference" }
    """
    made = [method.make() for method in study_from(tomllib.loads(text), "text").methods]
    inside = made[0].parameters
    assert inside["up"] == ud.top_k(2, memory="difference")
    assert inside["up_model"] == ud.top_k(3)
    assert (inside["table"], inside["exchanges"]) == (True, 1)
    assert str(made[1]) == "ef21(eta=0.1, up=top_k(2)) + down top_k(4, memory='difference')"


@pytest.mark.parametrize("word", ["top_k:2,memory=differences", "top_k:2,memory=1"])
def test_a_memory_that_is_none_is_refused(word):
    with pytest.raises(InputError, match="memory"):
        construct(word, COMPRESSORS, "compressor")
