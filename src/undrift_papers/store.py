"""Where results are kept: one file for each item and scale, with the key of what it was made from.

    fedlin/fig2-paper.zip   data/*.csv  setting.json  claims.json  result.json  SHA256SUMS
    fedlin/fig2/paper/      figure.png  figure.svg  page.html, drawn from it; work-*, what is half done

A file that is not there, or has another key in it, counts as not done. The training runs that items share are in
`jobs.zip` (see `jobs`).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from .archive import Archive, from_json, to_json
from .data import Data
from .item import Item, Scale

RESULT, SETTING, CLAIMS, DATA = "result.json", "setting.json", "claims.json", "data/"  # in the file
FIGURE, PAGE, WORK = "figure", "page.html", "work"  # in the folder


class Store:
    """The results below one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def jobs(self) -> Path:
        """The training runs that items share."""
        return self.root / "jobs"

    def archive(self, item: Item, scale: Scale) -> Archive:
        """The result."""
        return Archive(self.root / f"{item.name}-{item.scale(scale)}.zip")

    def folder(self, item: Item, scale: Scale) -> Path:
        """What is drawn from the result."""
        return self.root / item.name / item.scale(scale)

    def work_folder(self, item: Item, scale: Scale) -> Path:
        """For what is half done. Its name has the key, so that another setting does not find the wrong half."""
        return self.folder(item, scale) / f"{WORK}-{item.key(scale)}"

    def result(self, item: Item, scale: Scale) -> dict[str, Any] | None:
        """What is known of a finished result, if it was made from the item as it is now."""
        found = self._part(item, scale, RESULT)
        return found if found is not None and found.get("key") == item.key(scale) else None

    def setting(self, item: Item, scale: Scale) -> list[dict[str, Any]]:
        """The setting of a finished result, with who chose what."""
        return self._part(item, scale, SETTING) or []

    def claims(self, item: Item, scale: Scale) -> list[dict[str, Any]] | None:
        """The verdicts on a finished result, if they were decided."""
        found: list[dict[str, Any]] | None = self._part(item, scale, CLAIMS)
        return found

    def load(self, item: Item, scale: Scale) -> Data:
        """The data of a finished result."""
        result = self.result(item, scale) or {}
        values = {setting.key: setting.value for setting in item.settings(scale)}
        tables = self.archive(item, scale).read(DATA)
        files = {name.removeprefix(DATA): content for name, content in tables.items()}
        return Data.from_files(files, result.get("seeds", ()), values)

    def save(self, item: Item, scale: Scale, data: Data, about: dict[str, Any]) -> None:
        """The data of an item that was run; what was half done is no longer needed."""
        words = {"item": item.name, "title": item.title, "scale": item.scale(scale), "key": item.key(scale)}
        result = {**words, "revision": item.revision, "seeds": data.seeds, **about}
        setting = [setting.words() for setting in item.settings(scale)]
        tables = {DATA + name: content for name, content in data.files().items()}
        self.archive(item, scale).write({**tables, SETTING: to_json(setting), RESULT: to_json(result)})
        for leftover in self.folder(item, scale).glob(f"{WORK}-*"):
            shutil.rmtree(leftover)

    def save_claims(self, item: Item, scale: Scale, claims: list[dict[str, Any]]) -> None:
        """The verdicts on a finished result."""
        archive = self.archive(item, scale)
        archive.write({**archive.read(), CLAIMS: to_json(claims)})

    def clear(self, item: Item, scale: Scale) -> None:
        """Forget a result and what is half done of it."""
        self.archive(item, scale).path.unlink(missing_ok=True)
        shutil.rmtree(self.folder(item, scale), ignore_errors=True)

    def _part(self, item: Item, scale: Scale, name: str) -> Any:
        content = self.archive(item, scale).read(name).get(name)
        return None if content is None else from_json(content)
