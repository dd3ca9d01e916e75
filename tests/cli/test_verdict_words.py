"""What is said of a run or a comparison: every way in which it can end, in words that are true."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from undrift.algorithms import METHODS
from undrift.command.farewell import after_comparison
from undrift.report.verdict_words import Course, comparison_words, run_words, words_of
from undrift.studies.comparison import Outcome
from undrift.theory.methods.printed import PRINTED

T = np.arange(101.0)
ARRIVES, SLOWER = 0.5**T, 0.6**T
SETTLES, NEARER = 0.02 + 0.98 * 0.7**T, 1e-6 + 0.7**T
FALLS, RISES = 0.97**T, np.maximum(0.7**T, 0.01 * 1.02 ** (T - 50))
NOISY = 0.05 * (1 + 0.3 * np.random.default_rng(0).uniform(-1, 1, 101)) + 0.8**T
NOISY[-1] = 0.061
LOST = np.where(T < 20, 2.0**T, np.inf)


def course(name, values, **more):
    return Course(name, name, values, **more)


@pytest.mark.parametrize(
    ("values", "fate"),
    [
        (ARRIVES, "arrives after 30 rounds"),
        (SETTLES, "settles 2 % away"),
        (NEARER, "settles 1.0e-06 away"),
        (NOISY, "settles 6.1 % away"),
        (0.02 + 0.08 * 0.955**T, "settles 2.1 % away"),  # slows down: 0.08 % is to come
        (FALLS, "is 4.8 % away after 100 rounds and still comes closer"),
        (1 / (1 + T), "is 0.99 % away after 100 rounds and still comes closer"),
        (RISES, "is 2.7 % away after 100 rounds and was closer before"),
        (1.01**T, "is farther away after 100 rounds than at the start"),
        (LOST, "diverges"),
        (0.9 ** T[:6], "is 59 % away after 5 rounds"),
        (np.ones(2), "is 100 % away after 1 round"),
        (np.ones(1), "has not begun"),
        (np.zeros(5), "starts at the optimum"),
    ],
)
def test_fates(values, fate):
    assert course("fedlin", values).fate == fate


@pytest.mark.parametrize(
    ("paths", "headline"),
    [
        ({"fedavg": SETTLES, "fedlin": ARRIVES}, "FedLin arrives after 30 rounds; FedAvg settles 2 % away."),
        ({"fedlin": ARRIVES}, "FedLin arrives after 30 rounds."),
        ({"fedavg": SETTLES}, "FedAvg settles 2 % away."),
        (
            {"fedlin": ARRIVES, "scaffold": SLOWER, "fedsplit": NEARER, "fedprox": SETTLES},
            "FedLin arrives after 30 rounds; FedProx settles 2 % away.",  # the farthest, where FedAvg is not among them
        ),
        ({"fedlin": ARRIVES, "fedprox": LOST}, "FedLin arrives after 30 rounds; FedProx diverges."),
        (
            {"scaffold": SLOWER, "fedlin": ARRIVES},
            "Both arrive: FedLin first, after 30 rounds, SCAFFOLD last, after 41.",
        ),
        ({"a": ARRIVES, "b": ARRIVES, "c": ARRIVES}, "All 3 methods arrive after 30 rounds."),
        (
            {"fedprox": SETTLES, "fedsplit": NEARER},
            "Nobody arrives within 100 rounds: FedSplit settles 1.0e-06 away; FedProx settles 2 % away.",
        ),
        ({"fedavg": LOST, "fedprox": LOST}, "Both diverge: FedAvg and FedProx."),
        ({"a": LOST, "b": LOST, "c": LOST}, "All 3 methods diverge: a, b and c."),
        ({"mine": LOST}, "mine diverges."),
        ({}, ""),
    ],
)
def test_comparisons(paths, headline):
    assert words_of([course(name, values) for name, values in paths.items()], gap=True).headline == headline


def test_everybody_is_mentioned_and_pooled_data_are_called_so():
    names = {"fedavg": SETTLES, "fednova": NEARER, "fedlin": ARRIVES, "scaffold": SLOWER, "fedprox": LOST}
    courses = [course(name, values) for name, values in names.items()] + [course("gd", 0.09**T, pooled=True)]
    words = words_of(courses, gap=True)
    assert words.headline == "FedLin arrives after 30 rounds; FedAvg settles 2 % away.", "gd is not in the competition"
    assert words.others == (
        "Also: SCAFFOLD (41 rounds). Not within 100 rounds: FedNova (1.0e-06 away) and FedProx (diverges). "
        "With all data in one place: gradient descent (9 rounds)."
    )
    assert words.meaning.startswith("Arrives: f − f* stays below 1e-9 of what it was at the start. 2 % away:")
    alone = words_of([courses[-1]], gap=True)
    assert alone.headline == "gradient descent, with all data in one place, arrives after 9 rounds."
    assert alone.others == ""


def test_of_those_that_arrive_together_the_plain_method_is_named():
    plain = Course("fedlin", "fedlin", 0.5**T)
    sparse = Course("fedlin ↓top_k(16)", "fedlin", 0.48**T)
    words = words_of([plain, sparse, course("fedavg", SETTLES)], gap=True)
    assert words.headline.startswith("FedLin arrives after 30 rounds")
    assert words.others == "Also: FedLin ↓top_k(16) (29 rounds)."


@pytest.mark.parametrize(
    ("paths", "headline"),
    [
        ({"fedavg": (0.5, 0.9)}, "FedAvg takes the loss from 2 to 0.5 in 20 rounds, with an accuracy of 0.900."),
        ({"fedavg": (0.5, None)}, "FedAvg takes the loss from 2 to 0.5 in 20 rounds."),
        (
            {"fedavg": (0.5, 0.8), "ssl": (0.6, 0.9)},
            "SSL ends with the highest accuracy, 0.900 after 20 rounds; FedAvg with the lowest, 0.800.",
        ),
        ({"fedavg": (0.5, 0.9), "ssl": (0.6, 0.9)}, "All end with an accuracy of 0.900 after 20 rounds."),
        (
            {"fedavg": (0.5, None), "ssl": (0.6, None)},
            "FedAvg ends with the lowest loss, 0.5 after 20 rounds; SSL with the highest, 0.6.",
        ),
        (
            {"fedavg": (np.inf, 0.1), "ssl": (0.6, 0.9)},
            "SSL ends with an accuracy of 0.900 after 20 rounds; FedAvg diverges.",
        ),
    ],
)
def test_without_a_known_optimum_nobody_arrives(paths, headline):
    courses = [course(name, np.r_[2.0, [1.0] * 19, end], accuracy=right) for name, (end, right) in paths.items()]
    words = words_of(courses, gap=False)
    assert words.headline == headline
    assert "not known" in words.meaning
    assert "rrive" not in words.headline


def outcome(name: str, gap: np.ndarray, lost: bool = False) -> Outcome:
    """One step size, two seeds."""
    shape = np.ones((1, 2, 1))
    history = {"gap": 3 * gap * shape, "loss": gap * shape + 1}
    diverged = np.full((1, 2), 7 if lost else -1)
    return Outcome(name, name, [{"eta": 0.1}], [0, 1], history, np.zeros((1, 2, 3)), diverged, 0.1)


def test_from_outcomes_and_what_to_try_next():
    outcomes = [outcome("fedavg", SETTLES), outcome("fedlin", ARRIVES)]
    assert comparison_words(outcomes).headline == "FedLin arrives after 30 rounds; FedAvg settles 2 % away."
    assert after_comparison(outcomes) == "undrift explain fedlin"
    lost = [outcome("fedavg", LOST, lost=True)]
    assert comparison_words(lost).headline == "FedAvg diverges at every step size."
    assert after_comparison(lost) == "undrift list methods"
    own = [dataclasses.replace(outcomes[1], name="my file.py:mine")]
    assert after_comparison(own) == "undrift explain 'my file.py:mine'"
    pooled = [outcomes[0], dataclasses.replace(outcomes[1], name="gd", label="gd", pooled=True)]
    assert after_comparison(pooled) == "undrift explain fedavg", "nobody learns federated methods from gd"


def test_from_a_history_with_rounds_that_were_not_evaluated():
    gap = 5 * ARRIVES
    gap[np.arange(101) % 10 != 0] = np.nan
    history = {"gap": gap, "loss": gap + 1}
    assert run_words("fedlin", "fedlin", history, None).headline == "FedLin arrives after 30 rounds."
    assert run_words("fedlin", "fedlin", history, 12).headline == "FedLin diverges in round 12."
    assert run_words("mine", "x.py:mine", {"loss": 2 - T / 100}, None).headline == (
        "mine takes the loss from 2 to 1 in 100 rounds."
    )


def test_every_method_has_a_printed_name():
    assert set(PRINTED) == set(METHODS)
    assert Course("fedlin2", "fedlin", T).called == "fedlin2", "a label of the user's own stays as it is"
    assert Course("fedlin #2", "fedlin", T).called == "FedLin #2"
