"""The board in a real browser: it shows runs as they go on, and what a static page shows when they have ended."""

from __future__ import annotations

import contextlib

import pytest
from board_cases import GoingOn, ask, finished, served

FIRST = "[data-figure='0']"
ROUND = "document.querySelector('.going').textContent"


@pytest.fixture
def serve():
    """Boards that outlive the tabs: a tab whose server is gone complains."""
    with contextlib.ExitStack() as stack:
        yield lambda *arguments, **words: contextlib.nullcontext(stack.enter_context(served(*arguments, **words)))


@pytest.fixture
def show(browser, serve):
    """Open an address. In the end nobody may have complained, and nothing but the board may have been asked."""
    tabs = []

    def open_address(address, width=1200, height=900, dark=False):
        tabs.append(browser.open(address, width, height, dark))
        return tabs[-1]

    yield open_address
    for tab in tabs:
        complaints, requests = tab.complaints(), tab.requests()
        tab.close()
        assert complaints == []
        assert [url for url in requests if not url.startswith(tab.address[: tab.address.index("/", 7) + 1])] == []


def texts(tab, selector):
    return tab.js(f"[...document.querySelectorAll({selector!r})].map(e => e.textContent)")


def key_of(tab, name):
    """The key of the run of this name, from the list."""
    found = (
        f"[...document.querySelectorAll('.run')].find(e => e.querySelector('.more').textContent.startsWith('{name} ·'))"
    )
    tab.wait_until(found)
    return tab.js(f"{found}.dataset.run")


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """50 runs that have ended."""
    folder = tmp_path_factory.mktemp("many")
    for i in range(50):
        finished(folder / f"old-{i:02d}", title=f"fedavg {i} on digits", rate=0.8 + 0.003 * i)
    return folder


@pytest.mark.slow
def test_fifty_runs_and_a_live_one_of_ten_thousand_rounds(serve, show, many):
    live = GoingOn(many / "live")
    with serve(many) as address:
        listing = show(f"{address}/")
        listing.wait_until("document.querySelectorAll('.run').length === 51")
        assert texts(listing, ".run .state")[0] == "running", "what goes on comes first"
        tab = show(f"{address}/run/{key_of(listing, 'live')}")
        tab.wait_until("document.querySelector('.going')")
        live.play(1)
        for _ in range(5):
            live.play(50)
            tab.wait_until(f"{ROUND}.includes('round {live.round - 1:,} of 10,000')")
            tab.wait_until(f"document.querySelectorAll(`{FIRST} g[data-series] path`).length === 2")
        while live.round < 4000:
            live.play(250)
            tab.wait_until(f"{ROUND}.includes('round {live.round - 1:,} ')")
        before = heap(tab)
        while live.round < 10_001:
            live.play(250)
            tab.wait_until(f"{ROUND}.includes('round {min(live.round - 1, 10_000):,} ')")
        after = heap(tab)
        assert after["points"] < 2500
        assert after["nodes"] <= before["nodes"] + 50
        assert after["bytes"] < before["bytes"] + 3e6, "what is kept does not grow with the rounds"
        listing.wait_until("document.querySelector('.run .more').textContent.includes('of 10,000 rounds')")


def heap(tab):
    def look(page):
        session = page.context.new_cdp_session(page)
        session.send("HeapProfiler.collectGarbage")
        used = session.send("Runtime.getHeapUsage")["usedSize"]
        session.detach()
        return used

    path = f"document.querySelector(`{FIRST} g[data-series='0'] path`).getAttribute('d')"
    found = {"points": len(tab.js(path).replace("M", "L").split("L")), "bytes": tab.do(look)}
    return {**found, "nodes": tab.js("document.querySelectorAll('*').length")}


def test_a_run_as_it_goes_on_and_when_it_ends(serve, show, tmp_path):
    live = GoingOn(tmp_path / "runs" / "live", rounds=120)
    live.play(40)
    live.judge(True)
    with serve(tmp_path) as address:
        listing = show(f"{address}/", width=390)
        tab = show(f"{address}/run/{key_of(listing, 'runs/live')}")
        tab.wait_until("document.querySelector('.claim.holds')")
        assert "80 rounds left" not in tab.js(ROUND)
        assert "81 rounds left" in tab.js(ROUND), "rounds 0 to 39 are there"
        assert texts(tab, f"{FIRST} .legend button") == ["fedlin", "fedlin, Theorem 1"]
        assert texts(tab, f"{FIRST} [data-axis]") == ["per round", "per byte", "per gradient", "per second"]
        assert texts(tab, ".message b") == ["800 B", "800 B"]
        tab.click(f"{FIRST} [data-axis='bytes']")
        tab.click(f"{FIRST} .legend [data-series='1']")
        live.play(20)
        live.judge(False)
        live.tell_sites([True, False], [0.01, 0.5])
        tab.wait_until("document.querySelector('.claim.fails')")
        tab.wait_until("document.querySelectorAll('.presence tbody tr').length === 2")
        assert "1 of 2 sites are here; away: site-1" in tab.js(ROUND)
        assert texts(tab, ".presence .source") == ["slowest"]
        pressed = "document.querySelector(`{}`).getAttribute('aria-pressed')"
        assert tab.js(pressed.format(f"{FIRST} [data-axis='bytes']")) == "true", "what the reader chose stays"
        assert tab.js(pressed.format(f"{FIRST} .legend [data-series='1']")) == "false"
        live.writer.begin()  # resumed from an earlier checkpoint
        live.round = 0
        live.play(10)
        tab.wait_until(f"{ROUND}.includes('round 9 of 120')")
        done = finished(tmp_path / "elsewhere")
        for name in ("page.html", "summary.json"):
            (done / name).rename(live.folder / name)
        for name in (".lock", ".lock.owner", "progress.jsonl"):
            (live.folder / name).unlink()
        tab.wait_until("document.querySelector('.state.finished')")
        tab.wait_until("document.querySelectorAll('.figures .canvas svg').length === 2")
        assert texts(tab, "h1") == ["fedavg on digits"]


def test_the_view_of_a_run_that_has_ended_is_its_static_page(serve, show, tmp_path):
    page = finished(tmp_path / "done") / "page.html"
    with serve(tmp_path) as address:
        listing = show(f"{address}/")
        tab = show(f"{address}/run/{key_of(listing, 'done')}")
        tab.wait_until("document.querySelectorAll('.presence tbody tr').length === 2")
        tab.settle()
    alone = show(page.resolve().as_uri())
    sections = "[...document.querySelectorAll('main > section')].map(e => e.outerHTML)"
    assert tab.js(sections) == alone.js(sections), "claims, curves, clients, messages, tables: the same elements"
    assert len(tab.js(sections)) == 8
    assert texts(tab, ".verdict p")[0] == "FedAvg is 5\xa0% away"
    assert texts(tab, ".lane-mark") == ["worst", "best"]
    assert texts(tab, "[data-figure='1'] .legend button")[2:] == ["fedavg ↑top_k(8)", "gd (all data in one place)"]
    look = "(s => [s.fontWeight, s.fontSize, s.backgroundColor, s.height])(getComputedStyle(e))"
    looks = f"[...document.querySelectorAll('.lanes svg, .presence svg, .verdict p')].map(e => {look})"
    assert tab.js(looks) == alone.js(looks), "no style of the board gets at them"
    assert tab.js("document.querySelector('#header').innerHTML") in alone.js(
        "document.querySelector('header').innerHTML"
    )


def test_runs_can_be_compared_while_one_goes_on(serve, show, tmp_path):
    live = GoingOn(tmp_path / "live")
    live.play(30)
    finished(tmp_path / "done")
    finished(tmp_path / "long", rounds=9000, rate=0.999)
    with serve(tmp_path) as address:
        tab = show(f"{address}/")
        for name in ("live", "done", "long"):
            tab.click(f"[data-run='{key_of(tab, name)}'] .pick")
        live.play(30)  # the choice outlives news
        tab.wait_until("document.querySelector('.run .more').textContent.includes('59 of')")
        tab.do(lambda page: page.click("#compare"))
        tab.wait_until(f"document.querySelectorAll(`{FIRST} g[data-series]`).length === 6")
        labels = texts(tab, f"{FIRST} .legend button")
        assert {"fedlin · live", "fedavg · done", "fedavg · long"} <= set(labels)
        line = f"document.querySelector(`{FIRST} g[data-series='{{}}'] path`)"
        ask = f"(e => [e.getAttribute('stroke'), e.getAttribute('stroke-dasharray')])({line})"
        looks = {label: tab.js(ask.format(i)) for i, label in enumerate(labels)}
        done, long = looks["fedavg · done"], looks["fedavg · long"]
        assert done[0] == long[0] != looks["fedlin · live"][0], "a colour for each method"
        assert done[1] != long[1], "and dashes for each run of it"
        assert looks["fedavg, Theorem 2 · long"][0] == long[0]
        own = (
            f"document.querySelector(`{FIRST} g[data-series='{labels.index('fedlin · live')}'] path`).getAttribute('d')"
        )
        before = tab.js(own)
        live.play(500)
        tab.wait_until(f"{ROUND.replace('.going', '.going:has(.running)')}.includes('round 559 ')")
        assert tab.js(own) != before
        assert len(texts(tab, ".claim")) == 2


@pytest.mark.parametrize(("width", "dark"), [(390, True), (1200, False)])
def test_nothing_overflows_in_light_and_dark(serve, show, tmp_path, width, dark):
    long = "a-long-name-" * 8
    live = GoingOn(tmp_path / long / "live", title=long * 3)
    live.play(60)
    live.tell_sites([True] * 6, [0.1] * 6)
    finished(tmp_path / "done", title=long * 2)
    with serve(tmp_path) as address:
        listing = show(f"{address}/", width, dark=dark)
        listing.wait_until("document.querySelectorAll('.run').length === 2")
        tab = show(f"{address}/run/{key_of(listing, f'{long}/live')}", width, dark=dark)
        tab.wait_until("document.querySelectorAll('.presence tbody tr').length === 6")
        for one in (listing, tab):
            assert one.js("document.documentElement.scrollWidth") <= width
            ground = one.js("getComputedStyle(document.body).backgroundColor")
            assert ground == ("rgb(18, 20, 23)" if dark else "rgb(248, 248, 246)")
        tab.click("#theme")
        assert tab.js("getComputedStyle(document.body).backgroundColor") != ground


def test_words_that_look_like_markup_are_shown_and_not_run(serve, show, tmp_path):
    evil = "</script><img src=x onerror='window.hacked=1'>"
    rows = [{"key": evil, "value": evil, "source": evil}]
    live = GoingOn(tmp_path / "live", title=evil, subtitle=evil, line=evil, setting=rows)
    live.play(30)
    live.writer.add(claims=[{"sentence": evil, "holds": True}])
    live.tell_sites([True], [1.0])
    with serve(tmp_path) as address:
        listing = show(f"{address}/")
        tab = show(f"{address}/run/{key_of(listing, 'live')}")
        tab.wait_until("document.querySelector('.claim')")
        assert texts(tab, "h1") == [evil]
        for one in (listing, tab):
            assert one.js("typeof window.hacked") == "undefined"
            assert one.js("document.querySelectorAll('img').length") == 0


def test_a_run_that_is_removed_and_one_that_comes(serve, show, tmp_path):
    finished(tmp_path / "one")
    with serve(tmp_path) as address:
        tab = show(f"{address}/")
        page = show(f"{address}/run/{key_of(tab, 'one')}")
        (tmp_path / "one").rename(tmp_path / "other")
        page.wait_until("document.querySelector('.nothing')")
        tab.wait_until("[...document.querySelectorAll('.more')].some(e => e.textContent.startsWith('other ·'))")
        assert len(texts(tab, ".run")) == 1
        tab.do(lambda one: one.fill("#search", "nobody"))
        tab.wait_until("!document.querySelector('#nothing').hidden")
        assert ask(address, "/run/0123456789abcdef")[0] == 404


def test_a_token_opens_the_board_once_shown(serve, show, tmp_path):
    finished(tmp_path / "one")
    with serve(tmp_path, token="secret-word") as address:
        tab = show(f"{address}/?token=secret-word")
        tab.wait_until("document.querySelectorAll('.run').length === 1")
        assert tab.js("location.href") == f"{address}/", "the token does not stay in the address"
        assert tab.js("document.cookie") == "", "no script reads the session"
