"""What the entry point of the application names (`undrift.command.reproduce`): flags at once, the rest when it is played."""

from __future__ import annotations

import argparse

from .flags import add_arguments

__all__ = ["add_arguments", "execute"]


def execute(arguments: argparse.Namespace) -> int:
    """The command."""
    from . import command

    return command.execute(arguments)
