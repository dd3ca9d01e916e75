"""The page without a browser: it is whole, it fetches nothing, bad documents are refused by name."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser
from importlib import resources

import numpy as np
import pytest
from page_cases import comparison, full_document

from undrift.algorithms import METHODS
from undrift.errors import InputError
from undrift.report.colours import CONTRAST, DARK_GROUND, contrast, on_dark
from undrift.report.page import write_page
from undrift.report.page.check import checked
from undrift.report.page.palette import coloured
from undrift.report.page.script import PAGE, script
from undrift.report.style import OTHERS, colours, looks
from undrift.theory.methods.centralised import GREY

EMPTY = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Reader(HTMLParser):
    """Elements that are open, addresses that are referred to, the data."""

    def __init__(self):
        super().__init__()
        self.open, self.wrong, self.addresses, self.ids, self.data = [], [], [], [], ""

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.addresses += [given[key] for key in ("src", "href", "action", "srcset", "poster") if given.get(key)]
        self.ids += [given["id"]] if "id" in given else []
        self.open += [] if tag in EMPTY else [(tag, given.get("id"))]

    def handle_endtag(self, tag):
        if not self.open or self.open.pop()[0] != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        if self.open and self.open[-1] == ("script", "data"):
            self.data += data


def read(page):
    reader = Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    reader.close()
    return reader


def figure(**changes):
    series = {"label": "fedlin", "x": {"round": [0, 1]}, "y": [1.0, 0.5]} | changes.pop("series", {})
    return {"title": "t", "figures": [{"title": "gap", "series": [series]} | changes]}


def test_page_is_one_whole_file_that_fetches_nothing(full_page):
    reader = read(full_page)
    assert reader.wrong == []
    assert reader.open == []
    assert len(reader.ids) == len(set(reader.ids))
    assert all(address.startswith(("data:", "#")) for address in reader.addresses)
    assert {address[1:] for address in reader.addresses if address.startswith("#")} <= set(reader.ids)
    text = full_page.read_text(encoding="utf-8")
    assert not re.search(r"https?://", text)
    assert not re.search(r"@import|url\((?!#)", text)
    assert "default-src 'none'" in text


def test_data_come_through_exactly(full_page, tmp_path):
    data = json.loads(read(full_page).data)
    given = full_document(tmp_path)["figures"]
    assert [f["title"] for f in data["figures"]] == [f["title"] for f in given]
    for ours, theirs in zip(data["figures"], given, strict=True):
        for one, other in zip(ours["series"], theirs["series"], strict=True):
            y = np.asarray(other["y"], float)
            assert one["y"] == [v if np.isfinite(v) else None for v in y.tolist()]
    assert data["figures"][0]["series"][0]["x"]["round"] == {"from": 0, "step": 1, "count": 201}


def test_words_cannot_leave_their_place(tmp_path):
    evil = "</script><script>alert(1)</script>"
    document = figure(series={"label": evil}) | {
        "title": evil,
        "command": evil,
        "seeds": [evil],
        "versions": {evil: evil},
    }
    document |= {"claims": [{"sentence": evil, "holds": True, "measured": evil}]}
    document |= {"setting": [{"key": evil, "value": evil, "source": evil, "note": evil}]}
    document |= {"tables": [{"title": evil, "columns": [evil], "rows": [[evil]]}]}
    page = write_page(tmp_path / "p.html", document)
    assert page.read_text().count("<script>") == 1
    reader = read(page)
    assert (reader.wrong, reader.open) == ([], [])
    assert json.loads(reader.data)["figures"][0]["series"][0]["label"] == evil


def test_a_title_is_enough(tmp_path):
    reader = read(write_page(tmp_path / "p.html", {"title": "nothing yet"}))
    assert (reader.wrong, reader.open) == ([], [])


def test_script_is_small():
    assert len(script(*PAGE).encode()) < 60_000


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({}, "page: the key 'title' is missing"),
        ({"title": 3}, "page.title: text, got 3"),
        ({"title": "t", "claim": []}, "did you mean 'claims'"),
        ({"title": "t", "claims": "all"}, "claims: give a list"),
        ({"title": "t", "claims": [{"sentence": "s", "holds": "yes"}]}, r"claims\[0\].holds: a claim holds \(True\)"),
        ({"title": "t", "versions": ["jax"]}, "versions: give a dictionary"),
        ({"title": "t", "setting": [{"key": "k"}]}, r"setting\[0\]: the key 'value' is missing"),
        (figure(y_scale="sqrt"), r"figures\[0\].y_scale: 'log' or 'linear', got 'sqrt'"),
        (figure(x_scale="sqrt"), r"figures\[0\].x_scale"),
        (figure(floor=-1), r"figures\[0\].floor: a positive number"),
        ({"title": "t", "figures": [{"title": "f", "series": []}]}, "at least one series"),
        (figure(series={"kind": "guess"}), r"figures\[0\].series\[0\].kind: 'measured' or 'bound'"),
        (figure(series={"x": [0, 1]}), r"series\[0\].x: a dictionary from axes"),
        (figure(series={"x": {"round": [0]}}), r"x\['round'\]: a column must have the length of y, 2"),
        (figure(series={"x": {"round": [1, 0]}}), r"x\['round'\]: the column must not decrease"),
        (figure(series={"y": ["a", "b"]}), r"series\[0\].y: give a list of numbers"),
        (figure(series={"y": []}), "at least one point"),
        (figure(series={"low": [0, 0]}), "both low and high"),
        (figure(series={"kind": "bound", "of": "fedlim"}), "unknown measured series 'fedlim'"),
        ({"title": "t", "tables": [{"title": "a", "columns": ["b"], "rows": [[1, 2]]}]}, r"rows\[0\]: 1 cells"),
        ({"title": "t", "pictures": [{"title": "a", "svg_or_png_path": "a.gif"}]}, "a file .svg or .png"),
        ({"title": "t", "pictures": [{"title": "a", "svg_or_png_path": "/no/a.png"}]}, "cannot be read"),
    ],
)
def test_a_bad_document_is_refused_by_name(document, complaint, tmp_path):
    with pytest.raises(InputError, match=complaint):
        write_page(tmp_path / "p.html", document)
    assert not (tmp_path / "p.html").exists()


def test_bounds_find_their_curves():
    def series(label, kind="measured", **more):
        return {"label": label, "kind": kind, "x": {"round": [0]}, "y": [1], **more}

    lines = [series("A"), series("A, fast"), series("A, fast: Theorem 1", "bound"), series("bound", "bound")]
    lines += [series("B"), series("limit", "bound", of="A")]
    found = checked({"title": "t", "figures": [{"title": "f", "series": lines}]})["figures"][0]["series"]
    assert [one["of"] for one in found] == [None, None, 1, 1, None, 0]
    alone = checked(figure(series={"kind": "bound"}))["figures"][0]["series"]
    assert alone[0]["of"] is None


def test_looks_are_those_of_the_printed_figures_and_differ_within_one():
    def lines(*labels):
        return {"series": [{"label": label, "of": None, "method": None} for label in labels]}

    labels = ("FedLin", "SCAFFOLD", "FedLin, τ = 5", "mine")
    first, second = coloured([lines(*labels), lines("mine", "fedlin #2")])
    printed = looks(["fedlin", "scaffold", "fedlin", "mine"])
    for one, look in zip(first["series"], printed, strict=True):
        assert (one["colour"][0], one["variant"]) == (look.colour, look.variant), one["label"]
    assert printed[0].colour == printed[2].colour == colours()["fedlin"], "variants of a method have its colour"
    assert second["series"][0]["colour"] == first["series"][3]["colour"], "a label keeps its look"
    many = coloured([lines(*(f"{i}th" for i in range(len(OTHERS) + len(colours()))))])[0]["series"]
    assert len({(one["colour"][0], one["dash"]) for one in many}) == len(many)


def test_every_method_has_a_colour_and_no_two_but_the_pooled_share_it():
    shared = Counter(colours()[name] for name in METHODS)
    assert [colour for colour, count in shared.items() if count > 1] == [GREY]
    assert not set(OTHERS) & set(colours().values())


def test_a_users_method_has_the_same_colour_beside_others():
    alone, beside = looks(["mine.py:mine"])[0], looks(["fedavg", "feddyn", "mine.py:mine", "fedlin"])[2]
    assert alone == beside
    assert len(set(looks(["fedlin"] * 12))) == 12


def test_lines_can_be_seen_on_dark_ground():
    style = (resources.files("undrift.report.page") / "style.css").read_text()
    assert f"--card: {DARK_GROUND}" in style
    assert all(contrast(on_dark(colour), DARK_GROUND) >= CONTRAST for colour in {*OTHERS, *colours().values()})


def test_document_of_a_comparison():
    document = comparison(seeds=3)
    gap, gradient, drift = document["figures"]
    assert [one["label"] for one in gap["series"]] == ["fedavg", "fedlin", "gd"]
    fedlin = gap["series"][1]
    assert np.allclose(fedlin["y"], np.r_[1, 1.1 * 0.01 ** np.arange(1.0, 13)])
    assert np.allclose(fedlin["high"][1:] / fedlin["low"][1:], 1.2)
    assert np.array_equal(fedlin["x"]["bytes"], 1600 * np.arange(13))
    assert set(gap["series"][2]["x"]) == {"round", "gradients", "seconds"}, "gd sends nothing"
    assert np.allclose(fedlin["x"]["seconds"], 0.15 * np.arange(13))
    assert (gap["floor"], gradient["floor"]) == (1e-15, None)
    assert drift["title"] == "Client drift"
    results, grid = document["tables"]
    assert results["rows"][1][:2] == ["fedlin", "0.1"]
    assert [row[3] for row in grid["rows"]] == ["", "round 5"] * 3
    setting = {row["key"]: row for row in document["setting"]}
    assert (setting["fedlin: eta"]["source"], setting["fedavg: eta"]["source"]) == ("rule", "given")
    assert setting["fedlin: eta"]["note"] == "around 1/(6L)"


def test_rounds_that_were_not_evaluated_are_left_out():
    series = comparison(seeds=1, every=4)["figures"][0]["series"][0]
    assert list(series["x"]["round"]) == [0, 4, 8, 12]
    assert np.all(np.isfinite(series["y"]))
    assert series["low"] is None
