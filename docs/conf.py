"""How the site is built: `make docs`. Warnings are errors there, and a page loads nothing from other machines."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE / "_ext"), str(ROOT)]

import undrift  # noqa: E402

project = "undrift"
author = "the undrift developers"
copyright = "the undrift developers; Apache-2.0"
release = undrift.__version__
version = ".".join(release.split(".")[:2])

QUICK = os.environ.get("UNDRIFT_DOCS") == "quick"  # notebooks are shown and not executed, sources left out

extensions = [
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
    "myst_nb",
    # our own, in _ext
    "docstrings",
    "gallery",
    "mathml",
    "outside",
    "public_api",
    "remaining",
    *([] if QUICK else ["sphinx.ext.viewcode"]),
]
exclude_patterns = ["_build", "_ext"]
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb"}

# Markdown
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
myst_dmath_allow_digits = False

# Notebooks: text without outputs, executed when the site is built
nb_execution_mode = "off" if QUICK else "cache"
nb_execution_cache_path = str(HERE / "_build" / "notebooks")
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # its default loads scripts from elsewhere
nb_render_markdown_format = "myst"

# Reference
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
smartquotes = False  # memory="difference" stays code
default_role = "literal"  # `x` in docstrings is code, as in Markdown
nitpicky = True
nitpick_ignore_regex = [("py:class|py:data|py:exc|py:attr|py:meth", r".*")]  # types: private, or of other libraries

# Looks
html_theme = "furo"
html_title = "undrift"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
pygments_style = "friendly"
pygments_dark_style = "monokai"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5d8a", "color-brand-content": "#0b5d8a"},
    "dark_css_variables": {"color-brand-primary": "#7cc4ec", "color-brand-content": "#7cc4ec"},
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Addresses are set in one place: pyproject.toml, [tool.undrift]
repository = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["undrift"]["repository"]
if not repository and "GITHUB_REPOSITORY" in os.environ:
    repository = f"{os.environ['GITHUB_SERVER_URL']}/{os.environ['GITHUB_REPOSITORY']}"
outside_repository = repository
outside_commit = os.environ.get("GITHUB_SHA", "main")

linkcheck_ignore = [r"https?://localhost.*", r"https://server\.example.*"]
linkcheck_anchors = False
linkcheck_timeout = 20
