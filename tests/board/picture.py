"""Makes docs/board.png: a real comparison, a real run that has ended, and one that goes on.

python tests/board/picture.py docs/board.png
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from board_cases import served

from browser import Browser, find_chromium

UNDRIFT = [sys.executable, "-m", "undrift"]
RUN = ["run", "--problem", "digits", "--quiet", "--per-client"]


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        runs = Path(place)
        play([*RUN, "--method", "fedlin", "--eta", "theorem", "--rounds", "150", "--steps", "10"], runs / "theorem")
        play([*RUN, "--method", "fedavg", "--rounds", "150", "--steps", "10"], runs / "fedavg")
        words = [*RUN, "--method", "fedlin", "--eta", "theorem", "--rounds", "50000", "--steps", "2..20:fixed"]
        live = subprocess.Popen([*UNDRIFT, *words, "--out", str(runs / "live")], stdout=subprocess.DEVNULL)
        try:
            while not played(runs / "live" / "progress.jsonl"):
                time.sleep(0.2)
            photograph(runs, target)
        finally:
            live.kill()
            live.wait()


def play(words: list[str], folder: Path) -> None:
    subprocess.run([*UNDRIFT, *words, "--out", str(folder)], check=True, stdout=subprocess.DEVNULL)


def played(progress: Path) -> bool:
    return progress.exists() and progress.read_bytes().count(b'"curve"') > 6


def photograph(runs: Path, target: Path) -> None:
    browser = Browser(find_chromium() or "chromium")
    try:
        with served(runs) as address:
            listing = browser.open(f"{address}/", 1100, 420)
            listing.wait_until("document.querySelectorAll('.run').length === 3 && document.querySelector('.promise')")
            key = listing.js("document.querySelector('.run').dataset.run")
            tab = browser.open(f"{address}/run/{key}", 1100, 1150)
            tab.wait_until("document.querySelectorAll('.canvas svg').length > 1")
            tab.screenshot(target, whole=False)
            listing.close()
            tab.close()
    finally:
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
