"""What stands between a table and a problem, said of all columns at once, with remedies that are options."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from undrift.data.columns import MOST_CATEGORIES, Look
from undrift.data.errors import DataError
from undrift.data.table import Table
from undrift.gate import shown

MOST_LINES = 40
DROP, FILL, ONEHOT = "missing=drop", "missing=mean", "categories=onehot"


class Treatment(NamedTuple):
    """What is done with values that are no numbers."""

    missing: Literal["error", "drop", "mean"] = "error"
    categories: Literal["error", "onehot"] = "error"
    onehot: tuple[str, ...] = ()  # columns that are categories, whatever they look like

    def encodes(self, seen: Look) -> bool:
        """Whether this column becomes columns of 0 and 1."""
        return seen.name in self.onehot or (self.categories == "onehot" and seen.kind == "category")


class Complaint(NamedTuple):
    """One thing that is wrong with one column."""

    column: str
    what: str
    remedy: str
    option: str  # the remedy as an option, for a whole suggestion


def refuse(table: Table, found: Sequence[Complaint], columns: int) -> None:
    """One error with all complaints, if there are any."""
    if not found:
        return
    wrong = list(dict.fromkeys(one.column for one in found))
    rows = [(one.column, one.what, one.remedy) for one in found[:MOST_LINES]]
    more = [f"  … and {len(found) - MOST_LINES} more"] * (len(found) > MOST_LINES)
    raise DataError(
        "\n".join(
            [
                f"{len(wrong)} of {columns} columns of {table.source} {'needs' if len(wrong) == 1 else 'need'} a decision:",
                *_aligned([("column", "what", "remedy"), *rows]),
                *more,
                f"For example all together: {suggestion(found)}",
            ]
        )
    )


def suggestion(found: Iterable[Complaint]) -> str:
    """The options that answer all complaints."""
    options: dict[str, list[str]] = {}
    for one in found:
        key, _, value = one.option.partition("=")
        options.setdefault(key, [])
        if value not in options[key]:
            options[key].append(value)
    if "drop" in options.get("missing", ()):
        options["missing"] = ["drop"]  # what a label asks for serves features too
    left_out = options.get("without", [])
    return ",".join(
        f"{key}={','.join(value for value in values if key == 'without' or value not in left_out)}"
        for key, values in options.items()
    )


def of_feature(seen: Look, table: Table, treatment: Treatment) -> list[Complaint]:
    """What is wrong with a column of features."""
    found, leave_out = [], f"without={seen.name}"

    def say(what: str, remedy: str, option: str) -> None:
        found.append(Complaint(seen.name, what, remedy, option))

    if seen.kind == "empty":
        return [Complaint(seen.name, "no value at all", leave_out, leave_out)]
    if seen.name in treatment.onehot or seen.kind == "category":
        if seen.distinct > MOST_CATEGORIES:
            say(f"{seen.distinct} different values, a category has at most {MOST_CATEGORIES}", leave_out, leave_out)
        elif not treatment.encodes(seen):
            say(f"words: {_words(seen)}", f"{ONEHOT}, or {leave_out}", ONEHOT)
    elif seen.kind == "text":
        say(f"text: {seen.distinct} different words, {_words(seen)}", leave_out, leave_out)
    elif seen.kind == "date":
        say(f"dates: {_words(seen)}", f"{leave_out}, or write them as numbers, such as days", leave_out)
    elif seen.kind == "nested":
        say("neither numbers nor words", leave_out, leave_out)
    elif seen.kind == "decimal comma":
        say(f"numbers with a decimal comma: {_words(seen)}", "decimal=comma", "decimal=comma")
    elif seen.kind == "mixed":
        say(*_mixed(seen, table))
    if seen.missing and treatment.missing == "error":
        say(missing_words(seen), f"{FILL} or {DROP}, or {leave_out}", FILL)
    return found


def _mixed(seen: Look, table: Table) -> tuple[str, str, str]:
    assert seen.strange is not None
    leave_out = f"without={seen.name}"
    place = table.place(seen.strange)
    what = f"numbers, and words among them: {_words(seen)}; the first in {place}"
    few = f"onehot={seen.name}, or " if seen.distinct <= MOST_CATEGORIES else ""
    return what, f"mend them, or {few}{leave_out}", leave_out


def of_key(seen: Look, role: str, treatment: Treatment) -> list[Complaint]:
    """What is wrong with the label or the client's name: those are never filled in."""
    if seen.kind in ("empty", "nested"):
        return [Complaint(seen.name, f"{role}, and it has no value that can be used", f"another {role}", f"{role}=…")]
    if seen.missing and treatment.missing != "drop":
        return [Complaint(seen.name, f"{role}: {missing_words(seen)}, and it is never filled in", DROP, DROP)]
    return []


def missing_words(seen: Look) -> str:
    """How much is missing.

    >>> from undrift.data.columns import Column, look
    >>> import numpy as np
    >>> missing_words(look(Column("age", np.array([1.0, np.nan, 2.0, 3.0]), {})))
    '1 of 4 values missing (25 %)'
    """
    share = 100 * seen.missing / max(seen.rows, 1)
    return f"{seen.missing} of {seen.rows} values missing ({share:.{0 if share >= 1 else 1}f} %)"


def _words(seen: Look) -> str:
    some = ", ".join(shown(word if len(word) <= 20 else word[:20] + "…") for word, _ in seen.frequent[:3])
    return some + (", …" if len(seen.frequent) > 3 else "")


def _aligned(rows: Sequence[tuple[str, ...]], gap: str = "  ") -> list[str]:
    """Rows of words as lines of equal columns; the last one hangs."""
    widths = [min(max(len(row[at]) for row in rows), 60) for at in range(len(rows[0]) - 1)]
    return [
        gap + gap.join([*(word.ljust(width) for word, width in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    ]
