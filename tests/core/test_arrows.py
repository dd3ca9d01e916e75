"""Imports between the rooms of the library point one way: what two rooms share moves down."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import undrift as ud

ROOT = Path(ud.__file__).parent

# From the bottom up: a room imports from those below it, and rooms of one level are strangers to each other
LEVELS = (
    ("errors",),
    ("compiled", "gate", "memory", "sharding"),
    (
        "absences",
        "envelope",
        "files",
        "precision",
        "randomness",
        "resources",
        "schedules",
        "signatures",
        "stop",
        "sums",
        "vectorise",
        "wire",
    ),
    ("progressfile", "tracefile"),
    ("messages", "models", "data", "oracles", "ownership", "plan", "protocol"),
    ("compression", "local", "problems", "recipe"),
    ("links",),
    ("algorithms", "privacy"),
    ("engine",),
    ("deploy", "track"),
    ("theory",),
    ("api",),  # describes runs (numbers left to a theorem are the theory's) and has them played
    ("advice", "testing"),
    ("studies",),
    ("report",),
    ("board", "flower"),
    ("command",),
    ("_api", "cli"),
    ("__init__", "__main__"),
)
LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0]


def is_for_types(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def imports(tree: ast.AST, package: tuple[str, ...]):
    """(line, rooms) of every import of the library in a file, also inside functions; those for types only excepted."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and is_for_types(node.test):
            yield from imports(ast.Module(node.orelse, []), package)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, name) for name in _from(node, package))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                first, *rest = alias.name.split(".")
                if first == "undrift":
                    yield node.lineno, rest[0] if rest else "__init__"
        else:
            yield from imports(node, package)


def _from(node: ast.ImportFrom, package: tuple[str, ...]) -> list[str]:
    if node.level:
        base = package[: len(package) - node.level + 1]
        whole = (*base, *(node.module or "").split(".")) if node.module else base
    else:
        whole = tuple((node.module or "").split("."))
    if not whole or whole[0] != "undrift":
        return []
    if len(whole) > 1:
        return [whole[1]]
    # from undrift import a, b: rooms, or names of the facade
    return [alias.name if alias.name in LEVEL else "__init__" for alias in node.names]


def arrows() -> list[tuple[str, str, str]]:
    """(from, to, where) for all imports between rooms."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        package = ("undrift", *path.relative_to(ROOT).parent.parts)
        here = room_of(path)
        for line, there in imports(ast.parse(path.read_text()), package):
            if there != here:
                found.append((here, there, f"{path.relative_to(ROOT)}:{line}"))
    return found


def test_every_room_has_a_place():
    rooms = {room_of(path) for path in ROOT.rglob("*.py")}
    assert rooms <= set(LEVEL), f"say in LEVELS where they stand: {sorted(rooms - set(LEVEL))}"


def test_arrows_point_down():
    upward = [f"{where}: {here} imports {there}" for here, there, where in arrows() if LEVEL[there] >= LEVEL[here]]
    assert not upward, "\n".join(["imports that point up or sideways:", *upward])


def test_no_two_rooms_import_each_other():
    """Whatever the order of the levels is: a cycle of rooms would be none."""
    edges: dict[str, set[str]] = {}
    for here, there, _ in arrows():
        edges.setdefault(here, set()).add(there)

    def reach(start: str) -> set[str]:
        seen, queue = set(), [start]
        while queue:
            for room in edges.get(queue.pop(), set()) - seen:
                seen.add(room)
                queue.append(room)
        return seen

    cycles = sorted(room for room in edges if room in reach(room))
    assert not cycles, f"rooms on a cycle of imports: {cycles}"


@pytest.mark.parametrize(
    ("source", "rooms"),
    [
        ("from ..engine import simulate", ["engine"]),
        ("from .tracking import Order", ["algorithms"]),
        ("from .. import precision, wire", ["precision", "wire"]),
        ("def f():\n    from ..theory.step_rule import resolve", ["theory"]),
        ("import undrift.report.page", ["report"]),
        ("import undrift as ud", ["__init__"]),
        ("from undrift.command import run", ["command"]),
        ("if TYPE_CHECKING:\n    from ..problems.base import Problem\nelse:\n    from ..plan import Plan", ["plan"]),
        ("class A:\n    def f(self):\n        if True:\n            from .. import studies", ["studies"]),
        ("import numpy\nfrom pathlib import Path", []),
    ],
)
def test_the_reader_of_imports_sees_them(source, rooms):
    assert [room for _, room in imports(ast.parse(source), ("undrift", "algorithms"))] == rooms
