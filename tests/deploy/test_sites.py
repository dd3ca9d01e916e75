"""The problem "sites": a server without data and sites with their own play what the simulation plays."""

from __future__ import annotations

import dataclasses
from functools import cache

import jax
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

import undrift as ud
from everyday import only
from undrift import precision
from undrift.engine.description import Run
from undrift.engine.loopback import Direct
from undrift.engine.nodes import ClientNode, ServerNode
from undrift.engine.parts import Parts
from undrift.errors import InputError
from undrift.studies.catalogue import PROBLEMS
from undrift.studies.site_files import SiteData
from undrift.studies.site_terms import Facts, Terms
from undrift.studies.sites import Sites
from undrift.studies.study import study_from

SIZES = (7, 2, 5)  # one site has fewer samples than parameters, so that least squares keeps AᵀA for the sake of others
SOURCES = {
    "logistic": Sites(kind="logistic", features=3, l2=0.1, standardise="federated"),
    "logistic, sites alike": Sites(kind="logistic", features=3, l2=0.1, weights="sites", intercept=False),
    "least squares": Sites(kind="least_squares", features=3, standardise="federated", weights="sites"),
    "least squares, few samples": Sites(kind="least_squares", features=9),
    "network": Sites(kind="network", features=3, classes=3, hidden=[4], batch=2, cut=2, standardise="federated"),
    "network in float32": Sites(kind="network", features=3, classes=3, weights="sites", batch=2, dtype="float32"),
}
EVERY = pytest.mark.parametrize("name", list(SOURCES))


@cache
def data_of(name: str) -> tuple[SiteData, ...]:
    source, rng = SOURCES[name], np.random.default_rng(0)
    found = []
    for n in SIZES:
        x = 5 + 3 * rng.standard_normal((n, source.expected.features))
        y = {"logistic": np.arange(n) % 2 * 2.0 - 1, "least_squares": x @ np.arange(1.0, x.shape[1] + 1),
             "network": np.arange(n) % 3}[source.kind]  # fmt: skip
        found.append(SiteData(x, y))
    return tuple(found)


@cache
def terms_of(name: str) -> bytes:
    source = SOURCES[name]
    return source.terms([source.facts(one) for one in data_of(name)])


def shapes(tree):
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), tree)


@EVERY
def test_the_population_is_that_of_the_whole_problem_and_needs_no_data(name):
    known, real = SOURCES[name].population(terms_of(name)), SOURCES[name].whole(data_of(name)).population
    assert (known.name, known.clients, known.dim, known.dtype) == (real.name, real.clients, real.dim, real.dtype)
    assert known.weights.dtype == real.weights.dtype
    np.testing.assert_array_equal(known.weights, real.weights)
    np.testing.assert_array_equal(known.sizes, SIZES)
    assert shapes(known.row) == shapes(real.row)
    assert shapes(known.shared) == shapes(real.shared)
    assert known.kind is real.kind
    assert known.static == real.static


@EVERY
def test_a_sites_own_problem_is_its_part_of_the_whole(name):
    whole = SOURCES[name].whole(data_of(name))
    for number, data in enumerate(data_of(name)):
        own, part = SOURCES[name].own(terms_of(name), number, data), whole.only(number)
        assert type(own) is type(part)
        assert own.static == part.static
        assert shapes(own.stack) == shapes(part.stack)
        for ours, theirs in zip(
            jax.tree.leaves((own.stack, own.shared)), jax.tree.leaves((part.stack, part.shared)), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6 if own.dtype == np.float32 else 1e-14, atol=1e-13)


def deployed(source: Sites, terms: bytes, data, method, rounds: int, **arguments) -> np.ndarray:
    """The model that a server without data and sites with their own end at."""
    population = source.population(terms)
    with precision.scope(population.dtype):
        parts = Parts(Run.of(method, population, rounds, **arguments))
        clients = [ClientNode(i, source.own(terms, i, own), parts) for i, own in enumerate(data)]
        server = ServerNode(parts, Direct(clients))
        for t in range(rounds + 1):
            server.play_round(t)
        return np.asarray(server.x)


METHODS = {
    "logistic": (ud.fedlin(eta=0.02), {"steps": 3}),
    "logistic, sites alike": (ud.fedtrack(eta=0.01), {"steps": 2}),
    "least squares": (ud.fedavg(eta=0.01), {"steps": 3, "participation": ud.plan.uniform(2)}),
    "least squares, few samples": (ud.scaffold(eta=1e-4), {"steps": 2}),
    "network": (ud.sflv2(eta=0.1), {"steps": 2}),
    "network in float32": (ud.fedavg(eta=0.1), {"steps": 3}),
}


@pytest.mark.parametrize("name", only(SOURCES, list(SOURCES)[:2]))
def test_deployed_nodes_end_where_the_simulation_ends(name):
    source, data, (method, arguments) = SOURCES[name], data_of(name), METHODS[name]
    simulated = ud.run(method, source.whole(data), rounds=4, **arguments)
    x = deployed(source, terms_of(name), data, method, 4, **arguments)
    assert np.linalg.norm(simulated.x - source.population(terms_of(name)).initial(0)) > 1e-3
    np.testing.assert_allclose(x, simulated.x, rtol=0, atol=1e-6 if x.dtype == np.float32 else 1e-12)


# ----- standardisation
def test_federated_standardisation_is_that_of_all_samples_together():
    name = "logistic"
    mean, scale = SOURCES[name].scaling(terms_of(name))
    pooled = StandardScaler().fit(np.concatenate([one.x for one in data_of(name)]))
    np.testing.assert_allclose(mean, pooled.mean_, rtol=1e-14)
    np.testing.assert_allclose(scale, pooled.scale_, rtol=1e-14)


def test_a_constant_feature_is_centred_only():
    source = Sites(kind="least_squares", features=2, standardise="federated")
    data = [SiteData(np.column_stack([np.full(n, 0.1), np.arange(n)]), np.zeros(n)) for n in (3, 7)]
    mean, scale = source.scaling(source.terms([source.facts(one) for one in data]))
    assert mean[0] == pytest.approx(0.1, rel=1e-15)
    assert scale[0] == 1.0
    assert scale[1] != 1.0


def test_what_is_agreed_in_the_study_is_not_asked_of_the_sites():
    source = Sites(kind="least_squares", features=1, standardise={"mean": [2.0], "scale": [4.0]}, intercept=False)
    data = SiteData(np.array([[10.0]]), np.array([1.0]))
    assert msgspec.msgpack.decode(source.facts(data)) == {"samples": 1, "mean": [], "variance": []}
    assert np.asarray(source.own(source.terms([source.facts(data)]), 0, data).stack["A"]).item() == 2.0


def test_every_sample_or_every_site_counts_alike():
    terms = Terms([1, 3]).encode()
    weights = {
        (kind, alike): Sites(kind=kind, features=1, weights=alike, **more).population(terms).weights.tolist()
        for kind, more in (("logistic", {}), ("network", {"classes": 2, "dtype": "float64"}))
        for alike in ("samples", "sites")
    }
    assert weights[("logistic", "samples")] == [0.5, 0.5]  # f_i is a sum over samples
    assert weights[("logistic", "sites")] == [0.75, 0.25]
    assert weights[("network", "samples")] == [0.25, 0.75]  # f_i is a mean
    assert weights[("network", "sites")] == [0.5, 0.5]


# ----- hostile bytes
GOOD = Facts(3, [0.0, 1.0, 2.0], [1.0, 1.0, 1.0])
BAD_FACTS = {
    "nothing": b"",
    "no message": b"\xc1",
    "something else": msgspec.msgpack.encode([1, 2]),
    "no sample": GOOD.encode().replace(b"\xa7samples\x03", b"\xa7samples\x00"),
    "a negative number": GOOD.encode().replace(b"\xa7samples\x03", b"\xa7samples\xff"),
    "too many samples": msgspec.msgpack.encode({"samples": 2**31}),
    "another key": msgspec.msgpack.encode({"samples": 3, "mean": [0.0] * 3, "variance": [0.0] * 3, "names": ["Ann"]}),
    "too few means": Facts(3, [0.0], [1.0]).encode(),
    "no means": Facts(3).encode(),
    "not a number": Facts(3, [0.0, np.nan, 0.0], [1.0] * 3).encode(),
    "infinite": Facts(3, [0.0] * 3, [1.0, np.inf, 1.0]).encode(),
    "too large": Facts(3, [1e200] * 3, [1.0] * 3).encode(),
    "negative variance": Facts(3, [0.0] * 3, [1.0, -1.0, 1.0]).encode(),
    "bytes behind": GOOD.encode() + b"\0",
    "nested without end": b"\x91" * 100_000,
}


@pytest.mark.parametrize("what", list(BAD_FACTS))
def test_facts_that_do_not_fit_are_refused(what):
    source = SOURCES["logistic"]
    source.check(GOOD.encode())
    with pytest.raises(InputError):
        source.check(BAD_FACTS[what])
    with pytest.raises(InputError):
        source.terms([GOOD.encode(), BAD_FACTS[what]])


@given(st.binary(max_size=60))
def test_any_bytes_are_facts_or_refused_by_name(told):
    source = SOURCES["logistic, sites alike"]
    try:
        source.check(told)
    except InputError:  # the only way to say no
        return
    assert source.population(source.terms([told])).clients == 1


@pytest.mark.parametrize(
    "terms",
    [b"", Terms([3], [0.0] * 3, [1.0, 0.0, 1.0]).encode(), Terms([3], [0.0] * 2, [1.0] * 2).encode(),
     Terms([3], [np.nan] * 3, [1.0] * 3).encode(), msgspec.msgpack.encode({"samples": []})],
)  # fmt: skip
def test_terms_that_do_not_fit_are_refused_at_a_site(terms):
    source, data = SOURCES["logistic"], data_of("logistic")[0]
    for use in (source.population, lambda told: source.own(told, 0, data)):
        with pytest.raises(InputError, match="terms"):
            use(terms)


def test_terms_that_count_a_site_wrongly_are_refused_there():
    source, data = SOURCES["logistic"], data_of("logistic")
    for number in (1, -1, 3):
        with pytest.raises(InputError, match="how many samples this site"):
            source.own(terms_of("logistic"), number, data[0])


def test_a_population_of_giants_costs_nothing():
    source = Sites(kind="least_squares", features=3)
    assert source.population(Terms([2**31 - 1, 1]).encode()).row["A"].shape == (2**31 - 1, 4)


def test_scales_that_would_blow_up_a_sites_numbers_are_refused_there():
    source, data = SOURCES["logistic"], data_of("logistic")[0]
    with pytest.raises(InputError, match=r"finite|below"):
        source.own(Terms([len(data.x)], [0.0] * 3, [1e-307] * 3).encode(), 0, data)


# ----- the words of a study
BASE = {"name": "sites", "kind": "logistic", "features": 3}
BAD_WORDS = {
    "kind must be one of": {"kind": "forest"},
    "features must be a whole number ≥ 1 or a list": {"features": 0},
    "features must have different names": {"features": ["a", "a"]},
    "the label 'b' must not be among": {"features": ["a", "b"], "label": "b"},
    "tells two labels apart": {"labels": ["a", "b", "c"]},
    "labels must have different names": {"labels": ["a", "a"]},
    "classes belongs to kind = network": {"classes": 3},
    "needs classes": {"kind": "network"},
    "l2 belongs to kind = logistic": {"kind": "least_squares", "l2": 1.0},
    "standardise must be": {"standardise": "always"},
    "standardise.scale must have one number per feature, 3": {"standardise": {"mean": [0.0] * 3, "scale": [1.0]}},
    "scale": {"standardise": {"mean": [0.0] * 3, "scale": [1.0, 0.0, 1.0]}},
    "unknown key": {"wieghts": "samples"},
}


@pytest.mark.parametrize("complaint", list(BAD_WORDS))
def test_words_that_make_no_sense_are_refused(complaint):
    Sites.of(BASE)
    with pytest.raises(InputError, match=complaint):
        Sites.of({**BASE, **BAD_WORDS[complaint]})


def test_without_a_folder_the_study_says_where_the_data_are():
    study = study_from({"problem": BASE}, "study.toml")
    with pytest.raises(InputError, match=r"study\.toml.*undrift serve.*undrift join.*folder = "):
        study.make_problem()


def test_with_a_folder_the_federation_is_simulated(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for name, one in zip("ba", data_of("logistic"), strict=False):
        np.savez(folder / f"{name}.npz", x=one.x, y=one.y)
    (folder / "README.md").write_text("about the data")
    words = {**BASE, "l2": 0.1, "standardise": "federated", "folder": "data"}
    problem = study_from({"problem": words}, "study.toml", tmp_path).make_problem()
    expected = SOURCES["logistic"].whole([data_of("logistic")[1], data_of("logistic")[0]])  # a, then b
    assert problem.value(np.ones(4)) == expected.value(np.ones(4))
    assert problem.sizes.tolist() == [2, 7]
    deployed = study_from({"problem": words, "deploy": {"sites": ["b", "a"]}}, "study.toml", tmp_path)
    assert deployed.make_problem().sizes.tolist() == [7, 2]  # the clients of the deployed run, in their order
    source = Sites.of(words)
    assert [len(one.x) for one in source.read_folder(folder, ["b", "a"])] == [7, 2]
    with pytest.raises(InputError, match=r"no data of the site 'c'.*c\.csv"):
        source.read_folder(folder, ["c"])
    (folder / "a.csv").write_text("label\n")
    with pytest.raises(InputError, match="two files of the site 'a'"):
        source.read_folder(folder)


@pytest.mark.parametrize("make", ["missing", "empty"])
def test_a_folder_without_data_is_named(tmp_path, make):
    if make == "empty":
        (tmp_path / "data").mkdir()
    with pytest.raises(InputError, match=r"one (\.csv or \.npz )?file per site"):
        Sites.of({**BASE, "folder": str(tmp_path / "data")}).simulated()


def test_the_table_has_the_keys_of_the_class():
    fields = {field.name for field in dataclasses.fields(Sites)}
    assert set(PROBLEMS["sites"].__signature__.parameters) == fields


def test_data_of_another_shape_are_refused_before_anything_is_told():
    with pytest.raises(InputError, match="3 features, x has 2"):
        SOURCES["logistic"].facts(SiteData(np.ones((2, 2)), np.ones(2)))
    with pytest.raises(InputError, match="--data"):
        SOURCES["logistic"].facts(None)
