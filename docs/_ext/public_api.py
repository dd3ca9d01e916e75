"""The reference: every public name, taken from the library itself.

.. public:: undrift.theory              all names of the module
.. public:: undrift
   :only: run sweep loopback describe   those alone; the rest is on other pages
"""

from __future__ import annotations

import functools
import importlib
import inspect
from types import ModuleType
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx

import undrift

FURTHER = ("advice", "flower")  # public rooms that `import undrift` does not name


def names_of(module: ModuleType) -> list[str]:
    """The public names of a module: `__all__`, else what it defines itself."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    own = (name for name, thing in vars(module).items() if getattr(thing, "__module__", None) == module.__name__)
    return [name for name in own if not name.startswith("_")]


def modules() -> dict[str, ModuleType]:
    """The public modules by name: undrift, its rooms, and modules that are public names of these."""
    rooms = {f"undrift.{room}": importlib.import_module(f"undrift.{room}") for room in (*undrift.ROOMS, *FURTHER)}
    found = {"undrift": undrift} | rooms
    for name, module in list(found.items()):
        for inner in names_of(module):
            if isinstance(thing := getattr(module, inner), ModuleType):
                found.setdefault(f"{name}.{inner}", thing)
    return {name: module for name, module in found.items() if name == module.__name__}


@functools.cache
def addresses() -> frozenset[str]:
    """All public names with their modules: undrift.run, undrift.theory.check, …"""
    return frozenset(f"{name}.{inner}" for name, module in modules().items() for inner in names_of(module))


def shortest(thing: Any) -> str | None:
    """The address under which a class or function is described, where it is public in several places."""
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        return None
    found = [full for full in sorted(addresses()) if _thing(full) is thing]
    return min(found, key=lambda full: full.count("."), default=None)


def address(text: str) -> str | None:
    """Where a name that stands in a docstring leads to, if it is public.

    >>> address("ud.theory.check"), address("run"), address("eta")
    ('undrift.theory.check', 'undrift.run', None)
    """
    full = "undrift." + text.removeprefix("ud.").removeprefix("undrift.")
    return full if full in addresses() and not isinstance(_thing(full), ModuleType) else None


def _thing(full: str) -> Any:
    module, _, name = full.rpartition(".")
    return getattr(importlib.import_module(module), name)


def lines_for(module: ModuleType, name: str) -> list[str]:
    """What autodoc is asked for a name."""
    thing, full = getattr(module, name), f"{module.__name__}.{name}"
    if isinstance(thing, ModuleType):
        return _of_module(thing)
    if (first := shortest(thing)) not in (None, full):
        return [f".. py:data:: {name}", f"   :module: {module.__name__}", "", f"   :py:obj:`{first}`", ""]
    if inspect.isclass(thing) and not hasattr(thing, "__origin__"):
        fields = ", ".join(getattr(thing, "_fields", ()))
        hidden = [f"   :exclude-members: {fields}"] if fields else []
        return [f".. autoclass:: {full}", "   :members:", *hidden, ""]
    if callable(thing) and not hasattr(thing, "__origin__"):
        return [f".. autofunction:: {full}", ""]
    return [f".. autodata:: {full}", "   :no-value:", ""]


def _of_module(module: ModuleType) -> list[str]:
    title = f"``{module.__name__}``"
    lines = ["", f".. rubric:: {title}", "", f".. automodule:: {module.__name__}", "   :no-members:", ""]
    return lines + [line for name in names_of(module) for line in lines_for(module, name)]


class Public(Directive):
    """Entries for the public names of a module."""

    required_arguments = 1
    option_spec = {"only": directives.unchanged, "no-introduction": directives.flag}  # noqa: RUF012

    def run(self) -> list[nodes.Node]:
        module = importlib.import_module(self.arguments[0])
        wanted = self.options.get("only", "").split() or names_of(module)
        lines = (
            [] if "no-introduction" in self.options else [f".. automodule:: {module.__name__}", "   :no-members:", ""]
        )
        for name in wanted:
            lines += lines_for(module, name)
        parent = nodes.section()
        parent.document = self.state.document
        source = StringList(lines, source=f"public names of {module.__name__}")
        self.state.nested_parse(source, self.content_offset, parent, match_titles=False)
        return list(parent.children)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("public", Public)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
