"""Where results are kept: one folder for each item and scale, with the key of what it was made from.

    fedlin/fig2/paper/  data/*.csv  setting.json  claims.json  figure.png  figure.svg  page.html  result.json

`result.json` is written last: a folder without it, or with another key in it, counts as not done.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from .data import Data
from .item import Item, Scale

RESULT, SETTING, CLAIMS, FIGURE, PAGE, DATA, WORK = (
    "result.json", "setting.json", "claims.json", "figure", "page.html", "data", "work",
)  # fmt: skip


class Store:
    """The results below one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def folder(self, item: Item, scale: Scale) -> Path:
        return self.root / item.name / item.scale(scale)

    def work_folder(self, item: Item, scale: Scale) -> Path:
        """For what is half done. Its name has the key, so that another setting does not find the wrong half."""
        return self.folder(item, scale) / f"{WORK}-{item.key(scale)}"

    def result(self, item: Item, scale: Scale) -> dict[str, Any] | None:
        """What is known of a finished result, if it was made from the item as it is now."""
        found = read_json(self.folder(item, scale) / RESULT)
        return found if found is not None and found.get("key") == item.key(scale) else None

    def load(self, item: Item, scale: Scale) -> Data:
        """The data of a finished result."""
        result = self.result(item, scale) or {}
        values = {setting.key: setting.value for setting in item.settings(scale)}
        return Data.load(self.folder(item, scale) / DATA, result.get("seeds", ()), values)

    def save(self, item: Item, scale: Scale, data: Data, about: dict[str, Any]) -> None:
        """The data of an item that was run; what was half done is no longer needed."""
        folder = self.folder(item, scale)
        (folder / RESULT).unlink(missing_ok=True)
        shutil.rmtree(folder / DATA, ignore_errors=True)
        data.save(folder / DATA)
        write_json(folder / SETTING, [setting.words() for setting in item.settings(scale)])
        words = {"item": item.name, "title": item.title, "scale": item.scale(scale), "key": item.key(scale)}
        write_json(folder / RESULT, {**words, "revision": item.revision, "seeds": data.seeds, **about})
        for leftover in folder.glob(f"{WORK}-*"):
            shutil.rmtree(leftover)

    def clear(self, item: Item, scale: Scale) -> None:
        """Forget a result and what is half done of it."""
        shutil.rmtree(self.folder(item, scale), ignore_errors=True)


def read_json(path: Path) -> Any:
    """The content of a file, or None where it is absent or broken."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def write_json(path: Path, content: Any) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    temporary.replace(path)
