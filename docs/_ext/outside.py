"""Links from a page to files of the repository that are no pages: `[protocol.py](../src/undrift/protocol.py)`.

Where the repository's address is known they lead there. Otherwise the file is copied into the site (`_repository/`), and a
folder is named without a link. A target that does not exist stays what it was, and Sphinx warns.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

COPIES = "_repository"
SHOWN_BY = {
    "CHANGELOG.md": "changes",
    "CONTRIBUTING.md": "contributing",
    "README.md": "index",
}  # pages that include them


def lead_outside(app: Sphinx, doctree: nodes.document) -> None:
    """Before Sphinx makes downloads of them."""
    for node in list(doctree.findall(_is_link_to_a_path)):
        place, _, anchor = str(node["reftarget"]).partition("#")
        target = _file(app, place, node.get("refdomain") == "doc")
        if target is None:
            continue
        page = _page(app, target)
        if page is None:
            node.replace_self(_reference(app, node, target))
        elif node.get("refdomain") != "doc" or page != node["reftarget"]:
            node.replace_self(_to_page(app, node, page, node.get("reftargetid") or anchor or None))


def _is_link_to_a_path(node: nodes.Node) -> bool:
    return isinstance(node, addnodes.download_reference | addnodes.pending_xref) and node.get("reftype") == "myst"


def _file(app: Sphinx, place: str, is_document: bool) -> Path | None:
    """The file or folder of the repository that a link means, if there is one."""
    pages = Path(app.srcdir)
    if not place or ":" in place:
        return None
    here = pages if is_document else Path(app.env.doc2path(app.env.docname)).parent
    words = f"{place}.md" if is_document else place
    for folder in (
        here,
        pages.parent,
    ):  # pages such as changes.md show a file of the folder above, with links relative to that
        found = Path(os.path.normpath(folder / words))
        if found.exists() and found.is_relative_to(pages.parent):
            return found
    return None


def _page(app: Sphinx, file: Path) -> str | None:
    """The page that a file is, or that shows it."""
    if file.parent == Path(app.srcdir).parent and file.name in SHOWN_BY:
        return SHOWN_BY[file.name]
    name = app.env.path2doc(file)
    return name if name in app.env.found_docs else None


def _to_page(app: Sphinx, node: nodes.Element, page: str, anchor: str | None) -> nodes.Element:
    told = {"refdomain": "doc", "reftarget": page, "reftargetid": anchor, "refdoc": app.env.docname, "reftype": "myst"}
    made = addnodes.pending_xref("", *node.children, refexplicit=True, **told)
    made.source, made.line = node.source, node.line
    return made


def _reference(app: Sphinx, node: nodes.Element, target: Path) -> nodes.Element:
    where = target.relative_to(Path(app.srcdir).parent).as_posix()
    if app.config.outside_repository:
        kind = "tree" if target.is_dir() else "blob"
        address = f"{app.config.outside_repository}/{kind}/{app.config.outside_commit}/{where}"
        return nodes.reference("", "", *node.children, refuri=address, internal=False)
    if target.is_dir():
        return nodes.inline("", "", *node.children)
    app.env.metadata[app.env.docname].setdefault("outside", {})[where] = str(target)
    up = "../" * app.env.docname.count("/")
    return nodes.reference("", "", *node.children, refuri=f"{up}{COPIES}/{where}", internal=True)


def copy_files(app: Sphinx, failure: Exception | None) -> None:
    if failure is not None or app.builder.format != "html":
        return
    for of_page in app.env.metadata.values():
        for where, file in of_page.get("outside", {}).items():
            copy = Path(app.outdir) / COPIES / where
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_config_value("outside_repository", "", "env", str)
    app.add_config_value("outside_commit", "main", "env", str)
    app.connect("doctree-read", lead_outside, priority=100)
    app.connect("build-finished", copy_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
