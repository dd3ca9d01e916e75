"""A headless Chromium, spoken to over its debugging pipe (file descriptors 3 and 4): no driver and no library needed."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import selectors
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-quic",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--disable-extensions", "--hide-scrollbars", "--mute-audio", "--force-color-profile=srgb",
)  # fmt: skip
PATIENCE = 30.0  # seconds for one answer of a browser on a busy machine


def find_chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


class Browser:
    """One process; `open` gives a fresh tab."""

    def __init__(self, executable: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="undrift-browser-"))
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        # Above 4, so that putting one in its place does not overwrite the other.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_browser, from_browser)]
        words = [executable, *FLAGS, f"--user-data-dir={self.folder / 'profile'}", "about:blank"]
        log = os.open(self.folder / "log", os.O_WRONLY | os.O_CREAT, 0o600)
        actions = [(os.POSIX_SPAWN_DUP2, ends[0], 3), (os.POSIX_SPAWN_DUP2, ends[1], 4)]
        actions += [(os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)]
        environment = {**os.environ, "HOME": str(self.folder)}
        self._process = os.posix_spawn(executable, words, environment, file_actions=actions, setpgroup=0)
        for end in (to_browser, from_browser, *ends, log):
            os.close(end)
        self._number = 0
        self._buffer = b""
        self.events: list[dict[str, Any]] = []
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._in, selectors.EVENT_READ)

    def call(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        """Ask for something and wait for the answer; what happens meanwhile is kept in `events`."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        rest = json.dumps(message).encode() + b"\0"
        while rest:
            rest = rest[os.write(self._out, rest) :]
        while True:
            answer = self._next(PATIENCE, f"{method} was not answered")
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, method: str, session: str) -> dict[str, Any]:
        """The next event of this kind, also one that has happened already; it is taken from the list."""
        while True:
            for i, event in enumerate(self.events):
                if event.get("method") == method and event.get("sessionId") == session:
                    return self.events.pop(i)
            self.events.append(self._next(PATIENCE, f"{method} did not happen"))

    def _next(self, seconds: float, complaint: str) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            if not self._selector.select(max(0.0, end - time.monotonic())):
                raise TimeoutError(f"{complaint} within {seconds} s: {self._log()}")
            part = os.read(self._in, 1 << 20)
            if not part:
                raise RuntimeError(f"the browser ended: {self._log()}")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def _log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-2000:]

    def open(self, page: Path, width: int = 1200, height: int = 900, dark: bool = False) -> Tab:
        return Tab(self, page, width, height, dark)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.call("Browser.close")
        self._selector.close()
        for end in (self._in, self._out):
            os.close(end)
        end_of_patience = time.monotonic() + 5
        while os.waitpid(self._process, os.WNOHANG) == (0, 0):
            if time.monotonic() > end_of_patience:
                os.killpg(self._process, signal.SIGKILL)
                os.waitpid(self._process, 0)
                break
            time.sleep(0.02)
        shutil.rmtree(self.folder, ignore_errors=True)


class Tab:
    """A page that is open, and what a reader does with it."""

    def __init__(self, browser: Browser, page: Path, width: int, height: int, dark: bool) -> None:
        self.browser = browser
        context = browser.call("Target.createBrowserContext")["browserContextId"]
        self.downloads = browser.folder / context
        self.downloads.mkdir()
        target = browser.call("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        self.target = target
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        browser.call(
            "Browser.setDownloadBehavior",
            behavior="allow", browserContextId=context, downloadPath=str(self.downloads),
        )  # fmt: skip
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=page.resolve().as_uri())
        browser.wait_for("Page.loadEventFired", self.session)
        self.settle()

    def call(self, method: str, **parameters: Any) -> Any:
        return self.browser.call(method, self.session, **parameters)

    def js(self, expression: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def settle(self) -> None:
        """Wait until what was asked for has been drawn."""
        self.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    def place(self, selector: str) -> tuple[float, float]:
        """The middle of an element, scrolled into sight."""
        found = self.js(f"""(() => {{
            const e = document.querySelector({json.dumps(selector)});
            if (!e) return null;
            e.scrollIntoView({{block: "center", behavior: "instant"}});
            const r = e.getBoundingClientRect();
            return [r.x + r.width / 2, r.y + r.height / 2];
        }})()""")
        assert found is not None, f"there is no {selector}"
        return found[0], found[1]

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, selector: str, times: int = 1) -> None:
        x, y = self.place(selector)
        for count in range(1, times + 1):
            self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=count)
            self.mouse("mouseReleased", x, y, button="left", clickCount=count)
        self.settle()

    def hover(self, selector: str, across: float, down: float = 0.5) -> None:
        """Move the pointer to a place inside an element, given as shares of its width and height."""
        x, y = self.inside(selector, across, down)
        self.mouse("mouseMoved", x, y)
        self.settle()

    def inside(self, selector: str, across: float, down: float) -> tuple[float, float]:
        x, y = self.place(selector)
        width, height = self.js(
            f"(r => [r.width, r.height])(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
        )
        return x + (across - 0.5) * width, y + (down - 0.5) * height

    def drag(self, selector: str, start: tuple[float, float], end: tuple[float, float]) -> None:
        a, b = self.inside(selector, *start), self.inside(selector, *end)
        self.mouse("mouseMoved", *a)
        self.mouse("mousePressed", *a, button="left", buttons=1, clickCount=1)
        self.mouse("mouseMoved", (a[0] + b[0]) / 2, (a[1] + b[1]) / 2, button="left", buttons=1)
        self.mouse("mouseMoved", *b, button="left", buttons=1)
        self.mouse("mouseReleased", *b, button="left", clickCount=1)
        self.settle()

    def press(self, key: str, **more: Any) -> None:
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **more)
        self.settle()

    def downloaded(self, ending: str) -> bytes:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for file in self.downloads.glob(f"*.{ending}"):
                if file.stat().st_size:
                    return file.read_bytes()
            time.sleep(0.02)
        raise TimeoutError(f"no .{ending} was downloaded; there are {list(self.downloads.iterdir())}")

    def screenshot(self, path: Path, whole: bool = True) -> None:
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def complaints(self) -> list[str]:
        """Everything that the console, the script or the browser complained about."""
        found = []
        for event in self._events("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            found.append(json.dumps(event["params"])[:500])
        return found

    def requests(self) -> list[str]:
        """The addresses that were asked for, the page itself included; what lies inside the page does not count."""
        urls = [event["params"]["request"]["url"] for event in self._events("Network.requestWillBeSent")]
        return [url for url in urls if not url.startswith(("data:", "blob:"))]

    def _events(self, *methods: str) -> list[dict[str, Any]]:
        self.js("0")  # everything that happened before has been told by now
        return [e for e in self.browser.events if e.get("method") in methods and e.get("sessionId") == self.session]

    def close(self) -> None:
        self.browser.call("Target.closeTarget", targetId=self.target)
