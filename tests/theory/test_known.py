"""What is known of a method stands in one record, and no other place asks for a method or an array by its name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import undrift as ud
from undrift.advice import advise
from undrift.algorithms import METHODS
from undrift.theory.methods import ADVISED, ADVISED_ON_NETWORKS, COMPARED, COMPARED_ON_NETWORKS, KNOWN, NAMED, known_of

LIBRARY = Path(ud.__file__).parent


def modules(*but: str) -> Iterator[tuple[str, ast.Module]]:
    """Every module of the library but those in these folders."""
    for path in sorted(LIBRARY.rglob("*.py")):
        name = path.relative_to(LIBRARY).as_posix()
        if not name.startswith(but):
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def asked_by_name(tree: ast.AST) -> list[int]:
    """Lines on which a method's name is compared with, listed, a key, or looked up."""
    exported = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Assign) and _is_all(node)}
    found = []
    for node in ast.walk(tree):
        asked: list[ast.expr | None] = []
        if isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
        elif isinstance(node, ast.List | ast.Tuple | ast.Set) and id(node) not in exported:
            asked = list(node.elts)
        elif isinstance(node, ast.Dict):
            asked = list(node.keys)
        elif isinstance(node, ast.Subscript):
            asked = [node.slice]
        elif isinstance(node, ast.MatchValue):
            asked = [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            asked = list(node.args) if node.func.attr in ("get", "startswith", "endswith") else []
        found += [part.lineno for part in asked if isinstance(part, ast.Constant) and part.value in METHODS]
    return found


def _is_all(node: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)


def opened(tree: ast.AST) -> list[int]:
    """Lines on which arrays of a problem are reached by name; `np.stack` and its kin are functions."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in ("stack", "shared")
        and not (isinstance(node.value, ast.Name) and node.value.id in ("np", "jnp"))
    ]


def test_only_the_registry_asks_for_a_method_by_name():
    found = {
        name: lines
        for name, tree in modules("theory/methods/", "theory/certificates/rounds.py", "algorithms/", "papers/")
        if (lines := asked_by_name(tree))
    }
    assert not found


def test_only_problems_and_engines_open_the_arrays_of_a_problem():
    found = {name: lines for name, tree in modules("problems/", "engine/", "papers/") if (lines := opened(tree))}
    assert not found


@pytest.mark.parametrize(
    "text",
    [
        'if name == "fedlin": pass',
        'if name in ("gd", "mine"): pass',
        'table = {"scaffold": 1}',
        'made = METHODS["fedavg"]',
        'made = METHODS.get("iag")',
        'match name:\n    case "sgd":\n        pass',
    ],
)
def test_the_search_for_names_finds_them(text):
    assert asked_by_name(ast.parse(text))
    assert not asked_by_name(ast.parse('__all__ = ["fedlin"]\nBound(method="fedlin")'))


def test_the_search_for_arrays_finds_them():
    assert opened(ast.parse('problem.stack["A"]')) == opened(ast.parse("self.problem.shared")) == [1]
    assert not opened(ast.parse("np.stack(rows)"))


def test_every_method_has_a_record_and_every_list_names_methods():
    assert set(KNOWN) == set(METHODS)
    listed = (*ADVISED, *NAMED, *ADVISED_ON_NETWORKS, *COMPARED, *COMPARED_ON_NETWORKS)
    for name, _, variant in (entry.partition("+") for entry in listed):
        assert not variant or variant in KNOWN[name].variants
    assert all(known_of(factory) is KNOWN[name] for name, factory in METHODS.items())
    assert known_of(ud.sgd(eta=0.1)) is KNOWN["sgd"]
    assert known_of(ud.compressed(ud.fedavg(eta=0.1), up=ud.top_k(1))) is KNOWN["fedavg"]


def own(known=None):
    @ud.method(known=known)
    def fedlin(eta: float) -> ud.Algorithm:
        return ud.fedsgd.function(eta)

    return fedlin


def two_quadratics():
    return ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))


def test_a_users_method_is_not_taken_for_one_of_the_same_name():
    p = two_quadratics()
    assert known_of(own()) == known_of(own()(eta=0.1)) == ud.Known()
    with pytest.raises(ud.InputError, match="no theorem is known here that gives fedlin"):
        ud.run(own()(eta="theorem"), p, rounds=1)


def test_a_record_is_no_part_of_the_program():
    plain, told = own()(eta=0.1), own(ud.Known(colour="#112233"))(eta=0.1)
    assert told.recipe.known.colour == "#112233"
    same = type(told.recipe)(told.recipe.factory, told.recipe.settings, told.recipe.name)
    assert same == told.recipe
    assert hash(same) == hash(told.recipe)
    assert plain.recipe.known is None


def test_a_users_step_rule_is_followed_and_what_it_leaves_open_is_said():
    p = two_quadratics()
    rule = ud.Known(step=lambda run: ud.theory.Chosen({"eta": 1 / run.problem.constants.L}, "the descent lemma"))
    run = ud.run(own(rule)(eta="theorem"), p, rounds=2)
    assert run.setting["theorem"] == "the descent lemma"
    silent = ud.Known(step=lambda run: ud.theory.Chosen({}, "my theorem"))
    with pytest.raises(ud.InputError, match="my theorem says nothing about eta of fedlin"):
        ud.run(own(silent)(eta="theorem"), p, rounds=2)


def test_a_users_method_without_a_round_map_is_measured():
    p = two_quadratics()
    blind = advise(p, 1e-3, methods=[own(), "fedsgd"], steps=[1])
    assert blind.candidates[0].how == "unknown"
    assert blind.candidates[0].forecast is None
    assert blind.recommended.label == "fedsgd"
    found = advise(p, 1e-3, methods=[own(ud.Known(scale=lambda L, mu, steps: 0.5 / L))], steps=[1], measure=True)
    assert found.recommended.measured.rounds is not None
    assert found.recommended.measured.grid[3] == pytest.approx(0.25)


def test_bad_records_are_refused():
    with pytest.raises(ud.InputError, match="#rrggbb, got 'red'"):
        ud.Known(colour="red")
    with pytest.raises(ud.InputError, match=r"searches over 's', and fedlin has eta"):
        advise(two_quadratics(), 1e-3, methods=[own(ud.Known(number="s"))], steps=[1])


def test_nothing_left_to_advise_is_refused():
    with pytest.raises(ud.InputError, match="none of fedtrack can be advised on a quadratic problem"):
        advise(two_quadratics(), 1e-3, methods=["fedtrack"])
