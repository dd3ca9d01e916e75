"""Chromium as a reader uses it, through Playwright; the system's own browser is started, none is downloaded.

Playwright's calls stay on a thread of their own: they keep an event loop running, and other tests of the same process start
loops themselves.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-quic", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--disable-extensions",
    "--hide-scrollbars", "--mute-audio", "--force-color-profile=srgb", "--js-flags=--expose-gc",
)  # fmt: skip
PATIENCE = 30_000.0  # milliseconds for one answer of a browser on a busy machine
DRAWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))"

Answer = TypeVar("Answer")


def find_chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


def started() -> Iterator[Browser]:
    """One headless Chromium, for as long as tests need it; without one they are skipped, or fail where that was asked for."""
    executable = find_chromium()
    if executable is None:
        why = "no Chromium on this machine (Debian: apt-get install chromium): the page is not tested in a browser"
        pytest.fail(why) if os.environ.get("UNDRIFT_BROWSER") == "required" else pytest.skip(why)
    made = Browser(executable)
    yield made
    made.close()


class Browser:
    """One process; `open` gives a fresh tab, which shares nothing with other tabs."""

    def __init__(self, executable: str) -> None:
        self._thread = ThreadPoolExecutor(1, "browser")
        self.on_thread(lambda: self._start(executable))

    def _start(self, executable: str) -> None:
        from playwright.sync_api import sync_playwright

        self._playwright = sync_playwright().start()
        self.chromium = self._playwright.chromium.launch(executable_path=executable, args=list(FLAGS))

    def on_thread(self, ask: Callable[[], Answer]) -> Answer:
        return self._thread.submit(ask).result()

    def open(self, page: Path | str, width: int = 1200, height: int = 900, dark: bool = False) -> Tab:
        return Tab(self, page.resolve().as_uri() if isinstance(page, Path) else page, width, height, dark)

    def close(self) -> None:
        def stop() -> None:
            self.chromium.close()
            self._playwright.stop()

        self.on_thread(stop)
        self._thread.shutdown()


class Tab:
    """A page that is open, and what a reader does with it."""

    def __init__(self, browser: Browser, address: str, width: int, height: int, dark: bool) -> None:
        self.browser, self.address = browser, address
        self._complaints: list[str] = []
        self._requests: list[str] = []
        self._downloads: list[Any] = []
        self.page: Page = browser.on_thread(lambda: self._open(width, height, dark))
        self.settle()

    def _open(self, width: int, height: int, dark: bool) -> Page:
        context = self.browser.chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", accept_downloads=True
        )
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("console", lambda message: self._complaints.append(f"{message.type}: {message.text}"[:500]))
        page.on("pageerror", lambda error: self._complaints.append(str(error)[:500]))
        page.on("request", lambda request: self._requests.append(request.url))
        page.on("download", lambda download: self._downloads.append(download))
        page.goto(self.address)
        return page

    def do(self, ask: Callable[[Page], Answer]) -> Answer:
        """Anything that Playwright can do with a page."""
        return self.browser.on_thread(lambda: ask(self.page))

    def js(self, expression: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        return self.do(lambda page: page.evaluate(expression))

    def settle(self) -> None:
        """Wait until what was asked for has been drawn."""
        self.js(DRAWN)

    def wait_until(self, expression: str, seconds: float = PATIENCE / 1000) -> None:
        """Wait until an expression is true; the page is asked at every frame."""
        self.do(lambda page: page.wait_for_function(f"() => {expression}", timeout=1000 * seconds))

    def box(self, selector: str) -> tuple[float, float, float, float]:
        """Left, top, width and height of an element, scrolled into sight."""

        def look(page: Page) -> Any:
            element = page.locator(selector).first
            element.evaluate("e => e.scrollIntoView({block: 'center', behavior: 'instant'})")
            return element.bounding_box()

        found = self.do(look)
        return found["x"], found["y"], found["width"], found["height"]

    def inside(self, selector: str, across: float = 0.5, down: float = 0.5) -> tuple[float, float]:
        """A place inside an element, given as shares of its width and height."""
        left, top, width, height = self.box(selector)
        return left + across * width, top + down * height

    def click(self, selector: str, times: int = 1) -> None:
        x, y = self.inside(selector)
        self.do(lambda page: page.mouse.click(x, y, click_count=times))
        self.settle()

    def hover(self, selector: str, across: float, down: float = 0.5) -> None:
        x, y = self.inside(selector, across, down)
        self.do(lambda page: page.mouse.move(x, y))
        self.settle()

    def drag(self, selector: str, start: tuple[float, float], end: tuple[float, float]) -> None:
        a, b = self.inside(selector, *start), self.inside(selector, *end)

        def pull(page: Page) -> None:
            page.mouse.move(*a)
            page.mouse.down()
            page.mouse.move(*b, steps=2)
            page.mouse.up()

        self.do(pull)
        self.settle()

    def press(self, key: str) -> None:
        self.do(lambda page: page.keyboard.press(key))
        self.settle()

    def downloaded(self, ending: str) -> bytes:
        """The file with this ending that was offered; waits for it."""

        def look(page: Page) -> bytes:
            while True:
                for one in self._downloads:
                    if one.suggested_filename.endswith(f".{ending}"):
                        return Path(one.path()).read_bytes()
                page.wait_for_event("download")

        return self.do(look)

    def pdf(self) -> bytes:
        return self.do(lambda page: page.pdf())

    def screenshot(self, path: Path, whole: bool = True) -> None:
        self.do(lambda page: page.screenshot(path=path, full_page=whole))

    def complaints(self) -> list[str]:
        """Everything that the console, the script or the browser complained about."""
        self.js("0")  # everything that happened before has been told by now
        return list(self._complaints)

    def requests(self) -> list[str]:
        """The addresses that were asked for, the page itself included; what lies inside the page does not count."""
        self.js("0")
        return [url for url in self._requests if not url.startswith(("data:", "blob:"))]

    def close(self) -> None:
        self.do(lambda page: page.context.close())
