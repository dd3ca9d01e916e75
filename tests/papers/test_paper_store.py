"""Results are kept by what they were made from, and nothing is done twice."""

from __future__ import annotations

import json

import numpy as np
import pytest

from paper_items import Producer, made_up, same_tables, smaller
from undrift.errors import InputError
from undrift.papers.data import Curves, Data
from undrift.papers.item import Work, ours
from undrift.papers.reproduce import reproduce
from undrift.papers.store import Store


def test_a_result_is_kept(tmp_path):
    producer, store = Producer(), Store(tmp_path)
    item = made_up("fake/fig1", producer)
    first, second = (reproduce(item, store) for _ in range(2))
    assert (first.fresh, second.fresh, producer.calls) == (True, False, 1)
    assert first.claims == second.claims
    assert not list(store.folder(item, "quick").glob("work-*")), "what was half done is removed"


def test_again_runs_anew(tmp_path):
    producer, store = Producer(), Store(tmp_path)
    item = made_up("fake/fig1", producer)
    reproduce(item, store)
    assert reproduce(item, store, again=True).fresh
    assert producer.calls == 2


@pytest.mark.parametrize("change", [{"revision": 2}, {"setting": (ours("parts", 5),)}])
def test_another_setting_or_revision_is_another_result(tmp_path, change):
    import dataclasses

    store, item = Store(tmp_path), made_up("fake/fig1", Producer())
    reproduce(item, store)
    changed = dataclasses.replace(item, **change)
    assert changed.key("quick") != item.key("quick")
    assert reproduce(changed, store).fresh


def test_words_beside_a_value_do_not_change_the_key():
    import dataclasses

    item = made_up("fake/fig1", Producer())
    noted = dataclasses.replace(item, setting=tuple(dataclasses.replace(s, note="more") for s in item.setting))
    assert noted.key("paper") == item.key("paper")


def test_an_interrupted_item_continues_where_it_was(tmp_path):
    producer, store = Producer(stop_at=2), Store(tmp_path)
    item = made_up("fake/fig1", producer)
    with pytest.raises(KeyboardInterrupt):
        reproduce(item, store)
    assert store.result(item, "quick") is None
    assert reproduce(item, store).fresh
    assert producer.steps == 4, "no part was done twice"


def test_scales_are_kept_apart(tmp_path):
    producer, store = Producer(), Store(tmp_path)
    item = made_up("fake/fig1", producer, reduced=smaller(2))
    quick, whole = reproduce(item, store, "quick"), reproduce(item, store, "paper")
    assert quick.folder != whole.folder
    assert [len(store.load(item, scale)["curves"]["value"]) for scale in ("quick", "paper")] == [2, 4]
    sources = {row["key"]: row["source"] for row in json.loads((quick.folder / "setting.json").read_text())}
    assert sources == {"parts": "reduced", "x_0": "ours"}


def test_a_claim_that_does_not_hold_is_reported_as_such(tmp_path):
    item, store = made_up("fake/fig1", Producer(), limit=1e-9), Store(tmp_path)
    made = reproduce(item, store)
    assert made.failed == 1
    claim = json.loads((made.folder / "claims.json").read_text())[0]
    assert (claim["holds"], claim["explanation"]) == (False, "because it was made to fail")
    assert claim["margin"] < 1


def test_claims_are_decided_anew_on_kept_data(tmp_path):
    producer, store = Producer(), Store(tmp_path)
    assert reproduce(made_up("fake/fig1", producer), store).failed == 0
    stricter = reproduce(made_up("fake/fig1", producer, limit=1e-9), store)
    assert (stricter.fresh, stricter.failed) == (False, 1)


def test_tables_read_back_exactly(tmp_path):
    rng = np.random.default_rng(0)
    curves = Curves()
    curves.add("left, with a comma", 'a "b"', rng.standard_normal(5), gradients=np.arange(5))
    curves.add("right", "c", rng.standard_normal(3) * 1e-300)
    data = Data({"curves": curves.table(), "more": {"n": [1, 2], "x": [0.1, np.inf]}}, seeds=[1])
    data.save(tmp_path)
    back = Data.load(tmp_path, [1], {})
    assert np.array_equal(back["curves"]["value"], data["curves"]["value"])
    assert np.array_equal(np.isnan(back["curves"]["gradients"]), np.isnan(data["curves"]["gradients"]))
    del data.tables["curves"]["gradients"], back.tables["curves"]["gradients"]
    assert same_tables(data, back)


def test_tables_need_columns_of_one_length():
    with pytest.raises(InputError, match="same length"):
        Data({"t": {"a": [1, 2], "b": [1]}})


def test_a_setting_that_does_not_exist_names_the_nearest(tmp_path):
    work = Work(made_up("fake/fig1", Producer()), "paper", tmp_path)
    with pytest.raises(KeyError, match="did you mean 'parts'"):
        work["part"]
