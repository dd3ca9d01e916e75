"""Results are kept by what they were made from, and nothing is done twice."""

from __future__ import annotations

import dataclasses
import hashlib
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from paper_items import Producer, made_up, same_tables, smaller
from undrift.errors import InputError
from undrift_papers.archive import Archive
from undrift_papers.data import Curves, Data
from undrift_papers.item import Work, ours
from undrift_papers.reproduce import reproduce
from undrift_papers.store import Store

ROOT = Path(__file__).parents[2]


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
    store, item = Store(tmp_path), made_up("fake/fig1", Producer())
    reproduce(item, store)
    changed = dataclasses.replace(item, **change)
    assert changed.key("quick") != item.key("quick")
    assert reproduce(changed, store).fresh


def test_words_beside_a_value_do_not_change_the_key():
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
    sources = {row["key"]: row["source"] for row in store.setting(item, "quick")}
    assert sources == {"parts": "reduced", "x_0": "ours"}


def test_a_claim_that_does_not_hold_is_reported_as_such(tmp_path):
    item, store = made_up("fake/fig1", Producer(), limit=1e-9), Store(tmp_path)
    made = reproduce(item, store)
    assert made.failed == 1
    (claim,) = store.claims(item, "quick")
    assert (claim["holds"], claim["explanation"]) == (False, "because it was made to fail")
    assert claim["margin"] < 1


def test_claims_are_decided_anew_on_kept_data(tmp_path):
    producer, store = Producer(), Store(tmp_path)
    assert reproduce(made_up("fake/fig1", producer), store).failed == 0
    stricter = reproduce(made_up("fake/fig1", producer, limit=1e-9), store)
    assert (stricter.fresh, stricter.failed) == (False, 1)


def test_a_result_is_one_file_that_other_programs_open(tmp_path):
    item, store = made_up("fake/fig1", Producer()), Store(tmp_path)
    made = reproduce(item, store)
    assert made.file == tmp_path / "fake" / "fig1-paper.zip"
    subprocess.run([sys.executable, "-m", "zipfile", "-e", made.file, tmp_path / "unpacked"], check=True)
    unpacked = {str(path.relative_to(tmp_path / "unpacked")): path for path in (tmp_path / "unpacked").rglob("*.*")}
    assert set(unpacked) == {"data/curves.csv", "setting.json", "claims.json", "result.json"}
    lines = (tmp_path / "unpacked" / "SHA256SUMS").read_text().splitlines()
    said = {name: checksum for checksum, name in (line.split("  ") for line in lines)}
    assert said == {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in unpacked.items()}


def test_the_same_content_is_the_same_file(tmp_path):
    members = {"b": b"2", "a": b"1"}
    one, other = Archive(tmp_path / "one.zip"), Archive(tmp_path / "other.zip")
    one.write(members)
    other.write(dict(sorted(members.items())))
    assert one.path.read_bytes() == other.path.read_bytes()
    before = one.path.stat().st_ino
    one.write(members)
    assert one.path.stat().st_ino == before, "it was moved into place once more"


def test_a_file_that_cannot_be_written_leaves_the_last_one(tmp_path, monkeypatch):
    archive = Archive(tmp_path / "a.zip")
    archive.write({"a": b"1"})

    def fail(name, target):
        raise OSError("no space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="no space"):
        archive.write({"a": b"2"})
    assert archive.read() == {"a": b"1"}
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


def test_members_are_added_beside_those_that_are_there(tmp_path):
    archive = Archive(tmp_path / "a.zip")
    archive.add({"one/x": b"1"})
    archive.add({"two/x": b"2"})
    assert archive.read("one/") == {"one/x": b"1"}
    assert archive.read() == {"one/x": b"1", "two/x": b"2"}
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"], "the lock is gone"


def test_several_may_add_at_once(tmp_path):
    archive = Archive(tmp_path / "a.zip")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: archive.add({f"{number}": b"x"}), range(8)))
    assert set(archive.read()) == set("01234567")


def one_digit(file: Path) -> None:
    content = file.read_bytes()
    at = content.rindex(b"0.125")
    file.write_bytes(content[:at] + b"0.126" + content[at + 5 :])


def one_digit_by_a_program(file: Path) -> None:
    """The zip's own checksum is made to fit."""
    with zipfile.ZipFile(file) as before:
        members = {name: before.read(name).replace(b"0.125", b"0.126") for name in before.namelist()}
    with zipfile.ZipFile(file, "w") as after:
        for name, content in members.items():
            after.writestr(name, content)


def one_member_more(file: Path) -> None:
    with zipfile.ZipFile(file, "a") as after:
        after.writestr("data/more.csv", "a,b")


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (one_digit, "Bad CRC-32"),
        (one_digit_by_a_program, "does not have the SHA-256 that SHA256SUMS lists"),
        (one_member_more, "its members are not those that SHA256SUMS lists"),
        (cut_short, "not a zip file"),
    ],
)
def test_damaged_results_are_refused_until_they_are_run_again(tmp_path, damage, says):
    producer, store = Producer(), Store(tmp_path)
    item = made_up("fake/fig1", producer)
    file = reproduce(item, store).file
    damage(file)
    with pytest.raises(InputError, match=says) as refused:
        reproduce(item, store)
    assert str(file) in str(refused.value)
    assert reproduce(item, store, again=True).fresh
    assert producer.calls == 2


def test_committed_results_are_whole():
    files = list((ROOT / "reproduction").rglob("*.zip"))
    assert len(files) > 30
    assert all(Archive(file).read() for file in files)


def test_tables_read_back_exactly(tmp_path):
    rng = np.random.default_rng(0)
    curves = Curves()
    curves.add("left, with a comma", 'a "b"', rng.standard_normal(5), gradients=np.arange(5))
    curves.add("right", "c", rng.standard_normal(3) * 1e-300)
    data = Data({"curves": curves.table(), "more": {"n": [1, 2], "x": [0.1, np.inf]}}, seeds=[1])
    archive = Archive(tmp_path / "tables.zip")
    archive.write(data.files())
    back = Data.from_files(archive.read(), [1], {})
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
