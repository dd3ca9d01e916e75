"""docs/page.md says what is true: its code runs, its links lead somewhere."""

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "page.md"


def test_code_on_the_page_runs():
    assert doctest.testfile(str(PAGE), module_relative=False).failed == 0


def test_links_lead_to_files_that_exist():
    for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", PAGE.read_text()):
        assert (PAGE.parent / target).exists(), target
