"""`undrift reproduce`: a sub-command that an application of the library brings.

The library knows the application by its entry point alone, the name `reproduce` in the group `undrift.commands`. It leads to
a module that has the two functions of `Application`.
"""

from __future__ import annotations

import argparse
from importlib.metadata import entry_points
from typing import Protocol, cast

from ..errors import InputError

GROUP, NAME = "undrift.commands", "reproduce"


class Application(Protocol):
    """What stands behind the entry point."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """The flags, the description and examples."""

    def execute(self, arguments: argparse.Namespace) -> int:
        """Do it; the exit code."""


def application() -> Application:
    """The application that is installed."""
    found = entry_points(group=GROUP, name=NAME)
    if not found:
        raise InputError(
            f"`undrift {NAME}` needs an application: no installed package has the entry point {NAME!r} in the group "
            f"{GROUP!r}. Install undrift as a whole (pip install undrift, or make in a clone), or a package that has it"
        )
    return cast(Application, next(iter(found)).load())


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    return application().execute(arguments)
