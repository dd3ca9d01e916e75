"""Project URLs for the package's metadata, from the one address in pyproject.toml ([tool.undrift])."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Addresses(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        file = Path(self.root) / "pyproject.toml"
        told = tomllib.loads(file.read_text(encoding="utf-8"))["tool"]["undrift"]
        metadata["urls"] = addresses(told["repository"], told["documentation"], os.environ)


def addresses(repository: str, documentation: str, environment: Mapping[str, str]) -> dict[str, str]:
    """None where nobody has said where the repository is; on GitHub it is the one that builds the package."""
    if not repository and environment.get("GITHUB_REPOSITORY"):
        repository = f"{environment['GITHUB_SERVER_URL']}/{environment['GITHUB_REPOSITORY']}"
    if not repository:
        return {}
    return {
        "Homepage": repository,
        "Documentation": documentation or f"{repository}/tree/main/docs",
        "Source": repository,
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }
