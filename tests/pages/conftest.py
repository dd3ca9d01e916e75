"""The site is removed when the tests are over."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import site_pages


@pytest.fixture(scope="session")
def html() -> Iterator[Path]:
    yield site_pages.built()
    shutil.rmtree(site_pages.built().parent)
