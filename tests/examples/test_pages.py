"""The pages say what is true: their code runs, their links lead somewhere, their tables are complete."""

import doctest
import re
import tomllib
from pathlib import Path

import pytest

from everyday import only
from undrift import METHODS

ROOT = Path(__file__).parents[2]
NAMES = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "architecture.md",
    "dependencies.md",
    "figures.md",
    "grids.md",
    "models.md",
    "participation.md",
    "privacy.md",
    "recipes/optuna.md",
    "trackers.md",
    "page.md",
    "reliability.md",
    "security.md",
    "SECURITY.md",
    "scale.md",
    "performance.md",
    "methods.md",
)
PAGES = [ROOT / name if name[0].isupper() else ROOT / "docs" / name for name in NAMES]
LONG = ROOT / "docs" / "participation.md"
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.mark.parametrize("page", only(PAGES, {*PAGES[::2]} - {LONG}), ids=lambda page: page.name)
def test_code_on_the_page_runs(page):
    assert doctest.testfile(str(page), module_relative=False, optionflags=FLAGS).failed == 0


def test_the_short_half_of_the_long_page_runs():
    """What comes after it compiles a program for almost every method."""
    text, marked, _ = LONG.read_text().partition("The last column on one problem")
    assert marked
    examples = doctest.DocTestParser().get_doctest(text, {}, LONG.name, str(LONG), 0)
    assert len(examples.examples) > 8
    assert doctest.DocTestRunner(optionflags=FLAGS).run(examples).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_that_exist(page):
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} points to {target}"


@pytest.mark.parametrize("page", ["docs/methods.md", "docs/participation.md"])
def test_page_speaks_of_every_method(page):
    text = (ROOT / page).read_text()
    assert [name for name in METHODS if f"`{name}`" not in text] == []


def test_dependencies_page_names_every_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    page = (ROOT / "docs" / "dependencies.md").read_text()
    groups = [project["project"]["dependencies"], project["build-system"]["requires"]]
    groups += project["project"]["optional-dependencies"].values()
    names = {re.match(r"[A-Za-z0-9-]+", entry)[0] for group in groups for entry in group}
    names.remove(project["project"]["name"])  # an extra may ask for another one
    assert sorted(name for name in names if f"**{name}**" not in page) == []


def test_architecture_page_names_every_room():
    page = (ROOT / "docs" / "architecture.md").read_text()
    rooms = [p.name for p in (ROOT / "src" / "undrift").iterdir() if not p.name.startswith(("_", "."))]
    assert [name for name in rooms if name not in page and name != "py.typed"] == []
