"""`undrift explain` and `undrift list`."""

from __future__ import annotations

import pytest

import undrift as ud
from counts import costs
from undrift import precision
from undrift.algorithms import METHODS
from undrift.studies.catalogue import PROBLEMS, quadratic


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_explained_within_the_width(cli, method, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    said = cli("explain", method)
    assert said.code == 0
    assert max(map(len, said.out.splitlines())) <= 80
    assert "server" in said.out
    assert "Memory between rounds" in said.out
    assert ">>>" not in said.out


@pytest.mark.parametrize("words", [(), ("--up", "top_k:5"), ("--up", "top_k:5", "--down", "random_k:3")])
@pytest.mark.parametrize(
    ("name", "factory"), [("fedlin", ud.fedlin), ("scaffold", ud.scaffold), ("fednova", ud.fednova)]
)
def test_sizes_are_the_ledgers(cli, words, name, factory):
    shown = cli("explain", name, "--dim", "12", "--steps", "4", *words, "--json").json
    up = ud.top_k(5) if "--up" in words else None
    down = ud.random_k(3) if "--down" in words else None
    if name == "fedlin":
        method = factory(eta=0.1, up=up, down=down)
    else:
        method = ud.compressed(factory(eta=0.1), up=up, down=down) if words else factory(eta=0.1)
    problem = quadratic(clients=3, dim=12)
    with precision.scope(problem.dtype):
        shapes = ud.describe(method, problem, rounds=1).shapes[-len(shown["round"]) :]
    for row, exchange in zip(shown["round"], shapes, strict=True):
        assert row["down"]["bytes"] == exchange.down_bytes
        assert row["up"]["bytes"] == exchange.up_bytes
    history = costs(method, problem, 2, steps=4)
    for key in ("bytes_up", "bytes_down", "gradients"):
        assert shown["per_round"][key] == (history[key][2] - history[key][1]) / 3


def test_single_precision_halves_the_messages(cli):
    sizes = [
        cli("explain", "fedavg", "--dtype", d, "--json").json["per_round"]["bytes_up"] for d in ("float32", "float64")
    ]
    assert sizes == [400, 800]


def test_huge_dimensions_cost_nothing(cli):
    assert cli("explain", "fedlin", "--dim", "1000000000", "--json").json["per_round"]["bytes_down"] == 16_000_000_000


def test_fedlin_sends_two_vectors_down(cli):
    """x̄ with the gradient that follows from it, and g: x again only where a client may have missed it."""
    shown = cli("explain", "fedlin", "--dim", "10", "--json").json
    assert shown["per_round"]["bytes_down"] == 2 * 10 * 8
    assert [len(row["down"]["contents"]) for row in shown["round"]] == [1, 1]


def test_what_is_kept_of_the_absent_is_shown_where_clients_may_miss_rounds(cli):
    """Where nobody misses a round a table is what the paper's rule is, and nothing is kept."""
    words = ("explain", "fedlin:table=true", "--dim", "10", "--json")
    present, absent = (cli(*words, *more).json for more in ((), ("--failures", "0.1")))
    assert present["memory"]["server, per client"] == []
    assert present["per_round"]["bytes_down"] == 2 * 10 * 8
    assert [(name, size) for name, _, size in absent["memory"]["server, per client"]] == [("G", 80)]
    assert absent["per_round"]["bytes_down"] == 3 * 10 * 8


def test_what_is_refused_to_the_absent_is_explained_without_them(cli):
    shown = cli("explain", "fedlin:down_model=top_k:2", "--dim", "10", "--json").json
    assert shown["per_round"]["bytes_down"] == 10 * 8 + 2 * (8 + 1)  # g, and two entries of x
    refused = cli("explain", "fedlin:down_model=top_k:2", "--failures", "0.1")
    assert refused.code == 2
    assert "clients may miss rounds" in refused.err


def test_a_variant_is_in_the_head(cli):
    assert cli("explain", "fedlin:table=true,exchanges=1").out.startswith("fedlin table exchanges=1   d = 100")
    assert cli("explain", "ef21", "--dim", "50").out.startswith("ef21 ↑top_k(5)   d = 50")  # it needs some compressor


def test_list_names_everything(cli):
    found = cli("list", "--json").json
    assert set(found) == {"methods", "problems", "compressors", "oracles", "participation"}
    assert {entry["name"] for entry in found["methods"]} == set(METHODS)
    assert {entry["name"] for entry in found["problems"]} == set(PROBLEMS)
    assert {entry["name"] for entry in found["compressors"]} == {"top_k", "random_k", "scaled_sign", "quantise"}
    assert all(entry["summary"] for entries in found.values() for entry in entries)
    eta = next(entry for entry in found["methods"] if entry["name"] == "fedlin")["parameters"][0]
    assert eta == {"name": "eta", "required": True, "default": None}
    said = cli("list", "problems")
    assert "least_squares" in said.out
    assert "top_k" not in said.out
