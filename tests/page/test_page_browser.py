"""The page in a real browser: it renders, its buttons work, nobody complains, nothing is fetched."""

from __future__ import annotations

import csv
import io
import struct
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from page_cases import convergence, long_document

from everyday import only
from undrift.report.page import write_page

FIRST = "[data-figure='0']"
CANVAS = f"{FIRST} .canvas"
PRESSED = "document.querySelector({!r}).getAttribute('aria-pressed')"


def texts(tab, selector):
    return tab.js(f"[...document.querySelectorAll({selector!r})].map(e => e.textContent)")


def axis_label(tab):
    return texts(tab, f"{FIRST} .x-label")[0]


def drawn(tab):
    """The numbers of the series that can be seen in the first figure."""
    return sorted(
        tab.js(f"[...document.querySelectorAll(`{CANVAS} g[data-series]`)].map(e => Number(e.dataset.series))")
    )


def tip(tab):
    """What the box beside the pointer says: (place, label -> value)."""
    where = texts(tab, f"{FIRST} .tip:not([hidden]) .where")
    labels, values = texts(tab, f"{FIRST} .tip .label"), texts(tab, f"{FIRST} .tip .figure")
    return (where[0], dict(zip(labels, values, strict=True))) if where else (None, {})


@pytest.mark.parametrize("width", only([1200, 390], {390}))
def test_page_renders(show, full_page, width):
    tab = show(full_page, width)
    assert tab.js("document.title") == "FedLin reaches x* where FedAvg stops short"
    assert tab.js("document.documentElement.scrollWidth") <= width, "the page must not scroll sideways"
    assert drawn(tab) == [0, 1, 2, 3, 4]
    assert tab.js("document.querySelectorAll('figure .canvas svg').length") == 3
    assert [words.split()[-1] for words in texts(tab, ".badge")] == ["holds", "fails", "holds"]
    assert "<b>é</b>" in texts(tab, ".subtitle")[0], "words stay words"
    assert tab.js("document.querySelector('.picture img').naturalWidth") > 0
    stroke = f"document.querySelector(`{FIRST} g[data-series='%d'] path:not(.band)`).getAttribute('%s')"
    assert tab.js(stroke % (3, "stroke")) == tab.js(stroke % (2, "stroke")), "the bound has the colour of its curve"
    assert [bool(tab.js(stroke % (i, "stroke-dasharray"))) for i in range(5)] == [False, False, False, True, False]
    assert tab.js("document.querySelectorAll(`[data-figure='0'] .band`).length") == 3
    inside = """[...document.querySelectorAll('.canvas svg text')].every(e => {
        const t = e.getBoundingClientRect(), s = e.closest('svg').getBoundingClientRect();
        return t.left >= s.left - 1 && t.right <= s.right + 1 && t.top >= s.top - 1 && t.bottom <= s.bottom + 1; })"""
    assert tab.js(inside), "no label is cut off"


def test_a_bound_for_comparison_is_thinner_than_the_one_that_covers_the_curve(show, tmp_path):
    t = list(range(40))
    lines = [
        ("FedLin", "measured", 0.7, False),
        ("FedLin, certified", "bound", 0.8, False),
        ("FedLin, other", "bound", 0.99, True),
    ]
    series = [
        {"label": n, "kind": k, "x": {"round": t}, "y": [r**s for s in t], "thin": thin} for n, k, r, thin in lines
    ]
    figure = {"title": "Gap", "y_label": "f − f*", "y_scale": "log", "series": series}
    tab = show(write_page(tmp_path / "page.html", {"title": "Three curves", "figures": [figure]}))
    path = f"document.querySelector(`{FIRST} g[data-series='%d'] path`).getAttribute('%s')"
    widths = [float(tab.js(path % (i, "stroke-width"))) for i in range(3)]
    assert widths == sorted(widths, reverse=True)
    dashes = [tab.js(path % (i, "stroke-dasharray")) for i in range(3)]
    assert dashes[0] is None
    assert dashes[1] != dashes[2]
    assert tab.js(f"document.querySelectorAll(`{FIRST} .legend .swatch.thin`).length") == 1


def test_scales_and_axes_can_be_switched(show, full_page):
    tab = show(full_page)
    ticks = f"{FIRST} .canvas svg > text"
    assert "10⁻⁹" in texts(tab, ticks)
    tab.click(f"{FIRST} [data-act='log-y']")
    assert tab.js(PRESSED.format(f"{FIRST} [data-act='log-y']")) == "false"
    assert "10⁻⁹" not in texts(tab, ticks)
    assert {"0", "0.2", "1"} <= set(texts(tab, ticks))
    tab.click(f"{FIRST} [data-act='log-y']")
    assert "10⁻⁹" in texts(tab, ticks)
    assert texts(tab, f"{FIRST} [data-axis]") == ["per round", "per byte", "per gradient", "per second"]
    seen = {}
    for axis in ("bytes", "gradients", "seconds", "round"):
        tab.click(f"{FIRST} [data-axis='{axis}']")
        assert tab.js(PRESSED.format(f"{FIRST} [data-axis='{axis}']")) == "true"
        assert tab.js(f"document.querySelectorAll(`{FIRST} [data-axis][aria-pressed='true']`).length") == 1
        seen[axis] = (axis_label(tab), drawn(tab), tab.js(PRESSED.format(f"{FIRST} [data-act='log-x']")))
    assert seen["bytes"] == ("bytes sent, on all links", [0, 1, 2], "false")  # neither the bound nor gd has bytes
    assert seen["gradients"] == ("gradient evaluations", [0, 1, 2, 4], "true")  # 50 times fewer: log by itself
    assert seen["seconds"] == ("seconds", [0, 1, 2], "false")
    assert seen["round"] == ("communication rounds", [0, 1, 2, 3, 4], "false")
    tab.click(f"{FIRST} [data-act='log-x']")
    assert {"1", "10", "100"} <= set(texts(tab, ticks))


def test_methods_can_be_hidden_and_shown(show, full_page):
    tab = show(full_page)
    tab.click(f"{FIRST} [data-series='0']")
    assert drawn(tab) == [1, 2, 3, 4]
    assert tab.js(PRESSED.format(f"{FIRST} .legend [data-series='0']")) == "false"
    tab.click(f"{FIRST} [data-series='0']")
    assert drawn(tab) == [0, 1, 2, 3, 4]
    tab.click(f"{FIRST} .legend [data-series='2']", times=2)
    assert drawn(tab) == [2, 3], "FedLin and its bound"
    tab.click(f"{FIRST} .legend [data-series='2']", times=2)
    assert drawn(tab) == [0, 1, 2, 3, 4]
    for i in range(5):
        tab.click(f"{FIRST} .legend [data-series='{i}']")
    assert texts(tab, f"{FIRST} .canvas svg text") == ["all series are hidden"]


def test_pointer_and_keys_read_values_off(show, full_page):
    tab = show(full_page)
    data = {series["label"]: np.asarray(series["y"]) for series in convergence()["series"]}
    tab.hover(CANVAS, 0.3)
    place, values = tip(tab)
    t = int(place.removeprefix("round "))
    assert 40 < t < 70
    assert set(values) == set(data)
    for label, word in values.items():
        assert float(word) == pytest.approx(data[label][t], rel=1e-3), label
    assert list(values)[-1] == "FedLin", "from the highest to the lowest"
    assert tab.js(f"document.querySelectorAll(`{FIRST} .hover circle`).length") == 5
    tab.hover(CANVAS, 0.99)
    assert tip(tab)[1]["FedLin"] == "≤ 1e-15"
    tab.hover("h1", 0.5)
    assert tip(tab) == (None, {})
    tab.js(f"document.querySelector(`{FIRST} .plot`).focus()")
    tab.press("Home")
    assert tip(tab)[0] == "round 0"
    for _ in range(3):
        tab.press("ArrowRight")
    assert tip(tab)[0] == "round 3"
    tab.press("ArrowLeft")
    assert tip(tab)[0] == "round 2"
    tab.press("Escape")
    assert tip(tab)[0] is None


def test_a_value_is_the_last_one_that_was_paid_for(show, full_page):
    tab = show(full_page)
    tab.click(f"{FIRST} [data-axis='bytes']")
    tab.js(f"document.querySelector(`{FIRST} .plot`).focus()")
    tab.press("Home")
    tab.press("ArrowRight")  # 80 kB: FedAvg has played a round, the others have not
    place, values = tip(tab)
    assert place.replace("\u202f", " ") == "80 kB sent"
    assert values["FedLin"] == values["SCAFFOLD"] == "1"
    assert float(values["FedAvg"]) < 1


def test_dragging_zooms_and_a_double_click_shows_all(show, full_page):
    tab = show(full_page)
    reset = f"document.querySelector(`{FIRST} [data-act='reset']`).hidden"
    assert tab.js(reset)
    tab.drag(CANVAS, (0.4, 0.3), (0.6, 0.305))  # a flat rectangle: only the horizontal axis
    assert not tab.js(reset)
    tab.hover(CANVAS, 0.07)
    assert 60 < int(tip(tab)[0].removeprefix("round ")) < 90
    tab.click(CANVAS, times=2)
    assert tab.js(reset)
    tab.drag(CANVAS, (0.3, 0.3), (0.6, 0.7))
    assert not tab.js(reset)
    tab.click(f"{FIRST} [data-act='reset']")
    assert tab.js(reset)
    tab.js(f"document.querySelector(`{FIRST} .plot`).focus()")
    tab.press("+")
    assert not tab.js(reset)
    for _ in range(10):
        tab.press("+")
    ticks = texts(tab, f"{FIRST} .canvas svg > text")
    assert "100" in ticks, "the curve is drawn between two points too"
    assert any(word.startswith("99.9") for word in ticks)
    tab.press("0")
    assert tab.js(reset)


def test_downloads(show, full_page):
    tab = show(full_page)
    for kind in ("csv", "svg", "png"):
        tab.click(f"{FIRST} [data-save='{kind}']")
    rows = list(csv.DictReader(io.StringIO(tab.downloaded("csv").decode())))
    for series in convergence()["series"]:
        own = [row for row in rows if row["label"] == series["label"]]
        assert [float(row["y"]) for row in own] == list(series["y"]), "exactly the numbers that were given"
        assert {row["kind"] for row in own} == {series["kind"]}
        assert [row["bytes"] for row in own] == [str(int(b)) for b in series["x"].get("bytes", [])] or not own[0][
            "bytes"
        ]
    picture = ElementTree.fromstring(tab.downloaded("svg"))
    words = {element.text for element in picture.iter() if element.text}
    assert {"Relative gap", "FedAvg", "FedLin, Theorem 1", "communication rounds"} <= words
    png = tab.downloaded("png")
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">I", png[16:20])[0] == 1800


def test_light_and_dark(show, full_page):
    ground = "getComputedStyle(document.body).backgroundColor"
    ink = f"document.querySelector(`{FIRST} .y-label`).getAttribute('fill')"
    light, dark = show(full_page), show(full_page, dark=True)
    assert [light.js(ground), light.js(ink)] != [dark.js(ground), dark.js(ink)]
    assert (light.js(PRESSED.format("#theme")), dark.js(PRESSED.format("#theme"))) == ("false", "true")
    light.press("Tab")
    assert light.js("document.activeElement.id") == "theme", "the keyboard reaches it"
    light.click("#theme")
    assert [light.js(ground), light.js(ink)] == [dark.js(ground), dark.js(ink)]
    dark.js(f"addEventListener('beforeprint', () => {{ window.printed = {ink}; }})")
    assert dark.pdf().startswith(b"%PDF-")
    assert dark.js("window.printed") == "#1c1f23", "paper is light"
    assert dark.js(ink) == "#e6e7e9", "and the screen is dark again"
    dark.click("#theme")
    assert dark.js(ground) == "rgb(248, 248, 246)"


def test_claims_can_be_filtered_and_the_command_copied(show, full_page):
    tab = show(full_page)
    shown = "[...document.querySelectorAll('.claim')].filter(e => e.offsetHeight).length"
    tab.click("#only-failing")
    assert tab.js(shown) == 1
    tab.click("#only-failing")
    assert tab.js(shown) == 3
    tab.click("#copy")
    tab.wait_until("document.querySelector('#copy').textContent === 'copied'")


def test_many_points_are_thinned_and_no_peak_is_lost(show, tmp_path):
    tab = show(write_page(tmp_path / "long.html", long_document(100_000)))
    path = tab.js(f"document.querySelector(`{FIRST} g[data-series] path:not(.band)`).getAttribute('d')")
    heights = [float(word.split()[1]) for word in path.replace("M", "L").split("L")[1:]]
    assert 500 < len(heights) < 6000
    assert sum(height < 60 for height in heights) == 3, "the needles stand"
    assert np.median(heights) > 200
    tab.hover(CANVAS, 0.5)
    assert tip(tab)[0].startswith("round ")


def test_page_of_a_comparison(show, compared):
    tab = show(compared)
    assert drawn(tab) == [0, 1, 2]
    assert texts(tab, f"{FIRST} .legend button") == ["fedavg", "fedlin", "gd (all data in one place)"]
    first = tab.js("document.querySelector('header').querySelector('p, h1').textContent")
    assert first.replace("\u00a0", " ") == "FedLin arrives after 5 rounds; FedAvg is 30 % away after 12 rounds.", (
        "it begins with the verdict"
    )
    assert "τ = 1" in texts(tab, ".subtitle")[0]
    assert texts(tab, "figure h3") == ["Relative gap", "Gradient", "Client drift"]
    tab.click(f"{FIRST} [data-axis='bytes']")
    assert drawn(tab) == [0, 1], "gd sends nothing"


def test_words_that_look_like_markup_are_shown_and_not_run(show, tmp_path):
    evil = [
        "</script><script>window.hacked = 1</script>",
        "<img src=x onerror='window.hacked = 1'>",
        '" onclick="hacked()',
    ]
    figure = convergence()
    for series, label in zip(figure["series"], evil, strict=False):
        series["label"] = label
    words = " ".join(evil)
    document = {"title": words, "subtitle": words, "command": words, "versions": {words: words}, "figures": [figure]}
    document["setting"] = [{"key": words, "value": words, "source": words, "note": words}]
    tab = show(write_page(tmp_path / "page.html", document))
    assert tab.js("typeof window.hacked") == "undefined"
    assert tab.js("document.title") == words
    assert tab.js("document.querySelectorAll('img, [onclick], [onerror]').length") == 0
    shown = tab.js(f"document.querySelector({FIRST!r}).textContent")
    assert [label for label in evil if label not in shown] == []
