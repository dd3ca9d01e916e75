"""The notebooks run, and quickly; code of the pages for newcomers runs as doctests."""

from __future__ import annotations

import doctest

import nbformat
import pytest
from myst_nb.core.read import create_nb_reader
from nbclient import NotebookClient
from site_pages import DOCS

NOTEBOOKS = ["first-steps", "hospitals-in-python", "own-method", "theory"]


class Log:
    def __getattr__(self, name):
        return lambda *words, **more: None


def notebook(name):
    from myst_nb.core.config import NbParserConfig
    from myst_parser.config.main import MdParserConfig

    file = DOCS / "tutorials" / f"{name}.md"
    reader = create_nb_reader(str(file), MdParserConfig(), NbParserConfig(), file.read_text(encoding="utf-8"))
    assert reader is not None
    return reader.read(file.read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_runs(name):
    cells = notebook(name)
    NotebookClient(cells, timeout=300, resources={"metadata": {"path": str(DOCS / "tutorials")}}).execute()
    outputs = [output for cell in cells.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs), "it has a figure"


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook_is_kept_as_text(name):
    cells = notebook(name)
    nbformat.validate(cells)
    code = [cell for cell in cells.cells if cell.cell_type == "code"]
    assert len(code) > 5
    assert all(not cell.outputs for cell in code)


@pytest.mark.parametrize("name", ["sharp-bits", "start"])
def test_code_on_the_page_runs(name):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    tried = doctest.testfile(str(DOCS / f"{name}.md"), module_relative=False, optionflags=flags)
    assert tried.failed == 0
    assert tried.attempted > 3


def test_every_sharp_bit_has_an_example():
    sections = (DOCS / "sharp-bits.md").read_text(encoding="utf-8").split("\n## ")[1:]
    assert len(sections) == 6
    assert [section.splitlines()[0] for section in sections if ">>>" not in section] == []
